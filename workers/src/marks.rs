//! Marks: rows that only say that something was seen. Their presence may be remembered, that of a public mark for a while,
//! since a person may take it back; their absence is asked for every time.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update, WriteOutcome};
use rules::public_mark::{self, MarkState, PublicMark};
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::Instant;

/// Marks remembered. Beyond it everything is forgotten and asked for again.
const MAX_REMEMBERED: usize = 100_000;

/// How long a public mark is remembered, and so how long a process goes on after it was taken back.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The marks a process has seen set.
#[derive(Default)]
pub(crate) struct Marks {
    teams: Mutex<HashSet<TeamId>>,
    /// Keys of public marks, with when they were read.
    public: Mutex<HashMap<ItemKey, Instant>>,
}

impl Marks {
    /// Lists a workspace, so that readers find it without scanning. It is never taken off the list.
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

    /// Marks a channel as public, as an event of this clock shows it.
    pub(crate) async fn open(
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
            } else if MarkState::of(Some(&row)) != MarkState::Public {
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
        let mark = PublicMark::of(archive.get(&key).await?.as_ref());
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
