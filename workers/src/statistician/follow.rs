//! Finds the days to count: those that have closed, and those with changes since.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};
use ports::archive::{
    Archive, ArchiveError, ArchiveExt, Item, ItemKey, Query, Update, WriteOutcome, key, query_all,
};
use ports::changes::{ChangeCursor, ChangedSpan};
use ports::clock::TimestampMs;
use ports::queue::{Outgoing, QueueError};
use reader::figures::rollups::{channels_of, first_day_with_rows};
use reader::find;
use rules::figures::rollup::{self, ChannelDay, DayJob, FiguresState, RollupDay};
use slack::ids::{ChannelId, TeamId};

use super::worker::Statistician;
use crate::failure::PortError;

/// Changes read in one batch.
const BATCH: usize = 1_000;

/// Days that are gathered before they are requested: batches of new messages repeatedly name the same days.
const GATHERED: usize = 2_000;

/// Days requested in one call.
const AT_ONCE: usize = 100;

/// Channels whose days are looked up at once when a day closes, which is a query for each channel. A cell of 500 workspaces
/// has tens of thousands of them, and DynamoDB answers a query in milliseconds.
const LOOKED_UP_AT_ONCE: usize = 8;

/// A count requested this long ago has lost its job: the process died between writing the row and sending the
/// job.
const LOST_AFTER_MS: i64 = 10 * 60 * 1_000;

/// Lost jobs that one poll sends again; the next poll sends the rest.
const MAX_LOST: usize = 1_000;

/// The changes gathered since a cursor.
struct Gathered {
    spans: BTreeSet<ChangedSpan>,
    next: Option<ChangeCursor>,
    /// The position of the cursor is no longer known: everything is counted again.
    is_lost: bool,
    /// Whether there were no further changes.
    is_all: bool,
}

impl Statistician {
    /// Requests counts of all days that have closed or changed since the last poll. The position is stored in
    /// one row: days are requested before it advances, so days that a crash skipped are found again.
    pub(super) async fn follow(&self) -> Result<(), PortError> {
        let archive = &*self.ports.archive;
        loop {
            let row = archive.get(&ItemKey::figures_state()).await?;
            let state = row.as_ref().map(FiguresState::read).unwrap_or_default();
            // Never use a clock that is behind another process's: a closed day stays closed.
            let closed = RollupDay::closed_at(self.ports.clock.now()).max(state.closed);
            let Some(closed) = closed else { return Ok(()) };
            let gathered = self.gather(state.cursor.as_ref()).await?;
            let mut days = self.days_of(&gathered.spans, closed).await?;
            if gathered.is_lost {
                days.extend(self.counted_days().await?);
            } else if state.cursor.is_some() && state.closed < Some(closed) {
                days.extend(self.closing_days(state.closed, closed).await?);
            }
            self.request_and_send(&days).await?;
            if gathered.next == state.cursor && state.closed == Some(closed) {
                return Ok(());
            }
            let advanced = archive.write(&state.advance(gathered.next.as_ref(), Some(closed))).await?;
            let is_ours = advanced == WriteOutcome::Applied;
            if gathered.is_all && is_ours && !gathered.is_lost {
                return Ok(());
            }
        }
    }

    /// Reads changes from a cursor until there are no more, or enough.
    async fn gather(&self, cursor: Option<&ChangeCursor>) -> Result<Gathered, ArchiveError> {
        let mut gathered =
            Gathered { spans: BTreeSet::new(), next: cursor.cloned(), is_lost: false, is_all: false };
        while gathered.spans.len() < GATHERED {
            let Some(batch) = self.changes.spans_since(gathered.next.as_ref(), BATCH).await? else {
                gathered.is_lost = true;
                gathered.next = None;
                break;
            };
            gathered.is_all = batch.is_all;
            let is_long = batch.spans.iter().any(|span| span.day.is_none());
            gathered.spans.extend(batch.spans);
            gathered.next = Some(batch.next);
            // Counting whole channels takes long, and progress should be saved. Changes written meanwhile are
            // left to the next poll, so that a backlog is not followed batch by batch.
            if is_long || gathered.is_all {
                break;
            }
        }
        Ok(gathered)
    }

    /// The closed days of these parts of channels.
    async fn days_of(
        &self,
        spans: &BTreeSet<ChangedSpan>,
        closed: RollupDay,
    ) -> Result<BTreeSet<ChannelDay>, ArchiveError> {
        let mut days = BTreeSet::new();
        for ChangedSpan { team, channel, day } in spans {
            match day {
                Some(date) => {
                    let day = RollupDay::from_date(*date).filter(|day| *day <= closed);
                    days.extend(day.map(|day| ChannelDay {
                        team: team.clone(),
                        channel: channel.clone(),
                        day,
                    }));
                }
                None => days.extend(self.days_with_rows(team, channel, RollupDay::FIRST, closed).await?),
            }
        }
        Ok(days)
    }

    /// The days of a channel with rows, from one day to another, inclusive.
    async fn days_with_rows(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        from: RollupDay,
        until: RollupDay,
    ) -> Result<Vec<ChannelDay>, ArchiveError> {
        let archive = &*self.ports.archive;
        let mut days = Vec::new();
        let mut from = Some(from);
        while let Some(day) = from {
            let Some(day) = first_day_with_rows(archive, team, channel, day, until).await? else { break };
            days.push(ChannelDay { team: team.clone(), channel: channel.clone(), day });
            from = day.next().filter(|next| *next <= until);
        }
        Ok(days)
    }

    /// Every channel of the archive.
    async fn channels(&self) -> Result<Vec<(TeamId, ChannelId)>, ArchiveError> {
        let archive = &*self.ports.archive;
        let mut channels = Vec::new();
        for team in find::teams(archive).await? {
            let of_team = channels_of(archive, &team).await?;
            channels.extend(of_team.into_iter().map(|channel| (team.clone(), channel)));
        }
        Ok(channels)
    }

    /// The days that have closed since the last poll.
    async fn closing_days(
        &self,
        closed_before: Option<RollupDay>,
        closed: RollupDay,
    ) -> Result<BTreeSet<ChannelDay>, ArchiveError> {
        let from = closed_before.map_or(Some(RollupDay::FIRST), RollupDay::next);
        let Some(from) = from else { return Ok(BTreeSet::new()) };
        let days = stream::iter(self.channels().await?)
            .map(|(team, channel)| async move { self.days_with_rows(&team, &channel, from, closed).await });
        let days: Vec<Vec<ChannelDay>> = days.buffered(LOOKED_UP_AT_ONCE).try_collect().await?;
        Ok(days.into_iter().flatten().collect())
    }

    /// The days that have a roll-up.
    async fn counted_days(&self) -> Result<BTreeSet<ChannelDay>, ArchiveError> {
        let mut days = BTreeSet::new();
        for (team, channel) in self.channels().await? {
            let rows =
                query_all(&*self.ports.archive, Query::partition(key::rollups(&team, &channel))).await?;
            days.extend(rows.iter().filter_map(|row| ChannelDay::from_rollup_key(&team, &channel, &row.key)));
        }
        Ok(days)
    }

    /// Requests counts, and sends their jobs.
    async fn request_and_send(&self, days: &BTreeSet<ChannelDay>) -> Result<(), PortError> {
        let days: Vec<&ChannelDay> = days.iter().collect();
        for days in days.chunks(AT_ONCE) {
            request_counts(&*self.ports.archive, days, self.ports.clock.now()).await?;
            self.send(days.iter().map(|day| DayJob((*day).clone())).collect()).await?;
        }
        Ok(())
    }

    async fn send(&self, jobs: Vec<DayJob>) -> Result<(), QueueError> {
        let now = self.ports.clock.now();
        let jobs: Vec<Outgoing> = jobs.iter().map(|job| job.outgoing(now)).collect();
        self.ports.queue.send(jobs).await.into_iter().collect()
    }

    /// Sends the jobs of counts that were requested long ago.
    pub(super) async fn send_lost(&self) -> Result<(), PortError> {
        let archive = &*self.ports.archive;
        let now = self.ports.clock.now();
        for team in find::teams(archive).await? {
            let query = Query { limit: MAX_LOST, ..Query::partition(key::rollups_due(&team)) };
            let due = archive.query(&query).await?.items;
            let is_lost = |due: &&Item| now.0 - rollup::requested_at(due).0 > LOST_AFTER_MS;
            let lost = due.iter().filter(is_lost).filter_map(|due| ChannelDay::from_due_key(&team, &due.key));
            let lost: Vec<DayJob> = lost.map(DayJob).collect();
            if !lost.is_empty() {
                tracing::info!(%team, days = lost.len(), "requeued days whose job was lost");
                self.send(lost).await?;
            }
        }
        Ok(())
    }
}

/// Requests a count of each of these days.
pub(crate) async fn request_counts(
    archive: &dyn Archive,
    days: &[&ChannelDay],
    now: TimestampMs,
) -> Result<(), ArchiveError> {
    let mut remaining: Vec<&ChannelDay> = days.to_vec();
    while !remaining.is_empty() {
        let keys: Vec<ItemKey> = remaining.iter().flat_map(|day| [day.due_key(), day.rollup_key()]).collect();
        let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        let pairs = remaining.iter().zip(rows.chunks(2));
        let requests: Vec<Update> = pairs
            .map(|(day, rows)| {
                let row = |index: usize| rows.get(index).and_then(Option::as_ref);
                day.request_count(row(0), row(1), now)
            })
            .collect();
        let outcomes = archive.write_all(&requests.iter().collect::<Vec<_>>()).await;
        let mut rejected = Vec::new();
        for (day, outcome) in remaining.into_iter().zip(outcomes) {
            // Another process requested or completed a count in between.
            if outcome? != WriteOutcome::Applied {
                rejected.push(day);
            }
        }
        remaining = rejected;
    }
    Ok(())
}
