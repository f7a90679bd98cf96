//! Answers of the API: each is what the read command prints for the reader's archive.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use ports::archive::Archive;
use process::config::IndexArgs;
use reader::access::Reader;
use reader::search::query::SearchQuery;
use serde::Deserialize;

use super::ReadApi;
use super::error::ApiError;
use super::routes::{ApiCall, ApiCommand, ApiRoute, WITH_NAMES};
use crate::UsageError;
use crate::plain;
use crate::read::{
    self, ChannelArgs, ChannelsArgs, FilesArgs, MessageArgs, MessagesArgs, ReadError, SnapshotArgs, UsersArgs,
};
use crate::search::{SearchOptions, SearchableArchive, print_json};

/// Maximum size of a body: 8 concurrent answers then take 128 MiB at most.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Maximum number of revisions that a call leaves out: no message has as many.
const MAX_SKIPPED: usize = 100_000;

/// The lines of an answer, and the query of the next ones if it is cut.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) next: Option<String>,
}

/// A body that is not larger than [`MAX_BODY_BYTES`].
#[derive(Default)]
struct BoundedBody(Vec<u8>);

impl Write for BoundedBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BODY_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the command of a route.
pub(super) async fn answer(
    api: &ReadApi,
    route: &ApiRoute,
    call: ApiCall,
    reader: &Reader,
    archive: Arc<dyn Archive>,
) -> Result<Answer, ApiError> {
    let mut body = BoundedBody::default();
    let out = &mut body;
    let args = |limit| call.read_args(&api.backend, &api.zone, limit);
    let searchable = || {
        let (source, sight, team) = (Arc::clone(&api.search), reader.sight.clone(), call.team.clone());
        SearchableArchive::for_reader(source, Arc::clone(&archive), sight, team, &api.zone)
    };
    // One line more says whether the answer is cut.
    let one_more = call.limit.map(|limit| limit + 1);
    let in_channel = |limit| ChannelArgs { channel: call.channel(), read: args(limit) };
    let next = match route.command {
        ApiCommand::Channels => {
            let index = IndexArgs { folder: None };
            let args = ChannelsArgs { count: false, figures: false, index, read: args(call.limit) };
            read::channels(&searchable(), &args, out).await?;
            None
        }
        ApiCommand::Channel => {
            let channel = in_channel(call.limit);
            let args = SnapshotArgs { channel, history: false, figures: false, forget_public: false };
            read::channel(&*archive, &args, out).await?;
            None
        }
        ApiCommand::Messages => {
            let (since, until) = (call.time("since")?, call.time("until")?);
            let channel = in_channel(one_more);
            let with_names = call.flag(WITH_NAMES)?;
            let args = MessagesArgs { channel, since, until, flat: false, figures: false, with_names };
            read::messages(&*archive, &args, out).await?;
            keep_newest(&mut body.0, call.limit).then(|| first_ts(&body.0)).flatten()
        }
        ApiCommand::Thread => {
            let args = message(&call, args(one_more))?;
            read::thread(&*archive, &args, out).await?;
            keep_newest(&mut body.0, call.limit).then(|| first_ts(&body.0)).flatten()
        }
        ApiCommand::Revisions => {
            let skipped = call.number("skip", MAX_SKIPPED)?.unwrap_or_default();
            let args = message(&call, args(one_more.map(|limit| limit + skipped)))?;
            read::revisions(&*archive, &args, out).await?;
            drop_newest(&mut body.0, skipped);
            let skipped = skipped + call.limit.unwrap_or_default();
            keep_newest(&mut body.0, call.limit).then(|| skipped.to_string())
        }
        ApiCommand::Users => {
            read::users(&*archive, &UsersArgs { history: None, figures: false, read: args(call.limit) }, out)
                .await?;
            None
        }
        ApiCommand::Files => {
            let channel = call.text("channel").map(|_| call.channel());
            let args = FilesArgs { channel, with_names: call.flag(WITH_NAMES)?, read: args(call.limit) };
            read::files(&*archive, &args, out).await?;
            None
        }
        ApiCommand::Search => search(&call, &searchable(), out).await?,
    };
    let next = next.map(|next| call.query_with(next_parameter(route.command), &next));
    Ok(Answer { body: body.0, next })
}

/// The parameter with which an answer goes on.
fn next_parameter(command: ApiCommand) -> &'static str {
    match command {
        ApiCommand::Search => "before",
        ApiCommand::Revisions => "skip",
        ApiCommand::Messages
        | ApiCommand::Thread
        | ApiCommand::Channels
        | ApiCommand::Channel
        | ApiCommand::Users
        | ApiCommand::Files => "until",
    }
}

fn message(call: &ApiCall, read: read::ReadArgs) -> Result<MessageArgs, ApiError> {
    let ts = call.ts("ts")?.ok_or_else(|| ApiError::invalid("the parameter ts is missing"))?;
    let (until, with_names) = (call.ts("until")?, call.flag(WITH_NAMES)?);
    Ok(MessageArgs { channel: call.channel(), ts, thread_ts: None, until, with_names, read })
}

/// Searches, and returns the position from which it goes on.
async fn search(
    call: &ApiCall,
    searchable: &SearchableArchive,
    out: &mut BoundedBody,
) -> Result<Option<String>, ApiError> {
    let invalid = |error: &dyn std::fmt::Display| ApiError::invalid(plain::line(&error.to_string()));
    let query = SearchQuery::parse(call.text("q").unwrap_or_default()).map_err(|error| invalid(&error))?;
    let before = call.number("before", usize::MAX)?.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
    let with_deleted = call.flag("include_deleted")?;
    let limit = call.limit.unwrap_or_default();
    let options = SearchOptions { query, limit: limit + 1, is_ranked: false, with_deleted, before };
    let mut answer = match searchable.answer(options).await {
        Ok((answer, _)) => answer,
        Err(error) if error.is::<UsageError>() => return Err(invalid(&error)),
        Err(error) => return Err(ApiError::failed(&format!("{error:#}"))),
    };
    let is_more = answer.hits.len() > limit;
    answer.hits.truncate(limit);
    print_json(&answer, out).map_err(ReadError::from)?;
    let last = answer.hits.last().map(|hit| hit.position);
    let next = if is_more { last } else { answer.next };
    Ok(next.map(|next| next.to_string()))
}

/// Removes the first line if there are more lines than the limit, and says whether it did.
fn keep_newest(lines: &mut Vec<u8>, limit: Option<usize>) -> bool {
    let Some(limit) = limit else { return false };
    if lines.iter().filter(|byte| **byte == b'\n').count() <= limit {
        return false;
    }
    let first = lines.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    lines.drain(..first);
    true
}

/// Removes the last lines.
fn drop_newest(lines: &mut Vec<u8>, count: usize) {
    let ends: Vec<usize> =
        lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end + 1).collect();
    let kept = ends.len().saturating_sub(count);
    lines.truncate(kept.checked_sub(1).map_or(0, |last| ends[last]));
}

/// The timestamp of the message in the first line.
fn first_ts(lines: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct First {
        ts: String,
    }
    let first = lines.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<First>(first).ok().map(|first| first.ts)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn an_answer_that_is_too_large_says_so() {
        let mut body = BoundedBody::default();
        let line = [b'x'; 1024];
        let error = (0..).find_map(|_| body.write_all(&line).err()).unwrap();
        assert_eq!(body.0.len(), MAX_BODY_BYTES);
        let error = ApiError::from(ReadError::from(error));
        assert_eq!(error.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(error.line.contains("ask for less"), "{}", error.line);
    }

    #[test]
    fn lines_are_cut_at_either_end() {
        for (lines, limit, skipped, expected, is_cut) in [
            ("a\nb\nc\n", Some(3), 0, "a\nb\nc\n", false),
            ("a\nb\nc\n", Some(2), 0, "b\nc\n", true),
            ("a\nb\nc\n", None, 0, "a\nb\nc\n", false),
            ("a\nb\nc\n", Some(1), 1, "b\n", true),
            ("a\nb\nc\n", Some(2), 2, "a\n", false),
            ("a\nb\nc\n", Some(2), 3, "", false),
            ("", Some(1), 1, "", false),
        ] {
            let mut cut = lines.as_bytes().to_vec();
            drop_newest(&mut cut, skipped);
            assert_eq!(keep_newest(&mut cut, limit), is_cut, "{lines:?}, {limit:?}, {skipped}");
            assert_eq!(String::from_utf8(cut).unwrap(), expected, "{lines:?}, {limit:?}, {skipped}");
        }
    }
}
