//! Channels: their states, their bookmarks and members, and their names in the ChannelIndex.

use ports::archive::{ArchiveError, ArchiveExt, Item, Query, WriteOutcome, key, query_all};
use rules::channel::index;
use slack::ids::{ChannelId, TeamId};

use super::{Eraser, EraserCounts};
use crate::failure::PortError;

/// Each round except the last means that another writer changed the index first.
const MAX_ROUNDS: usize = 16;

impl Eraser<'_> {
    /// Erases the states of a channel. If a state came after the erasure, the name it gave the channel stays.
    pub(super) async fn channel(
        &self,
        team: &TeamId,
        channel: &ChannelId,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let states = query_all(self.archive, Query::partition(key::channels(team, channel))).await?;
        self.read(&mut counts, &states);
        let mut is_gone = true;
        for state in states.iter().filter(|state| !state.is_erased()) {
            if self.is_due(state) {
                counts.states += 1;
                counts.erased(state);
                self.erase(&state.key).await?;
            } else {
                is_gone = false;
            }
        }
        let members = query_all(self.archive, Query::partition(key::members(team, channel))).await?;
        self.read(&mut counts, &members);
        for day in members.iter().filter(|day| self.is_due(day)) {
            counts.erased(day);
            self.erase(&day.key).await?;
        }
        for partition in [key::bookmarks(team, channel), key::memberships(team, channel)] {
            let rows = query_all(self.archive, Query::partition(partition)).await?;
            self.read(&mut counts, &rows);
            for row in rows.iter().filter(|row| self.covered.covers_row(row)) {
                counts.erased(row);
                self.erase(&row.key).await?;
            }
        }
        if is_gone && self.acts() {
            self.forget_name(team, channel).await?;
        }
        Ok(counts)
    }

    /// Whether a state or a member count is covered, or was there before its time.
    fn is_due(&self, row: &Item) -> bool {
        self.covered.covers_row(row) || (!row.is_erased() && self.ahead.states.contains(&row.key))
    }

    async fn forget_name(&self, team: &TeamId, channel: &ChannelId) -> Result<(), ArchiveError> {
        for _ in 0..MAX_ROUNDS {
            let shards = query_all(self.archive, Query::partition(key::channel_index(team))).await?;
            let updates = index::plan_removal(team, index::shards(&shards), channel);
            if updates.is_empty() {
                return Ok(());
            }
            for update in &updates {
                // If another write came first, the next round sees it.
                if let WriteOutcome::Rejected(_) = self.archive.write(update).await? {
                    break;
                }
            }
        }
        Err(ArchiveError::Unavailable("the channel index keeps changing".into()))
    }
}
