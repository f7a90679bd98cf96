//! The statistician counts every day as it is in the end, beside everything that goes wrong.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::changes::{ChangedSpan, Changes};
use ports::clock::{Clock, SharedClock, TimestampMs};
use reader::figures::counting::count_day;
use rules::figures::rollup::{self, ChannelDay, FiguresState, RollupDay};
use slack::ids::TeamId;
use testkit::corpus::TEAM;
use tokio::time::{Instant, sleep};
use workers::runtime::{Ports, Worker};
use workers::statistician::Statistician;

use super::fleet::Surroundings;
use super::world::Invariant;

/// A look each minute, the delay of the queue, ten minutes for jobs that were lost, and a clock that was wrong.
const COUNTED_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// Between two looks at what is still to be counted.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// The clock of three days later: for it, every day is over, so that every change is a late one.
struct DaysLater(SharedClock);

impl Clock for DaysLater {
    fn now(&self) -> TimestampMs {
        self.0.now().plus(Duration::from_secs(3 * 86_400))
    }
}

/// The statistician of a process.
pub(super) fn statistician(ports: &Ports, changes: &Arc<dyn Changes>) -> Arc<dyn Worker> {
    let ports = Ports { clock: Arc::new(DaysLater(Arc::clone(&ports.clock))), ..ports.clone() };
    Arc::new(Statistician::new(ports, Arc::clone(changes)))
}

/// Waits until everything was counted, and counts it again.
pub(super) async fn judge(all: &Surroundings) {
    let began = Instant::now();
    loop {
        match compare(all).await {
            Ok(None) => return,
            Ok(Some(what)) if began.elapsed() > COUNTED_WITHIN => {
                return all.world.broke(Invariant::Archive, what);
            }
            Ok(Some(_)) => sleep(BETWEEN_LOOKS).await,
            Err(error) => {
                return all.world.broke(Invariant::Bounded, format!("the roll-ups cannot be read: {error}"));
            }
        }
    }
}

/// What is not counted yet, or counted wrongly.
async fn compare(all: &Surroundings) -> Result<Option<String>, ArchiveError> {
    let Ok(team) = TeamId::parse(TEAM) else { return Ok(None) };
    let archive = &*all.archive;
    let state = archive.item(&ItemKey::figures_state()).as_ref().map(FiguresState::read).unwrap_or_default();
    let behind = archive.behind(state.cursor.as_ref()).await?;
    let due = query_all(archive as &dyn Archive, Query::partition(key::rollups_due(&team))).await?;
    if behind != Some(0) || !due.is_empty() {
        return Ok(Some(format!("{behind:?} changes are not followed, and {} days not counted", due.len())));
    }
    let messages = archive.items().into_iter().filter_map(|row| ChangedSpan::of(&row.key));
    let days: BTreeSet<ChannelDay> = messages
        .filter_map(|ChangedSpan { team, channel, day }| {
            Some(ChannelDay { team, channel, day: RollupDay::of(day?)? })
        })
        .collect();
    for day in days {
        let row = archive.item(&day.rollup_key());
        let counted = row.as_ref().and_then(rollup::figures);
        // Which of the authors are apps may have become known later; readers look at that.
        if counted.as_ref().map(|counted| counted.basis) != Some(count_day(archive, &day).await?.basis) {
            return Ok(Some(format!("{day:?} is {counted:?} and not what a recount finds")));
        }
    }
    Ok(None)
}
