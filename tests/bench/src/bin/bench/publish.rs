//! A public site beside the HTML export of the same archive: the first run, one after new messages, and one after
//! nothing; and what the exports for other chats cost beside Slack's own format.

use std::path::{Path, PathBuf};

use ::tests::harness::binaries::binaries;
use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::import::export::{self, USUAL_SPREAD};
use crate::report::{BenchSection, Goal, RunCost, row};
use crate::watched::{self, annalist};
use crate::{Settings, import, machine, progress};

/// What is written, and its arguments.
const EXPORTS: [(&str, &[&str]); 4] = [
    ("`export --format html`", &["--format", "html"]),
    ("`export --format slack`", &["--format", "slack"]),
    ("… `--for mattermost`", &["--format", "slack", "--for", "mattermost"]),
    ("… `--for zulip`", &["--format", "slack", "--for", "zulip"]),
];

const URL: &str = "https://chat.example.org/";

/// One run of `publish`.
struct SiteRun {
    cost: RunCost,
    time_s: f64,
    files: f64,
    written: f64,
}

/// The folders that are written. They stay until the end: ext4 looks long for the inode of a new file after many
/// were deleted.
struct WrittenFolders(Vec<TempDir>);

impl WrittenFolders {
    fn next(&mut self) -> anyhow::Result<PathBuf> {
        let folder = machine::data_folder()?;
        let path = folder.path().join("out");
        self.0.push(folder);
        Ok(path)
    }
}

/// Writes each in every round. The new messages come after the last round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let folder = machine::data_folder()?;
    let data = folder.path().join("data");
    import::fill(&data, settings.rows, USUAL_SPREAD).await?;
    let mut folders = WrittenFolders(Vec::new());
    let mut exports: [Vec<RunCost>; EXPORTS.len()] = Default::default();
    let mut sites = Vec::new();
    let mut site = PathBuf::new();
    for round in 1..=settings.rounds {
        for (runs, (what, format)) in exports.iter_mut().zip(EXPORTS) {
            progress(&format!("publish: round {round}, {what}"));
            let mut command = Command::new(&binaries().annalist);
            command.arg("export").args(format).arg("--out").arg(folders.next()?);
            command.arg("--data").arg(&data);
            let (ended, usage) = watched::run_to_end(command).await?;
            runs.push(RunCost::for_events(settings.rows, ended.time, &usage));
        }
        progress(&format!("publish: round {round}, publish"));
        site = folders.next()?;
        sites.push(publish(&site, &data, settings).await?);
    }
    progress("publish: new messages");
    let zip = folder.path().join("next.zip");
    export::write_next(&zip, settings.rows, USUAL_SPREAD)?;
    annalist(&data, &["import", &zip.display().to_string(), "--no-files"]).await?;
    let after = publish(&site, &data, settings).await?;
    ensure!(after.written > 0.0, "no page of {} new messages was written", USUAL_SPREAD.channels);
    let again = publish(&site, &data, settings).await?;
    let [html, slack, mattermost, zulip] = exports.map(|runs| RunCost::median(&runs));
    let costs: Vec<RunCost> = sites.iter().map(|run| run.cost).collect();
    let first = RunCost::median(&costs);
    let first_s = settings.rows as f64 / first.per_second;
    let exported = EXPORTS.iter().zip([html, slack, mattermost, zulip]);
    let mut rows: Vec<Vec<String>> = exported
        .map(|((what, _), cost)| {
            let time_s = settings.rows as f64 / cost.per_second;
            row(*what, &[cost.per_second, time_s, cost.cpu_us, cost.peak_mib])
        })
        .collect();
    rows.insert(1, row("`publish --search off`", &[first.per_second, first_s, first.cpu_us, first.peak_mib]));
    for (what, run) in [("… after new messages", &after), ("… after nothing", &again)] {
        rows.push(vec![
            format!("{what}: {} of {} files", run.written, run.files),
            String::new(),
            crate::report::figure(run.time_s),
            String::new(),
            crate::report::figure(run.cost.peak_mib),
        ]);
    }
    Ok(BenchSection {
        title: "Publishing a site",
        method: format!(
            "{} messages of {} channels, which an export was imported into: the exports, and a public site of all channels, each \
             from its start to its end; then a message more in each channel, and the same site again, twice. Medians of {} \
             interleaved rounds, the last two runs once. Memory is the most that the process ever had.",
            settings.rows, USUAL_SPREAD.channels, settings.rounds
        ),
        columns: &["", "messages/s", "s", "CPU µs/message", "RSS peak MiB"],
        rows,
        goals: vec![
            Goal::at_least(
                "a site is published, beside `html`",
                first.per_second / html.per_second,
                0.8,
                " ×",
            ),
            Goal::at_most("… with the memory of `html`", first.peak_mib / html.peak_mib, 2.0, " ×"),
            Goal::at_most("… again after new messages, of the first run", after.time_s / first_s, 0.05, " ×"),
            Goal::at_most("… which write of its files", after.written / after.files * 100.0, 1.0, " %"),
            Goal::at_most("… again after nothing, files written", again.written, 0.0, ""),
            Goal::at_least(
                "`--for mattermost` / `slack`",
                mattermost.per_second / slack.per_second,
                0.8,
                " ×",
            ),
            Goal::at_least("`--for zulip` / `slack`", zulip.per_second / slack.per_second, 0.8, " ×"),
        ],
    })
}

/// Publishes all channels.
async fn publish(site: &Path, data: &Path, settings: &Settings) -> anyhow::Result<SiteRun> {
    let mut command = Command::new(&binaries().annalist);
    command.args(["publish", "--search", "off", "--all-public", "--json", "--url", URL]);
    command.arg("--out").arg(site).arg("--data").arg(data);
    let (ended, usage) = watched::run_to_end(command).await?;
    let sum: Value = ended.last_line()?;
    let count = |name: &str| sum[name].as_f64().with_context(|| format!("{sum} has no {name}"));
    ensure!(count("channels")? == USUAL_SPREAD.channels as f64, "{sum}");
    let cost = RunCost::for_events(settings.rows, ended.time, &usage);
    Ok(SiteRun { cost, time_s: ended.time.as_secs_f64(), files: count("files")?, written: count("written")? })
}
