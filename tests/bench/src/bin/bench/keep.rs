//! Copies and nights: what they cost the events that come meanwhile, what a copy writes, and how long a restore takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::process;
use ::tests::harness::procfs::Usage;
use anyhow::{Context, bail, ensure};
use embedded::DATABASE_FILE;
use ports::queue::QueueName;
use rusqlite::Connection;
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::driver::{DrivenLoad, SendingPace, drive};
use crate::import::export::USUAL_SPREAD;
use crate::observer::Observer;
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, figure, median, median_of, mib, row};
use crate::slack::{self, SlackWithHistory};
use crate::watched::{self, EndedProcess};
use crate::{Settings, drain, import, machine, progress};

/// Events per second: a fraction of what `up` takes, so that the latency is not that of a queue.
const PER_SECOND: u64 = 2_000;

/// Of the messages, one in this number changes between two copies.
const CHANGED_SHARE: usize = 100;

/// The channels of a night, each with one page of history.
const CHANNELS: usize = 300;
const MESSAGES_OF_CHANNEL: usize = 20;

/// How long the other process may take to begin.
const BEGIN: Duration = Duration::from_secs(60);

/// What happens beside the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NightlyWork {
    Nothing,
    Copy,
    Proof,
}

impl NightlyWork {
    const ALL: [Self; 3] = [Self::Nothing, Self::Copy, Self::Proof];

    fn title(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Copy => "beside `annalist copy`",
            Self::Proof => "beside `annalist reconcile --nightly`",
        }
    }
}

/// The times of one round.
struct RoundTimes {
    ack_p50_ms: f64,
    ack_p99_ms: f64,
    drained_per_second: f64,
}

/// Measures copies and restores, then events beside them.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<BenchSection>> {
    let folder = machine::data_folder()?;
    let made = folder.path().join("made");
    import::fill(&made, settings.rows, USUAL_SPREAD).await?;
    let copies = copies(&made, folder.path(), settings).await?;
    let beside = beside(&made, settings).await?;
    Ok(vec![copies, beside])
}

/// Copies the archive, unchanged and changed, and restores it.
async fn copies(made: &Path, folder: &Path, settings: &Settings) -> anyhow::Result<BenchSection> {
    let mut rows = Vec::new();
    let target = folder.join("copies");
    progress("keep: the first copy");
    let (first, usage, sum) = copy(made, &target).await?;
    let per_second = settings.rows as f64 / first.time.as_secs_f64();
    let mut peak_kib = usage.peak_rss_kib;
    let mut shares = Vec::new();
    let mut note = |what: &str, ended: &EndedProcess, usage: &Usage, sum: &Value| -> anyhow::Result<f64> {
        let written = sum["bytes_written"].as_f64().context("a copy says what it wrote")?;
        let blocks = sum["new_blocks"].as_f64().unwrap_or_default();
        let share = written / database_bytes(made)? * 100.0;
        rows.push(row(
            what,
            &[ended.time.as_secs_f64(), blocks, written / 1e6, share, mib(usage.peak_rss_kib)],
        ));
        Ok(share)
    };
    note("the first copy", &first, &usage, &sum)?;
    for (what, is_changed) in [("after no change", false), ("after 1 % of changed messages", true)] {
        progress(&format!("keep: a copy {what}"));
        if is_changed {
            change(made, settings.rows)?;
        }
        let (ended, usage, sum) = copy(made, &target).await?;
        peak_kib = peak_kib.max(usage.peak_rss_kib);
        shares.push(note(what, &ended, &usage, &sum)?);
    }
    let [unchanged, changed] = shares[..] else { bail!("two copies") };
    let (mut tars, mut restores) = (Vec::new(), Vec::new());
    let packed = folder.join("backup.tar");
    watched::annalist(made, &["backup", &packed.display().to_string()]).await?;
    for round in 1..=settings.rounds {
        progress(&format!("keep: restores, round {round}"));
        for (source, times) in [(&packed, &mut tars), (&target, &mut restores)] {
            let restored = machine::data_folder()?;
            let data = restored.path().join("data");
            let ended = watched::annalist(&data, &["restore", &source.display().to_string()]).await?;
            times.push(ended.time.as_secs_f64());
            let messages = Observer::open(&data)?.rows()?;
            ensure!(messages == settings.rows, "{messages} messages were restored from {}", source.display());
        }
    }
    let [tar_s, restore_s] = [tars, restores].map(median);
    for (what, time_s) in
        [("restored from the tar of `backup`", tar_s), ("restored from the copy", restore_s)]
    {
        let mut row = vec![what.to_owned(), figure(time_s)];
        row.extend(std::iter::repeat_n(String::new(), 4));
        rows.push(row);
    }
    Ok(BenchSection {
        title: "Copies",
        method: format!(
            "`annalist copy` of {} messages of {} channels into a folder, then again without a change and after a change of every \
             {CHANGED_SHARE}th message; `annalist restore` of the tar and of the copy, medians of {} rounds. Each from its start \
             to its end. The share is that of the database's size.",
            settings.rows, USUAL_SPREAD.channels, settings.rounds
        ),
        columns: &["", "s", "new blocks", "MB written", "% of the database", "RSS peak MiB"],
        rows,
        goals: vec![
            Goal::at_least("a first copy", per_second, 20_000.0, " messages/s"),
            Goal::at_most("a copy without a change writes", unchanged, 1.0, " %"),
            Goal::at_most("… after 1 % of changes", changed, 3.0, " %"),
            Goal::at_most("memory of a copy", mib(peak_kib), 64.0, " MiB"),
            Goal::at_most("restored from a copy / from a tar", restore_s / tar_s, 2.0, " ×"),
        ],
    })
}

/// The latency of acks and the speed of a drain on the same archive, alone and beside nightly work.
async fn beside(made: &Path, settings: &Settings) -> anyhow::Result<BenchSection> {
    let seconds = settings.seconds * 4;
    let mut workload = Workload::new(Shape::default());
    let mut paced = Pool::generate(&mut workload, usize::try_from(PER_SECOND * seconds)?)?;
    let mut backlog = Pool::generate(&mut workload, settings.backlog)?;
    let mut runs: [Vec<RoundTimes>; NightlyWork::ALL.len()] = Default::default();
    for round in 1..=settings.rounds {
        for (runs, work) in runs.iter_mut().zip(NightlyWork::ALL) {
            progress(&format!("keep: round {round}, {}", work.title()));
            Pool::sign_again(&mut paced);
            Pool::sign_again(&mut backlog);
            let [ack_p50_ms, ack_p99_ms] = acks(made, &paced, work, seconds, settings).await?;
            let drained_per_second = drained(made, &backlog, work, settings).await?;
            runs.push(RoundTimes { ack_p50_ms, ack_p99_ms, drained_per_second });
        }
    }
    let rows = NightlyWork::ALL.iter().zip(&runs).map(|(work, runs)| {
        let figures: [fn(&RoundTimes) -> f64; 3] =
            [|run| run.ack_p50_ms, |run| run.ack_p99_ms, |run| run.drained_per_second];
        row(work.title(), &figures.map(|of| median_of(runs, of)))
    });
    let rows = rows.collect();
    let p99 = |runs: &[RoundTimes]| median_of(runs, |run| run.ack_p99_ms);
    let drain = |runs: &[RoundTimes]| median_of(runs, |run| run.drained_per_second);
    let [alone, copied, proven] = &runs;
    Ok(BenchSection {
        title: "Events beside copies and nights",
        method: format!(
            "`annalist up` on an archive of {} messages, {PER_SECOND} events/s for {seconds} s over {} connections; then {} events \
             queued and drained by one `message-writer` on the same archive: alone, beside copies to new folders, and beside a \
             night that compares {CHANNELS} channels of one page each with Slack's history, at Slack's 50 calls a minute. Latency \
             counts from the moment a request was due. Medians of {} interleaved rounds.",
            settings.rows,
            settings.connections,
            backlog.len(),
            settings.rounds
        ),
        columns: &["", "ack p50 ms", "ack p99 ms", "drained ev/s"],
        rows,
        goals: vec![
            Goal::at_most("acks beside a copy, p99", p99(copied) / p99(alone), 1.1, " ×"),
            Goal::at_most("acks beside a night, p99", p99(proven) / p99(alone), 1.1, " ×"),
            Goal::at_least("a drain beside a copy", drain(copied) / drain(alone), 0.9, " ×"),
            Goal::at_least("a drain beside a night", drain(proven) / drain(alone), 0.9, " ×"),
        ],
    })
}

/// The latency of acks, at the 50th and the 99th percentile.
async fn acks(
    made: &Path,
    pool: &Arc<Pool>,
    work: NightlyWork,
    seconds: u64,
    settings: &Settings,
) -> anyhow::Result<[f64; 2]> {
    let folder = machine::data_folder()?;
    let data = cloned(made, folder.path())?;
    let server = process::up(&*data).await;
    let running = RunningWork::start(work, &data, folder.path()).await?;
    let load = DrivenLoad {
        max_duration: Some(Duration::from_secs(seconds)),
        pace: SendingPace::PerSecond(PER_SECOND),
        ..DrivenLoad::whole(pool, settings.connections())
    };
    let driven = drive(server.address, pool, load, None).await?;
    running.end().await?;
    ensure!(driven.refused == 0, "{} events were refused", driven.refused);
    server.process.sigkill().await;
    Ok([50, 99].map(|percent| driven.latencies.percentile(percent)))
}

/// The events per second of a drained backlog.
async fn drained(
    made: &Path,
    pool: &Arc<Pool>,
    work: NightlyWork,
    settings: &Settings,
) -> anyhow::Result<f64> {
    let folder = machine::data_folder()?;
    let data = cloned(made, folder.path())?;
    drain::fill(&data, pool, settings).await?;
    let observer = Observer::open(&data)?;
    let before = observer.rows()?;
    let running = RunningWork::start(work, &data, folder.path()).await?;
    let writer = process::message_writer(&*data);
    let cost = observer.drain(QueueName::Events, pool.len(), writer).await?;
    running.end().await?;
    let rows = observer.rows()? - before;
    ensure!(rows >= pool.rows(pool.len()), "{rows} rows instead of {}", pool.rows(pool.len()));
    Ok(cost.per_second)
}

/// Work that goes on until it is ended.
struct RunningWork {
    work: Option<JoinHandle<anyhow::Result<()>>>,
    history: Option<SlackWithHistory>,
}

impl RunningWork {
    /// Starts it, and waits until it has begun.
    async fn start(work: NightlyWork, data: &Path, folder: &Path) -> anyhow::Result<Self> {
        let data = data.to_owned();
        match work {
            NightlyWork::Nothing => Ok(Self { work: None, history: None }),
            NightlyWork::Copy => {
                let targets = folder.join("copies");
                fs::create_dir(&targets)?;
                let first = targets.join("0");
                let work = tokio::spawn(async move {
                    // A copy of a small archive ends before the load does.
                    for number in 0_usize.. {
                        copy(&data, &targets.join(number.to_string())).await?;
                    }
                    Ok(())
                });
                let begun = async {
                    while !first.join("block").exists() {
                        sleep(Duration::from_millis(10)).await;
                    }
                };
                timeout(BEGIN, begun).await.context("no copy began")?;
                Ok(Self { work: Some(work), history: None })
            }
            NightlyWork::Proof => {
                let history = slack::start_with_history(CHANNELS, MESSAGES_OF_CHANNEL).await?;
                let command = |args: &[&str]| {
                    let mut command = Command::new(&binaries().annalist);
                    command.args(args).args(["--slack-api-url", &history.url, "--data"]).arg(&data);
                    command.env_clear().env("SLACK_BOT_TOKEN", slack::TOKEN).kill_on_drop(true);
                    command
                };
                let listed = command(&["sync", "--no-join"]).output().await?;
                ensure!(listed.status.success(), "sync: {}", String::from_utf8_lossy(&listed.stderr));
                let mut night = command(&["reconcile", "--nightly"]);
                let work = tokio::spawn(async move {
                    let output = night.output().await?;
                    let printed = [output.stdout, output.stderr].concat();
                    bail!("the night ended: {}", String::from_utf8_lossy(&printed))
                });
                let begun = async {
                    while history.calls("conversations.history") == 0 && !work.is_finished() {
                        sleep(Duration::from_millis(10)).await;
                    }
                };
                timeout(BEGIN, begun).await.context("no night began")?;
                Ok(Self { work: Some(work), history: Some(history) })
            }
        }
    }

    /// Ends it. It is an error if it has ended before.
    async fn end(self) -> anyhow::Result<()> {
        let Some(work) = self.work else { return Ok(()) };
        if work.is_finished() {
            return work.await?;
        }
        work.abort();
        ensure!(work.await.is_err_and(|error| error.is_cancelled()), "the work beside the events ended");
        if let Some(history) = self.history {
            progress(&format!("keep: {} calls of the night", history.calls("conversations.history")));
        }
        Ok(())
    }
}

/// Makes a copy. Returns its sum too.
async fn copy(data: &Path, target: &Path) -> anyhow::Result<(EndedProcess, Usage, Value)> {
    fs::create_dir_all(target)?;
    let mut command = Command::new(&binaries().annalist);
    command.args(["copy", "--json", "--to"]).arg(target).arg("--data").arg(data);
    let (ended, usage) = watched::run_to_end(command).await?;
    let sum = ended.last_line()?;
    Ok((ended, usage, sum))
}

/// Copies the database of an archive that no process uses.
fn cloned(made: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let data = folder.join("data");
    fs::create_dir(&data)?;
    fs::copy(made.join(DATABASE_FILE), data.join(DATABASE_FILE))?;
    Ok(data)
}

/// Changes every hundredth message, as an edit does.
fn change(data: &Path, messages: usize) -> anyhow::Result<()> {
    let database = Connection::open(data.join(DATABASE_FILE))?;
    let changed = database.execute(
        "UPDATE items SET attributes = json_set(attributes, '$.updated_ts', '2026-11-21T12:00:00.000000Z') \
         WHERE item_id GLOB 'message#*' AND rowid % ?1 = 0",
        [i64::try_from(CHANGED_SHARE)?],
    )?;
    ensure!(
        changed.abs_diff(messages / CHANGED_SHARE) <= messages / CHANGED_SHARE / 10,
        "{changed} of {messages} messages were changed"
    );
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// The size of the database.
fn database_bytes(data: &Path) -> anyhow::Result<f64> {
    Ok(fs::metadata(data.join(DATABASE_FILE))?.len() as f64)
}
