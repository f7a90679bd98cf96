//! An archive exported in each format, from the start of the process to its end.

use std::collections::BTreeMap;

use ::tests::harness::binaries::binaries;
use anyhow::ensure;
use tokio::process::Command;

use crate::import::export;
use crate::report::{Goal, Section, figure, median, mib};
use crate::{Settings, machine, progress, watched};

/// All formats.
pub(crate) const FORMATS: [&str; 5] = ["slack", "html", "jsonl", "markdown", "text"];

/// An export that has ended.
struct Run {
    per_second: f64,
    cpu_us: f64,
    peak_mib: f64,
}

/// Exports an archive that an export was imported into.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Section> {
    let folder = machine::data_folder()?;
    let (zip, data) = (folder.path().join("export.zip"), folder.path().join("data"));
    progress(&format!("export: making an archive of {} messages", settings.rows));
    export::write(&zip, settings.rows)?;
    let mut import = Command::new(&binaries().annalist);
    import.arg("import").arg(&zip).args(["--no-files", "--json", "--data"]).arg(&data);
    watched::to_end(import).await?;
    let mut runs: BTreeMap<&str, Vec<Run>> = BTreeMap::new();
    for round in 1..=settings.rounds {
        for format in &settings.formats {
            progress(&format!("export: round {round}, {format}"));
            let place = machine::data_folder()?;
            let mut command = Command::new(&binaries().annalist);
            command.args(["export", "--format", format, "--out"]).arg(place.path().join("out"));
            let watched::Watched { output, usage, time } = {
                command.arg("--data").arg(&data);
                watched::to_end(command).await?
            };
            let said = String::from_utf8_lossy(&output.stdout).replace(',', "");
            let expected = format!("Exported {} messages", settings.rows);
            ensure!(said.starts_with(&expected), "{format}: {said}");
            let run = Run {
                per_second: settings.rows as f64 / time.as_secs_f64(),
                cpu_us: usage.cpu.as_secs_f64() * 1e6 / settings.rows as f64,
                peak_mib: mib(usage.peak_rss_kib),
            };
            progress(&format!(
                "export: {} messages/s, {} MiB at most",
                figure(run.per_second),
                figure(run.peak_mib)
            ));
            runs.entry(format).or_default().push(run);
        }
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    let row = |(format, runs): (&&str, &Vec<Run>)| {
        let figures =
            [of(runs, |run| run.per_second), of(runs, |run| run.cpu_us), of(runs, |run| run.peak_mib)];
        std::iter::once(format!("`{format}`")).chain(figures.map(figure)).collect()
    };
    let mut goals = Vec::new();
    for (format, what, limit) in
        [("slack", "`slack` is written at", 30_000.0), ("html", "`html` is written at", 10_000.0)]
    {
        let runs = runs.get(format);
        goals.extend(
            runs.map(|runs| Goal::at_least(what, of(runs, |run| run.per_second), limit, " messages/s")),
        );
    }
    let slack = runs.get("slack");
    goals.extend(
        slack.map(|runs| Goal::at_most("memory of `slack`", of(runs, |run| run.peak_mib), 100.0, " MiB")),
    );
    Ok(Section {
        title: "Exporting an archive",
        method: format!(
            "`annalist export` of {} messages of {} channels, which an export was imported into, from its start to its end. \
             Medians of {} interleaved rounds. Memory is the most that the process ever had.",
            settings.rows,
            export::CHANNELS,
            settings.rounds
        ),
        columns: &["", "messages/s", "CPU µs/message", "RSS peak MiB"],
        rows: runs.iter().map(row).collect(),
        goals,
    })
}
