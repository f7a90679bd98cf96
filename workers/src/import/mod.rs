//! Brings an export of Slack into the archive.
//!
//! An export is read once, in constant memory, on threads of its own; what it brings is written beside that. Each message is
//! content of clock 0, as history is, and is written only if it changes something: an import may be repeated, interrupted, and
//! mixed with live events and other exports in any order.
//!
//! * [`layout`] says what is where, from the names of the entries alone; [`source`] is where their bytes come from.
//! * [`elements`] reads a list one element at a time; [`roster`] those of people and conversations.
//! * [`splitting`] splits the lists of messages, and [`days`] reads their elements: the two take most of the time.
//! * [`messages`] stores messages and asks for their files, [`uploads`] keeps files that the export brings with it.
//! * [`people`] and [`channels`] write the rows of the lists.
//!
//! Only what a list of public channels names is stored. Each channel that was read whole leaves a fact that says so, after
//! everything that the fact claims.

mod channels;
mod days;
mod elements;
#[cfg(test)]
mod fixture;
mod layout;
mod messages;
mod people;
mod plan;
mod problem;
mod roster;
mod source;
mod splitting;
mod uploads;

use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Update};
use ports::clock::TimestampMs;
use ports::files::{Files, FilesError};
use ports::queue::{Queue, QueueError};
use rules::filled::{self, SpanSource};
use serde::Serialize;
use slack::ids::TeamId;
use tokio::task::{JoinError, spawn_blocking};

use days::DaysRead;
use plan::{ImportPlan, PlanDraft};

pub use problem::{Problem, ProblemKind};
pub use roster::PrivateCounts;
pub use source::{EntryTooLarge, ExportEntries, ExportEntry};

/// A message may be this much ahead of this machine's clock: a later one would win over all that follows.
const MAX_AHEAD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Rows that are read or written together.
const ROWS: usize = 512;

/// Where an export goes.
pub struct ImportTarget {
    /// Where its rows go.
    pub archive: Arc<dyn Archive>,
    /// What becomes of files.
    pub files: ImportFiles,
}

/// What becomes of the files that messages share.
pub enum ImportFiles {
    /// They are left out.
    LeftOut,
    /// They are counted, and nothing else.
    Counted,
    /// They are asked for, or kept if the export brings them.
    Taken(FileTarget),
}

/// Where files go.
pub struct FileTarget {
    /// Where files are asked for.
    pub queue: Arc<dyn Queue>,
    /// Where bytes go.
    pub files: Arc<dyn Files>,
}

/// What decides about an export, beside its bytes.
#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Its workspace, if a person says it.
    pub team: Option<TeamId>,
    /// The workspaces that there are tokens for; `None` without any token.
    pub tokens: Option<Vec<TeamId>>,
    /// Now.
    pub now: TimestampMs,
}

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ImportSum {
    /// Public channels.
    pub channels: u64,
    /// Messages: those that follow.
    pub messages: u64,
    /// Messages that were not there.
    pub new: u64,
    /// Messages of which the archive learned something.
    pub updated: u64,
    /// Messages of which it knew everything.
    pub unchanged: u64,
    /// People.
    pub users: u64,
    /// Files that were asked for, or came with the export.
    pub files: u64,
    /// Messages with reactions that the export does not list one by one.
    pub reactions_cut: u64,
    /// Conversations that are never stored.
    pub private_skipped: u64,
    /// What should have been stored and was not.
    pub skipped: u64,
    /// Problems.
    pub problems: u64,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Messages that are stored.
    pub messages: u64,
    /// Bytes of the export that are read, as they are packed.
    pub read_bytes: u64,
    /// All bytes of the export that are to be read.
    pub total_bytes: u64,
}

/// What an import says while it runs.
#[derive(Debug)]
pub enum ImportNotice<'n> {
    /// Something is wrong.
    Problem(&'n Problem),
    /// These conversations are never stored.
    Private(PrivateCounts),
    /// This number of channels is marked as public by this import.
    Marked(u64),
    /// How far it is.
    Progress(ImportProgress),
}

/// Why an import cannot begin, or go on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is nothing to import.
    #[error("it holds no list of channels: it is no export of Slack")]
    NotAnExport,
    /// The people in it are of several workspaces, or there are no people of any.
    #[error("{}: say it with --team", undecided(.0))]
    NoTeam(String),
    /// It is an export of a workspace that the tokens are not for.
    #[error(
        "it is an export of the workspace {team}, and the token is for {tokens}: import it into an archive of its own"
    )]
    OtherToken {
        /// The export's workspace.
        team: TeamId,
        /// The tokens' workspaces.
        tokens: String,
    },
    /// It is an export of a workspace that the archive knows nothing of.
    #[error(
        "it is an export of the workspace {team}, and the archive is of {known}: say --team {team} if both belong together"
    )]
    OtherArchive {
        /// The export's workspace.
        team: TeamId,
        /// The archive's workspaces.
        known: String,
    },
    /// The archive failed.
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Archive(#[from] ArchiveError),
    /// The queue failed.
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Queue(#[from] QueueError),
    /// The store of files failed.
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Files(#[from] FilesError),
    /// The reading thread ended early.
    #[error("the export could not be read to its end: {0}")]
    Reader(#[from] JoinError),
}

/// Why only the user can say which workspace it is of.
fn undecided(teams: &str) -> String {
    if teams.is_empty() {
        "it lists no people of a workspace, so it does not say which one it is of".to_owned()
    } else {
        format!("its people do not say which workspace it is of ({teams})")
    }
}

/// An import that ended early.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FailedImport {
    /// Why.
    pub error: Box<ImportError>,
    /// What it did until then; it stays.
    pub sum: ImportSum,
}

/// An import while it runs.
struct Import<'i> {
    target: &'i ImportTarget,
    sum: ImportSum,
    progress: ImportProgress,
    notices: &'i mut dyn FnMut(ImportNotice<'_>),
}

/// Brings an export into the archive.
///
/// # Errors
/// [`FailedImport`]; what was written by then stays, and importing again does the rest.
pub async fn import(
    source: Box<dyn ExportEntries>,
    target: &ImportTarget,
    options: &ImportOptions,
    notices: &mut dyn FnMut(ImportNotice<'_>),
) -> Result<ImportSum, FailedImport> {
    let sum = ImportSum::default();
    let mut import = Import { target, sum, progress: ImportProgress::default(), notices };
    match import.all(source, options).await {
        Ok(()) => Ok(import.sum),
        Err(error) => Err(FailedImport { error: Box::new(error), sum: import.sum }),
    }
}

impl Import<'_> {
    async fn all(
        &mut self,
        source: Box<dyn ExportEntries>,
        options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let (source, draft) = on_thread(source, plan::read).await?;
        let plan = self.checked(draft, options).await?;
        let latest_micros = options.now.0.saturating_mul(1000).saturating_add(MAX_AHEAD_MICROS);
        let channels = plan.channel_days();
        let days = channels.iter().flat_map(|channel| &channel.days);
        self.progress.total_bytes = days.map(|entry| source.entries()[*entry].packed_bytes).sum();
        let (source, read, wanted) = self.messages(source, channels, latest_micros, &plan.uploads).await?;
        let mut source = self.uploads(source, |file| plan.uploads.get(file).copied(), wanted).await?;
        if let Some((_, newest)) = &read.span {
            source = self.people(source, &plan, newest).await?;
            source = self.channels(source, &plan, newest).await?;
        }
        self.strangers(&read).await?;
        drop(source);
        self.facts(&plan, &read).await
    }

    /// Decides what of the plan is done, before anything is written.
    async fn checked(
        &mut self,
        draft: PlanDraft,
        options: &ImportOptions,
    ) -> Result<ImportPlan, ImportError> {
        // What cannot be read of the lists may be why the export is refused.
        draft.problems.iter().for_each(|problem| self.problem(problem));
        let archive = &*self.target.archive;
        let mut plan = draft.decide(options, &plan::known_teams(archive).await?)?;
        plan.leave_out_forgotten(archive).await?;
        plan.problems.iter().for_each(|problem| self.problem(problem));
        let private = plan.private();
        self.sum.private_skipped = private.total();
        self.sum.channels = plan.sections.iter().map(|section| section.channels.len() as u64).sum();
        (self.notices)(ImportNotice::Private(private));
        Ok(plan)
    }

    /// Reports a problem and counts it.
    fn problem(&mut self, problem: &Problem) {
        self.sum.problems += 1;
        self.sum.skipped += problem.skipped;
        (self.notices)(ImportNotice::Problem(problem));
    }

    /// The facts that channels were read, once everything they claim is stored.
    async fn facts(&self, plan: &ImportPlan, read: &DaysRead) -> Result<(), ImportError> {
        let Some((oldest, newest)) = read.span.as_ref().filter(|(oldest, newest)| oldest < newest) else {
            return Ok(());
        };
        let mut place = 0;
        let mut facts = Vec::new();
        for section in &plan.sections {
            for channel in section.channels.keys() {
                if !read.incomplete.contains(&place) {
                    facts.push(filled::reached(&section.team, channel, oldest, newest, SpanSource::Import));
                }
                place += 1;
            }
        }
        write_news(&*self.target.archive, &facts).await?;
        Ok(())
    }
}

/// Writes those updates that change something; the number of those.
async fn write_news(archive: &dyn Archive, updates: &[Update]) -> Result<u64, ArchiveError> {
    let mut written = 0;
    for updates in updates.chunks(ROWS) {
        let keys: Vec<_> = updates.iter().map(|update| &update.key).collect();
        let stored = archive.get_all(&keys).await?;
        let news = updates.iter().zip(&stored).filter(|(update, stored)| {
            let stored = stored.as_ref().map(|stored| &stored.attributes);
            update.apply(stored).is_some_and(|after| Some(&after) != stored)
        });
        let news: Vec<&Update> = news.map(|(update, _)| update).collect();
        for outcome in archive.write_all(&news).await {
            outcome?;
        }
        written += news.len() as u64;
    }
    Ok(written)
}

/// Does something with an export on a thread that may wait for it.
async fn on_thread<T: Send + 'static>(
    mut source: Box<dyn ExportEntries>,
    work: impl FnOnce(&mut dyn ExportEntries) -> T + Send + 'static,
) -> Result<(Box<dyn ExportEntries>, T), JoinError> {
    spawn_blocking(move || {
        let done = work(&mut *source);
        (source, done)
    })
    .await
}
