//! Answers that are no longer posted, because they are cancelled or too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{Archive, ArchiveExt, ItemKey, Update};
use processor::Answer;
use rules::question::rows;
use rules::question::state::{WorkStage, WorkState};
use serde_json::json;
use testkit::fake_slack::SlackAnswer;
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use tokio::time::{Instant, advance};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{POST, ResponderFixture, restarted};

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_posted_for_an_hour_is_an_error_and_the_next_is_posted() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.plan_answers(POST, (0..10_000).map(|_| SlackAnswer::new(500)));
    let id = fixture.ask("C01", 100, "why?").await;
    let began = Instant::now();
    fixture.answer_all().await;
    assert_eq!(fixture.states(&id).await, ("processed", "error"));
    assert!((3_600..3_700).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let row = fixture.row(ItemKey::answer(&id.team, &id.channel, &id.ts)).await.unwrap();
    assert_eq!(row.text(rows::ERROR), Some("not posted within 3600 s"));

    // A person retries it: the answer gets another hour.
    fixture.slack.with_state(|slack| slack.clear_planned_answers(POST));
    fixture.restart(&rows::answer_state_update(&id, restarted(1), None, 0)).await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_may_not_post_delays_no_answer_for_more_than_an_hour() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.refuse(POST, json!({ "ok": false, "error": "missing_scope", "needed": "chat:write" }));
    let late = [fixture.ask("C01", 100, "why?").await, fixture.ask("C02", 200, "why?").await];
    fixture.answer_all().await;
    for id in &late {
        assert_eq!(fixture.states(id).await, ("processed", "error"));
    }
    assert!(fixture.quarantined.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_yesterday_is_not_posted() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_without_posting(&fixture.process("one")).await;
    advance(Duration::from_secs(24 * 3_600)).await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.slack.call_count(POST)), (("processed", "error"), 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_a_part_that_may_be_posted_is_never_too_late() {
    let fixture = ResponderFixture::new().await;
    fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
    fixture.slack.plan_answers("conversations.replies", (0..70).map(|_| SlackAnswer::rate_limited(60)));
    let id = fixture.ask("C01", 100, "why?").await;
    let began = Instant::now();
    fixture.answer_all().await;
    assert!(began.elapsed() > Duration::from_secs(3_600), "{:?}", began.elapsed());
    assert_eq!((fixture.posted("C01").len(), fixture.slack.call_count(POST)), (1, 1));
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
}

/// A person cancels a question just before this write.
struct CancelledBefore {
    write: usize,
    writes: AtomicUsize,
    archive: Arc<dyn Archive>,
    cancelled: Vec<Update>,
}

#[async_trait]
impl FaultSchedule for CancelledBefore {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        if method == PortMethod::Write && self.writes.fetch_add(1, Ordering::Relaxed) == self.write {
            for update in &self.cancelled {
                self.archive.write(update).await.unwrap();
            }
        }
        None
    }
}

#[tokio::test(start_paused = true)]
async fn no_further_part_of_a_cancelled_answer_is_posted() {
    // The writes for a part: its intent (for the first part, after the state), its register and its message.
    for (write, expected_posts) in [(0, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let fixture = ResponderFixture::new().await;
        fixture.processor.next(Ok(Answer::Text("word ".repeat(2_000))));
        let id = fixture.ask("C01", 100, "why?").await;
        fixture.answer_without_posting(&fixture.process("two")).await;
        let failed = |generation| WorkState { generation, stage: WorkStage::Failed };
        let why = Some("question cancelled");
        let schedule = CancelledBefore {
            write,
            writes: AtomicUsize::new(0),
            archive: fixture.archive.clone(),
            cancelled: vec![
                rows::question_state_update(&id, failed(1), why, 0),
                rows::answer_state_update(&id, failed(0), why, 0),
            ],
        };
        let archive = Arc::new(FaultyArchive::with_schedule(fixture.archive.clone(), Arc::new(schedule)));
        let poster = fixture.poster(archive, fixture.claims.clone(), fixture.client());
        let jobs = fixture.receive(poster.queue()).await;
        assert_eq!(poster.handle(&jobs).await, [JobOutcome::Done], "before write {write}");
        let posts = (fixture.posted("C01").len(), fixture.slack.call_count(POST));
        assert_eq!(posts, (expected_posts, expected_posts), "before write {write}");
        assert_eq!(fixture.states(&id).await, ("error", "error"), "before write {write}");
    }
}
