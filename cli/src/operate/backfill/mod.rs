//! `annalist backfill`: Slack's history into the archive, in this process.
//!
//! [`plan`] says what is read of each channel; [`report`] prints what came of it.

mod plan;
mod report;

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use process::config::backend::{Backend, BackendArgs};
use process::config::slack::SlackArgs;
use rules::filled::UnreadableReason;
use rules::interval::Interval;
use slack::ids::{TeamId, Ts};
use slack_api::WebApi;
use tokio::sync::watch;
use workers::historian::{
    ChannelReader, Consequence, HistoryCalls, HistoryError, PageBudget, PausePolicy, ReadCounts,
    ThreadChoice, run as backfill_run,
};

use super::date::date;
use super::history::DAY_MICROS;
use super::history::channels::{self, PlannedChannel};
use super::history::reading::{ChannelWatch, EarlyEnd, ReadingStop};
use super::sync::NO_TOKEN;
use crate::UsageError;
use plan::HeldHistory;
use report::{ChannelReport, Totals};

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

impl BackfillArgs {
    /// What is read at most, at this time by Slack's clock.
    fn time(&self, now: &Ts) -> Result<Interval, UsageError> {
        let from = self.since.as_ref().map_or(0, Ts::micros);
        let to = self.until.as_ref().map_or(now.micros(), |until| until.micros().min(now.micros()));
        let time = Interval { from, to };
        if from < to {
            return Ok(time);
        }
        let (from, to) = (time.from_ts(), time.to_ts());
        Err(UsageError::new(format_args!("--since {from} is not before {to}, the end of what is read")))
    }
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
    let archive = backend.archive();
    let plans = if args.all {
        channels::kept(&*archive, &api).await?
    } else {
        channels::named(&*archive, &args.channels).await?
    };
    let (mut totals, mut early_end) = (Totals::default(), EarlyEnd::default());
    for (team, channels) in &plans {
        let stop = workspace(backend, &api, args, (team, channels), &mut totals, &shutdown, out).await?;
        if !early_end.note(stop) {
            break;
        }
    }
    let channels: usize = plans.iter().map(|(_, channels)| channels.len()).sum();
    totals.print(channels, args.json, out)?;
    out.flush()?;
    early_end.check("run it again to go on where it was")?;
    match totals.left(channels) {
        None => Ok(()),
        Some(left) => bail!("{left}"),
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
) -> anyhow::Result<Option<ReadingStop>> {
    let archive = backend.archive();
    let now = match api.first_answer(team).await {
        Ok(now) => now,
        Err(error) => return Ok(Some(ReadingStop::Workspace(error.into()))),
    };
    let time = args.time(&now)?;
    let unfinished = backfill_run::begin(&*archive, team, &now, &plan::fingerprint(args, channels)).await?;
    let held = HeldHistory::read(&*archive, team).await?;
    let calls = HistoryCalls::new(Arc::clone(api), team.clone(), PausePolicy::WaitOut);
    let mut watch = ChannelWatch::of(&calls, channels.len(), shutdown);
    for planned in channels {
        let wanted = held.wanted(planned, args, time, unfinished.as_ref()).await?;
        let counts = ReadCounts::default();
        let queue = backend.queue();
        let reader = ChannelReader {
            archive: &*archive,
            queue: (!args.no_files).then_some(&*queue),
            calls: &calls,
            channel: &planned.channel,
            look_back_micros: days(args.thread_days),
            counts: &counts,
            threads: ThreadChoice::Incomplete,
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
        let (state, stop) = watch.read(reading, doing).await;
        let report = ChannelReport {
            planned,
            wanted: &wanted,
            tally: counts.tally(),
            calls: calls.made() - made_before,
            state,
        };
        totals.add(&report);
        watch.print(out, |out| report.print(args.json, out))?;
        if stop.is_some() {
            return Ok(stop);
        }
    }
    backfill_run::end(&*archive, team, unfinished.as_ref().unwrap_or(&now)).await?;
    Ok(None)
}

/// Days in microseconds; more than there can be are all there are.
fn days(days: u32) -> i64 {
    i64::from(days).saturating_mul(DAY_MICROS)
}

fn is_outside(error: &HistoryError) -> bool {
    error.consequence() == Consequence::Channel(Some(UnreadableReason::NotInChannel))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct BackfillCommand {
        #[command(flatten)]
        args: BackfillArgs,
    }

    #[test]
    fn any_number_of_days_is_a_time() {
        assert_eq!((days(0), days(7)), (0, 7 * DAY_MICROS));
        assert_eq!(days(u32::MAX), i64::MAX);
    }

    #[test]
    fn the_time_that_is_read_ends_now_or_before_and_is_never_empty() {
        // 2026-11-20T00:00:00Z
        let now = Ts::parse("1795132800.000000").unwrap();
        let day = |days: i64| now.micros() + days * DAY_MICROS;
        for (arguments, expected) in [
            (&[][..], Some((0, day(0)))),
            (&["--since", "2026-11-19"], Some((day(-1), day(0)))),
            (&["--until", "2026-11-10"], Some((0, day(-10)))),
            (&["--since", "2026-11-01", "--until", "2027-01-01"], Some((day(-19), day(0)))),
            (&["--since", "2026-11-08", "--until", "2026-11-08"], None),
            (&["--since", "2026-11-09", "--until", "2026-11-08"], None),
            (&["--since", "2026-11-21"], None),
        ] {
            let command = BackfillCommand::parse_from(["backfill", "--all"].iter().chain(arguments));
            let time = command.args.time(&now).ok().map(|time| (time.from, time.to));
            assert_eq!(time, expected, "{arguments:?}");
        }
    }
}
