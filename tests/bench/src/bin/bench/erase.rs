//! How long it takes to erase a person: to say what would go, to erase it, and to write the database anew.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ::tests::harness::binaries::binaries;
use anyhow::ensure;
use embedded::DATABASE_FILE;
use rusqlite::Connection;
use serde_json::Value;
use tokio::process::Command;

use crate::import::export;
use crate::report::{Goal, Section, figure, median};
use crate::{Settings, machine, progress};

/// The person, beside many others.
const USER: &str = "U00000";

/// Every message with a row of this number, or a multiple of it, is theirs.
const SHARE: i64 = 100;

/// Erases them from copies of one archive.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Section> {
    let folder = machine::data_folder()?;
    let (zip, made) = (folder.path().join("export.zip"), folder.path().join("made"));
    progress(&format!("erase: making an archive of {} messages", settings.rows));
    export::write(&zip, settings.rows)?;
    annalist(&made, &["import", &zip.display().to_string(), "--no-files", "--json"]).await?;
    let messages = give(&made)?;
    let (mut plans, mut erasures, mut compactions) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("erase: round {round}"));
        let copy = machine::data_folder()?;
        let data = copy.path().join("data");
        fs::create_dir(&data)?;
        fs::copy(made.join(DATABASE_FILE), data.join(DATABASE_FILE))?;
        for (args, times, expected) in [
            (&["--json"][..], &mut plans, messages),
            (&["--yes", "--json"], &mut erasures, messages),
            (&["--yes", "--compact", "--json"], &mut compactions, 0),
        ] {
            let started = Instant::now();
            let sum = annalist(&data, &[&["erase", "--user", USER], args].concat()).await?;
            times.push(started.elapsed().as_secs_f64());
            ensure!(sum["messages"].as_u64() == Some(expected), "{sum}: {expected} messages were to go");
        }
    }
    let [plan, erasure, compaction] = [plans, erasures, compactions].map(median);
    let row = |what: &str, seconds: f64| vec![what.to_owned(), figure(seconds)];
    Ok(Section {
        title: "Erasing a person",
        method: format!(
            "`annalist erase --user`, from its start to its end, of a person with {messages} of {} messages in {} channels, \
             each round on a copy of one archive: a dry run, then `--yes`, then once more with `--compact`. Medians of {} rounds.",
            settings.rows,
            export::CHANNELS,
            settings.rounds
        ),
        columns: &["", "s"],
        rows: vec![row("a dry run", plan), row("erased", erasure), row("again, and compacted", compaction)],
        goals: vec![Goal::at_most("a person is erased within", erasure, 30.0, " s")],
    })
}

/// Gives the person their share of the messages; how many they have then.
fn give(data: &Path) -> anyhow::Result<u64> {
    let database = Connection::open(data.join(DATABASE_FILE))?;
    database.execute(
        "UPDATE items SET attributes = json_set(attributes, '$.user', ?1) WHERE item_id GLOB 'message#*' AND rowid % ?2 = 0",
        (USER, SHARE),
    )?;
    let count: i64 =
        database.query_row("SELECT count(*) FROM messages WHERE user = ?1", [USER], |row| row.get(0))?;
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(count.cast_unsigned())
}

/// Runs a command on a folder, and returns the last line that it prints.
async fn annalist(data: &Path, args: &[&str]) -> anyhow::Result<Value> {
    let mut command = Command::new(&binaries().annalist);
    command.args(args).arg("--data").arg(data).env_clear().kill_on_drop(true);
    let output = command.output().await?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(printed.lines().last().unwrap_or_default())?)
}
