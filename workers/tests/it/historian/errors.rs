//! Errors from Slack in the middle of a read: pages that were read stay, and the rest is read if possible.

use reader::gaps;
use serde_json::json;
use testkit::fake_slack::{SlackAnswer, refusal};

use super::*;

const HISTORY: &str = "conversations.history";
const REPLIES: &str = "conversations.replies";

/// A response larger than the client accepts.
fn too_long() -> SlackAnswer {
    SlackAnswer::new(200).with_body(vec![b' '; 17 * 1024 * 1024])
}

/// Thirty messages; the first has ten replies.
fn messages() -> Vec<Value> {
    let messages = (0..30).map(|n| message_at(BEGINNING + n, "hi"));
    messages.chain((0..10).map(|n| reply_at(BEGINNING + 100 + n, BEGINNING))).collect()
}

impl HistorianFixture {
    /// Values of a parameter in all calls of a method; empty if a call does not have it.
    fn parameter_values(&self, method: &str, parameter: &str) -> Vec<String> {
        let calls = self.slack.calls().into_iter().filter(|call| call.method == method);
        calls.map(|mut call| call.parameters.remove(parameter).unwrap_or_default()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_history_cursor_is_dropped_and_the_page_is_requested_again() {
    let fixture = HistorianFixture::with_messages(&messages());
    let empty = json!({ "ok": true, "messages": [], "has_more": true,
        "response_metadata": { "next_cursor": "expired" } });
    fixture.slack.plan_answers(HISTORY, [SlackAnswer::json(&empty)]);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.new), (SpanEnd::Whole, 40));
    assert_eq!(fixture.parameter_values(HISTORY, "cursor"), ["", "expired", ""]);
    assert_eq!(fixture.parameter_values(HISTORY, "latest"), vec![ts(END).to_string(); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_thread_of_several_pages_is_read_to_its_end_even_if_its_cursors_expire() {
    for (life, calls) in [(None, 4), (Some(Duration::ZERO), 7)] {
        let fixture = HistorianFixture::with_messages(&messages());
        // The root counts as one of the four.
        fixture.slack.set_page_size(4);
        if let Some(life) = life {
            fixture.slack.with_state(|state| state.set_cursor_lifetime(life));
        }
        let (end, tally) = fixture.read(0, END).await;
        assert_eq!((end, tally.new, tally.threads), (SpanEnd::Whole, 40, 1));
        assert_eq!(fixture.texts().await.len(), 40);
        assert_eq!(fixture.slack.call_count(REPLIES), calls);
        // After each call with an expired cursor, the next call starts at the newest reply.
        let after = fixture.parameter_values(REPLIES, "oldest").into_iter().filter(|after| !after.is_empty());
        let expected: Vec<String> = match life {
            None => Vec::new(),
            Some(_) => [2, 2, 5, 5, 8].map(|n| ts(BEGINNING + 100 + n).to_string()).to_vec(),
        };
        assert_eq!(after.collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_halved_and_so_are_the_following_pages() {
    let fixture = HistorianFixture::with_messages(
        &(0..400).map(|n| message_at(BEGINNING + n, "hi")).collect::<Vec<_>>(),
    );
    fixture.slack.plan_answers(HISTORY, [too_long(), too_long()]);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.new), (SpanEnd::Whole, 400));
    assert_eq!(fixture.parameter_values(HISTORY, "limit"), ["999", "499", "249", "249"]);

    // A page that fails is requested once with a smaller limit: it may have taken Slack too long.
    let fixture = HistorianFixture::with_messages(
        &(0..600).map(|n| message_at(BEGINNING + n, "hi")).collect::<Vec<_>>(),
    );
    fixture.slack.plan_answers(HISTORY, [SlackAnswer::new(503)]);
    assert_eq!(fixture.read(0, END).await.1.new, 600);
    assert_eq!(fixture.parameter_values(HISTORY, "limit"), ["999", "499", "999"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_stays_too_large_fails_only_its_channel() {
    let fixture = HistorianFixture::with_messages(&messages());
    fixture.slack.plan_answers(HISTORY, std::iter::repeat_with(too_long).take(5));
    let (end, tally) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
    assert_eq!(end.unwrap_err().consequence(), Consequence::Channel(None));
    assert_eq!(fixture.parameter_values(HISTORY, "limit"), ["999", "499", "249", "124", "100"]);
    assert_eq!((tally, fixture.spans().await), (ReadSnapshot::default(), vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_response_without_messages_is_not_an_empty_channel_or_thread() {
    for method in [HISTORY, REPLIES] {
        for answer in [json!({ "ok": true }), json!({ "ok": true, "messages": null, "has_more": false })] {
            let fixture = HistorianFixture::with_messages(&messages());
            fixture.slack.plan_answers(method, [SlackAnswer::json(&answer)]);
            let (end, _) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
            assert_eq!(end.unwrap_err().consequence(), Consequence::Channel(None), "{method}");
            assert_eq!(fixture.spans().await, [], "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_slack_no_longer_knows_is_skipped_and_the_rest_is_read() {
    for code in ["thread_not_found", "message_not_found"] {
        let fixture = HistorianFixture::with_messages(&messages());
        fixture.slack.plan_answers(REPLIES, [refusal(code)]);
        let (end, tally) = fixture.read(0, END).await;
        assert_eq!((end, tally.new, tally.threads), (SpanEnd::Whole, 30, 1), "{code}");
        assert_eq!(fixture.spans().await, [(0, END)], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_revoked_during_a_read_stops_the_workspace_and_stored_pages_are_not_read_again() {
    let all: Vec<Value> = (0..30).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let newest: Vec<&Value> = all.iter().rev().take(10).collect();
    let page = json!({ "ok": true, "messages": newest, "has_more": true,
        "response_metadata": { "next_cursor": "next" } });
    let fixture = HistorianFixture::with_messages(&all);
    fixture.mark_public().await;
    fixture.add_outage(BEGINNING - 1, END).await;
    let unread = gaps::unread_spans(&*fixture.archive, &team(), &ts(END), 1).await.unwrap().remove(0);
    let (from, to) = (unread.from.micros() / 1_000_000, unread.to.micros() / 1_000_000);
    fixture.slack.plan_answers(HISTORY, [SlackAnswer::json(&page), refusal("token_revoked")]);
    let (end, tally) = fixture.read_into(&*fixture.archive, &span(from, to), 30).await;
    assert_eq!(end.unwrap_err().consequence(), Consequence::Workspace);
    assert_eq!((tally.new, fixture.spans().await), (10, vec![(BEGINNING + 20, to)]));

    // The job is not retried: the gap stays, and a later turn reads the rest.
    fixture.slack.plan_answers(HISTORY, [refusal("token_revoked")]);
    let historian = fixture.historian();
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!(fixture.spans().await, [(BEGINNING + 20, to)]);
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!((fixture.texts().await.len(), fixture.spans().await), (30, vec![(from, to)]));
    assert_eq!(fixture.parameter_values(HISTORY, "latest").last(), Some(&ts(BEGINNING + 20).to_string()));
}
