//! Figures about erased content: stored reports, first posts, and roll-ups, which are counted again.

use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{ArchiveError, ArchiveExt, Item, ItemKey, Query, key, query_all};
use ports::clock::TimestampMs;
use rules::figures::rollup::{self, ChannelDay, RollupDay};
use slack::ids::{ChannelId, TeamId};

use super::{Eraser, EraserCounts, channels_of};
use crate::failure::PortError;
use crate::statistician;

/// Days requested in one call.
const AT_ONCE: usize = 100;

/// The statistician treats a request of this time as lost, and counts the day on its next poll.
const LONG_AGO: TimestampMs = TimestampMs(0);

impl Eraser<'_> {
    /// Removes the figures. It runs after the messages are erased, so that figures counted meanwhile exclude
    /// them.
    pub(super) async fn figures(&self, team: &TeamId) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let reports = query_all(self.archive, Query::partition(key::reports(team))).await?;
        self.read(&mut counts, &reports);
        counts.reports = reports.len() as u64;
        if self.acts() {
            statistician::remove_reports(self.archive, team).await?;
            self.first_posts(team, &mut counts).await?;
        }
        for channel in channels_of(self.archive, team).await? {
            let rollups = query_all(self.archive, Query::partition(key::rollups(team, &channel))).await?;
            self.read(&mut counts, &rollups);
            let touched: Vec<&Item> =
                rollups.iter().filter(|rollup| self.is_touched(team, &channel, rollup)).collect();
            for touched in touched.chunks(AT_ONCE).filter(|_| self.acts()) {
                self.count_again(team, &channel, touched).await?;
            }
        }
        Ok(counts)
    }

    /// Whether a roll-up may contain erased content.
    fn is_touched(&self, team: &TeamId, channel: &ChannelId, rollup: &Item) -> bool {
        let facts = self.facts.iter().filter(|fact| fact.team == *team);
        let channel_day = ChannelDay::from_rollup_key(team, channel, &rollup.key);
        facts.into_iter().any(|ErasureFact { scope, .. }| match scope {
            ErasureScope::User(user) => rollup::may_name_user(rollup, user),
            ErasureScope::Channel(id) => id == channel,
            ErasureScope::Message(id, ts) => {
                id == channel
                    && channel_day.as_ref().map(|channel_day| channel_day.day) == RollupDay::from_ts(ts)
            }
        })
    }

    /// Requests a recount of these roll-ups and empties them. Until they are counted again, readers count the
    /// messages.
    async fn count_again(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        rollups: &[&Item],
    ) -> Result<(), ArchiveError> {
        let days: Vec<ChannelDay> = rollups
            .iter()
            .filter_map(|rollup| ChannelDay::from_rollup_key(team, channel, &rollup.key))
            .collect();
        statistician::request_counts(self.archive, &days.iter().collect::<Vec<_>>(), LONG_AGO).await?;
        let emptied: Vec<_> = rollups.iter().map(|rollup| rollup::without_figures(rollup)).collect();
        // A roll-up that was counted meanwhile was counted without the erased messages.
        for outcome in self.archive.write_all(&emptied.iter().collect::<Vec<_>>()).await {
            outcome?;
        }
        Ok(())
    }

    /// Marks the first posts of people as unsure if their first message is erased.
    async fn first_posts(&self, team: &TeamId, counts: &mut EraserCounts) -> Result<(), ArchiveError> {
        let rows = query_all(self.archive, Query::partition(key::first_posts(team))).await?;
        self.read(counts, &rows);
        let first_posts: Vec<(&Item, ItemKey)> = rows
            .iter()
            .filter_map(|row| {
                let (channel, ts) = rollup::first_post(row)?;
                Some((row, ItemKey::message(team, &channel, &ts)))
            })
            .collect();
        for first_posts in first_posts.chunks(AT_ONCE) {
            let keys: Vec<&ItemKey> = first_posts.iter().map(|(_, key)| key).collect();
            let messages = self.archive.get_all(&keys).await?;
            for ((row, _), message) in first_posts.iter().zip(messages) {
                if message.is_none_or(|message| message.is_erased()) {
                    self.archive.write(&rollup::unsure_first_post(row)).await?;
                }
            }
        }
        Ok(())
    }
}
