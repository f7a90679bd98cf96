//! The state of the files of messages, in words.

use serde_json::Value;

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

/// Whether a message's file was deleted in Slack. Its bytes stay if they were stored before.
pub fn is_deleted(file: &Value) -> bool {
    file["deleted"] == true
}

/// Returns the state of a message's file: `held`, `deleted`, `failed` or a verdict; `None` while it is
/// unknown. A file that is held may be deleted in Slack, see [`is_deleted`].
pub fn file_state<'m>(message: &'m Value, file: &Value) -> Option<&'m str> {
    let id = file["id"].as_str()?;
    let mut stored_uris = message["files_s3"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // The last part of a file's key is its id, followed by a name if it is another version.
    if stored_uris.any(|uri| uri.rsplit('/').next().and_then(|name| name.split('.').next()) == Some(id)) {
        return Some("held");
    }
    if is_deleted(file) {
        return Some("deleted");
    }
    let failed = (message["files_fetch_failed"] == true).then_some("failed");
    message["files_verdict"][id].as_str().or(failed)
}
