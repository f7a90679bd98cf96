//! Permanently erases everything that erasures cover: messages with their earlier versions, files with their
//! bytes, people, channels, and jobs in quarantine. The facts are written first ([`ErasureFact`]), so that no
//! writer restores anything meanwhile.
//!
//! The work is split into parts, and each can be repeated: rows that refer to other rows are erased after
//! them, so that the next run completes a killed one.
//!
//! * [`messages`], [`questions`], [`files`], [`people`], [`channels`]: the rows. [`cover`]: whether a job
//!   carries erased content; [`jobs`] removes those that do.
//! * [`figures`]: the figures counted from them.
//! * [`expiry`]: what has expired by a retention rule.
//! * [`held`]: whether a hold keeps something that an erasure covers.
//! * [`ahead`]: what is there although its time is after the erasure's.
//! * [`unnamed`]: bytes that no row names.
//! * [`record`]: the stored record of an erasure.

mod ahead;
mod channels;
mod counts;
mod cover;
mod expiry;
mod figures;
mod files;
mod held;
mod jobs;
mod messages;
mod people;
mod questions;
mod record;
mod unnamed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key, query_all};
use ports::files::{FileKey, Files, FilesError};
use reader::directory;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

pub use ahead::{AheadError, ErasedAhead};
pub use counts::EraserCounts;
pub(crate) use cover::cover_of_content;
pub use cover::{JobCover, cover_of};
pub use expiry::{ExpiredPeriod, Expiry};
pub use held::find_held;
pub use record::ErasureRecord;
pub use unnamed::unnamed;

use crate::failure::PortError;

/// Rows read in one query.
const PAGE: usize = 1_000;

/// Rows erased concurrently: on one machine, one disk sync covers all of them.
const AT_ONCE: usize = 256;

/// What the eraser does with covered rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraserMode {
    /// It counts them and changes nothing.
    Plan,
    /// It erases them.
    Act,
    /// It erases them, and erases already erased rows once more: a write in progress may have left something
    /// behind an erased row.
    ActAgain,
}

/// A part of the work, in the order of execution: the channel and the person come last, so that an
/// interrupted erasure can name them again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErasurePart {
    Messages(TeamId, ChannelId),
    /// One message, with its files.
    Message(TeamId, ChannelId, Ts),
    /// Questions to the responder, and their answers.
    Questions(TeamId),
    /// The files that no message shares any more.
    Files(TeamId),
    Figures(TeamId),
    /// Jobs in quarantine.
    Quarantine,
    /// The states and the name of a channel.
    Channel(TeamId, ChannelId),
    Person(TeamId, UserId),
}

impl ErasurePart {
    /// The workspace, if the part belongs to one.
    #[must_use]
    pub fn team(&self) -> Option<&TeamId> {
        match self {
            Self::Messages(team, _)
            | Self::Message(team, ..)
            | Self::Questions(team)
            | Self::Files(team)
            | Self::Channel(team, _)
            | Self::Person(team, _)
            | Self::Figures(team) => Some(team),
            Self::Quarantine => None,
        }
    }
}

/// Finds covered rows, and erases them.
pub struct Eraser<'a> {
    archive: &'a dyn Archive,
    files: &'a dyn Files,
    facts: Vec<ErasureFact>,
    covered: ErasureFacts,
    mode: EraserMode,
    /// The pictures of erased people, by their rows.
    pictures: BTreeMap<ItemKey, BTreeSet<FileKey>>,
    /// What is there although its time is after the erasure's.
    ahead: ErasedAhead,
    /// Whether it removes what has expired instead of what is erased.
    is_expiry: bool,
    rows_read: AtomicU64,
}

impl<'a> Eraser<'a> {
    /// Starts an erasure, before its facts are written: writing the facts erases a person's row at once, and
    /// with it the location of the person's pictures.
    pub async fn begin(
        archive: &'a dyn Archive,
        files: &'a dyn Files,
        facts: Vec<ErasureFact>,
        mode: EraserMode,
    ) -> Result<Self, ArchiveError> {
        let covered = facts.iter().collect();
        let mut pictures = BTreeMap::new();
        for ErasureFact { team, scope, .. } in &facts {
            if let ErasureScope::User(user) = scope {
                let key = ItemKey::user(team, user);
                let person_pictures = people::pictures(archive, team, user).await?;
                pictures.insert(key, person_pictures);
            }
        }
        let ahead = ErasedAhead::default();
        let (is_expiry, rows_read) = (false, AtomicU64::new(0));
        Ok(Self { archive, files, facts, covered, mode, pictures, ahead, is_expiry, rows_read })
    }

    /// Also erases what was found ahead. Its messages have their own facts, which the caller added.
    #[must_use]
    pub fn with_ahead(self, ahead: ErasedAhead) -> Self {
        Self { ahead, ..self }
    }

    /// The parts of the work, in the order of execution.
    pub async fn parts(&self) -> Result<Vec<ErasurePart>, ArchiveError> {
        let mut parts = BTreeSet::new();
        for ErasureFact { team, scope, .. } in &self.facts {
            parts.insert(ErasurePart::Figures(team.clone()));
            parts.insert(ErasurePart::Questions(team.clone()));
            match scope {
                ErasureScope::User(user) => {
                    let channels = channels_of(self.archive, team).await?;
                    parts.extend(channels.into_iter().map(|id| ErasurePart::Messages(team.clone(), id)));
                    parts.insert(ErasurePart::Files(team.clone()));
                    parts.insert(ErasurePart::Person(team.clone(), user.clone()));
                }
                ErasureScope::Channel(channel) => {
                    parts.insert(ErasurePart::Messages(team.clone(), channel.clone()));
                    parts.insert(ErasurePart::Files(team.clone()));
                    parts.insert(ErasurePart::Channel(team.clone(), channel.clone()));
                }
                ErasureScope::Message(channel, ts) => {
                    parts.insert(ErasurePart::Message(team.clone(), channel.clone(), ts.clone()));
                }
            }
        }
        parts.insert(ErasurePart::Quarantine);
        // The part of a channel, and of the files, includes those of its messages.
        let whole = parts.clone();
        parts.retain(|part| {
            let ErasurePart::Message(team, channel, _) = part else { return true };
            !whole.contains(&ErasurePart::Messages(team.clone(), channel.clone()))
        });
        Ok(parts.into_iter().collect())
    }

    /// Runs a part.
    ///
    /// # Errors
    /// [`PortError`]; the part can be repeated.
    pub async fn run_part(&self, part: &ErasurePart) -> Result<EraserCounts, PortError> {
        match part {
            ErasurePart::Messages(team, channel) => self.messages(team, channel).await,
            ErasurePart::Message(team, channel, ts) => self.one_message(team, channel, ts).await,
            ErasurePart::Questions(team) => self.questions(team).await,
            ErasurePart::Files(team) => self.files(team).await,
            ErasurePart::Channel(team, channel) => self.channel(team, channel).await,
            ErasurePart::Person(team, user) => self.person(team, user).await,
            ErasurePart::Figures(team) => self.figures(team).await,
            ErasurePart::Quarantine => self.quarantine().await,
        }
    }

    /// The number of rows read so far, for progress output.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Counts rows that were read in one query.
    fn read(&self, counts: &mut EraserCounts, rows: &[Item]) {
        counts.read(rows);
        self.rows_read.fetch_add(rows.len() as u64, Ordering::Relaxed);
    }

    fn acts(&self) -> bool {
        self.mode != EraserMode::Plan
    }

    /// Erases a row.
    async fn erase(&self, key: &ItemKey) -> Result<(), ArchiveError> {
        match (self.acts(), self.is_expiry) {
            (true, false) => drop(self.archive.erase(key).await?),
            (true, true) => drop(self.archive.expire(key).await?),
            (false, _) => {}
        }
        Ok(())
    }

    /// Deletes bytes. Returns their number.
    async fn delete_bytes(&self, key: &FileKey) -> Result<u64, FilesError> {
        let bytes = self.files.open(key).await?.map_or(0, |reader| reader.size_bytes());
        if self.acts() {
            self.files.delete(key).await?;
        }
        Ok(bytes)
    }
}

/// The earlier erasures of these workspaces.
pub async fn read_facts(
    archive: &dyn Archive,
    teams: impl IntoIterator<Item = &TeamId>,
) -> Result<Vec<ErasureFact>, ArchiveError> {
    let mut facts = Vec::new();
    for team in teams {
        let rows = query_all(archive, Query::partition(key::erasures(team))).await?;
        facts.extend(rows.iter().filter_map(ErasureFact::read));
    }
    Ok(facts)
}

/// Every channel that may have stored messages.
pub(crate) async fn channels_of(
    archive: &dyn Archive,
    team: &TeamId,
) -> Result<BTreeSet<ChannelId>, ArchiveError> {
    let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
    let marked = marks.iter().filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
    let mut channels: BTreeSet<ChannelId> = marked.collect();
    channels.extend(directory::read(archive, team).await?.iter().map(|(channel, _)| channel));
    Ok(channels)
}
