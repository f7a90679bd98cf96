//! `annalist files retry`: requests files again that are not stored. [`super::files_move`] moves those that are.

use std::io::Write;

use anyhow::bail;
use clap::Subcommand;
use ports::archive::{Archive, Item, ItemKey, Query, key};
use ports::clock::Clock;
use ports::queue::{Outgoing, Queue};
use process::config::backend::{Backend, BackendArgs};
use reader::find;
use rules::file::{FileState, FileVerdict, canvas, job, row};
use slack::ids::{FileId, TeamId};

use super::files_move::MoveArgs;
use crate::plain;
use crate::read::FilesArgs;

/// The number of rows that are read, and of jobs that are sent, in one batch.
const PAGE: usize = 256;

/// `annalist files …`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct FilesCommand {
    #[command(subcommand)]
    pub(crate) change: Option<FilesChange>,
    #[command(flatten)]
    pub(crate) list: FilesArgs,
}

/// Changes to files.
#[derive(Debug, Subcommand)]
pub(crate) enum FilesChange {
    /// Ask Slack again for files that failed or are pending
    #[command(after_help = "Examples: annalist files retry; annalist files retry F0123ABCD")]
    Retry(RetryArgs),
    /// Move the bytes of files to the bucket that --files names, or back
    #[command(
        after_help = "It works while `annalist up` runs with the same --files, and may be ended and run again:\n  \
        annalist files move --files s3://my-bucket/annalist --data /var/lib/annalist\n  \
        annalist files move --to folder --files s3://my-bucket/annalist --data /var/lib/annalist"
    )]
    Move(MoveArgs),
}

/// `annalist files retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// Only these files, regardless of why the download failed
    #[arg(value_name = "FILE", conflicts_with = "all", value_parser = file_id)]
    files: Vec<FileId>,
    /// Also those that Slack hid or refused, and those that were too long
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

fn file_id(text: &str) -> Result<FileId, &'static str> {
    FileId::parse(text).map_err(|_| "a file id is such as F0123ABCD, as `annalist files` shows it")
}

/// Which files are requested again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryScope {
    /// Files that Slack may well serve by now.
    Likely,
    /// All files, even those that were skipped or failed for good.
    All,
    /// Files that the user named.
    Named,
}

impl RetryScope {
    /// Whether a file in this state is requested. External and deleted files never are.
    fn includes(self, state: Option<&FileState>) -> bool {
        match state {
            None | Some(FileState::Failed(_) | FileState::Verdict(FileVerdict::Pending)) => true,
            Some(FileState::Verdict(
                FileVerdict::HiddenByLimit | FileVerdict::AccessDenied | FileVerdict::TooBig,
            )) => self != Self::Likely,
            Some(FileState::Verdict(FileVerdict::NotFound | FileVerdict::Gone)) => self == Self::Named,
            Some(
                FileState::Verdict(FileVerdict::External | FileVerdict::Tombstone) | FileState::Stored(_),
            ) => false,
        }
    }
}

impl RetryScope {
    /// Whether the current version of a stored canvas is requested.
    fn includes_edits_of(self, row: &Item) -> bool {
        let missed = canvas::newest_missed(row).map(|(_, reason)| reason);
        canvas::newest(row).is_some()
            && match self {
                Self::Likely => missed
                    .is_some_and(|reason| reason == canvas::FAILED || reason == FileVerdict::Pending.label()),
                Self::All => missed.is_some(),
                Self::Named => true,
            }
    }
}

/// Sends new jobs for files that are not stored, and for canvases whose newest edit is not.
pub(crate) async fn retry(
    backend: &Backend,
    clock: &dyn Clock,
    args: &RetryArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (archive, queue) = (&*backend.archive(), &*backend.queue());
    // Makes the jobs different from those of earlier retries.
    let nonce = clock.now().0.to_be_bytes();
    let teams = find::teams(archive).await?;
    if !args.files.is_empty() {
        return retry_named(archive, queue, &teams, &args.files, &nonce, out).await;
    }
    let scope = if args.all { RetryScope::All } else { RetryScope::Likely };
    let mut sent = 0;
    for team in &teams {
        let mut query = Query { limit: PAGE, ..Query::partition(key::files(team)) };
        loop {
            let page = archive.query(&query).await?;
            let jobs: Vec<Outgoing> =
                page.items.iter().filter_map(|row| job_of(team, row, scope, &nonce)).collect();
            sent += jobs.len();
            send(queue, jobs).await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    match (sent, scope) {
        (0, RetryScope::Likely) => writeln!(
            out,
            "No file failed or is pending; --all also asks for those that Slack hid or refused, or that were too long."
        )?,
        (0, RetryScope::All | RetryScope::Named) => writeln!(out, "No file could be asked for again.")?,
        (sent, RetryScope::Likely | RetryScope::All | RetryScope::Named) => {
            writeln!(out, "{} on the queue again.", plain::counted(sent, "file is", "files are"))?
        }
    }
    Ok(())
}

async fn retry_named(
    archive: &dyn Archive,
    queue: &dyn Queue,
    teams: &[TeamId],
    files: &[FileId],
    nonce: &[u8],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut jobs = Vec::new();
    for file in files {
        let mut found = false;
        for team in teams {
            let Some(row) = archive.get(&ItemKey::file(team, file)).await? else { continue };
            found = true;
            match job_of(team, &row, RetryScope::Named, nonce) {
                Some(job) => jobs.push(job),
                None => writeln!(out, "{file} {}", reason_not_retried(&row, file))?,
            }
        }
        if !found {
            bail!("no file {file} in this archive: `annalist files` shows them");
        }
    }
    let sent = jobs.len();
    send(queue, jobs).await?;
    if sent > 0 {
        writeln!(out, "{} on the queue again.", plain::counted(sent, "file is", "files are"))?;
    }
    Ok(())
}

fn job_of(team: &TeamId, row: &Item, scope: RetryScope, nonce: &[u8]) -> Option<Outgoing> {
    let file = FileId::parse(&row.key.timestamp).ok()?;
    let is_included = scope.includes(row::state(row, &file).as_ref()) || scope.includes_edits_of(row);
    (is_included && !row.is_erased()).then(|| job::retry_job(team, row, nonce)).flatten()
}

/// Returns the reason why a file that the user named is not fetched.
fn reason_not_retried(row: &Item, file: &FileId) -> String {
    match row::state(row, file) {
        Some(FileState::Stored(key)) => format!("is already stored, as {key}"),
        Some(FileState::Verdict(FileVerdict::External)) => {
            let service = row::object(row).and_then(|object| object.external_type);
            let service =
                service.map_or_else(|| "another service".to_owned(), |service| plain::line(&service));
            format!("cannot be fetched: it is kept on {service}")
        }
        Some(FileState::Verdict(FileVerdict::Tombstone)) => {
            "cannot be fetched: it was deleted in Slack".to_owned()
        }
        Some(FileState::Verdict(_) | FileState::Failed(_)) | None => {
            "cannot be fetched: it is not known where it was shared".to_owned()
        }
    }
}

async fn send(queue: &dyn Queue, jobs: Vec<Outgoing>) -> anyhow::Result<()> {
    if !jobs.is_empty() {
        for sent in queue.send(jobs).await {
            sent?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ports::queue::QueueName;
    use serde_json::json;

    use super::*;
    use crate::fixture::{CliFixture, parsed};

    fn retry_args(fixture: &CliFixture, files: &[&str], all: bool) -> RetryArgs {
        let files = files.iter().map(|file| FileId::parse(file).unwrap()).collect();
        RetryArgs { files, all, backend: fixture.data() }
    }

    /// Runs the command and returns its output and the number of jobs on the queue.
    async fn run_retry(fixture: &CliFixture, files: &[&str], all: bool) -> (String, u64) {
        let mut out = Vec::new();
        let args = retry_args(fixture, files, all);
        retry(&fixture.backend, &*fixture.ports.clock, &args, &mut out).await.unwrap();
        let depth = fixture.ports.queue.depth(QueueName::Files.into()).await.unwrap();
        (String::from_utf8(out).unwrap(), depth.waiting)
    }

    #[test]
    fn retry_is_distinguished_from_a_channel() {
        let parsed = parsed::<FilesCommand>;
        let list = parsed(&["C0123ABCD", "--json"]).unwrap();
        assert!(list.change.is_none() && list.list.channel.as_deref() == Some("C0123ABCD"));
        assert_eq!(parsed(&["#retry"]).unwrap().list.channel.as_deref(), Some("#retry"));
        let retry = parsed(&["retry", "F1", "F2", "--data", "x"]).unwrap();
        let Some(FilesChange::Retry(args)) = retry.change else { panic!("not retry") };
        assert_eq!((args.files.len(), args.all), (2, false));
        assert!(parsed(&["retry", "--all"]).is_ok() && parsed(&["retry"]).is_ok() && parsed(&[]).is_ok());
        assert!(parsed(&["retry", "--all", "F1"]).is_err());
        assert!(parsed(&["retry", "../f"]).is_err());
    }

    #[tokio::test]
    async fn likely_files_are_retried_and_others_only_on_request() {
        let fixture = CliFixture::open().await;
        for (id, mode) in
            [("F1", "hosted"), ("F2", "hidden_by_limit"), ("F3", "external"), ("F4", "tombstone")]
        {
            let file = json!({ "id": id, "mode": mode, "external_type": "gdrive", "url_private": "https://files.slack.com/f" });
            fixture.share("T1", "C1", "1700000001.000000", &file).await;
        }
        // The fixture has already sent the jobs of the messages.
        let before = fixture.ports.queue.depth(QueueName::Files.into()).await.unwrap().waiting;
        let (output, waiting) = run_retry(&fixture, &[], false).await;
        assert_eq!((output.as_str(), waiting - before), ("1 file is on the queue again.\n", 1));
        // A retry at the same time sends the same job, which is deduplicated.
        assert_eq!(run_retry(&fixture, &[], false).await.1 - before, 1);
        fixture.advance();
        let (output, waiting) = run_retry(&fixture, &[], true).await;
        assert_eq!((output.as_str(), waiting - before), ("2 files are on the queue again.\n", 3));
        fixture.advance();
        let (output, waiting) = run_retry(&fixture, &["F2", "F3", "F4"], false).await;
        assert_eq!(
            output,
            "F3 cannot be fetched: it is kept on gdrive\nF4 cannot be fetched: it was deleted in Slack\n1 file is on the queue again.\n"
        );
        assert_eq!(waiting - before, 4);
    }

    #[tokio::test]
    async fn an_unknown_file_is_an_error_with_a_hint() {
        let fixture = CliFixture::open().await;
        let args = retry_args(&fixture, &["F9"], false);
        let error = retry(&fixture.backend, &*fixture.ports.clock, &args, &mut Vec::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "no file F9 in this archive: `annalist files` shows them");
        assert!(run_retry(&fixture, &[], false).await.0.starts_with("No file failed or is pending"));
    }
}
