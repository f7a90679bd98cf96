//! The nightly proof: compares each channel with Slack, and stores what is missing.
//!
//! The newest days come first ([`Proof::newest_days`]): from the last midnight back to a month before the end of the
//! last proof, for edits, reactions and late replies. What is left of a night's calls goes to older days
//! ([`Proof::older_page`]), each of which is compared once. Of an archived channel, the newest page is compared once a
//! month. The order of effects is that of the historian: rows,
//! replies, jobs of files, then the row that says what is proven.

use metrics::counter;
use ports::archive::erasure::ErasureFacts;
use ports::archive::{Archive, ArchiveExt};
use ports::metrics::{PROOF_CHANNELS, PROOF_FOUND};
use ports::queue::Queue;
use reader::joined::ChannelOfTeam;
use reader::proof;
use reader::range::ts_from_micros;
use rules::history::proof::{DAY_MICROS, ProofCounts, ProvenSpan, VerifiedChannel, midnight_before};
use rules::interval::Interval;
use rules::version::zero;
use slack::ids::{TeamId, Ts};
use tokio::time::Instant;

use crate::historian::{
    ChannelReader, Comparison, Consequence, FoundDifferences, HistoryCalls, HistoryError, PageBudget,
    PlannedSpan, ReadCounts, SpanEnd, ThreadChoice,
};

/// How long before the end of the last proof messages are compared again. A page of 999 messages usually is a month
/// of a channel, so it costs no further call.
const AGAIN_MICROS: i64 = 31 * DAY_MICROS;

/// How long after its last comparison an archived channel is compared again. Nothing is written in it, so that only what
/// the archive has lost can be found.
const ARCHIVED_AGAIN_MICROS: i64 = 30 * DAY_MICROS;

/// The calls of a night in a workspace, after which no older days are compared: less than half an hour at the rate
/// that Slack permits.
pub const CALLS_PER_NIGHT: u64 = 1_000;

/// The proof of a workspace up to the last midnight.
pub struct Proof<'a> {
    archive: &'a dyn Archive,
    queue: &'a dyn Queue,
    calls: &'a HistoryCalls,
    /// What must not be stored: messages that they cover are not missing.
    facts: ErasureFacts,
    /// The time by Slack's clock.
    now: Ts,
    /// The midnight in UTC up to which is compared.
    midnight: Ts,
}

/// How the comparison of the newest days of a channel ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewestDays {
    /// They are proven, or Slack refuses to show the channel; or nothing is to be compared.
    Settled,
    /// The turn is over: they are compared down to this time, and the next turn goes on.
    ReachedOnly(Ts),
}

impl<'a> Proof<'a> {
    /// The proof up to the last midnight before `latest`, in microseconds; or before now by Slack's clock, if that is
    /// earlier.
    ///
    /// # Errors
    /// [`HistoryError`] if Slack or the archive fails.
    pub async fn begin(
        archive: &'a dyn Archive,
        queue: &'a dyn Queue,
        calls: &'a HistoryCalls,
        latest_micros: i64,
    ) -> Result<Self, HistoryError> {
        let now = calls.now().await?;
        let facts = ErasureFacts::load(archive, calls.team()).await?;
        let midnight = midnight_before(now.micros().min(latest_micros));
        Ok(Self { archive, queue, calls, facts, now, midnight })
    }

    /// The midnight up to which is compared.
    #[must_use]
    pub fn midnight(&self) -> &Ts {
        &self.midnight
    }

    /// What is proven of each channel that is kept, ordered by id.
    pub async fn channels(&self) -> Result<Vec<VerifiedChannel>, HistoryError> {
        Ok(proof::kept_channels(self.archive, self.team()).await?)
    }

    /// Whether a channel is left out: it is deleted or has another id now, it is out by its opt-out, or it was
    /// compared since it was archived, in the last month.
    pub async fn is_left_out(&self, known: &VerifiedChannel) -> Result<bool, HistoryError> {
        if self.facts.channel_is_out(self.team(), &known.channel, &self.now) {
            return Ok(true);
        }
        let Some(newest) = self.location(known).newest(self.archive).await? else { return Ok(false) };
        let is_over = known.proven.as_ref().is_some_and(|proven| {
            let changed_since =
                newest.ts().and_then(|ts| Ts::parse(ts).ok()).is_some_and(|ts| ts > proven.at);
            let age_micros = self.midnight.micros().saturating_sub(proven.through.micros());
            let is_new = age_micros < ARCHIVED_AGAIN_MICROS;
            proven.is_archived && newest.is_archived() && !changed_since && is_new
        });
        Ok(is_over || newest.is_deleted() || newest.next_id().is_some())
    }

    /// Compares the newest days of a channel, page by page while `may_go_on`. `reached` is how far an earlier turn came.
    ///
    /// # Errors
    /// [`HistoryError`] if it can be repeated, or if no channel of the workspace can be read.
    pub async fn newest_days(
        &self,
        known: &VerifiedChannel,
        reached: Option<Ts>,
        may_go_on: impl Fn() -> bool,
    ) -> Result<NewestDays, HistoryError> {
        let (floor, proven) = (self.floor(known), known.proven.as_ref());
        let again =
            proven.map_or(floor, |proven| proven.through.micros().saturating_sub(AGAIN_MICROS).max(floor));
        // The newest page of an archived channel is as old as its last messages.
        let from = if proven.is_some_and(|proven| proven.is_archived) { floor } else { again };
        let mut to = reached.unwrap_or_else(|| self.midnight.clone());
        let comparison = self.comparison(from);
        let made = self.calls.made();
        let end = loop {
            let end = self.compare(known, &comparison, from, &mut to).await;
            // The first time, older days follow later.
            if !matches!(end, Ok(SpanEnd::Paused)) || proven.is_none() || to.micros() <= again {
                break end;
            }
            if !may_go_on() {
                self.count(known, &comparison, made, None).await?;
                return Ok(NewestDays::ReachedOnly(to));
            }
        };
        let Some(end) = self.settle(known, &comparison, made, end).await? else {
            return Ok(NewestDays::Settled);
        };
        let (from, is_whole) = match (&known.proven, end) {
            // A chain of pages reached the proven days.
            (Some(proven), SpanEnd::Whole) => (proven.from.clone(), proven.is_whole),
            (Some(proven), SpanEnd::Paused) if to <= proven.through => {
                (to.min(proven.from.clone()), proven.is_whole)
            }
            (Some(proven), _) if to <= proven.through => (proven.from.clone(), true),
            (Some(_) | None, SpanEnd::Limited) => (to, true),
            (None, SpanEnd::Whole) => (ts_from_micros(from), true),
            (Some(_) | None, SpanEnd::Paused) => (to, false),
        };
        let newest = self.location(known).newest(self.archive).await?;
        let span = ProvenSpan {
            from,
            through: self.midnight.clone(),
            at: self.now.clone(),
            is_whole,
            is_archived: newest.is_some_and(|newest| newest.is_archived()),
        };
        self.archive.write(&known.prove(&span)).await?;
        counter!(PROOF_CHANNELS, "outcome" => "proven").increment(1);
        Ok(NewestDays::Settled)
    }

    /// The channel of which the least is proven, if any has older days to compare.
    #[must_use]
    pub fn next_older<'k>(&self, channels: &'k [VerifiedChannel]) -> Option<&'k VerifiedChannel> {
        let open = channels.iter().filter(|known| !known.failed_in(&self.midnight));
        let open = open.filter_map(|known| {
            known.proven.as_ref().filter(|span| !span.is_whole).map(|span| (span, known))
        });
        open.max_by(|(one, _), (other, _)| one.from.cmp(&other.from)).map(|(_, known)| known)
    }

    /// Compares a page of older days of a channel.
    ///
    /// # Errors
    /// As [`Proof::newest_days`].
    pub async fn older_page(&self, known: &VerifiedChannel) -> Result<(), HistoryError> {
        let Some(proven) = &known.proven else { return Ok(()) };
        let (from, mut to) = (self.floor(known), proven.from.clone());
        let comparison = self.comparison(from);
        let made = self.calls.made();
        let end = self.compare(known, &comparison, from, &mut to).await;
        let Some(end) = self.settle(known, &comparison, made, end).await? else { return Ok(()) };
        let (from, is_whole) = match end {
            SpanEnd::Whole => (ts_from_micros(from).min(to), true),
            SpanEnd::Limited => (to, true),
            SpanEnd::Paused => (to, false),
        };
        let span = ProvenSpan { from, is_whole, ..proven.clone() };
        Ok(self.archive.write(&known.prove(&span)).await.map(drop)?)
    }

    /// Compares the page before `to`, which moves to where the page begins.
    async fn compare(
        &self,
        known: &VerifiedChannel,
        comparison: &Comparison,
        from: i64,
        to: &mut Ts,
    ) -> Result<SpanEnd, HistoryError> {
        if from >= to.micros() {
            return Ok(SpanEnd::Whole);
        }
        let counts = ReadCounts::default();
        let reader = ChannelReader {
            archive: self.archive,
            queue: Some(self.queue),
            calls: self.calls,
            channel: &known.channel,
            look_back_micros: 0,
            counts: &counts,
            threads: ThreadChoice::Proven(comparison),
        };
        let planned = PlannedSpan { span: Interval { from, to: to.micros() }, to: to.clone() };
        // A page that has begun is completed.
        let end = reader.read_span(&planned, &mut PageBudget::limited(1, Instant::now() + ONE_PAGE)).await?;
        let reached = comparison.reached().unwrap_or_else(|| to.clone());
        if end == SpanEnd::Paused && reached >= *to {
            return Err(HistoryError::Stuck);
        }
        *to = reached;
        Ok(end)
    }

    /// Records what was found. `None` if Slack does not show the channel, which is recorded too.
    async fn settle(
        &self,
        known: &VerifiedChannel,
        comparison: &Comparison,
        made: u64,
        end: Result<SpanEnd, HistoryError>,
    ) -> Result<Option<SpanEnd>, HistoryError> {
        let error = match end {
            Ok(end) => {
                self.count(known, comparison, made, None).await?;
                return Ok(Some(end));
            }
            Err(error) => error,
        };
        match error.consequence() {
            Consequence::Later(_) | Consequence::Workspace => Err(error),
            Consequence::Channel(_) => {
                let (team, channel) = (self.team(), &known.channel);
                tracing::warn!(%team, %channel, %error, "a channel cannot be compared with Slack");
                let reason = error.refusal().map_or_else(|| error.to_string(), str::to_owned);
                self.count(known, comparison, made, Some(reason)).await?;
                counter!(PROOF_CHANNELS, "outcome" => "refused").increment(1);
                Ok(None)
            }
        }
    }

    async fn count(
        &self,
        known: &VerifiedChannel,
        comparison: &Comparison,
        made: u64,
        error: Option<String>,
    ) -> Result<(), HistoryError> {
        let FoundDifferences { missing, changed, extra, filled, .. } = comparison.found();
        let calls = self.calls.made().saturating_sub(made);
        let found = ProofCounts { missing, changed, extra, filled, calls, error };
        for (kind, count) in
            [("missing", missing), ("changed", changed), ("extra", extra), ("filled", filled)]
        {
            if count > 0 {
                counter!(PROOF_FOUND, "kind" => kind).increment(count);
            }
        }
        if missing + changed + extra > 0 {
            let (team, channel) = (self.team(), &known.channel);
            tracing::warn!(%team, %channel, missing, changed, extra, filled, "the archive differed from Slack");
        }
        Ok(self.archive.write(&known.count(&self.midnight, &found)).await.map(drop)?)
    }

    fn comparison(&self, from: i64) -> Comparison {
        let scope = Interval { from, to: self.midnight.micros() };
        Comparison::new(scope, false, self.facts.clone())
    }

    /// The time from which on a channel is kept: what is older has expired.
    fn floor(&self, known: &VerifiedChannel) -> i64 {
        self.facts.expired_before(self.team(), &known.channel).unwrap_or_else(zero).micros()
    }

    fn location(&self, known: &VerifiedChannel) -> ChannelOfTeam {
        ChannelOfTeam { team: known.team.clone(), channel: known.channel.clone() }
    }

    fn team(&self) -> &TeamId {
        self.calls.team()
    }
}

/// No page is begun this long after the one before: far longer than a page takes, because the budget counts pages.
const ONE_PAGE: std::time::Duration = std::time::Duration::from_secs(600);
