//! How long a weekly report takes: counted from rows, from roll-ups, and stored; compared with one SQL
//! statement per figure.

use std::path::Path;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use anyhow::{bail, ensure};
use embedded::DATABASE_FILE;
use ports::archive::ItemKey;
use rusqlite::{Connection, OpenFlags};
use tokio::process::Command;
use tokio::time::sleep;

use crate::import::export::{self, MessageSpread};
use crate::observer::Observer;
use crate::report::{BenchSection, Goal, figure, median, row};
use crate::watched::annalist;
use crate::{Settings, import, machine, progress};

/// The same number of messages a week as in the other parts, in more channels.
const SPREAD: MessageSpread = MessageSpread { channels: 300, messages_per_day: 17 };

/// A week in the middle of the export. The report also covers the week before.
const FROM: &str = "2017-09-04";
const TO: &str = "2017-09-11";
const FROM_S: i64 = 1_504_483_200;
const WEEK_S: i64 = 7 * 86_400;

/// One statement per figure of a period, as a person at an SQL prompt would write it. `?1` and `?2` are the
/// bounds.
const STATEMENTS: [&str; 7] = [
    "SELECT count(*), count(DISTINCT user) FROM messages WHERE ts >= ?1 AND ts < ?2",
    "SELECT user, count(*) FROM messages WHERE ts >= ?1 AND ts < ?2 GROUP BY user ORDER BY 2 DESC",
    "SELECT channel_id, count(*) FROM messages WHERE ts >= ?1 AND ts < ?2 GROUP BY channel_id ORDER BY 2 DESC",
    "SELECT sum(word_count) FROM message_figures WHERE ts >= ?1 AND ts < ?2",
    "SELECT strftime('%w %H', CAST(ts AS INTEGER), 'unixepoch'), count(*) FROM messages
        WHERE ts >= ?1 AND ts < ?2 GROUP BY 1",
    "SELECT thread_ts, count(*) FROM messages WHERE ts >= ?1 AND ts < ?2 AND thread_ts <> ts
        GROUP BY thread_ts ORDER BY 2 DESC LIMIT 10",
    "SELECT count(*) FROM first_posts WHERE message_id >= ?1 AND message_id < ?2",
];

/// Maximum time of the statistician for the whole archive.
const COUNTED_WITHIN: Duration = Duration::from_secs(1_800);

/// Makes reports from one archive.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let data = folder.path().join("data");
    import::fill(&data, settings.rows, SPREAD).await?;
    let database = Connection::open_with_flags(data.join(DATABASE_FILE), OpenFlags::SQLITE_OPEN_READ_ONLY)?;

    let rows = repeat(settings, || report(&data, false)).await?;
    let mut statements = Vec::new();
    for _ in 0..settings.rounds {
        statements.push(run_statements(&database)?);
    }
    progress("figures: counting every day");
    let days = SPREAD.channel_days(settings.rows);
    let counting = count_all(&data, &database, days).await?;
    // Each run deletes the stored report first; the last report remains for the next measurement.
    let rolled = repeat(settings, || delete_and_report(&data)).await?;
    let stored = repeat(settings, || report(&data, true)).await?;

    let [rows, rolled, stored, statements] = [rows, rolled, stored, statements].map(median);
    let row = |what: &str, seconds: f64| row(what, &[seconds * 1e3]);
    Ok(BenchSection {
        title: "A weekly report",
        method: format!(
            "`annalist report --json` of a week and the one before, from its start to its end, over {} messages of {} people in \
             {} channels: before any day was counted, after `statistician` had counted all {days} days of channels ({} s, its \
             queue's delay of 90 s included), and stored. Beside it, seven figures of both weeks by one SQL statement each, on one \
             open connection. Medians of {} rounds.",
            settings.rows,
            export::PEOPLE,
            SPREAD.channels,
            figure(counting),
            settings.rounds
        ),
        columns: &["", "ms"],
        rows: vec![
            row("from rows", rows),
            row("from roll-ups", rolled),
            row("stored", stored),
            row("seven SQL statements", statements),
        ],
        goals: vec![
            Goal::at_most("a weekly report from rows", rows, 2.0, " s"),
            Goal::at_most("… from roll-ups", rolled * 1e3, 300.0, " ms"),
            Goal::at_most("… stored", stored * 1e3, 100.0, " ms"),
        ],
    })
}

async fn repeat<F: Future<Output = anyhow::Result<f64>>>(
    settings: &Settings,
    measure: impl Fn() -> F,
) -> anyhow::Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for _ in 0..settings.rounds {
        seconds.push(measure().await?);
    }
    Ok(seconds)
}

/// Makes the report, checks whether it came from storage, and returns the seconds.
async fn report(data: &Path, is_stored: bool) -> anyhow::Result<f64> {
    let ended = annalist(data, &["report", "--from", FROM, "--to", TO, "--json"]).await?;
    let report = ended.last_line()?;
    ensure!(report["cached"] == is_stored, "cached is {}", report["cached"]);
    ensure!(report["figures"]["messages"]["value"].as_u64().is_some_and(|messages| messages > 0), "{report}");
    Ok(ended.time.as_secs_f64())
}

/// Deletes the stored report and makes it again from roll-ups.
async fn delete_and_report(data: &Path) -> anyhow::Result<f64> {
    let database = Connection::open(data.join(DATABASE_FILE))?;
    database.execute("DELETE FROM items WHERE item_id >= 'report#' AND item_id < 'report$'", [])?;
    drop(database);
    report(data, false).await
}

/// Runs each statement for both weeks. Returns the seconds.
fn run_statements(database: &Connection) -> anyhow::Result<f64> {
    let started = Instant::now();
    for from in [FROM_S, FROM_S - WEEK_S] {
        for statement in STATEMENTS {
            let mut statement = database.prepare_cached(statement)?;
            let mut rows = statement.query([from.to_string(), (from + WEEK_S).to_string()])?;
            while rows.next()?.is_some() {}
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Runs a statistician until it has counted `days` channel days. Returns the seconds.
async fn count_all(data: &Path, database: &Connection, days: usize) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut command = Command::new(binaries().worker("statistician"));
    command.arg("--data").arg(data).env_clear();
    let statistician = process::worker(&mut command).await;
    Observer::open(data)?.wait_until_counted(days, COUNTED_WITHIN).await?;
    let elapsed = started.elapsed().as_secs_f64();
    // The statistician passes its own writes at its next poll. Until then, every report has to.
    while !has_passed_all(database)? {
        if started.elapsed() > COUNTED_WITHIN {
            bail!("the statistician has not looked again");
        }
        sleep(Duration::from_millis(500)).await;
    }
    statistician.sigkill().await;
    Ok(elapsed)
}

/// Whether the statistician has followed the archive to its end.
fn has_passed_all(database: &Connection) -> rusqlite::Result<bool> {
    let state = ItemKey::figures_state();
    let query =
        "SELECT json_extract(json_extract(attributes, '$.cursor'), '$.row') >= (SELECT max(rowid) FROM items)
        FROM items WHERE item_id = ?1 AND timestamp = ?2";
    database.query_row(query, [&state.item_id, &state.timestamp], |row| row.get(0))
}
