//! Slack's possible responses to a post, and changes to an answer before its post.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::ItemKey;
use ports::queue::QueueName;
use processor::Answer;
use rules::question::rows::{self, AnswerRow};
use rules::question::state::{WorkStage, WorkState};
use serde_json::json;
use testkit::fake_slack::{SlackAnswer, refusal};
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use testkit::memory::claims::MemoryClaims;
use tokio::sync::Notify;
use tokio::time::{Instant, advance};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{POST, ResponderFixture, TOKEN, restarted};

#[tokio::test(start_paused = true)]
async fn a_post_whose_response_is_lost_is_found_and_not_repeated() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count(POST)), (1, 1));
    assert_eq!(fixture.slack.call_count("conversations.replies"), 1);
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

#[tokio::test(start_paused = true)]
async fn the_archive_confirms_a_post_without_a_call_to_slack() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
    fixture.ask("C01", 100, "why?").await;
    fixture.handle_received(&fixture.process("one")).await;
    fixture.write_event(&fixture.own_post("C01")).await;
    fixture.answer_all().await;
    assert_eq!((fixture.slack.call_count(POST), fixture.slack.call_count("conversations.replies")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_post_that_failed_is_repeated_after_a_check() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.plan_answers(POST, [SlackAnswer::new(500)]);
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count(POST)), (1, 2));
    let at = fixture.post_times_ms();
    assert!(at[1] - at[0] >= 10_000, "Slack may show a message late: {at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_slack_asks_for_needs_no_check() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.plan_answers(POST, [SlackAnswer::rate_limited(7)]);
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let at = fixture.post_times_ms();
    assert!(at.len() == 2 && (7_000..9_000).contains(&(at[1] - at[0])), "{at:?}");
    assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count("conversations.replies")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_channel_gets_one_message_a_second() {
    let fixture = ResponderFixture::new().await;
    fixture.processor.next(Ok(Answer::Text("a\n\n".to_owned() + &"word ".repeat(2_000))));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let at = fixture.post_times_ms();
    assert!(at.len() == 3 && at.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{at:?}");
}

/// Delays the first write, which stores that an answer is being sent.
#[derive(Default)]
struct SlowFirstWrite(AtomicUsize);

#[async_trait]
impl FaultSchedule for SlowFirstWrite {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        if method == PortMethod::Write && self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            advance(Duration::from_millis(300)).await;
        }
        None
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_between_posts_begins_when_slack_has_the_message() {
    let fixture = ResponderFixture::new().await;
    fixture.processor.next(Ok(Answer::Text("word ".repeat(2_000))));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_without_posting(&fixture.process("one")).await;
    let archive = FaultyArchive::with_schedule(fixture.archive.clone(), Arc::<SlowFirstWrite>::default());
    let poster = fixture.poster(Arc::new(archive), fixture.claims.clone(), fixture.client());
    let jobs = fixture.receive(poster.queue()).await;
    assert_eq!(poster.handle(&jobs).await, [JobOutcome::Done]);
    let at = fixture.post_times_ms();
    assert!(
        at.len() == 3 && at.windows(2).all(|pair| (1_000..1_100).contains(&(pair[1] - pair[0]))),
        "{at:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_channel_gets_one_message_a_second_from_all_processes_together() {
    let fixture = ResponderFixture::new().await;
    for n in 100..104 {
        fixture.ask("C01", n, "why?").await;
    }
    let process = fixture.process("responder");
    let (responder, _) = process.workers();
    for job in fixture.receive(responder.queue()).await {
        let outcome = responder.handle(std::slice::from_ref(&job)).await.remove(0);
        fixture.settle(responder.queue(), &job, outcome).await;
    }
    let jobs = fixture.receive(process.workers().1.queue()).await;
    for (name, job) in ["one", "two", "one", "three"].into_iter().zip(jobs) {
        let process = fixture.process(name);
        let (_, poster) = process.workers();
        let outcome = poster.handle(std::slice::from_ref(&job)).await.remove(0);
        fixture.settle(poster.queue(), &job, outcome).await;
    }
    let at = fixture.post_times_ms();
    assert!(
        at.len() == 4 && at.windows(2).all(|pair| (1_000..1_100).contains(&(pair[1] - pair[0]))),
        "{at:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_the_app_has_left_is_an_error_once() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["is_member"] = false.into());
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.slack.call_count(POST)), (("processed", "error"), 1));
    assert_eq!(fixture.quarantined.lock().unwrap().len(), 1);
    // The app is in the channel again, and a person asks again.
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["is_member"] = true.into());
    fixture.restart(&rows::question_state_update(&id, restarted(1), None, 0)).await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 1));
    assert_eq!(fixture.processor.call_count(), 1, "its answer was kept");
}

#[tokio::test(start_paused = true)]
async fn a_question_can_be_asked_again_even_if_its_answer_was_restarted_more_often() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.plan_answers(POST, (0..3).map(|_| refusal("is_archived")));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    for generation in 1..=2 {
        fixture.restart(&rows::answer_state_update(&id, restarted(generation), None, 0)).await;
        assert_eq!(fixture.states(&id).await, ("processed", "error"));
    }
    fixture.restart(&rows::question_state_update(&id, restarted(1), None, 0)).await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_reply_is_in_quarantine_is_answered_if_a_person_asks_again() {
    for stage in [WorkStage::Pending, WorkStage::Working] {
        let fixture = ResponderFixture::new().await;
        let id = fixture.ask("C01", 100, "why?").await;
        fixture.answer_without_posting(&fixture.process("one")).await;
        // The job of the reply is poison: it leaves the queue, and the answer stays as it was.
        for job in fixture.receive(QueueName::Replies).await {
            fixture.settle(QueueName::Replies, &job, JobOutcome::Quarantine("poison".into())).await;
        }
        let begun = WorkState { generation: 0, stage };
        fixture.write(&rows::answer_state_update(&id, begun, None, 0)).await;
        for asked_again in 1..=2 {
            fixture.restart(&rows::question_state_update(&id, restarted(asked_again), None, 0)).await;
            assert_eq!(fixture.states(&id).await, ("processed", "sent"), "{stage:?}");
            assert_eq!(fixture.posted("C01").len(), 1, "{stage:?}: once, however often it is asked again");
        }
        assert_eq!(fixture.processor.call_count(), 1, "its answer was kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_without_the_scope_stops_the_queue_and_quarantines_nothing() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.refuse(POST, json!({ "ok": false, "error": "missing_scope", "needed": "chat:write" }));
    let process = fixture.process("one");
    let (responder, poster) = process.workers();
    for (n, channel) in [(100, "C01"), (200, "C01"), (300, "C02")] {
        fixture.ask(channel, n, "why?").await;
    }
    for worker in [responder as &dyn Worker, poster] {
        for job in fixture.receive(worker.queue()).await {
            worker.handle(&[job]).await;
        }
    }
    assert_eq!(fixture.slack.call_count(POST), 1);
    assert!(fixture.quarantined.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn hostile_markup_is_posted_as_text() {
    let fixture = ResponderFixture::new().await;
    let hostile = "<!channel> <@U1> [x](javascript:1) [y](https://a.example/?q=secret) http://a/?q=secret";
    fixture.processor.next(Ok(Answer::Text(hostile.into())));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let posted = fixture.posted("C01").remove(0);
    for markup in ["<!", "<@", "javascript:"] {
        assert!(!posted.contains(markup), "{posted}");
    }
    assert!(posted.contains("<https://a.example/?q=secret|y>"), "{posted}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_cancelled_or_deleted_before_the_post_is_not_answered() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("one");
    fixture.answer_without_posting(&process).await;
    let cancelled = WorkState { generation: 1, stage: WorkStage::Failed };
    fixture.write(&rows::question_state_update(&id, cancelled, Some("question cancelled"), 0)).await;
    fixture.handle_received(&process).await;
    assert_eq!((fixture.states(&id).await, fixture.slack.call_count(POST)), (("error", "error"), 0));
}

#[tokio::test(start_paused = true)]
async fn a_post_in_a_thread_that_may_not_be_read_is_checked_in_the_archive_after_a_minute() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with_state(|slack| slack.plan_answers(POST, [SlackAnswer::new(500)]));
    fixture.slack.plan_answers("conversations.replies", (0..20).map(|_| refusal("missing_scope")));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let at = fixture.post_times_ms();
    let apart = Duration::from_millis(u64::try_from(at[1] - at[0]).unwrap());
    assert!(at.len() == 2 && apart >= Duration::from_secs(60), "{at:?}");
    assert_eq!(fixture.posted("C01").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_does_not_hide_an_earlier_one_that_was_posted() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.handle_received(&fixture.process("one")).await;
    // Two checks fail, then the second attempt is refused; all later calls succeed.
    fixture.slack.plan_answers("conversations.replies", (0..2).map(|_| refusal("missing_scope")));
    fixture.slack.plan_answers(POST, [refusal("missing_scope")]);
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count(POST)), (1, 2));
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_slack_refuses_for_no_lasting_reason_does_not_prove_that_a_part_is_missing() {
    for code in ["token_revoked", "invalid_charset"] {
        let fixture = ResponderFixture::new().await;
        fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
        fixture.slack.plan_answers("conversations.replies", (0..3).map(|_| refusal(code)));
        let id = fixture.ask("C01", 100, "why?").await;
        fixture.answer_all().await;
        assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count(POST)), (1, 1), "{code}");
        assert_eq!(fixture.states(&id).await, ("processed", "sent"), "{code}");
    }
}

/// Delays the response to the write of a part's intent until it is released.
#[derive(Default)]
struct DelayedWriteResponse {
    writes: AtomicUsize,
    written: Notify,
    released: Notify,
}

#[async_trait]
impl FaultSchedule for DelayedWriteResponse {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        None
    }

    async fn after(&self, method: PortMethod) {
        // The first write is the state.
        if method == PortMethod::Write && self.writes.fetch_add(1, Ordering::Relaxed) == 1 {
            self.written.notify_one();
            self.released.notified().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_poster_that_learns_late_of_its_written_intent_does_not_repeat_a_post() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("two");
    fixture.answer_without_posting(&process).await;
    let (_, poster) = process.workers();
    let jobs = fixture.receive(poster.queue()).await;

    let delayed = Arc::new(DelayedWriteResponse::default());
    let archive = Arc::new(FaultyArchive::with_schedule(fixture.archive.clone(), delayed.clone()));
    // Its own claims table simulates an expired claim, as after a jump of the clock.
    let claims = Arc::new(MemoryClaims::new(Arc::clone(&fixture.clock)));
    let late = fixture.poster(archive, claims, fixture.client());
    let other = async {
        delayed.written.notified().await;
        advance(Duration::from_secs(11)).await;
        let outcomes = poster.handle(&jobs).await;
        delayed.released.notify_one();
        outcomes
    };
    let (first, second) = tokio::join!(late.handle(&jobs), other);
    assert_eq!((first, second), (vec![JobOutcome::Done], vec![JobOutcome::Done]));
    assert_eq!((fixture.posted("C01").len(), fixture.states(&id).await), (1, ("processed", "sent")));
}

#[tokio::test(start_paused = true)]
async fn every_wait_ends_before_the_intent_is_written() {
    // Either the workspace has used up its posts of this minute, or `auth.test` asks for a pause.
    for is_lane_full in [true, false] {
        let fixture = ResponderFixture::new().await;
        let id = fixture.ask("C01", 100, "why?").await;
        fixture.answer_without_posting(&fixture.process("two")).await;
        let web = Arc::into_inner(fixture.client()).unwrap().with_post_limit(Some(NonZeroU32::MIN));
        let began = Instant::now();
        if is_lane_full {
            while began.elapsed() < Duration::from_secs(60) {
                web.permit(&id.team, slack_api::Method::ChatPostMessage).await.unwrap();
            }
        } else {
            fixture.slack.plan_answers("auth.test", [SlackAnswer::rate_limited(6)]);
        }
        let poster = fixture.poster(fixture.archive.clone(), fixture.claims.clone(), Arc::new(web));
        let jobs = fixture.receive(poster.queue()).await;
        let began = Instant::now();
        assert_eq!(poster.handle(&jobs).await, [JobOutcome::Done]);
        assert!(began.elapsed() > Duration::from_secs(5), "there was nothing to wait for");
        let row = fixture.row(ItemKey::answer(&id.team, &id.channel, &id.ts)).await.unwrap();
        let tried_at_ms = AnswerRow::read(&row).unwrap().part_tried_at_ms(0).unwrap();
        let posted = fixture.slack.calls().into_iter().find(|call| call.method == POST).unwrap();
        assert!(
            (0..1_000).contains(&(posted.at_ms - tried_at_ms)),
            "{is_lane_full}: {tried_at_ms} {posted:?}"
        );
    }
}
