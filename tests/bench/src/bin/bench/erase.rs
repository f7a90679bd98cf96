//! How long it takes to erase a person: the dry run, the erasure, and the rewrite of the database.

use std::fs;
use std::path::Path;

use anyhow::ensure;
use embedded::DATABASE_FILE;
use rusqlite::Connection;

use crate::import::export::USUAL_SPREAD;
use crate::report::{BenchSection, Goal, median, row};
use crate::watched::annalist;
use crate::{Settings, import, machine, progress};

/// The erased person, one of many.
const USER: &str = "U00000";

/// The person wrote one message in this number.
const SHARE: i64 = 100;

/// Erases the person from copies of one archive.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let made = folder.path().join("made");
    import::fill(&made, settings.rows, USUAL_SPREAD).await?;
    let messages = assign_messages(&made)?;
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
            ensure!(sum["messages"].as_u64() == Some(expected), "{sum}: expected {expected} messages");
        }
    }
    let [plan, erasure, compaction] = [plans, erasures, compactions].map(median);
    Ok(BenchSection {
        title: "Erasing a person",
        method: format!(
            "`annalist erase --user`, from its start to its end, of a person with {messages} of {} messages in {} channels, \
             each round on a copy of one archive: a dry run, then `--yes`, then once more with `--compact`. Medians of {} rounds.",
            settings.rows, USUAL_SPREAD.channels, settings.rounds
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

/// Assigns a share of the messages to the person. Returns the number of the person's messages.
fn assign_messages(data: &Path) -> anyhow::Result<u64> {
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
