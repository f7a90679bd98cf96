//! `conversations.history` and `conversations.replies`.
//! <https://docs.slack.dev/reference/methods/conversations.history>
//! <https://docs.slack.dev/reference/methods/conversations.replies>

use serde_json::{Value, json};
use slack::ids::Ts;

use crate::answer::refused;
use crate::history::ChannelHistory;
use crate::paging::Paging;
use crate::span::SpanRequest;
use crate::volatile::vary;
use crate::workspace::FakeWorkspace;

/// Answers `conversations.history`: a channel's own messages, newest first. `nonce` differs for each call.
pub(crate) fn history<'a>(
    workspace: &FakeWorkspace,
    parameter: &impl Fn(&str) -> &'a str,
    paging: Paging,
    nonce: usize,
) -> Value {
    let request = match SpanRequest::read(workspace, parameter, paging) {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let empty = ChannelHistory::default();
    let history = workspace.history.get(parameter("channel")).unwrap_or(&empty);
    let before = request.position.unwrap_or(request.before);
    let in_range = |ts: &&Ts| (request.after + 1..before).contains(&ts.micros());
    let mut rest = history.in_channel_before(before).filter(in_range).peekable();
    let is_visible = |ts: &Ts| ts.micros() >= request.visible_from;
    // A page after a cursor is never empty, so that following the cursors ends.
    let may_be_empty = workspace.empty_page_every > 0 && parameter("cursor").is_empty();
    let is_empty = may_be_empty && nonce.is_multiple_of(workspace.empty_page_every);
    let limit = if is_empty { 0 } else { request.limit };
    let is_newer = |ts: &&Ts| ts.micros() >= before && before != i64::MAX;
    let newer: Vec<&Ts> = history.in_channel_before(i64::MAX).filter(is_newer).collect();
    let mut page = Vec::new();
    while let Some(ts) = rest.next_if(|ts| page.len() < limit && is_visible(ts)) {
        page.push(ts);
    }
    let next = rest.peek().filter(|ts| is_visible(ts)).map(|_| {
        let position = page.last().map_or(before, |last| last.micros());
        paging.cursor(position)
    });
    // The messages of the page before this one, in their place.
    let repeated = newer.into_iter().rev().take(paging.repeated_entries);
    let repeated: Vec<&Ts> = repeated.filter(|ts| is_visible(ts)).collect();
    let messages = repeated.into_iter().rev().chain(page).map(|ts| {
        let mut message = shown(workspace, (parameter("channel"), history), ts, &request, nonce);
        if message["subtype"] == "thread_broadcast"
            && let Some(root) = message["thread_ts"].as_str().and_then(|root| Ts::parse(root).ok())
        {
            message["root"] = shown(workspace, (parameter("channel"), history), &root, &request, nonce);
        }
        message
    });
    let mut answer = json!({ "ok": true, "messages": messages.collect::<Vec<_>>(), "has_more": next.is_some(),
        "pin_count": 0, "channel_actions_ts": null, "channel_actions_count": 0 });
    if let Some(next) = next {
        answer["response_metadata"] = json!({ "next_cursor": next });
    } else if rest.peek().is_some() {
        // "There are messages before the current result set, but they are beyond the message limit."
        answer["is_limited"] = true.into();
    }
    answer
}

/// Answers `conversations.replies`: a thread, oldest first, with its root first on every page.
pub(crate) fn replies<'a>(
    workspace: &FakeWorkspace,
    parameter: &impl Fn(&str) -> &'a str,
    paging: Paging,
    nonce: usize,
) -> Value {
    let request = match SpanRequest::read(workspace, parameter, paging) {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let Ok(root) = Ts::parse(parameter("ts")) else { return refused("invalid_arguments") };
    let Some(history) = workspace
        .history
        .get(parameter("channel"))
        .filter(|history| history.contains(&root) && root.micros() >= request.visible_from)
    else {
        return refused("thread_not_found");
    };
    let after = request.position.unwrap_or(request.after).max(request.visible_from - 1);
    let in_range = |ts: &&Ts| (after + 1..request.before).contains(&ts.micros());
    let mut rest = history.replies(&root).filter(in_range).peekable();
    // The root counts as one object of a page, and every page has at least one reply, so that paging
    // advances.
    let page: Vec<&Ts> = rest.by_ref().take((request.limit - 1).max(1)).collect();
    let next = rest.peek().zip(page.last()).map(|(_, last)| paging.cursor(last.micros()));
    let earlier: Vec<&Ts> = history.replies(&root).filter(|ts| ts.micros() <= after).collect();
    let repeated_entries = if request.position.is_some() { paging.repeated_entries } else { 0 };
    let repeated = earlier.into_iter().rev().take(repeated_entries).rev();
    let page: Vec<&Ts> = repeated.chain(page).collect();
    let parent = shown(workspace, (parameter("channel"), history), &root, &request, nonce);
    let author = parent["user"].clone();
    let replies = page.into_iter().map(|ts| {
        let mut message = shown(workspace, (parameter("channel"), history), ts, &request, nonce);
        message["parent_user_id"] = author.clone();
        message
    });
    let messages: Vec<Value> = std::iter::once(parent.clone()).chain(replies).collect();
    let mut answer = json!({ "ok": true, "messages": messages, "has_more": next.is_some() });
    if let Some(next) = next {
        answer["response_metadata"] = json!({ "next_cursor": next });
    }
    answer
}

fn shown(
    workspace: &FakeWorkspace,
    (channel, history): (&str, &ChannelHistory),
    ts: &Ts,
    request: &SpanRequest,
    nonce: usize,
) -> Value {
    let mut message = history.shown_message(channel, ts, workspace.listed_reaction_users);
    if !request.metadata
        && let Value::Object(members) = &mut message
    {
        members.remove("metadata");
    }
    if workspace.volatile {
        vary(&mut message, ts, nonce);
    }
    message
}

#[cfg(test)]
#[path = "conversations_tests.rs"]
mod tests;
