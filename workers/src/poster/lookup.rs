//! Looks up a part that may have been posted: in the archive, which receives the app's own messages as
//! events, then in Slack.

use std::time::Duration;

use metrics::counter;
use ports::archive::key::thread_parent;
use ports::archive::{Archive, ArchiveError, Item, Query, key, query_all};
use ports::metrics::REPLY_LOOKUPS;
use rules::question::QuestionId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use slack::envelope;
use slack::ids::Ts;
use slack_api::{ApiError, Method};

use super::Poster;
use super::message::METADATA;
use crate::failure::JobFailure;

/// Messages of a thread in one call: Slack recommends no more than 200.
const PAGE: &str = "200";

/// Maximum number of pages of a thread; a circular cursor exceeds it.
const MAX_PAGES: usize = 500;

/// If the lookup was inconclusive, the part counts as missing this long after the attempt, according to the
/// archive at that time.
pub(super) const UNSEEN_FOR: Duration = Duration::from_secs(60);

/// Refusals that stay: this app cannot read the thread. Any other one says nothing about the part.
/// <https://docs.slack.dev/reference/methods/conversations.replies#errors>
const HIDING: [&str; 5] =
    ["channel_not_found", "missing_scope", "no_permission", "not_allowed_token_type", "not_in_channel"];

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The part was posted as this message.
    Found(Ts),
    /// The part is not in the thread.
    Missing,
    /// Slack does not permit reading the thread.
    Hidden(String),
    /// Slack rejects the token, and would not permit posting either.
    Stopped(String),
}

/// A page without messages is invalid, and does not prove that the part is missing.
#[derive(Deserialize)]
struct RepliesPage<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    response_metadata: Option<Value>,
}

impl Poster {
    pub(super) async fn look_up_part(&self, id: &QuestionId, number: usize) -> Result<Lookup, JobFailure> {
        let archive = &*self.ports.archive;
        let (lookup, found) = match find_in_archive(archive, id, number).await? {
            Some(ts) => (Lookup::Found(ts), "archive"),
            None => match self.find_in_slack(id, number).await? {
                lookup @ Lookup::Found(_) => (lookup, "slack"),
                lookup @ (Lookup::Missing | Lookup::Hidden(_) | Lookup::Stopped(_)) => (lookup, "nowhere"),
            },
        };
        counter!(REPLY_LOOKUPS, "found" => found).increment(1);
        Ok(lookup)
    }

    async fn find_in_slack(&self, id: &QuestionId, number: usize) -> Result<Lookup, JobFailure> {
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let parameters = [
                ("channel", id.channel.as_str()),
                ("ts", id.thread_ts.as_str()),
                ("oldest", id.ts.as_str()),
                ("include_all_metadata", "true"),
                ("limit", PAGE),
                ("cursor", cursor.as_str()),
            ];
            let reply = match self
                .web
                .call_without_pauses(&id.team, Method::ConversationsReplies, &parameters)
                .await
            {
                Ok(reply) => reply,
                // A missing thread has no replies.
                Err(error) if error.refusal_code() == Some("thread_not_found") => return Ok(Lookup::Missing),
                Err(error) if error.is_token_error() => return Ok(Lookup::Stopped(error.to_string())),
                Err(error) if error.refusal_code().is_some_and(|code| HIDING.contains(&code)) => {
                    return Ok(Lookup::Hidden(error.to_string()));
                }
                Err(ApiError::RateLimited { retry_after, .. }) => {
                    return Err(JobFailure::Postponed(
                        "Slack wants a pause before a lookup".into(),
                        retry_after,
                    ));
                }
                Err(
                    error @ (ApiError::NoToken(_)
                    | ApiError::WrongToken { .. }
                    | ApiError::Refused { .. }
                    | ApiError::Unreachable { .. }
                    | ApiError::Garbled { .. }),
                ) => return Err(JobFailure::Transient(error.to_string())),
            };
            let page: RepliesPage<'_> =
                reply.read().map_err(|error| JobFailure::Transient(error.to_string()))?;
            if let Some(ts) = page.messages.iter().find_map(|message| ts_of_part(message.get(), id, number)) {
                return Ok(Lookup::Found(ts));
            }
            let next = page.response_metadata.as_ref().and_then(|metadata| metadata["next_cursor"].as_str());
            match next.filter(|next| !next.is_empty()) {
                Some(next) => cursor = next.to_owned(),
                None => return Ok(Lookup::Missing),
            }
        }
        Err(JobFailure::Transient("Slack returns more than 500 pages for a thread".into()))
    }
}

/// Finds the part among the archived replies of the thread.
async fn find_in_archive(
    archive: &dyn Archive,
    id: &QuestionId,
    number: usize,
) -> Result<Option<Ts>, ArchiveError> {
    let partition = key::messages(&id.team, &id.channel);
    let replies = query_all(archive, Query::parent(thread_parent(&id.team, &id.thread_ts))).await?;
    let of_channel = replies.iter().filter(|row: &&Item| row.key.item_id == partition);
    let mut raw = of_channel.filter_map(rules::message::raw_event);
    Ok(raw.find_map(|raw| ts_of_part(raw, id, number)))
}

/// The timestamp of a message if it is this part of the answer.
fn ts_of_part(raw: &str, id: &QuestionId, number: usize) -> Option<Ts> {
    // Most messages return here, without parsing.
    if !raw.contains(METADATA) {
        return None;
    }
    let message = envelope::parse_value(raw).ok()?;
    let metadata = &message["metadata"];
    let payload = &metadata["event_payload"];
    let is_part = metadata["event_type"] == METADATA
        && payload["id"].as_str() == Some(&id.name())
        && payload["part"].as_u64() == u64::try_from(number).ok();
    is_part.then(|| Ts::parse(message["ts"].as_str()?).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_messages_is_not_a_thread_page() {
        assert!(serde_json::from_str::<RepliesPage<'_>>(r#"{"ok":true,"channels":7}"#).is_err());
        assert!(
            serde_json::from_str::<RepliesPage<'_>>(r#"{"ok":true,"messages":[{"ts":"1.000000"}]}"#).is_ok()
        );
    }
}
