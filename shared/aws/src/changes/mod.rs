//! The changes port on the archive's table: parts of channels that writers have marked.
//!
//! `changes#{team}` / `{hour of the write}#{channel}#{day of the message}`. [`marking`] writes a mark before
//! the first row of its hour, and another one in the hour in which that row has been written. A pass reads
//! the marks of every hour since [`OVERLAP`] before the last pass: so the next pass contains a row whose
//! write was in progress, and clocks may differ. A follower without a cursor receives every archived channel.
//!
//! Marks expire after [`CHANGE_MARK_DAYS`]: 300 active channels make 7,200 marks a day, about $0.005 to write. A
//! follower that has fallen behind as far rebuilds what it has. The cost of a pass is the days that it reads again.

mod marking;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use ports::archive::rows::CHANGE_MARK_DAYS;
use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes, hour_of};
use ports::clock::{SharedClock, TimestampMs};
use slack::ids::{ChannelId, TeamId};

pub(super) use marking::MarkingArchive;

/// How far before the last pass marks are read again: longer than a write may take, even with a wrong clock
/// and a lost response.
const OVERLAP: Duration = Duration::from_secs(2 * 3600);

/// A follower that is behind by more than this may miss marks, because writers' clocks may be wrong by a day.
const BEHIND: Duration = Duration::from_secs((CHANGE_MARK_DAYS as u64 - 1) * 24 * 3600);

/// Whole channels per batch: each may have years of messages, and a follower's progress counts only once it
/// has read the complete batch.
const WHOLE_CHANNELS: usize = 1;

/// Channel days per batch: a follower reads this many in about half a minute.
const DAYS: usize = 1_000;

/// The changes port on the archive's table.
pub(super) struct DynamoChanges {
    archive: Arc<dyn Archive>,
    /// Identifies the archive: cursors of another archive are not valid here.
    identity: String,
    clock: SharedClock,
}

/// The content of a cursor: the position of a pass, or the start of the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    /// The archive that the cursor belongs to.
    identity: String,
    /// The first hour whose marks are read; `None`: all channels instead.
    from: Option<String>,
    /// The first hour of the next pass; `None` before the first call of this one.
    then: Option<String>,
    /// The row that was read last: its partition and its sort key.
    after: Option<(String, String)>,
}

impl DynamoChanges {
    /// Sends no request to DynamoDB yet.
    pub(super) fn new(archive: Arc<dyn Archive>, identity: String, clock: SharedClock) -> Self {
        Self { archive, identity, clock }
    }

    /// The hour that was this long ago.
    fn hour_before(&self, ago: Duration) -> String {
        let ago_ms = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        hour_of(TimestampMs(self.clock.now().0.saturating_sub(ago_ms)))
    }

    /// Whether marks that the pass must read may have expired.
    fn is_too_late(&self, pass: &Pass) -> bool {
        let first = pass.from.as_ref().or(pass.then.as_ref());
        first.is_some_and(|first| *first < self.hour_before(BEHIND))
    }

    async fn teams(&self) -> Result<Vec<TeamId>, ArchiveError> {
        let rows = query_all(&*self.archive, Query::partition(key::teams())).await?;
        Ok(rows.iter().filter_map(|row| TeamId::parse(&row.key.timestamp).ok()).collect())
    }

    /// Reads the spans of a workspace in this pass, until there are `limit` of them.
    async fn read(
        &self,
        team: &TeamId,
        pass: &mut Pass,
        spans: &mut BTreeSet<ChangedSpan>,
        limit: usize,
    ) -> Result<(), ArchiveError> {
        let partition = match pass.from {
            Some(_) => key::change_marks(team),
            None => key::public_marks(team),
        };
        let mut after = pass.from.clone();
        match &pass.after {
            Some((last, _)) if *last > partition => return Ok(()),
            Some((last, sort_key)) if *last == partition => after = Some(sort_key.clone()),
            Some(_) | None => {}
        }
        while spans.len() < limit {
            let query = Query {
                after: after.map(|after| ItemKey::new(partition.clone(), after)),
                limit: limit - spans.len(),
                ..Query::partition(partition.clone())
            };
            let page = self.archive.query(&query).await?;
            for row in &page.items {
                spans.extend(match pass.from {
                    Some(_) => ChangedSpan::from_mark(&row.key),
                    None => ChannelId::parse(&row.key.timestamp)
                        .ok()
                        .map(|channel| ChangedSpan::whole(team.clone(), channel)),
                });
                pass.after = Some((partition.clone(), row.key.timestamp.clone()));
            }
            match page.next {
                Some(next) => after = Some(next.timestamp),
                None => break,
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Changes for DynamoChanges {
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError> {
        let mut pass = match cursor.map(|cursor| serde_json::from_str::<Pass>(cursor.as_str())) {
            Some(Ok(pass)) if pass.identity == self.identity && !self.is_too_late(&pass) => pass,
            Some(_) => return Ok(ChangeBatch::Rebuild),
            None => Pass { identity: self.identity.clone(), from: None, then: None, after: None },
        };
        // Even if the clock is set back, no pass begins earlier than the previous one.
        let then = pass
            .then
            .take()
            .unwrap_or_else(|| self.hour_before(OVERLAP).max(pass.from.clone().unwrap_or_default()));
        let limit = limit.clamp(1, if pass.from.is_some() { DAYS } else { WHOLE_CHANNELS });
        let mut spans = BTreeSet::new();
        for team in self.teams().await? {
            self.read(&team, &mut pass, &mut spans, limit).await?;
        }
        let next = if spans.is_empty() {
            Pass { from: Some(then), then: None, after: None, ..pass }
        } else {
            Pass { then: Some(then), ..pass }
        };
        // Strings always serialise.
        let next = ChangeCursor::new(serde_json::to_string(&next).unwrap_or_default());
        Ok(ChangeBatch::Spans { spans: spans.into_iter().collect(), next })
    }

    /// Unknown: a mark does not contain the number of messages it covers.
    async fn backlog_estimate(&self, _cursor: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
