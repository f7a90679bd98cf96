//! How long it takes to erase a person: to say what would go, to erase it, and to write the database anew.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use embedded::DATABASE_FILE;
use rusqlite::Connection;

use crate::import::export::{self, USUAL};
use crate::report::{BenchSection, Goal, median, row};
use crate::watched::annalist;
use crate::{Settings, import, machine, progress};

/// The person, beside many others.
const USER: &str = "U00000";

/// Every message with a row of this number, or a multiple of it, is theirs.
const SHARE: i64 = 100;

/// Erases them from copies of one archive.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let made = folder.path().join("made");
    import::fill(&made, settings.rows, USUAL).await?;
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
            let ended = annalist(&data, &[&["erase", "--user", USER], args].concat()).await?;
            times.push(ended.time.as_secs_f64());
            let sum = ended.last_line()?;
            ensure!(sum["messages"].as_u64() == Some(expected), "{sum}: {expected} messages were to go");
        }
    }
    let [plan, erasure, compaction] = [plans, erasures, compactions].map(median);
    Ok(BenchSection {
        title: "Erasing a person",
        method: format!(
            "`annalist erase --user`, from its start to its end, of a person with {messages} of {} messages in {} channels, \
             each round on a copy of one archive: a dry run, then `--yes`, then once more with `--compact`. Medians of {} rounds.",
            settings.rows,
            export::CHANNELS,
            settings.rounds
        ),
        columns: &["", "s"],
        rows: vec![
            row("a dry run", &[plan]),
            row("erased", &[erasure]),
            row("again, and compacted", &[compaction]),
        ],
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
