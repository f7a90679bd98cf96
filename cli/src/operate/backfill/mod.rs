//! `annalist backfill`: Slack's history into the archive, in this process.
//!
//! [`plan`] says which channels are read and what of each; [`report`] prints what came of it.

mod plan;
mod report;

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use process::config::backend::{Backend, BackendArgs};
use process::config::slack::SlackArgs;
use rules::filled::Unreadable;
use slack::ids::{TeamId, Ts};
use slack_api::WebApi;
use tokio::sync::watch;
use workers::historian::{
    ChannelReader, Consequence, HistoryCalls, HistoryError, PageBudget, PausePolicy, RESTRICTED_ADVICE,
    ReadCounts, SpanEnd, run as backfill_run,
};

use super::date::date;
use super::progress::ProgressLines;
use super::sync::NO_TOKEN;
use crate::composition::turned;
use crate::plain;
use plan::{HeldHistory, PlannedChannel};
use report::{ChannelReport, ChannelState, Totals};

/// `annalist backfill`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackfillArgs {
    /// Channels, by name or id
    #[arg(value_name = "CHANNEL", required_unless_present = "all", conflicts_with = "all")]
    channels: Vec<String>,
    /// Every channel that is kept
    #[arg(long)]
    all: bool,
    /// Everything from this date on; otherwise what is missing, and the last days again
    #[arg(long, value_name = "DATE", value_parser = date)]
    since: Option<Ts>,
    /// Only what is before this date
    #[arg(long, value_name = "DATE", value_parser = date)]
    until: Option<Ts>,
    /// Join public channels that the app is not in: people there see it
    #[arg(long)]
    join: bool,
    /// Fetch no files
    #[arg(long)]
    no_files: bool,
    /// Read the last N days again, for edits and late replies
    #[arg(long, value_name = "N", default_value_t = 7)]
    refetch_days: u32,
    /// Look for late replies to messages that are up to N days older than what is read
    #[arg(long, value_name = "N", default_value_t = 30)]
    thread_days: u32,
    /// One JSON object per channel, and one for the sum
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
}

/// A day in microseconds, as timestamps count.
pub(super) const DAY_MICROS: i64 = 86_400 * 1_000_000;

/// Why the rest of the channels is not read.
enum Stop {
    /// The user asked for it.
    Asked,
    /// Nothing can be read of this workspace.
    Workspace(HistoryError),
    /// Something that all channels need failed.
    Failed(HistoryError),
}

/// Reads history, and says of each channel what came of it.
pub(crate) async fn run(
    backend: &Backend,
    api: Arc<WebApi>,
    args: &BackfillArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !api.has_tokens() {
        bail!("{NO_TOKEN}");
    }
    let shutdown = process::shutdown::on_signal()?;
    let mut totals = Totals::default();
    let mut why = None;
    let plans = plan::channels(&*backend.archive(), &api, args).await?;
    for (team, channels) in &plans {
        match workspace(backend, &api, args, (team, channels), &mut totals, &shutdown, out).await? {
            None => {}
            Some(Stop::Workspace(error)) => why = Some(error),
            Some(Stop::Failed(error)) => {
                why = Some(error);
                break;
            }
            Some(Stop::Asked) => {
                totals.stopped = true;
                break;
            }
        }
    }
    let channels: usize = plans.iter().map(|(_, channels)| channels.len()).sum();
    totals.print(channels, args.json, out)?;
    out.flush()?;
    match (why, totals.remaining(channels)) {
        (Some(error), _) => bail!("{}; run it again to go on where it was", plain::line(&error.to_string())),
        (None, 0) => Ok(()),
        (None, _) if totals.stopped => bail!("stopped: run it again to go on where it was"),
        (None, 1) => bail!("1 channel was not read to its end"),
        (None, remaining) => bail!("{remaining} channels were not read to their end"),
    }
}

/// Reads channels of one workspace, one after the other: Slack's limits are the workspace's.
async fn workspace(
    backend: &Backend,
    api: &Arc<WebApi>,
    args: &BackfillArgs,
    (team, channels): (&TeamId, &[PlannedChannel]),
    totals: &mut Totals,
    shutdown: &watch::Receiver<bool>,
    out: &mut dyn Write,
) -> anyhow::Result<Option<Stop>> {
    let archive = backend.archive();
    let now = match api.first_answer(team).await {
        Ok(now) => now,
        Err(error) => return Ok(Some(Stop::Workspace(error.into()))),
    };
    let unfinished = backfill_run::begin(&*archive, team, &now, &plan::fingerprint(args, channels)).await?;
    let held = HeldHistory::read(&*archive, team).await?;
    let calls = HistoryCalls::new(Arc::clone(api), team.clone(), PausePolicy::WaitOut);
    let mut progress = ProgressLines::of(channels.len());
    let mut advised = false;
    for planned in channels {
        let wanted = held.wanted(planned, args, &now, unfinished.as_ref()).await?;
        let counts = ReadCounts::default();
        let queue = backend.queue();
        let reader = ChannelReader {
            archive: &*archive,
            queue: (!args.no_files).then_some(&*queue),
            calls: &calls,
            channel: &planned.channel,
            look_back_micros: i64::from(args.thread_days) * DAY_MICROS,
            counts: &counts,
            comparison: None,
        };
        let made_before = calls.made();
        let reading = async {
            let mut budget = PageBudget::unlimited();
            match reader.read_spans(&wanted, &mut budget).await {
                Err(error) if args.join && is_outside(&error) => {
                    calls.join(&planned.channel).await?;
                    reader.read_spans(&wanted, &mut budget).await
                }
                end => end,
            }
        };
        let doing = || report::doing(planned, &counts.tally(), calls.made() - made_before);
        let end = tokio::select! {
            biased;
            () = turned(shutdown.clone()) => None,
            end = progress.watch(reading, doing) => Some(end),
        };
        progress.one_done();
        if calls.is_restricted() && !advised {
            advised = true;
            progress.aside(|| drop(writeln!(std::io::stderr(), "annalist: {RESTRICTED_ADVICE}.")));
        }
        let (state, stop) = outcome(end);
        let report = ChannelReport {
            planned,
            wanted: &wanted,
            tally: counts.tally(),
            calls: calls.made() - made_before,
            state,
        };
        totals.add(&report);
        progress.aside(|| report.print(args.json, out).and_then(|()| out.flush()))?;
        if stop.is_some() {
            return Ok(stop);
        }
    }
    backfill_run::end(&*archive, team, unfinished.as_ref().unwrap_or(&now)).await?;
    Ok(None)
}

fn is_outside(error: &HistoryError) -> bool {
    error.consequence() == Consequence::Channel(Some(Unreadable::NotInChannel))
}

/// What the end of a channel means for it and for the rest; `None` if the user ended it.
fn outcome(end: Option<Result<SpanEnd, HistoryError>>) -> (ChannelState, Option<Stop>) {
    match end {
        Some(Ok(SpanEnd::Whole)) => (ChannelState::Done, None),
        Some(Ok(SpanEnd::Limited)) => (ChannelState::Limited, None),
        Some(Ok(SpanEnd::Paused)) => (ChannelState::Stopped(None), None),
        None => (ChannelState::Stopped(None), Some(Stop::Asked)),
        Some(Err(error)) => match error.consequence() {
            Consequence::Channel(_) => (ChannelState::Unreadable(error), None),
            Consequence::Workspace => {
                (ChannelState::Stopped(Some(error.clone())), Some(Stop::Workspace(error)))
            }
            Consequence::Later(_) => (ChannelState::Stopped(Some(error.clone())), Some(Stop::Failed(error))),
        },
    }
}
