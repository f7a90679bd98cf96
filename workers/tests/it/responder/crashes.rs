//! A process that dies between any two steps, from the claim of the question to the ack of the reply.

use std::sync::Arc;

use processor::Answer;
use testkit::faults::CrashPoint;
use tokio::join;
use workers::runtime::Worker;

use super::fixture::{POST, ResponderFixture, TOKEN};

fn answer(parts: usize) -> String {
    (0..parts).map(|part| format!("part {part} {}", "x ".repeat(1_900))).collect::<Vec<_>>().join("\n\n")
}

/// A failure of Slack in addition to the crash.
#[derive(Debug, Clone, Copy)]
enum SlackTrouble {
    Nothing,
    /// The response to the first post is lost.
    LostAnswer,
}

/// Asks a question, and runs a process that crashes at the point and then one that does not.
async fn run(parts: usize, trouble: SlackTrouble, point: &Arc<CrashPoint>) -> (ResponderFixture, String) {
    let fixture = ResponderFixture::new().await;
    for _ in 0..2 {
        // A model that is called twice gives two different answers.
        let text = format!("{} {}", answer(parts), fixture.processor.answers.lock().unwrap().len());
        fixture.processor.next(Ok(Answer::Text(text)));
    }
    match trouble {
        SlackTrouble::Nothing => {}
        SlackTrouble::LostAnswer => {
            fixture.slack.with_state(|slack| slack.lose_answers(POST, 1));
        }
    }
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.run(&fixture.dying("dying", point), point).await;
    fixture.run(&fixture.process("living"), &CrashPoint::never()).await;
    let states = fixture.states(&id).await;
    (fixture, format!("{states:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_steps_posts_every_part_once_and_in_order() {
    for trouble in [SlackTrouble::Nothing, SlackTrouble::LostAnswer] {
        for parts in 1..=3 {
            let never = CrashPoint::never();
            run(parts, trouble, &never).await;
            let steps = never.steps();
            assert!(steps > 20, "{steps} steps are too few to be all of them");
            for step in 0..steps {
                let point = CrashPoint::after(step);
                let (fixture, states) = run(parts, trouble, &point).await;
                assert!(point.has_crashed());
                let posted = fixture.posted("C01");
                let context = format!("{parts} parts, {trouble:?}, after step {step}: {posted:?}");
                assert_eq!(posted.len(), parts, "{context}");
                for (part, text) in posted.iter().enumerate() {
                    assert!(text.starts_with(&format!("part {part}")), "{context}");
                }
                assert_eq!(states, r#"("processed", "sent")"#, "{context}");
                assert!(fixture.quarantined.lock().unwrap().is_empty(), "{context}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_the_same_jobs_post_once() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why?").await;
    let (one, two) = (fixture.process("one"), fixture.process("two"));
    let ((responder, poster), (other_responder, other_poster)) = (one.workers(), two.workers());
    let jobs = fixture.receive(responder.queue()).await;
    join!(responder.handle(&jobs), other_responder.handle(&jobs));
    let jobs = fixture.receive(poster.queue()).await;
    assert_eq!(jobs.len(), 1, "one answer is one job");
    join!(poster.handle(&jobs), other_poster.handle(&jobs));
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
    assert_eq!((fixture.posted("C01").len(), fixture.processor.call_count()), (1, 1));
    assert_eq!(fixture.slack.call_count(POST), 1);
    assert!(fixture.slack.change_workspace(TOKEN, |workspace| workspace.posted_in("C02").is_empty()));
}
