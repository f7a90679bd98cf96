//! The baseline: parsing and inserting alone.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::Value;
use zip::ZipArchive;

/// Number of messages per commit.
const BATCH: usize = 512;

/// Returns the time to parse every day's file and the time to insert every message.
pub(crate) fn measure(zip: &Path, database: &Path) -> anyhow::Result<(Duration, Duration)> {
    let mut zip = ZipArchive::new(BufReader::new(File::open(zip)?))?;
    let mut database = Connection::open(database)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch(
        "CREATE TABLE messages (channel TEXT, ts TEXT, raw TEXT, PRIMARY KEY (channel, ts)) WITHOUT ROWID;",
    )?;
    let (mut parsed, mut inserted) = (Duration::ZERO, Duration::ZERO);
    let mut batch: Vec<(String, Value)> = Vec::new();
    for index in 0..zip.len() {
        let started = Instant::now();
        let entry = zip.by_index(index)?;
        let channel = entry.name()?.split_once('/').map(|(channel, _)| channel.to_owned());
        let messages: Vec<Value> = serde_json::from_reader(BufReader::new(entry))?;
        parsed += started.elapsed();
        if let Some(channel) = channel {
            batch.extend(messages.into_iter().map(|message| (channel.clone(), message)));
        }
        if batch.len() >= BATCH {
            inserted += insert(&mut database, &std::mem::take(&mut batch))?;
        }
    }
    inserted += insert(&mut database, &batch)?;
    Ok((parsed, inserted))
}

fn insert(database: &mut Connection, messages: &[(String, Value)]) -> anyhow::Result<Duration> {
    let raw: Vec<String> = messages.iter().map(|(_, message)| message.to_string()).collect();
    let started = Instant::now();
    let transaction = database.transaction()?;
    {
        let mut statement =
            transaction.prepare_cached("INSERT OR REPLACE INTO messages VALUES (?1, ?2, ?3)")?;
        for ((channel, message), raw) in messages.iter().zip(&raw) {
            statement.execute(params![channel, message["ts"].as_str(), raw])?;
        }
    }
    transaction.commit()?;
    Ok(started.elapsed())
}
