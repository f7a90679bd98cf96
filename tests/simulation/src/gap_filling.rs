//! The historian fills every gap that has ended, beside everything that goes wrong or after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey};
use process::config::backfill::BackfillMode;
use reader::{gaps, history};
use rules::gap::Reason;
use rules::gap::closing::{GapState, HistoryFacts};
use rules::gap::projection::Gap;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::TEAM;
use tokio::time::{Instant, sleep};

use super::fleet::Surroundings;
use super::history::{says, shown};
use super::model::ModelPlace;
use super::operator::until_idle;
use super::schedule::Life;
use super::supervisor::drain;
use super::world::Invariant;

/// The first look comes 30 s after a start and the next ones after five minutes each; one of them may find that its jobs still
/// wait, and another that a channel goes on under another id.
const FILLED_WITHIN: Duration = Duration::from_secs(1_800);

/// Between two readings of the gaps.
const BETWEEN_READINGS: Duration = Duration::from_secs(10);

/// Gaps and what was read of them.
struct Filling {
    gaps: Vec<Gap>,
    facts: HistoryFacts,
    marked: Vec<ChannelId>,
}

/// Lets a process that fills gaps run until they are filled. Everything had happened by then, so each gap has all of it.
pub(super) async fn fill(all: &Surroundings, channels: usize) {
    let life = Life::new("historian".into(), 0);
    let mut running = all.start(&life, BackfillMode::Gaps);
    wait(all).await;
    until_idle(all).await;
    drain(all, &life, &mut running).await;
    life.die();
    match Filling::read(all).await {
        Ok(filling) => filling.check_filled(all, &shown(&all.truth, channels)),
        Err(error) => all.world.broke(Invariant::Bounded, format!("the gaps cannot be read: {error}")),
    }
}

/// Waits until every gap is filled that can be.
pub(super) async fn wait(all: &Surroundings) {
    let began = Instant::now();
    loop {
        let left = match Filling::read(all).await {
            Ok(filling) => filling.left(all),
            Err(error) => Some(error.to_string()),
        };
        let Some(left) = left else { return };
        if began.elapsed() > FILLED_WITHIN {
            let what = format!("{left}, {} s after the faults", FILLED_WITHIN.as_secs());
            return all.world.broke(Invariant::Lost, what);
        }
        sleep(BETWEEN_READINGS).await;
    }
}

impl Filling {
    async fn read(all: &Surroundings) -> Result<Self, ArchiveError> {
        let team = TeamId::parse(TEAM).map_err(|error| ArchiveError::Unavailable(error.to_string()))?;
        let archive = &*all.archive as &dyn Archive;
        let gaps = gaps::read(archive, &team).await?;
        let facts = history::facts(archive, &team, &gaps).await?;
        Ok(Self { gaps, facts, marked: history::marked(archive, &team).await? })
    }

    /// Channels whose history is not read: the app has left them and is not known to be back, Slack does not show them, or they
    /// are not kept.
    fn unread(&self, all: &Surroundings) -> BTreeSet<&ChannelId> {
        let of_gaps = self.gaps.iter().filter_map(|gap| gap.channel.as_ref());
        let left = self.gaps.iter().filter(|gap| gap.to.is_none()).filter_map(|gap| gap.channel.as_ref());
        let is_hidden = |channel: &&ChannelId| {
            let answer = all.truth.ask("conversations.history", &[("channel", channel.as_str())]);
            answer["ok"] != true || !self.marked.contains(channel)
        };
        self.marked.iter().chain(of_gaps).filter(is_hidden).chain(left).collect()
    }

    /// What is wrong with the first gap that is neither open nor filled, apart from what cannot be read.
    fn left(&self, all: &Surroundings) -> Option<String> {
        let is_revoked = |gap: &Gap| gap.to.is_none() && gap.reason == Reason::Revoked;
        if self.gaps.iter().any(is_revoked) {
            return None;
        }
        let unread = self.unread(all);
        self.gaps.iter().find_map(|gap| {
            let (state, _) = self.facts.state(gap);
            let is_over = match state {
                GapState::Open | GapState::Filled => true,
                GapState::Missing => {
                    self.facts.lacking(gap).into_iter().all(|channel| unread.contains(channel))
                }
                GapState::Lost => false,
            };
            (!is_over).then(|| {
                let channels = self.facts.lacking(gap);
                format!("{gap:?} is {} in {channels:?}", state.as_str())
            })
        })
    }

    /// Of every gap, each channel that was read has what Slack shows of that time.
    fn check_filled(&self, all: &Surroundings, shown: &BTreeMap<ModelPlace, Value>) {
        for ((channel, ts), message) in shown {
            let (Ok(id), Ok(at)) = (ChannelId::parse(channel), Ts::parse(ts)) else { continue };
            let is_filled = self.gaps.iter().any(|gap| {
                let is_about_it = gap.channel.as_ref().is_none_or(|channel| *channel == id);
                let is_in_it = gap.interval().is_some_and(|time| time.contains(at.micros()));
                is_about_it && is_in_it && self.facts.rest(&id, gap).is_empty()
            });
            if !is_filled {
                continue;
            }
            let row = all.archive.item(&ItemKey::new(format!("message#{TEAM}#{channel}"), ts.as_str()));
            if !row.is_some_and(|row| row.is_erased() || says(&row, message)) {
                let what = format!("{ts} in {channel} is in a filled gap and not what Slack shows");
                all.world.broke(Invariant::Lost, what);
            }
        }
    }
}
