//! What Slack refuses in the middle of reading: what was read stays, and what can be read still is.

use serde_json::json;
use testkit::fake_slack::{SlackAnswer, refusal};

use super::*;

const HISTORY: &str = "conversations.history";
const REPLIES: &str = "conversations.replies";

/// Longer than any answer that is taken.
fn too_long() -> SlackAnswer {
    SlackAnswer::new(200).with_body(vec![b' '; 17 * 1024 * 1024])
}

/// Thirty messages, and the first of them has ten replies.
fn messages() -> Vec<Value> {
    let messages = (0..30).map(|n| said(BEGINNING + n, "hi"));
    messages.chain((0..10).map(|n| replied(BEGINNING + 100 + n, BEGINNING))).collect()
}

impl HistorianFixture {
    /// A parameter of each call of a method; empty if a call has none.
    fn asked(&self, method: &str, parameter: &str) -> Vec<String> {
        let calls = self.slack.calls().into_iter().filter(|call| call.method == method);
        calls.map(|mut call| call.parameters.remove(parameter).unwrap_or_default()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_history_that_expired_is_left_out_and_the_page_asked_for_again() {
    let fixture = HistorianFixture::of(&messages());
    let empty = json!({ "ok": true, "messages": [], "has_more": true,
        "response_metadata": { "next_cursor": "expired" } });
    fixture.slack.next(HISTORY, [SlackAnswer::json(&empty)]);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.new), (SpanEnd::Whole, 40));
    assert_eq!(fixture.asked(HISTORY, "cursor"), ["", "expired", ""]);
    assert_eq!(fixture.asked(HISTORY, "latest"), vec![ts(END).to_string(); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_thread_of_several_pages_is_read_to_its_end_even_if_its_cursors_expire() {
    for (life, calls) in [(None, 4), (Some(Duration::ZERO), 7)] {
        let fixture = HistorianFixture::of(&messages());
        // The root is one of the four.
        fixture.slack.pages_of(4);
        if let Some(life) = life {
            fixture.slack.with(|state| state.cursors_live(life));
        }
        let (end, tally) = fixture.read(0, END).await;
        assert_eq!((end, tally.new, tally.threads), (SpanEnd::Whole, 40, 1));
        assert_eq!(fixture.texts().await.len(), 40);
        assert_eq!(fixture.slack.called(REPLIES), calls);
        // Each call with a cursor that expired is followed by one from the newest reply on.
        let after = fixture.asked(REPLIES, "oldest").into_iter().filter(|after| !after.is_empty());
        let expected: Vec<String> = match life {
            None => Vec::new(),
            Some(_) => [2, 2, 5, 5, 8].map(|n| ts(BEGINNING + 100 + n).to_string()).to_vec(),
        };
        assert_eq!(after.collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_long_is_halved_and_so_are_those_after_it() {
    let fixture = HistorianFixture::of(&(0..400).map(|n| said(BEGINNING + n, "hi")).collect::<Vec<_>>());
    fixture.slack.next(HISTORY, [too_long(), too_long()]);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.new), (SpanEnd::Whole, 400));
    assert_eq!(fixture.asked(HISTORY, "limit"), ["999", "499", "249", "249"]);

    // One that does not arrive is asked for with less once: it may have taken too long.
    let fixture = HistorianFixture::of(&(0..600).map(|n| said(BEGINNING + n, "hi")).collect::<Vec<_>>());
    fixture.slack.next(HISTORY, [SlackAnswer::new(503)]);
    assert_eq!(fixture.read(0, END).await.1.new, 600);
    assert_eq!(fixture.asked(HISTORY, "limit"), ["999", "499", "999"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_cannot_be_made_small_enough_ends_the_channel_and_stops_no_other() {
    let fixture = HistorianFixture::of(&messages());
    fixture.slack.next(HISTORY, std::iter::repeat_with(too_long).take(5));
    let (end, tally) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
    assert_eq!(end.unwrap_err().consequence(), Consequence::Channel(None));
    assert_eq!(fixture.asked(HISTORY, "limit"), ["999", "499", "249", "124", "100"]);
    assert_eq!((tally, fixture.spans().await), (ReadSnapshot::default(), vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_messages_is_no_empty_channel_and_no_empty_thread() {
    for method in [HISTORY, REPLIES] {
        for answer in [json!({ "ok": true }), json!({ "ok": true, "messages": null, "has_more": false })] {
            let fixture = HistorianFixture::of(&messages());
            fixture.slack.next(method, [SlackAnswer::json(&answer)]);
            let (end, _) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
            assert_eq!(end.unwrap_err().consequence(), Consequence::Channel(None), "{method}");
            assert_eq!(fixture.spans().await, [], "{method}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_slack_no_longer_knows_is_left_out_and_the_rest_is_read() {
    for code in ["thread_not_found", "message_not_found"] {
        let fixture = HistorianFixture::of(&messages());
        fixture.slack.next(REPLIES, [refusal(code)]);
        let (end, tally) = fixture.read(0, END).await;
        assert_eq!((end, tally.new, tally.threads), (SpanEnd::Whole, 30, 1), "{code}");
        assert_eq!(fixture.spans().await, [(0, END)], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_revoked_in_the_middle_stops_all_and_what_was_read_is_not_read_again() {
    let all: Vec<Value> = (0..30).map(|n| said(BEGINNING + n, "hi")).collect();
    let newest: Vec<&Value> = all.iter().rev().take(10).collect();
    let page = json!({ "ok": true, "messages": newest, "has_more": true,
        "response_metadata": { "next_cursor": "next" } });
    let fixture = HistorianFixture::of(&all);
    fixture.slack.next(HISTORY, [SlackAnswer::json(&page), refusal("token_revoked")]);
    let (end, tally) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
    assert_eq!(end.unwrap_err().consequence(), Consequence::Workspace);
    assert_eq!((tally.new, fixture.spans().await), (10, vec![(BEGINNING + 20, END)]));

    // As a job it is not tried again: the gap stays, and a later look sends what is left.
    fixture.mark_public().await;
    fixture.slack.next(HISTORY, [refusal("token_revoked")]);
    let historian = fixture.historian();
    assert_eq!(historian.handle(&[job(BEGINNING, END)]).await, [JobOutcome::Done]);
    assert_eq!(fixture.spans().await, [(BEGINNING + 20, END)]);
    assert_eq!(historian.handle(&[job(BEGINNING, END)]).await, [JobOutcome::Done]);
    assert_eq!((fixture.texts().await.len(), fixture.spans().await), (30, vec![(BEGINNING, END)]));
    assert_eq!(fixture.asked(HISTORY, "latest").last(), Some(&ts(BEGINNING + 20).to_string()));
}
