//! Imports an export into a new folder, then again without changes; compared with a bare parse of the same
//! zip and bare inserts of the same messages.

mod bare;
pub(crate) mod export;

use std::path::Path;

use ::tests::harness::binaries::binaries;
use anyhow::ensure;
use tokio::process::Command;

use self::export::{MessageSpread, USUAL_SPREAD};
use crate::observer::Observer;
use crate::report::{BenchSection, Goal, RunCost, figure, median};
use crate::watched::{self, annalist};
use crate::{Settings, machine, progress};

/// Fills a new folder with an export of this number of messages.
pub(crate) async fn fill(data: &Path, messages: usize, spread: MessageSpread) -> anyhow::Result<()> {
    progress(&format!("making an archive of {messages} messages"));
    let folder = machine::data_folder()?;
    let zip = folder.path().join("export.zip");
    export::write(&zip, messages, spread)?;
    annalist(data, &["import", &zip.display().to_string(), "--no-files"]).await?;
    Ok(())
}

/// Imports into a new folder, then again into the same folder.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let zip = folder.path().join("export.zip");
    progress(&format!("import: making an export of {} messages", settings.rows));
    export::write(&zip, settings.rows, USUAL_SPREAD)?;
    let (mut parse, mut insert, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("import: round {round}"));
        let data = machine::data_folder()?;
        let (parsed, inserted) = bare::measure(&zip, &data.path().join("bare.db"))?;
        parse.push(settings.rows as f64 / parsed.as_secs_f64());
        insert.push(settings.rows as f64 / inserted.as_secs_f64());
        first.push(run(&zip, data.path(), settings.rows, "new").await?);
        again.push(run(&zip, data.path(), settings.rows, "unchanged").await?);
    }
    let bare =
        |what: &str, per_second: f64| vec![what.to_owned(), figure(per_second), String::new(), String::new()];
    let (parse, insert) = (median(parse), median(insert));
    let [first, again] = [first, again].map(|runs| RunCost::median(&runs));
    let per_second = first.per_second;
    Ok(BenchSection {
        title: "Importing an export",
        method: format!(
            "`annalist import` of {} messages of {} channels, in a day's file each of {} messages on average, {} people, from its \
             start to its end; then again on the same folder, where nothing is new. Beside it, in one process and on one \
             thread: every day's file unpacked and parsed with serde_json, and every message inserted into a table of SQLite as it \
             is, with a commit for each 512 (`synchronous=FULL`). Medians of {} interleaved rounds.",
            settings.rows,
            USUAL_SPREAD.channels,
            USUAL_SPREAD.messages_per_day,
            export::PEOPLE,
            settings.rounds
        ),
        columns: &["", "messages/s", "CPU µs/message", "RSS peak MiB"],
        rows: vec![
            bare("bare parse", parse),
            bare("bare insert", insert),
            first.row("a new folder"),
            again.row("the same again"),
        ],
        goals: vec![
            Goal::at_least("an export is imported at", per_second, 20_000.0, " messages/s"),
            Goal::at_least("… wanted", per_second, 50_000.0, " messages/s"),
            Goal::at_least("the same again, with no write", again.per_second, 60_000.0, " messages/s"),
            Goal::at_least("import / bare parse", per_second / parse, 0.2, " ×"),
            Goal::at_least("import / bare insert", per_second / insert, 0.2, " ×"),
            Goal::at_most("memory of an import", first.peak_mib, 200.0, " MiB"),
        ],
    })
}

/// Runs one import. `expected` is the JSON key of the count that must include all messages.
async fn run(zip: &Path, data: &Path, messages: usize, expected: &str) -> anyhow::Result<RunCost> {
    let mut command = Command::new(&binaries().annalist);
    command.arg("import").arg(zip).args(["--json", "--data"]).arg(data);
    let (ended, usage) = watched::run_to_end(command).await?;
    let sum = ended.last_line()?;
    ensure!(sum[expected].as_u64() == Some(messages as u64), "{sum} is not {messages} {expected}");
    let rows = Observer::open(data)?.rows()?;
    ensure!(rows == messages, "{rows} rows of {messages} messages");
    Ok(RunCost::for_events(messages, ended.time, &usage))
}
