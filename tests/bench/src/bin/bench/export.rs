//! Exports an archive in each format, timed from the start of the process to its end.

use std::collections::BTreeMap;

use ::tests::harness::binaries::binaries;
use anyhow::ensure;
use tokio::process::Command;

use crate::import::export::USUAL_SPREAD;
use crate::report::{BenchSection, Goal, RunCost, figure};
use crate::{Settings, import, machine, progress, watched};

pub(crate) const FORMATS: [&str; 5] = ["slack", "html", "jsonl", "markdown", "text"];

/// Exports an archive into which an export was imported.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let data = folder.path().join("data");
    import::fill(&data, settings.rows, USUAL_SPREAD).await?;
    let mut runs: BTreeMap<&str, Vec<RunCost>> = BTreeMap::new();
    for round in 1..=settings.rounds {
        for format in &settings.formats {
            progress(&format!("export: round {round}, {format}"));
            let out_folder = machine::data_folder()?;
            let mut command = Command::new(&binaries().annalist);
            command.args(["export", "--format", format, "--out"]).arg(out_folder.path().join("out"));
            command.arg("--data").arg(&data);
            let (ended, usage) = watched::run_to_end(command).await?;
            let printed = ended.printed.replace(',', "");
            let expected = format!("Exported {} messages", settings.rows);
            ensure!(printed.starts_with(&expected), "{format}: {printed}");
            let run = RunCost::for_events(settings.rows, ended.time, &usage);
            progress(&format!(
                "export: {} messages/s, {} MiB at most",
                figure(run.per_second),
                figure(run.peak_mib)
            ));
            runs.entry(format).or_default().push(run);
        }
    }
    let costs: BTreeMap<&str, RunCost> =
        runs.into_iter().map(|(format, runs)| (format, RunCost::median(&runs))).collect();
    let mut goals = Vec::new();
    for (format, what, limit) in
        [("slack", "`slack` is written at", 30_000.0), ("html", "`html` is written at", 10_000.0)]
    {
        goals.extend(
            costs.get(format).map(|cost| Goal::at_least(what, cost.per_second, limit, " messages/s")),
        );
    }
    let slack = costs.get("slack");
    goals.extend(slack.map(|cost| Goal::at_most("memory of `slack`", cost.peak_mib, 100.0, " MiB")));
    Ok(BenchSection {
        title: "Exporting an archive",
        method: format!(
            "`annalist export` of {} messages of {} channels, which an export was imported into, from its start to its end. \
             Medians of {} interleaved rounds. Memory is the most that the process ever had.",
            settings.rows, USUAL_SPREAD.channels, settings.rounds
        ),
        columns: &["", "messages/s", "CPU µs/message", "RSS peak MiB"],
        rows: costs.iter().map(|(format, cost)| cost.row(format!("`{format}`"))).collect(),
        goals,
    })
}
