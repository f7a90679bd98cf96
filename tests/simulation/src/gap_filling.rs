//! The historian fills every gap that has ended, during the faults or afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey};
use reader::{gaps, history};
use rules::filled::UnreadableReason;
use rules::gap::GapReason;
use rules::gap::closing::{GapState, HistoryFacts};
use rules::gap::projection::Gap;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::TEAM;
use tokio::time::{Instant, sleep};
use workers::historian::BackfillMode;

use super::fleet::SimulationState;
use super::history::{row_matches, shown};
use super::model::MessageLocation;
use super::operator::wait_until_idle;
use super::schedule::Life;
use super::supervisor::drain;
use super::world::Invariant;

/// A workspace is looked at every five minutes. A turn that a killed process had not sent yet is sent after twenty
/// minutes, and another turn may find that a channel continues under another id.
const FILLED_WITHIN: Duration = Duration::from_secs(1_800);

/// Interval between two readings of the gaps.
const BETWEEN_READINGS: Duration = Duration::from_secs(10);

/// The gaps and the history that was read for them.
struct Filling {
    gaps: Vec<Gap>,
    facts: HistoryFacts,
    marked: Vec<ChannelId>,
}

/// Runs a process that fills gaps until all are filled. All events have happened by then, so each filled gap
/// is complete.
pub(super) async fn fill_gaps(all: &SimulationState, channels: usize) {
    let life = Life::new("historian".into(), 0);
    let mut running = all.start(&life, BackfillMode::Gaps);
    wait_until_filled(all).await;
    wait_until_idle(all).await;
    drain(all, &life, &mut running).await;
    life.die();
    match Filling::read(all).await {
        Ok(filling) => filling.check_filled(all, &shown(&all.truth, channels)),
        Err(error) => {
            all.world.report_violation(Invariant::Bounded, format!("the gaps cannot be read: {error}"))
        }
    }
}

/// Waits until every gap that can be filled is filled.
pub(super) async fn wait_until_filled(all: &SimulationState) {
    let began = Instant::now();
    loop {
        let left = match Filling::read(all).await {
            Ok(filling) => filling.left(all),
            Err(error) => Some(error.to_string()),
        };
        let Some(left) = left else { return };
        if began.elapsed() > FILLED_WITHIN {
            let what = format!("{left}, {} s after the faults", FILLED_WITHIN.as_secs());
            return all.world.report_violation(Invariant::Lost, what);
        }
        sleep(BETWEEN_READINGS).await;
    }
}

impl Filling {
    async fn read(all: &SimulationState) -> Result<Self, ArchiveError> {
        let team = TeamId::parse(TEAM).map_err(|error| ArchiveError::Unavailable(error.to_string()))?;
        let archive = &*all.archive as &dyn Archive;
        let gaps = gaps::read(archive, &team).await?;
        let facts = history::facts(archive, &team, &gaps).await?;
        Ok(Self { gaps, facts, marked: history::channels_with_public_mark(archive, &team).await? })
    }

    /// Channels whose history is not read: the app left them and is not known to be back, Slack does not show
    /// them or did not for a while, or they have no public mark.
    fn unread(&self, all: &SimulationState) -> BTreeSet<&ChannelId> {
        let of_gaps = self.gaps.iter().filter_map(|gap| gap.channel.as_ref());
        let left = self.gaps.iter().filter(|gap| gap.to.is_none()).filter_map(|gap| gap.channel.as_ref());
        let is_hidden = |channel: &&ChannelId| {
            let answer =
                all.truth.answer_without_faults("conversations.history", &[("channel", channel.as_str())]);
            answer["ok"] != true || !self.marked.contains(channel)
        };
        let was_hidden = all.world.tally().hidden_histories > 0;
        let waits = |channel: &&ChannelId| {
            was_hidden && UnreadableReason::ALL.iter().any(|reason| self.facts.is_refused(channel, *reason))
        };
        self.marked
            .iter()
            .chain(of_gaps)
            .filter(|channel| is_hidden(channel) || waits(channel))
            .chain(left)
            .collect()
    }

    /// Describes the first gap that is neither open nor filled, ignoring channels that cannot be read.
    fn left(&self, all: &SimulationState) -> Option<String> {
        let is_revoked = |gap: &Gap| gap.to.is_none() && gap.reason == GapReason::Revoked;
        if self.gaps.iter().any(is_revoked) {
            return None;
        }
        let unread = self.unread(all);
        self.gaps.iter().find_map(|gap| {
            let (state, _) = self.facts.state(gap);
            let is_over = match state {
                GapState::Open | GapState::Filled => true,
                GapState::Missing => {
                    self.facts.lacking_channels(gap).into_iter().all(|channel| unread.contains(channel))
                }
                GapState::Lost => false,
            };
            (!is_over).then(|| {
                let channels = self.facts.lacking_channels(gap);
                format!("{gap:?} is {} in {channels:?}", state.as_str())
            })
        })
    }

    /// Checks that each channel that was read for a gap has every message that Slack shows for the gap's
    /// interval.
    fn check_filled(&self, all: &SimulationState, shown: &BTreeMap<MessageLocation, Value>) {
        for ((channel, ts), message) in shown {
            let (Ok(id), Ok(at)) = (ChannelId::parse(channel), Ts::parse(ts)) else { continue };
            let is_filled = self.gaps.iter().any(|gap| {
                let covers_channel = gap.channel.as_ref().is_none_or(|channel| *channel == id);
                let covers_time = gap.interval().is_some_and(|interval| interval.contains(at.micros()));
                covers_channel && covers_time && self.facts.missing_intervals(&id, gap).is_empty()
            });
            if !is_filled {
                continue;
            }
            let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
            if !row.is_some_and(|row| row.is_erased() || row_matches(&row, message)) {
                let what = format!("{ts} in {channel} is in a filled gap but differs from what Slack shows");
                all.world.report_violation(Invariant::Lost, what);
            }
        }
    }
}
