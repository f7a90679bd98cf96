//! Marks: rows that only record that something was seen. An existing mark may be cached (a public mark only
//! for a while, because a person may revoke it); a missing one is read every time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome};
use ports::recent::Recent;
use rules::public_mark::{self, MarkState, PublicMark};
use rules::schedule::{AppOnDay, WorkspaceRow};
use rules::visibility::VisibilityEvidence;
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::Instant;

/// Maximum number of cached marks. At the limit, the cache is cleared.
const MAX_REMEMBERED: usize = 100_000;

/// How long a public mark is cached, and so how long a process may continue to use it after it was revoked.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// Writes what these channels are known to be, if it is news. They must be channels that are kept.
pub(crate) async fn note_visibility(
    archive: &dyn Archive,
    evidence: &[VisibilityEvidence],
) -> Result<(), ArchiveError> {
    note_if(archive, evidence, |_| true).await
}

/// Does the same for those of these channels that have the public mark: the others may never have been public,
/// and nothing of them is stored.
pub(crate) async fn note_visibility_if_kept(
    archive: &dyn Archive,
    evidence: &[VisibilityEvidence],
) -> Result<(), ArchiveError> {
    note_if(archive, evidence, |row| MarkState::from_row(row) == MarkState::Public).await
}

async fn note_if(
    archive: &dyn Archive,
    evidence: &[VisibilityEvidence],
    is_kept: impl Fn(Option<&Item>) -> bool + Send,
) -> Result<(), ArchiveError> {
    if evidence.is_empty() {
        return Ok(());
    }
    let keys: Vec<ItemKey> = evidence.iter().map(VisibilityEvidence::key).collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let updates = evidence.iter().zip(&rows).filter(|(_, row)| is_kept(row.as_ref()));
    let updates: Vec<Update> = updates.filter_map(|(evidence, row)| evidence.update(row.as_ref())).collect();
    for outcome in archive.write_all(&updates.iter().collect::<Vec<_>>()).await {
        outcome?;
    }
    Ok(())
}

/// The marks that this process has seen.
pub(crate) struct Marks {
    /// The workspaces that have a row, with the app in it.
    teams: Recent<TeamId, Option<AppOnDay>>,
    public: Recent<ItemKey>,
    /// The greatest version of each visibility register that this process wrote or found, by whether it is the
    /// private one.
    noted: Mutex<HashMap<(ItemKey, bool), String>>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            teams: Recent::new(Duration::MAX, MAX_REMEMBERED),
            public: Recent::new(REMEMBERED_FOR, MAX_REMEMBERED),
            noted: Mutex::default(),
        }
    }
}

impl Marks {
    /// Adds a workspace to the list of workspaces, so that readers find it without scanning. It is never
    /// removed. Its row also says which app sent an event on which day, if that is later than what it says.
    pub(crate) async fn note_team(
        &self,
        archive: &dyn Archive,
        team: &TeamId,
        app: Option<AppOnDay>,
    ) -> Result<(), ArchiveError> {
        if self.teams.find(team).is_some_and(|known| known >= app) {
            return Ok(());
        }
        let row = archive.get(&ItemKey::team(team)).await?;
        let stored = row.as_ref().and_then(WorkspaceRow::read).and_then(|row| row.app);
        if row.is_none() || stored < app {
            let mark = || Update::mark(ItemKey::team(team));
            archive.write(&app.as_ref().map_or_else(mark, |app| app.update(team))).await?;
        }
        self.teams.keep(team.clone(), Instant::now(), stored.max(app));
        Ok(())
    }

    /// Writes what stored events show about a channel: that it is public, if one of this clock opens its mark, and
    /// the evidence about whether it is public now. The row is read first, and written only if this is news to it.
    pub(crate) async fn note_shown(
        &self,
        archive: &dyn Archive,
        (team, channel): (&TeamId, &ChannelId),
        opened: Option<&Ts>,
        evidence: impl Iterator<Item = &VisibilityEvidence> + Send,
    ) -> Result<(), ArchiveError> {
        let key = ItemKey::public_mark(team, channel);
        let opened = opened.filter(|_| !self.public.has(&key));
        let news: Vec<&VisibilityEvidence> = evidence.filter(|evidence| !self.is_noted(evidence)).collect();
        if opened.is_none() && news.is_empty() {
            return Ok(());
        }
        let row = archive.get(&key).await?;
        if let Some(clock) = opened {
            self.open(archive, (team, channel), clock, row.as_ref()).await?;
        }
        for evidence in news {
            if let Some(update) = evidence.update(row.as_ref()) {
                archive.write(&update).await?;
            }
            self.keep_noted(evidence);
        }
        Ok(())
    }

    /// Sets the public mark, whose row was read, for an event of this clock.
    async fn open(
        &self,
        archive: &dyn Archive,
        (team, channel): (&TeamId, &ChannelId),
        clock: &Ts,
        mut row: Option<&Item>,
    ) -> Result<(), ArchiveError> {
        let written;
        if row.is_none() {
            written = archive.write(&public_mark::opening(team, channel)).await?;
            // Another process was first.
            if let WriteOutcome::Rejected(rejected) = &written {
                row = Some(rejected);
            }
        }
        if let Some(row) = row {
            if let Some(update) = public_mark::opened(team, channel, Some(row), clock) {
                archive.write(&update).await?;
            } else if MarkState::from_row(Some(row)) != MarkState::Public {
                return Ok(());
            }
        }
        self.public.keep(ItemKey::public_mark(team, channel), Instant::now(), ());
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
        if self.public.has(&key) {
            return Ok(PublicMark::public());
        }
        let mark = PublicMark::from_row(archive.get(&key).await?.as_ref());
        if mark.state() == MarkState::Public {
            self.public.keep(key, Instant::now(), ());
        }
        Ok(mark)
    }

    /// Whether the archive has this evidence already, as far as this process knows.
    fn is_noted(&self, evidence: &VisibilityEvidence) -> bool {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = noted.get(&(evidence.key(), evidence.is_private()));
        known.is_some_and(|known| *known >= evidence.event_version())
    }

    fn keep_noted(&self, evidence: &VisibilityEvidence) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MAX_REMEMBERED {
            noted.clear();
        }
        let known = noted.entry((evidence.key(), evidence.is_private())).or_default();
        *known = evidence.event_version().max(std::mem::take(known));
    }
}
