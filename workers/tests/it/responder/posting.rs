//! What Slack may answer to a post, and what may happen to an answer before it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::ItemKey;
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

use super::fixture::{ResponderFixture, TOKEN};

const POST: &str = "chat.postMessage";

#[tokio::test(start_paused = true)]
async fn a_post_whose_answer_is_lost_is_found_and_not_repeated() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with(|slack| slack.lose_answers(POST, 1));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.called(POST)), (1, 1));
    assert_eq!(fixture.slack.called("conversations.replies"), 1);
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

#[tokio::test(start_paused = true)]
async fn the_archive_shows_a_post_before_slack_is_asked() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with(|slack| slack.lose_answers(POST, 1));
    fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("one");
    let (responder, poster) = process.workers();
    for worker in [responder as &dyn Worker, poster] {
        let jobs = fixture.receive(worker.queue()).await;
        worker.handle(&jobs).await;
    }
    let mut own = fixture.slack.change(TOKEN, |workspace| workspace.posted_in("C01")).remove(0);
    own["channel"] = "C01".into();
    own["channel_type"] = "channel".into();
    own["event_ts"] = own["ts"].clone();
    fixture.told_again(&own).await;
    fixture.answer_all().await;
    assert_eq!((fixture.slack.called(POST), fixture.slack.called("conversations.replies")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_post_that_failed_is_repeated_after_a_look() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.next(POST, [SlackAnswer::new(500)]);
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.called(POST)), (1, 2));
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    assert!(at[1] - at[0] >= 10_000, "Slack may show a message late: {at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_slack_wants_is_kept_without_a_look() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.next(POST, [SlackAnswer::rate_limited(7)]);
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    assert!(at.len() == 2 && (7_000..9_000).contains(&(at[1] - at[0])), "{at:?}");
    assert_eq!((fixture.posted("C01").len(), fixture.slack.called("conversations.replies")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_channel_has_a_message_a_second_and_another_does_not_wait() {
    let fixture = ResponderFixture::new().await;
    fixture.processor.next(Ok(Answer::Text("a\n\n".to_owned() + &"word ".repeat(2_000))));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    assert!(at.len() == 3 && at.windows(2).all(|pair| pair[1] - pair[0] >= 1_000), "{at:?}");
}

/// The first write, which says that an answer is being sent, takes its time.
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
async fn a_second_begins_when_slack_has_the_message_and_not_before_its_intent_is_written() {
    let fixture = ResponderFixture::new().await;
    fixture.processor.next(Ok(Answer::Text("word ".repeat(2_000))));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_without_posting(&fixture.process("one")).await;
    let archive = FaultyArchive::on(fixture.archive.clone(), Arc::<SlowFirstWrite>::default());
    let poster = fixture.poster(Arc::new(archive), fixture.claims.clone(), fixture.client());
    let jobs = fixture.receive(poster.queue()).await;
    assert_eq!(poster.handle(&jobs).await, [JobOutcome::Done]);
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    assert!(
        at.len() == 3 && at.windows(2).all(|pair| (1_000..1_100).contains(&(pair[1] - pair[0]))),
        "{at:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_channel_has_a_message_a_second_whichever_process_posts_it() {
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
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    assert!(
        at.len() == 4 && at.windows(2).all(|pair| (1_000..1_100).contains(&(pair[1] - pair[0]))),
        "{at:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_the_app_has_left_is_an_error_once() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.change(TOKEN, |workspace| workspace.channels[0]["is_member"] = false.into());
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.slack.called(POST)), (("processed", "error"), 1));
    assert_eq!(fixture.quarantined.lock().unwrap().len(), 1);
    // Back in the channel, a person asks again.
    fixture.slack.change(TOKEN, |workspace| workspace.channels[0]["is_member"] = true.into());
    let again = WorkState { generation: 1, stage: WorkStage::Pending };
    fixture.write(&rows::question_becomes(&id, again, None, 0)).await;
    fixture.look(&fixture.process("one")).await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 1));
    assert_eq!(fixture.processor.asked(), 1, "its answer was kept");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_however_often_its_answer_was_begun_anew() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.next(POST, (0..3).map(|_| refusal("is_archived")));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    for generation in 1..=2 {
        let again = WorkState { generation, stage: WorkStage::Pending };
        fixture.write(&rows::answer_becomes(&id, again, None, 0)).await;
        fixture.look(&fixture.process("one")).await;
        fixture.answer_all().await;
        assert_eq!(fixture.states(&id).await, ("processed", "error"));
    }
    let again = WorkState { generation: 1, stage: WorkStage::Pending };
    fixture.write(&rows::question_becomes(&id, again, None, 0)).await;
    fixture.look(&fixture.process("one")).await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 1));
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
    assert_eq!(fixture.slack.called(POST), 1);
    assert!(fixture.quarantined.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_hostile_is_posted_as_text() {
    let fixture = ResponderFixture::new().await;
    let hostile = "<!channel> <@U1> [x](javascript:1) [y](https://a.example/?q=secret) http://a/?q=secret";
    fixture.processor.next(Ok(Answer::Text(hostile.into())));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let posted = fixture.posted("C01").remove(0);
    for acting in ["<!", "<@", "javascript:"] {
        assert!(!posted.contains(acting), "{posted}");
    }
    assert!(posted.contains("<https://a.example/?q=secret|y>"), "{posted}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_cancelled_or_deleted_before_the_post_is_not_answered() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("one");
    let (responder, poster) = process.workers();
    let worker: &dyn Worker = responder;
    let jobs = fixture.receive(worker.queue()).await;
    worker.handle(&jobs).await;
    let cancelled = WorkState { generation: 1, stage: WorkStage::Failed };
    fixture.write(&rows::question_becomes(&id, cancelled, Some("question cancelled"), 0)).await;
    let worker: &dyn Worker = poster;
    let jobs = fixture.receive(worker.queue()).await;
    worker.handle(&jobs).await;
    assert_eq!((fixture.states(&id).await, fixture.slack.called(POST)), (("error", "error"), 0));
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_may_not_be_read_is_judged_by_the_archive_after_a_minute() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with(|slack| slack.next(POST, [SlackAnswer::new(500)]));
    fixture.slack.next("conversations.replies", (0..20).map(|_| refusal("missing_scope")));
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let calls = fixture.slack.calls();
    let at: Vec<i64> = calls.iter().filter(|call| call.method == POST).map(|call| call.at_ms).collect();
    let apart = Duration::from_millis(u64::try_from(at[1] - at[0]).unwrap());
    assert!(at.len() == 2 && apart >= Duration::from_secs(60), "{at:?}");
    assert_eq!(fixture.posted("C01").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_does_not_hide_an_earlier_one_that_was_posted() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with(|slack| slack.lose_answers(POST, 1));
    let id = fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("one");
    let (responder, poster) = process.workers();
    for worker in [responder as &dyn Worker, poster] {
        let jobs = fixture.receive(worker.queue()).await;
        worker.handle(&jobs).await;
    }
    // Two looks see nothing, then the second attempt is refused; from then on all is well.
    fixture.slack.next("conversations.replies", (0..2).map(|_| refusal("missing_scope")));
    fixture.slack.next(POST, [refusal("missing_scope")]);
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.called(POST)), (1, 2));
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

#[tokio::test(start_paused = true)]
async fn a_look_with_a_revoked_token_does_not_say_that_a_part_is_missing() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with(|slack| slack.lose_answers(POST, 1));
    fixture.slack.next("conversations.replies", (0..3).map(|_| refusal("token_revoked")));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.slack.called(POST)), (1, 1));
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

/// The answer to a write, the intent of a part, comes when it is let go.
#[derive(Default)]
struct HeldAnswer {
    writes: AtomicUsize,
    written: Notify,
    let_go: Notify,
}

#[async_trait]
impl FaultSchedule for HeldAnswer {
    async fn before(&self, _: PortMethod, _: usize) -> Option<CallFault> {
        None
    }

    async fn after(&self, method: PortMethod) {
        // The first one is the state.
        if method == PortMethod::Write && self.writes.fetch_add(1, Ordering::Relaxed) == 1 {
            self.written.notify_one();
            self.let_go.notified().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_learns_late_that_its_intent_is_written_does_not_post_what_another_has_posted() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    let process = fixture.process("two");
    fixture.answer_without_posting(&process).await;
    let (_, poster) = process.workers();
    let jobs = fixture.receive(poster.queue()).await;

    let held = Arc::new(HeldAnswer::default());
    let archive = Arc::new(FaultyArchive::on(fixture.archive.clone(), held.clone()));
    // Its claim is taken for over, as after a jump of the clock.
    let claims = Arc::new(MemoryClaims::new(Arc::clone(&fixture.clock)));
    let late = fixture.poster(archive, claims, fixture.client());
    let other = async {
        held.written.notified().await;
        advance(Duration::from_secs(11)).await;
        let outcomes = poster.handle(&jobs).await;
        held.let_go.notify_one();
        outcomes
    };
    let (first, second) = tokio::join!(late.handle(&jobs), other);
    assert_eq!((first, second), (vec![JobOutcome::Done], vec![JobOutcome::Done]));
    assert_eq!((fixture.posted("C01").len(), fixture.states(&id).await), (1, ("processed", "sent")));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_waited_for_between_the_intent_and_the_post() {
    // The workspace has had its messages of this minute; or Slack takes a while to say whose the token is.
    for is_lane_full in [true, false] {
        let fixture = ResponderFixture::new().await;
        let id = fixture.ask("C01", 100, "why?").await;
        fixture.answer_without_posting(&fixture.process("two")).await;
        let web = Arc::into_inner(fixture.client()).unwrap().posting(Some(NonZeroU32::MIN));
        let began = Instant::now();
        if is_lane_full {
            while began.elapsed() < Duration::from_secs(60) {
                web.permit(&id.team, slack_api::Method::ChatPostMessage).await.unwrap();
            }
        } else {
            fixture.slack.next("auth.test", [SlackAnswer::rate_limited(6)]);
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
