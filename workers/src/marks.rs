//! Marks: rows that only record that something was seen. An existing mark may be cached (a public mark only
//! for a while, because a person may revoke it); a missing one is read every time.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update, WriteOutcome};
use rules::public_mark::{self, MarkState, PublicMark};
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::Instant;

/// Maximum number of cached marks. At the limit, the cache is cleared.
const MAX_REMEMBERED: usize = 100_000;

/// How long a public mark is cached, and so how long a process may continue to use it after it was revoked.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The marks that this process has seen.
#[derive(Default)]
pub(crate) struct Marks {
    teams: Mutex<HashSet<TeamId>>,
    /// Keys of public marks, with the time when they were read.
    public: Mutex<HashMap<ItemKey, Instant>>,
}

impl Marks {
    /// Adds a workspace to the list of workspaces, so that readers find it without scanning. It is never
    /// removed.
    pub(crate) async fn note_team(&self, archive: &dyn Archive, team: &TeamId) -> Result<(), ArchiveError> {
        if self.teams.lock().unwrap_or_else(PoisonError::into_inner).contains(team) {
            return Ok(());
        }
        archive.write(&Update::mark(ItemKey::team(team))).await?;
        let mut known = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(team.clone());
        Ok(())
    }

    /// Marks a channel as public, as shown by an event with this clock.
    pub(crate) async fn mark_public(
        &self,
        archive: &dyn Archive,
        team: &TeamId,
        channel: &ChannelId,
        clock: &Ts,
    ) -> Result<(), ArchiveError> {
        let key = ItemKey::public_mark(team, channel);
        if self.remembers(&key) {
            return Ok(());
        }
        if let WriteOutcome::Rejected(row) = archive.write(&public_mark::opening(team, channel)).await? {
            if let Some(update) = public_mark::opened(team, channel, Some(&row), clock) {
                archive.write(&update).await?;
            } else if MarkState::from_row(Some(&row)) != MarkState::Public {
                return Ok(());
            }
        }
        self.remember(key);
        Ok(())
    }

    /// Reads the public mark of a channel.
    pub(crate) async fn read(
        &self,
        archive: &dyn Archive,
        team: &TeamId,
        channel: &ChannelId,
    ) -> Result<PublicMark, ArchiveError> {
        let key = ItemKey::public_mark(team, channel);
        if self.remembers(&key) {
            return Ok(PublicMark::public());
        }
        let mark = PublicMark::from_row(archive.get(&key).await?.as_ref());
        if mark.state() == MarkState::Public {
            self.remember(key);
        }
        Ok(mark)
    }

    fn remembers(&self, key: &ItemKey) -> bool {
        let known = self.public.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).is_some_and(|read| read.elapsed() < REMEMBERED_FOR)
    }

    fn remember(&self, key: ItemKey) {
        let mut known = self.public.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(key, Instant::now());
    }
}
