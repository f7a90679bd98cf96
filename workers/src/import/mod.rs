//! Imports a Slack export into the archive.
//!
//! An export is read once, in constant memory, on separate threads; its contents are written concurrently.
//! Each message is content with clock 0, as history is, and is written only if it changes something: an
//! import may be repeated, interrupted, and mixed with live events and other exports in any order.
//!
//! * [`layout`] classifies the entries by their names alone; [`source`] provides their bytes.
//! * [`elements`] reads an array one element at a time; [`roster`] reads the lists of people and
//!   conversations; [`workspace`] finds the workspace from what they and some messages say.
//! * [`splitting`] splits the arrays of messages, and [`days`] parses their elements: the two take most of
//!   the time.
//! * [`messages`] stores messages and requests their files, [`uploads`] stores files that the export
//!   contains.
//! * [`people`] and [`channels`] write the rows of the lists.
//!
//! Only channels in a list of public channels are stored. Each channel that was read completely gets a fact
//! that records it, after everything that the fact claims is stored.

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
mod workspace;

use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, Update};
use ports::clock::TimestampMs;
use ports::files::{Files, FilesError};
use ports::queue::{Queue, QueueError};
use reader::find;
use rules::filled::{self, SpanSource};
use serde::Serialize;
use slack::ids::{TeamId, Ts};
use tokio::task::{JoinError, spawn_blocking};

use days::DaysRead;
use plan::{ImportPlan, PlanDraft};

use crate::store::write_changed;

pub use problem::{Problem, ProblemKind};
pub use roster::PrivateCounts;
pub use source::{EntryTooLarge, ExportEntries, ExportEntry};

/// How far a message may be ahead of this machine's clock: a later one would win over all that follow.
const MAX_AHEAD_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Rows that are read or written together.
const ROWS: usize = 512;

/// The destination of an import.
pub struct ImportTarget {
    /// The archive for its rows.
    pub archive: Arc<dyn Archive>,
    /// How files are handled.
    pub files: ImportFiles,
}

/// How the files that messages share are handled.
pub enum ImportFiles {
    /// They are skipped.
    Skipped,
    /// They are counted only.
    Counted,
    /// They are requested from Slack, or stored if the export contains them.
    Imported(FileTarget),
}

/// The destination of files.
pub struct FileTarget {
    /// The queue for download jobs.
    pub queue: Arc<dyn Queue>,
    /// The store for bytes.
    pub files: Arc<dyn Files>,
}

#[derive(Debug, Clone)]
pub struct ImportOptions {
    /// Its workspace, if the user specified it.
    pub team: Option<TeamId>,
    /// The workspaces that have tokens; `None` without any token.
    pub tokens: Option<Vec<TeamId>>,
    /// The current time.
    pub now: TimestampMs,
}

/// The totals of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ImportSum {
    /// Public channels.
    pub channels: u64,
    /// Messages: the sum of the next four.
    pub messages: u64,
    /// Messages that were not in the archive.
    pub new: u64,
    /// Messages whose archived state changed.
    pub updated: u64,
    /// Messages that the archive already had completely.
    pub unchanged: u64,
    /// Messages that a retention rule does not keep: they are not stored.
    pub expired: u64,
    pub users: u64,
    /// Files that were requested, or came with the export.
    pub files: u64,
    /// Messages with reactions that the export does not list one by one.
    pub reactions_cut: u64,
    /// Conversations that are never stored.
    pub private_skipped: u64,
    /// Items that should have been stored and were not.
    pub skipped: u64,
    pub problems: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Stored messages.
    pub messages: u64,
    /// Packed bytes of the export that were read.
    pub read_bytes: u64,
    /// Packed bytes of the export that will be read.
    pub total_bytes: u64,
}

/// A notification from a running import.
#[derive(Debug)]
pub enum ImportNotice<'n> {
    /// A problem was found.
    Problem(&'n Problem),
    /// These conversations are never stored.
    Private(PrivateCounts),
    /// This import marked this number of channels as public.
    Marked(u64),
    /// The current progress.
    Progress(ImportProgress),
}

/// The reason why an import cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// There is nothing to import.
    #[error("it contains no list of channels: it is not a Slack export")]
    NotAnExport,
    /// Nothing in it shows its workspace, or it names several.
    #[error("{}: set it with --team", undecided(.0))]
    NoTeam(String),
    /// The export is from a workspace that the tokens are not for.
    #[error(
        "it is an export of the workspace {team}, and the token is for {tokens}: import it into an archive of its own"
    )]
    OtherToken {
        /// The export's workspace.
        team: TeamId,
        /// The tokens' workspaces.
        tokens: String,
    },
    /// The export is from a workspace that the archive does not contain.
    #[error(
        "it is an export of the workspace {team}, and the archive is of {known}: say --team {team} if both belong together"
    )]
    OtherArchive {
        /// The export's workspace.
        team: TeamId,
        /// The archive's workspaces.
        known: String,
    },
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Archive(#[from] ArchiveError),
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Queue(#[from] QueueError),
    #[error("{0}; what was imported stays: import it again once this is solved")]
    Files(#[from] FilesError),
    /// The reading thread ended early.
    #[error("the export could not be read to its end: {0}")]
    Reader(#[from] JoinError),
}

/// The reason why only the user can specify the workspace.
fn undecided(candidates: &str) -> String {
    if candidates.is_empty() {
        "it lists no people of a workspace, so its workspace is unknown".to_owned()
    } else {
        format!("it does not show which workspace it is from ({candidates})")
    }
}

/// An import that ended early.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct FailedImport {
    pub error: Box<ImportError>,
    /// The totals up to the error; what was stored stays.
    pub sum: ImportSum,
}

/// A running import.
struct Import<'i> {
    target: &'i ImportTarget,
    sum: ImportSum,
    progress: ImportProgress,
    notices: &'i mut dyn FnMut(ImportNotice<'_>),
}

/// Imports an export into the archive.
///
/// # Errors
/// [`FailedImport`]; rows written before it stay, and another import completes the rest.
pub async fn import(
    source: Box<dyn ExportEntries>,
    target: &ImportTarget,
    options: &ImportOptions,
    notices: &mut dyn FnMut(ImportNotice<'_>),
) -> Result<ImportSum, FailedImport> {
    let sum = ImportSum::default();
    let mut import = Import { target, sum, progress: ImportProgress::default(), notices };
    match import.run(source, options).await {
        Ok(()) => Ok(import.sum),
        Err(error) => Err(FailedImport { error: Box::new(error), sum: import.sum }),
    }
}

impl Import<'_> {
    async fn run(
        &mut self,
        source: Box<dyn ExportEntries>,
        options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let latest_micros = options.now.0.saturating_mul(1000).saturating_add(MAX_AHEAD_MICROS);
        let latest_s = latest_micros / 1_000_000;
        let (source, draft) = on_thread(source, move |source| plan::read(source, latest_s)).await?;
        let listed_s = draft.listed_s;
        let plan = self.decide_plan(draft, options).await?;
        let channels = plan.channel_days();
        let days = channels.iter().flat_map(|channel| &channel.days);
        self.progress.total_bytes = days.map(|entry| source.entries()[*entry].packed_bytes).sum();
        let (source, read, wanted) = self.messages(source, channels, latest_micros, &plan.uploads).await?;
        let mut source = self.uploads(source, |file| plan.uploads.get(file).copied(), wanted).await?;
        // Without messages, the lists count as of their own time.
        let of_lists = || Ts::parse(&format!("{}.000000", listed_s?)).ok();
        if let Some(newest) = read.span.as_ref().map(|(_, newest)| newest.clone()).or_else(of_lists) {
            source = self.people(source, &plan, &newest).await?;
            source = self.channels(source, &plan, &newest).await?;
        } else if !plan.sections.is_empty() {
            let detail = "neither a message nor a list nor its file has a time: its people and channels are not stored";
            let problem = Problem::new(ProblemKind::BadTime, "channels.json", detail);
            self.problem(&Problem { skipped: self.sum.channels, ..problem });
        }
        drop(source);
        let facts = facts(&plan, &read);
        self.other_updates(read).await?;
        // Everything that the facts claim is stored.
        write_changed(&*self.target.archive, &facts).await?;
        Ok(())
    }

    /// Decides which parts of the export are imported, before anything is written.
    async fn decide_plan(
        &mut self,
        draft: PlanDraft,
        options: &ImportOptions,
    ) -> Result<ImportPlan, ImportError> {
        // Problems of the lists may explain why the export is rejected.
        draft.problems.iter().for_each(|problem| self.problem(problem));
        let archive = &*self.target.archive;
        let mut plan = draft.decide(options, &find::teams(archive).await?)?;
        plan.skip_forgotten(archive).await?;
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
}

/// The facts that channels were read completely.
fn facts(plan: &ImportPlan, read: &DaysRead) -> Vec<Update> {
    let Some((oldest, newest)) = read.span.as_ref().filter(|(oldest, newest)| oldest < newest) else {
        return Vec::new();
    };
    let channels = plan
        .sections
        .iter()
        .flat_map(|section| section.channels.keys().map(|channel| (&section.team, channel)));
    let complete = channels.enumerate().filter(|(index, _)| !read.incomplete.contains(index));
    complete
        .map(|(_, (team, channel))| filled::filled_update(team, channel, oldest, newest, SpanSource::Import))
        .collect()
}

/// Runs a function on an export on a thread that may block.
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
