//! `annalist files retry`: asks again for files that are not held.

use std::io::Write;

use anyhow::bail;
use clap::Subcommand;
use ports::archive::{Archive, Item, ItemKey, Query, key, query_all};
use ports::clock::Clock;
use ports::queue::{Outgoing, Queue};
use process::config::backend::Backend;
use process::config::backend::BackendArgs;
use rules::file::{FileState, FileVerdict, job, row};
use slack::ids::{FileId, TeamId};

use crate::plain;
use crate::read::FilesArgs;

/// Rows read, and jobs sent, at once.
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

/// What can be done about files.
#[derive(Debug, Subcommand)]
pub(crate) enum FilesChange {
    /// Ask Slack again for files that failed or are pending
    #[command(after_help = "Examples: annalist files retry; annalist files retry F0123ABCD")]
    Retry(RetryArgs),
}

/// `annalist files retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    /// Only these files, whatever kept them from being fetched
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

/// How much is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryScope {
    /// What may well be there by now.
    Likely,
    /// All files, even those that were skipped or failed for good.
    All,
    /// What a person asks for by name.
    Named,
}

impl RetryScope {
    /// Whether a file in this state is asked for. What is elsewhere or gone for good never is.
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

/// Sends the jobs of files that are not held once more.
pub(crate) async fn retry(
    backend: &Backend,
    clock: &dyn Clock,
    args: &RetryArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (archive, queue) = (&*backend.archive(), &*backend.queue());
    // Told from every other time it is asked for.
    let nonce = clock.now().0.to_be_bytes();
    let teams = query_all(archive, Query::partition(key::TEAMS)).await?;
    let teams: Vec<TeamId> =
        teams.iter().filter_map(|item| TeamId::parse(&item.key.timestamp).ok()).collect();
    if !args.files.is_empty() {
        return named(archive, queue, &teams, &args.files, &nonce, out).await;
    }
    let reach = if args.all { RetryScope::All } else { RetryScope::Likely };
    let mut sent = 0;
    for team in &teams {
        let mut query = Query { limit: PAGE, ..Query::partition(key::files(team)) };
        loop {
            let page = archive.query(&query).await?;
            let jobs: Vec<Outgoing> =
                page.items.iter().filter_map(|row| job_of(team, row, reach, &nonce)).collect();
            sent += jobs.len();
            send(queue, jobs).await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    match (sent, reach) {
        (0, RetryScope::Likely) => writeln!(
            out,
            "No file failed or is pending; --all also asks for those that Slack hid or refused, or that were too long."
        )?,
        (0, RetryScope::All | RetryScope::Named) => writeln!(out, "No file could be asked for again.")?,
        (sent, RetryScope::Likely | RetryScope::All | RetryScope::Named) => {
            writeln!(out, "{} on the queue again.", counted(sent))?
        }
    }
    Ok(())
}

async fn named(
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
                None => writeln!(out, "{file} {}", not_asked(&row, file))?,
            }
        }
        if !found {
            bail!("no file {file} in this archive: `annalist files` shows them");
        }
    }
    let sent = jobs.len();
    send(queue, jobs).await?;
    if sent > 0 {
        writeln!(out, "{} on the queue again.", counted(sent))?;
    }
    Ok(())
}

fn counted(files: usize) -> String {
    if files == 1 { "1 file is".to_owned() } else { format!("{files} files are") }
}

fn job_of(team: &TeamId, row: &Item, reach: RetryScope, nonce: &[u8]) -> Option<Outgoing> {
    let file = FileId::parse(&row.key.timestamp).ok()?;
    let wanted = !row.is_erased() && reach.includes(row::state(row, &file).as_ref());
    wanted.then(|| job::again(team, row, nonce)).flatten()
}

/// Why a file that the user named is not fetched.
fn not_asked(row: &Item, file: &FileId) -> String {
    match row::state(row, file) {
        Some(FileState::Stored(key)) => format!("is held already, as {key}"),
        Some(FileState::Verdict(FileVerdict::External)) => {
            let place = row::object(row).and_then(|object| object.external_type);
            let place = place.map_or_else(|| "another service".to_owned(), |place| plain::line(&place));
            format!("cannot be fetched: it is kept on {place}")
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
    use clap::Parser;
    use ports::queue::QueueName;
    use serde_json::json;

    use super::*;
    use crate::fixture::CliFixture;

    #[derive(Parser)]
    struct FilesCli {
        #[command(flatten)]
        files: FilesCommand,
    }

    fn parsed(arguments: &[&str]) -> Result<FilesCommand, clap::Error> {
        FilesCli::try_parse_from([&["files"], arguments].concat()).map(|parsed| parsed.files)
    }

    fn retry_args(fixture: &CliFixture, files: &[&str], all: bool) -> RetryArgs {
        let files = files.iter().map(|file| FileId::parse(file).unwrap()).collect();
        RetryArgs { files, all, backend: fixture.data() }
    }

    /// What it says, and how many jobs are on the queue after it.
    async fn retried(fixture: &CliFixture, files: &[&str], all: bool) -> (String, u64) {
        let mut out = Vec::new();
        let args = retry_args(fixture, files, all);
        retry(&fixture.backend, &*fixture.ports.clock, &args, &mut out).await.unwrap();
        let depth = fixture.ports.queue.depth(QueueName::Files.into()).await.unwrap();
        (String::from_utf8(out).unwrap(), depth.waiting)
    }

    #[test]
    fn retry_is_told_from_a_channel() {
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
    async fn what_may_be_there_by_now_is_asked_for_and_the_rest_when_it_is_named() {
        let fixture = CliFixture::open().await;
        for (id, mode) in
            [("F1", "hosted"), ("F2", "hidden_by_limit"), ("F3", "external"), ("F4", "tombstone")]
        {
            let file = json!({ "id": id, "mode": mode, "external_type": "gdrive", "url_private": "https://files.slack.com/f" });
            fixture.share("T1", "C1", "1.000000", &file).await;
        }
        // The fixture has sent what follows from a message already.
        let before = fixture.ports.queue.depth(QueueName::Files.into()).await.unwrap().waiting;
        let (said, waiting) = retried(&fixture, &[], false).await;
        assert_eq!((said.as_str(), waiting - before), ("1 file is on the queue again.\n", 1));
        // The same moment again is the same question.
        assert_eq!(retried(&fixture, &[], false).await.1 - before, 1);
        fixture.advance();
        let (said, waiting) = retried(&fixture, &[], true).await;
        assert_eq!((said.as_str(), waiting - before), ("2 files are on the queue again.\n", 3));
        fixture.advance();
        let (said, waiting) = retried(&fixture, &["F2", "F3", "F4"], false).await;
        assert_eq!(
            said,
            "F3 cannot be fetched: it is kept on gdrive\nF4 cannot be fetched: it was deleted in Slack\n1 file is on the queue again.\n"
        );
        assert_eq!(waiting - before, 4);
    }

    #[tokio::test]
    async fn what_is_unknown_is_an_error_that_says_where_to_look() {
        let fixture = CliFixture::open().await;
        let args = retry_args(&fixture, &["F9"], false);
        let error = retry(&fixture.backend, &*fixture.ports.clock, &args, &mut Vec::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "no file F9 in this archive: `annalist files` shows them");
        assert!(retried(&fixture, &[], false).await.0.starts_with("No file failed or is pending"));
    }
}
