//! Checks that the statistician's daily figures match the archive at the end, despite all faults.

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

use super::fleet::SimulationState;
use super::world::Invariant;

/// Covers a poll each minute, the queue delay, ten minutes for lost jobs, and a wrong clock.
const COUNTED_WITHIN: Duration = Duration::from_secs(3 * 3_600);

/// Interval between two checks for uncounted days.
const BETWEEN_CHECKS: Duration = Duration::from_secs(10);

/// A clock that is three days ahead: every day of the run is over, so every change is a late one.
struct DaysLater(SharedClock);

impl Clock for DaysLater {
    fn now(&self) -> TimestampMs {
        self.0.now().plus(Duration::from_secs(3 * 86_400))
    }
}

/// Returns the statistician of a process.
pub(super) fn statistician(ports: &Ports, changes: &Arc<dyn Changes>) -> Arc<dyn Worker> {
    let ports = Ports { clock: Arc::new(DaysLater(Arc::clone(&ports.clock))), ..ports.clone() };
    Arc::new(Statistician::new(ports, Arc::clone(changes)))
}

/// Waits until the statistician has counted everything, and compares its figures with a recount.
pub(super) async fn check_figures(all: &SimulationState) {
    let began = Instant::now();
    loop {
        match compare(all).await {
            Ok(None) => return,
            Ok(Some(what)) if began.elapsed() > COUNTED_WITHIN => {
                return all.world.report_violation(Invariant::Archive, what);
            }
            Ok(Some(_)) => sleep(BETWEEN_CHECKS).await,
            Err(error) => {
                return all
                    .world
                    .report_violation(Invariant::Bounded, format!("the roll-ups cannot be read: {error}"));
            }
        }
    }
}

/// Describes the first day that is not counted or counted wrongly.
async fn compare(all: &SimulationState) -> Result<Option<String>, ArchiveError> {
    let Ok(team) = TeamId::parse(TEAM) else { return Ok(None) };
    let archive = &*all.archive;
    let state = archive.item(&ItemKey::figures_state()).as_ref().map(FiguresState::read).unwrap_or_default();
    let behind = archive.backlog_estimate(state.cursor.as_ref()).await?;
    let due = query_all(archive as &dyn Archive, Query::partition(key::rollups_due(&team))).await?;
    if behind != Some(0) || !due.is_empty() {
        return Ok(Some(format!(
            "{behind:?} changes are not followed, and {} days are not counted",
            due.len()
        )));
    }
    let messages = archive.items().into_iter().filter_map(|row| ChangedSpan::for_row(&row.key));
    let days: BTreeSet<ChannelDay> = messages
        .filter_map(|ChangedSpan { team, channel, day }| {
            Some(ChannelDay { team, channel, day: RollupDay::from_date(day?)? })
        })
        .collect();
    for day in days {
        let row = archive.item(&day.rollup_key());
        let counted = row.as_ref().and_then(rollup::figures);
        // Whether an author is an app may become known later; readers check that themselves.
        if counted.as_ref().map(|counted| counted.basis) != Some(count_day(archive, &day).await?.basis) {
            return Ok(Some(format!("{day:?} is {counted:?}, which a recount does not confirm")));
        }
    }
    Ok(None)
}
