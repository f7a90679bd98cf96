//! The spans of history to read of each channel.

use ports::archive::{Archive, Query, key, query_all};
use reader::coverage::TeamCoverage;
use rules::filled::{self, FilledSpan, SpanSource};
use rules::gap::coverage::Hole;
use rules::interval::Interval;
use slack::ids::{TeamId, Ts};
use workers::historian::PlannedSpan;
use workers::historian::plan::{RequestedHistory, plan_spans as spans_wanted};

use super::{BackfillArgs, days};
use crate::operate::history::channels::PlannedChannel;

/// Returns a string that identifies the request: an unfinished run continues only if its request was the
/// same.
pub(super) fn fingerprint(args: &BackfillArgs, channels: &[PlannedChannel]) -> String {
    let BackfillArgs { all, since, until, refetch_days, .. } = args;
    let ts = |ts: &Option<Ts>| ts.as_ref().map(Ts::to_string).unwrap_or_default();
    let mut ids: Vec<&str> = channels.iter().map(|planned| planned.channel.as_str()).collect();
    ids.sort_unstable();
    let ids = if *all { "all".to_owned() } else { ids.join(",") };
    format!("{ids};{};{};{refetch_days}", ts(since), ts(until))
}

/// The coverage and the filled spans of a workspace's channels.
pub(super) struct StoredHistory<'a> {
    coverage: TeamCoverage<'a>,
    spans: Vec<FilledSpan>,
}

impl<'a> StoredHistory<'a> {
    pub(super) async fn read(archive: &'a dyn Archive, team: &TeamId) -> anyhow::Result<Self> {
        let rows = query_all(archive, Query::partition(key::filled(team))).await?;
        Ok(Self { coverage: TeamCoverage::read(archive, team).await?, spans: filled::spans(&rows) })
    }

    /// Returns the spans of a channel to read within `time`, newest first. `unfinished` is the start of an
    /// unfinished run of the same request.
    pub(super) async fn spans_to_read(
        &self,
        planned: &PlannedChannel,
        args: &BackfillArgs,
        time: Interval,
        unfinished: Option<&Ts>,
    ) -> anyhow::Result<Vec<PlannedSpan>> {
        let of_channel = self.spans.iter().filter(|span| span.channel == planned.channel);
        let spans: Vec<FilledSpan> = of_channel.cloned().collect();
        let coverage = self.coverage.channel_coverage(&planned.channel).await?;
        // What is older has expired.
        let kept_from = coverage.expired_before.map_or(0, |until| until.micros());
        let time = Interval { from: time.from.max(kept_from), ..time };
        if time.from >= time.to {
            return Ok(Vec::new());
        }
        let request = match &args.since {
            Some(_) => RequestedHistory::Between(time),
            None => RequestedHistory::Missing { whole: time, again_micros: days(args.refetch_days) },
        };
        let holes = coverage.holes;
        let end = |hole: &Hole| hole.to.as_ref().map_or(time.to, Ts::micros);
        let holes: Vec<Interval> =
            holes.iter().map(|hole| Interval { from: hole.from.micros(), to: end(hole) }).collect();
        // Only spans that end at the start of that run are its own. With --until, they may be older.
        let is_from_unfinished_run = |span: &&FilledSpan| {
            let ends_there = |began: &Ts| began.micros() == span.to.micros();
            args.until.is_none() && span.source == SpanSource::History && unfinished.is_some_and(ends_there)
        };
        let begun = spans.iter().find(is_from_unfinished_run).map(FilledSpan::interval);
        Ok(spans_wanted(&request, &holes, &spans, begun))
    }
}
