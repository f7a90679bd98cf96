//! Looks for a part that may have been posted: in the archive, which gets the app's own messages as events, then in Slack.

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

/// A thread has at most this many pages; a cursor that leads in circles has more.
const MAX_PAGES: usize = 500;

/// If the look was inconclusive, the part counts as missing this long after the attempt, by what the archive knows then.
pub(super) const UNSEEN_FOR: Duration = Duration::from_secs(60);

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The part is there, as this message.
    Found(Ts),
    /// It is not in the thread.
    Missing,
    /// Slack does not let the thread be read.
    Hidden(String),
    /// Slack takes the token for nothing, and would not let it post either.
    Stopped(String),
}

/// Without messages an answer is no page, and does not say that the part is missing.
#[derive(Deserialize)]
struct RepliesPage<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    response_metadata: Option<Value>,
}

impl Poster {
    /// Looks for a part.
    pub(super) async fn look_for(&self, id: &QuestionId, number: usize) -> Result<Lookup, JobFailure> {
        let archive = &*self.ports.archive;
        let (lookup, found) = match in_archive(archive, id, number).await? {
            Some(ts) => (Lookup::Found(ts), "archive"),
            None => match self.in_slack(id, number).await? {
                lookup @ Lookup::Found(_) => (lookup, "slack"),
                lookup @ (Lookup::Missing | Lookup::Hidden(_) | Lookup::Stopped(_)) => (lookup, "nowhere"),
            },
        };
        counter!(REPLY_LOOKUPS, "found" => found).increment(1);
        Ok(lookup)
    }

    async fn in_slack(&self, id: &QuestionId, number: usize) -> Result<Lookup, JobFailure> {
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
            let reply =
                match self.web.call_without_pauses(&id.team, Method::ConversationsReplies, &parameters).await
                {
                    Ok(reply) => reply,
                    // No thread, no reply.
                    Err(error) if error.refusal() == Some("thread_not_found") => return Ok(Lookup::Missing),
                    Err(error) if error.is_of_token() => return Ok(Lookup::Stopped(error.to_string())),
                    Err(error @ ApiError::Refused { .. }) => return Ok(Lookup::Hidden(error.to_string())),
                    Err(ApiError::RateLimited { retry_after, .. }) => {
                        return Err(JobFailure::Postponed(
                            "Slack wants a pause before a look".into(),
                            retry_after,
                        ));
                    }
                    Err(
                        error @ (ApiError::NoToken(_)
                        | ApiError::WrongToken { .. }
                        | ApiError::Unreachable { .. }
                        | ApiError::Garbled { .. }),
                    ) => return Err(JobFailure::Transient(error.to_string())),
                };
            let page: RepliesPage<'_> =
                reply.read().map_err(|error| JobFailure::Transient(error.to_string()))?;
            if let Some(ts) = page.messages.iter().find_map(|message| part_in(message.get(), id, number)) {
                return Ok(Lookup::Found(ts));
            }
            let next = page.response_metadata.as_ref().and_then(|metadata| metadata["next_cursor"].as_str());
            match next.filter(|next| !next.is_empty()) {
                Some(next) => cursor = next.to_owned(),
                None => return Ok(Lookup::Missing),
            }
        }
        Err(JobFailure::Transient("Slack says that a thread has more than 500 pages".into()))
    }
}

/// The part in what the archive has of the thread.
async fn in_archive(
    archive: &dyn Archive,
    id: &QuestionId,
    number: usize,
) -> Result<Option<Ts>, ArchiveError> {
    let partition = key::messages(&id.team, &id.channel);
    let replies = query_all(archive, Query::parent(thread_parent(&id.team, &id.thread_ts))).await?;
    let of_channel = replies.iter().filter(|row: &&Item| row.key.item_id == partition);
    let mut raw = of_channel.filter_map(|row| row.text("raw_event"));
    Ok(raw.find_map(|raw| part_in(raw, id, number)))
}

/// The time of a message if it is this part of the answer.
fn part_in(raw: &str, id: &QuestionId, number: usize) -> Option<Ts> {
    // Most messages end here.
    if !raw.contains(METADATA) {
        return None;
    }
    let message = envelope::value(raw).ok()?;
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
    fn an_answer_without_messages_is_no_page_of_a_thread() {
        assert!(serde_json::from_str::<RepliesPage<'_>>(r#"{"ok":true,"channels":7}"#).is_err());
        assert!(
            serde_json::from_str::<RepliesPage<'_>>(r#"{"ok":true,"messages":[{"ts":"1.000000"}]}"#).is_ok()
        );
    }
}
