//! The state of the files of messages, in words.

use ports::archive::{Archive, ArchiveError, Item, Query, key};
use rules::file::row;
use rules::project;
use rules::view::{MessageView, file_id_text, is_file_deleted};
use serde::Serialize;
use serde_json::Value;
use slack::ids::{Ts, UserId};

use crate::find;

/// Maximum number of files of a workspace that are counted, so that a count takes a fraction of a second.
const MAX_COUNTED: usize = 20_000;

/// Files that are not stored although Slack may have them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MissingFiles {
    /// Files that could not be fetched.
    pub failed: u64,
    /// Files that wait for a token, or that are about to be fetched.
    pub pending: u64,
    /// Whether there are more files than were counted.
    pub is_partial: bool,
}

impl MissingFiles {
    /// Whether no counted file is missing.
    pub fn is_empty(&self) -> bool {
        self.failed == 0 && self.pending == 0
    }
}

/// Counts the files of all workspaces that are not stored.
pub async fn missing(archive: &dyn Archive) -> Result<MissingFiles, ArchiveError> {
    let mut missing = MissingFiles::default();
    for team in find::teams(archive).await? {
        let mut query = Query::partition(key::files(&team));
        let mut counted = 0;
        loop {
            let page = archive.query(&query).await?;
            counted += page.items.len();
            for state in page.items.iter().filter_map(project::file_state) {
                missing.failed += u64::from(state == "failed");
                missing.pending += u64::from(state == "pending");
            }
            let Some(next) = page.next else { break };
            if counted >= MAX_COUNTED {
                missing.is_partial = true;
                break;
            }
            query.after = Some(next);
        }
    }
    Ok(missing)
}

/// Who uploaded a file, and when.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FileOrigin {
    pub user: Option<UserId>,
    /// When a message shared it for the last time, or otherwise when it was uploaded.
    pub shared_at: Option<Ts>,
}

impl FileOrigin {
    /// Reads it from a file's row.
    pub fn read(item: &Item) -> Self {
        let object = row::object(item);
        let user = object.as_ref().and_then(|object| UserId::parse(object.user.as_deref()?).ok());
        let shared_at = row::shares(item).map(|share| share.ts).max_by_key(Ts::micros);
        let created = || Ts::parse(&format!("{}.000000", object.as_ref()?.created?)).ok();
        Self { user, shared_at: shared_at.or_else(created) }
    }
}

/// Returns the explanation of a verdict, for people.
pub fn verdict_text(verdict: &str) -> &str {
    match verdict {
        "pending" => "there was no token for this workspace",
        "hidden_by_limit" => "Slack's plan hides it",
        "access_denied" => "the app may not have it",
        "too_big" => "it is longer than --max-file-bytes",
        "not_found" => "Slack does not know it",
        "gone" => "Slack does not have it any more",
        "external" => "it is kept on another service",
        "tombstone" => "it was deleted before it could be fetched",
        "failed" => "it could not be fetched: `annalist files retry` asks again",
        "too_many_versions" => "there are too many versions: one is kept per day",
        other => other,
    }
}

/// Returns the state of a message's file: `held`, `deleted`, `failed` or a verdict; `None` while it is
/// unknown. A file that is held may be deleted in Slack, see [`is_file_deleted`].
pub fn file_state<'m>(message: &'m MessageView, file: &Value) -> Option<&'m str> {
    let id = file_id_text(file)?;
    // The last part of a file's key is its id, followed by a name if it is another version.
    if message
        .stored_files()
        .any(|uri| uri.rsplit('/').next().and_then(|name| name.split('.').next()) == Some(id))
    {
        return Some("held");
    }
    if is_file_deleted(file) {
        return Some("deleted");
    }
    message.file_verdict(id).or(message.has_failed_files().then_some("failed"))
}

#[cfg(test)]
mod tests {
    use ports::archive::{ArchiveExt, ItemKey, Update};
    use rules::file::{FileState, FileVerdict, row};
    use slack::ids::{FileId, TeamId};
    use testkit::memory::archive::MemoryArchive;

    use super::*;

    #[tokio::test]
    async fn failed_and_pending_files_of_all_workspaces_are_counted() {
        let archive = MemoryArchive::new();
        for team in ["T1", "T2"].map(|team| TeamId::parse(team).unwrap()) {
            archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
            let states = [
                FileState::failed("Slack answered 500"),
                FileState::failed("the token was refused"),
                FileState::Verdict(FileVerdict::Pending),
                FileState::Verdict(FileVerdict::NotFound),
            ];
            for (number, state) in states.iter().enumerate() {
                let file = FileId::parse(&format!("F{number}")).unwrap();
                archive.write(&row::settled(&team, &file, state)).await.unwrap();
            }
        }
        let expected = MissingFiles { failed: 4, pending: 2, is_partial: false };
        assert_eq!(missing(&archive).await.unwrap(), expected);
    }
}
