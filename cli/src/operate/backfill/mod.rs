//! `annalist backfill`: reads Slack's history into the archive, in this process.
//!
//! [`plan`] determines the spans to read of each channel; [`report`] prints the results.

mod plan;
mod report;

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use process::config::IndexArgs;
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
use plan::StoredHistory;
use report::{ChannelReport, Totals};

/// `annalist backfill`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackfillArgs {
    /// Channels, by name or id
    #[arg(value_name = "CHANNEL|--all", required_unless_present = "all", conflicts_with = "all")]
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
    index: IndexArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
}

impl BackfillArgs {
    /// Returns the interval to read at most. `now` is the time by Slack's clock.
    fn time(&self, now: &Ts) -> Result<Interval, UsageError> {
        let from = self.since.as_ref().map_or(0, Ts::micros);
        let to = self.until.as_ref().map_or(now.micros(), |until| until.micros().min(now.micros()));
        let interval = Interval { from, to };
        if from < to {
            return Ok(interval);
        }
        let (from, to) = (interval.from_ts(), interval.to_ts());
        Err(UsageError::new(format_args!("--since {from} is not before {to}, the end of what is read")))
    }
}

/// Reads history and prints the result of each channel.
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
        channels::kept_channels(&*archive, &api).await?
    } else {
        channels::named_channels(&*archive, &args.channels).await?
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
    crate::search::index_what_came(backend, &args.index, &args.backend).await;
    early_end.check("run it again to continue where it stopped")?;
    match totals.remainder(channels) {
        None => Ok(()),
        Some(left) => bail!("{left}"),
    }
}

/// Reads channels of one workspace, one after the other, because Slack's rate limits apply per workspace.
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
    let now = match api.first_slack_time(team).await {
        Ok(now) => now,
        Err(error) => return Ok(Some(ReadingStop::Workspace(error.into()))),
    };
    let time = args.time(&now)?;
    let unfinished = backfill_run::begin(&*archive, team, &now, &plan::fingerprint(args, channels)).await?;
    let stored_history = StoredHistory::read(&*archive, team).await?;
    let calls = HistoryCalls::new(Arc::clone(api), team.clone(), PausePolicy::WaitOut);
    let mut watch = ChannelWatch::new(&calls, channels.len(), shutdown);
    for planned in channels {
        let planned_spans = stored_history.spans_to_read(planned, args, time, unfinished.as_ref()).await?;
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
            match reader.read_spans(&planned_spans, &mut budget).await {
                Err(error) if args.join && is_outside(&error) => {
                    calls.join(&planned.channel).await?;
                    reader.read_spans(&planned_spans, &mut budget).await
                }
                end => end,
            }
        };
        let progress = || report::progress_text(planned, &counts.snapshot(), calls.made() - made_before);
        let (state, stop) = watch.read(reading, progress).await;
        let report = ChannelReport {
            planned,
            spans: &planned_spans,
            tally: counts.snapshot(),
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

/// Returns days in microseconds, saturated.
fn days(days: u32) -> i64 {
    i64::from(days).saturating_mul(DAY_MICROS)
}

fn is_outside(error: &HistoryError) -> bool {
    error.consequence() == Consequence::Channel(Some(UnreadableReason::NotInChannel))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parsed;

    #[test]
    fn any_number_of_days_is_valid() {
        assert_eq!((days(0), days(7)), (0, 7 * DAY_MICROS));
        assert_eq!(days(u32::MAX), i64::MAX);
    }

    #[test]
    fn the_interval_ends_now_or_earlier_and_is_never_empty() {
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
            let args: BackfillArgs = parsed(&[&["--all"], arguments].concat()).unwrap();
            let time = args.time(&now).ok().map(|time| (time.from, time.to));
            assert_eq!(time, expected, "{arguments:?}");
        }
    }
}
