//! An archive exported in each format, from the start of the process to its end.

use ::tests::harness::binaries::binaries;
use anyhow::ensure;
use tokio::process::Command;

use crate::import::export;
use crate::report::{Goal, Section, figure, median, mib};
use crate::{Settings, machine, progress, watched};

const FORMATS: [&str; 5] = ["slack", "html", "jsonl", "markdown", "text"];

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
    let mut runs: [Vec<Run>; FORMATS.len()] = Default::default();
    for round in 1..=settings.rounds {
        for (format, runs) in FORMATS.iter().zip(&mut runs) {
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
            runs.push(Run {
                per_second: settings.rows as f64 / time.as_secs_f64(),
                cpu_us: usage.cpu.as_secs_f64() * 1e6 / settings.rows as f64,
                peak_mib: mib(usage.peak_rss_kib),
            });
        }
    }
    let of = |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    let row = |(format, runs): (&&str, &Vec<Run>)| {
        let figures =
            [of(runs, |run| run.per_second), of(runs, |run| run.cpu_us), of(runs, |run| run.peak_mib)];
        std::iter::once((*format).to_owned()).chain(figures.map(figure)).collect()
    };
    Ok(Section {
        title: "Exporting an archive",
        method: format!(
            "`annalist export` of {} messages of {} channels, which an export was imported into, from its start to its end. \
             Medians of {} interleaved rounds.",
            settings.rows,
            export::CHANNELS,
            settings.rounds
        ),
        columns: &["", "messages/s", "CPU µs/message", "RSS peak MiB"],
        rows: FORMATS.iter().zip(&runs).map(row).collect(),
        goals: vec![
            Goal::at_least(
                "`slack` is written at",
                of(&runs[0], |run| run.per_second),
                30_000.0,
                " messages/s",
            ),
            Goal::at_least(
                "`html` is written at",
                of(&runs[1], |run| run.per_second),
                10_000.0,
                " messages/s",
            ),
            Goal::at_most("memory of `slack`", of(&runs[0], |run| run.peak_mib), 100.0, " MiB"),
        ],
    })
}
