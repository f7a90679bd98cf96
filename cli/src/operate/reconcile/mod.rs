//! `annalist reconcile`: compares the archive with Slack's history and fills what is missing.

mod nightly;
mod report;

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use ports::archive::{Archive, ErasureFacts};
use process::config::backend::{Backend, BackendArgs};
use process::config::slack::SlackArgs;
use reader::history::continues_under_another_id;
use rules::interval::Interval;
use slack::ids::{TeamId, Ts};
use slack_api::WebApi;
use tokio::sync::watch;
use workers::historian::{
    ChannelReader, Comparison, HistoryCalls, PageBudget, PausePolicy, PlannedSpan, ReadCounts, ThreadChoice,
};
use workers::store::PreviewArchive;

use super::date::date;
use super::history::DAY_MICROS;
use super::history::channels::{self, PlannedChannel};
use super::history::reading::{ChannelWatch, EarlyEnd, ReadingStop};
use super::sync::NO_TOKEN;
use crate::UsageError;
use report::{DifferenceReport, DifferenceTotals};

/// The length of the default period.
const PERIOD_MICROS: i64 = 7 * DAY_MICROS;

/// How far before the period messages are checked for replies within it.
const LOOK_BACK_MICROS: i64 = 30 * DAY_MICROS;

/// `annalist reconcile`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReconcileArgs {
    /// Channels, by name or id; otherwise every channel that is kept
    #[arg(value_name = "CHANNEL")]
    channels: Vec<String>,
    /// Compare what was posted from this date on; otherwise the last 7 days
    #[arg(long, value_name = "DATE", value_parser = date)]
    from: Option<Ts>,
    /// Only what was posted before this date
    #[arg(long, value_name = "DATE", value_parser = date)]
    to: Option<Ts>,
    /// Compare from the beginning of each channel on, unless --from is given
    #[arg(long)]
    all: bool,
    /// Do the comparison of a night now: every channel up to the last midnight, and what is left to compare of older
    /// days
    #[arg(long, conflicts_with_all = ["channels", "from", "to", "all", "dry_run", "mark_deleted"])]
    nightly: bool,
    /// Say what differs, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Mark what Slack no longer lists as deleted: nothing takes that back
    #[arg(long)]
    mark_deleted: bool,
    /// One JSON object per channel, and one for the sum
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) slack: SlackArgs,
}

impl ReconcileArgs {
    /// Returns the period to compare. `now` is the time by Slack's clock.
    fn period(&self, now: &Ts) -> Result<Interval, UsageError> {
        let to = self.to.as_ref().map_or(now.micros(), |to| to.micros().min(now.micros()));
        let from = match &self.from {
            Some(from) => from.micros(),
            None if self.all => 0,
            None => to.saturating_sub(PERIOD_MICROS).max(0),
        };
        let period = Interval { from, to };
        if from < to {
            return Ok(period);
        }
        let (from, to) = (period.from_ts(), period.to_ts());
        Err(UsageError::new(format_args!("--from {from} is not before {to}, the end of what is compared")))
    }
}

/// Compares and fills, and prints the differences of each channel.
pub(crate) async fn run(
    backend: &Backend,
    api: Arc<WebApi>,
    args: &ReconcileArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !api.has_tokens() {
        bail!("{NO_TOKEN}");
    }
    if args.nightly {
        return nightly::run(backend, api, args.json, out).await;
    }
    let shutdown = process::shutdown::on_signal()?;
    let archive: Arc<dyn Archive> =
        if args.dry_run { Arc::new(PreviewArchive::new(Some(backend.archive()))) } else { backend.archive() };
    let plans = if args.channels.is_empty() {
        without_former_ids(&*archive, channels::kept_channels(&*archive, &api).await?).await?
    } else {
        channels::named_channels(&*archive, &args.channels).await?
    };
    let (mut totals, mut early_end) = (DifferenceTotals::default(), EarlyEnd::default());
    for (team, channels) in &plans {
        let stop = workspace(backend, &archive, &api, args, (team, channels), &mut totals, &shutdown, out);
        if !early_end.note(stop.await?) {
            break;
        }
    }
    totals.print(args.json, out)?;
    out.flush()?;
    early_end.check("run it again; what was filled stays")?;
    let channels: usize = plans.iter().map(|(_, channels)| channels.len()).sum();
    match totals.remainder(channels, args.dry_run) {
        None => Ok(()),
        Some(left) => bail!("{left}"),
    }
}

/// Removes former ids of channels: Slack knows a channel only by its current id.
async fn without_former_ids(
    archive: &dyn Archive,
    plans: Vec<(TeamId, Vec<PlannedChannel>)>,
) -> anyhow::Result<Vec<(TeamId, Vec<PlannedChannel>)>> {
    let mut current_plans = Vec::with_capacity(plans.len());
    for (team, channels) in plans {
        let mut current = Vec::with_capacity(channels.len());
        for planned in channels {
            if !continues_under_another_id(archive, &team, &planned.channel).await? {
                current.push(planned);
            }
        }
        current_plans.push((team, current));
    }
    Ok(current_plans)
}

/// Compares the channels of one workspace, one after the other, because Slack's rate limits apply per
/// workspace.
#[expect(clippy::too_many_arguments, reason = "each is passed on unchanged")]
async fn workspace(
    backend: &Backend,
    archive: &Arc<dyn Archive>,
    api: &Arc<WebApi>,
    args: &ReconcileArgs,
    (team, channels): (&TeamId, &[PlannedChannel]),
    totals: &mut DifferenceTotals,
    shutdown: &watch::Receiver<bool>,
    out: &mut dyn Write,
) -> anyhow::Result<Option<ReadingStop>> {
    let now = match api.first_slack_time(team).await {
        Ok(now) => now,
        Err(error) => return Ok(Some(ReadingStop::Workspace(error.into()))),
    };
    let span = args.period(&now)?;
    let calls = HistoryCalls::new(Arc::clone(api), team.clone(), PausePolicy::WaitOut);
    let mut watch = ChannelWatch::new(&calls, channels.len(), shutdown);
    let queue = backend.queue();
    let facts = ErasureFacts::load(&**archive, team).await?;
    for planned in channels {
        // What is older has expired.
        let kept_from = facts.expired_before(team, &planned.channel).map_or(0, |until| until.micros());
        let from = span.from.max(kept_from);
        let span = Interval { from, to: span.to.max(from) };
        let scope = Interval { from: span.from, to: now.micros() };
        let comparison = Comparison::new(scope, args.mark_deleted && !args.dry_run, facts.clone());
        let counts = ReadCounts::default();
        let reader = ChannelReader {
            archive: &**archive,
            queue: (!args.dry_run).then_some(&*queue),
            calls: &calls,
            channel: &planned.channel,
            look_back_micros: LOOK_BACK_MICROS,
            counts: &counts,
            threads: ThreadChoice::Compared(&comparison),
        };
        let planned_span = PlannedSpan { span, to: span.to_ts() };
        let mut budget = PageBudget::unlimited();
        let reading = reader.read_span(&planned_span, &mut budget);
        let progress_text = || report::progress_text(planned, &counts.snapshot(), &comparison.found());
        let (state, stop) = watch.read(reading, progress_text).await;
        let mut found = comparison.found();
        if args.dry_run {
            // The preview archive counts all writes as filled but keeps nothing.
            found.filled = 0;
        }
        let report = DifferenceReport { planned, found, tally: counts.snapshot(), state };
        totals.add(&report);
        watch.print(out, |out| report.print(args.json, args.dry_run, out))?;
        if stop.is_some() {
            return Ok(stop);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parsed;

    #[test]
    fn the_period_is_the_last_week_or_as_requested_and_never_empty() {
        // 2026-11-20T00:00:00Z
        let now = Ts::parse("1795132800.000000").unwrap();
        let day = |days: i64| now.micros() + days * DAY_MICROS;
        for (arguments, expected) in [
            (&[][..], Some((day(-7), day(0)))),
            (&["--to", "2026-11-10"], Some((day(-17), day(-10)))),
            (&["--from", "2026-11-01"], Some((day(-19), day(0)))),
            (&["--from", "2026-11-01", "--to", "2026-11-08"], Some((day(-19), day(-12)))),
            (&["--all"], Some((0, day(0)))),
            (&["--all", "--to", "2026-11-10"], Some((0, day(-10)))),
            (&["general", "--all", "--from", "2026-11-01", "--to", "2027-01-01"], Some((day(-19), day(0)))),
            (&["--from", "2026-11-08", "--to", "2026-11-08"], None),
            (&["--from", "2026-11-21"], None),
        ] {
            let args: ReconcileArgs = parsed(arguments).unwrap();
            let period = args.period(&now).ok().map(|period| (period.from, period.to));
            assert_eq!(period, expected, "{arguments:?}");
        }
    }
}
