//! Which messages are answered, and how often.

use std::time::Duration;

use ports::archive::ItemKey;
use ports::archive::erasure::ErasureScope;
use processor::{Answer, ProcessorError};
use rules::question::rows;
use serde_json::json;
use slack::ids::UserId;
use testkit::corpus::{TEAM, event};
use tokio::time::advance;

use super::fixture::{APP, POST, ResponderFixture, restarted};

#[tokio::test(start_paused = true)]
async fn a_mention_is_answered_once_in_its_thread() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "why &amp; how?").await;
    fixture.answer_all().await;
    assert_eq!(fixture.posted("C01"), ["an answer"]);
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
    let call = fixture.slack.calls().into_iter().find(|call| call.method == POST).unwrap();
    assert_eq!(call.parameters["thread_ts"], id.ts.as_str());
    assert_eq!(
        (call.parameters["unfurl_links"].as_str(), call.parameters["parse"].as_str()),
        ("false", "none")
    );
    let metadata: serde_json::Value = serde_json::from_str(&call.parameters["metadata"]).unwrap();
    assert_eq!(metadata["event_type"], "annalist_reply");
    assert_eq!(
        metadata["event_payload"],
        json!({ "id": format!("{TEAM}.C01.{}", id.ts), "part": 0, "of": 1 })
    );
    let prompt = fixture.processor.prompts.lock().unwrap()[0].clone();
    assert_eq!((prompt.question.as_str(), prompt.asker.name.as_deref()), ("why & how?", Some("u1")));
    // The same event again, even after the claims are forgotten.
    let message = event::message(&fixture.ts(100), "U1", &format!("<@{APP}> why &amp; how?"));
    advance(Duration::from_secs(7 * 3_600)).await;
    fixture.write_event(&event::posted("C01", &message)).await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.processor.call_count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_thread_in_which_the_app_has_spoken_needs_no_mention_and_is_the_context() {
    let fixture = ResponderFixture::new().await;
    let root = fixture.ask("C01", 100, "why?").await;
    let other = event::message(&fixture.ts(200), "U1", "no app is asked here");
    fixture.apply_event(&event::posted("C01", &other)).await;
    for (n, thread) in [(150, 100), (250, 200)] {
        if n == 150 {
            fixture.answer_all().await;
        }
        let reply = event::reply(&fixture.ts(n), &fixture.ts(thread), "U2", "and then?");
        fixture.apply_event(&event::posted("C01", &reply)).await;
    }
    fixture.answer_all().await;
    assert_eq!(fixture.posted("C01").len(), 2, "the other thread is not the app's");
    let prompt = fixture.processor.prompts.lock().unwrap()[1].clone();
    assert_eq!((prompt.thread_ts.as_str(), prompt.question.as_str()), (root.ts.as_str(), "and then?"));
    let authors: Vec<&str> = prompt.context.iter().map(|message| message.name.as_str()).collect();
    assert_eq!(authors, ["u1"]);
    assert!(prompt.context[0].text.contains("why?"));
}

#[tokio::test(start_paused = true)]
async fn guests_strangers_and_bots_are_not_answered_and_a_newcomer_is_once_they_are_known() {
    let fixture = ResponderFixture::new().await;
    for (n, more) in [
        json!({ "is_restricted": true }),
        json!({ "is_ultra_restricted": true }),
        json!({ "is_bot": true }),
        json!({ "team_id": "T9" }),
        json!({ "deleted": true }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut user = json!({ "id": format!("U7{n}"), "name": "x", "team_id": TEAM });
        user.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fixture.add_person(user).await;
        let ts = fixture.ts(100 + u32::try_from(n).unwrap());
        let message = event::message(&ts, &format!("U7{n}"), &format!("<@{APP}> hello"));
        fixture.apply_event(&event::posted("C01", &message)).await;
    }
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.processor.call_count()), (0, 0));

    for (n, user) in [(300, "U80"), (301, "U81")] {
        let message = event::message(&fixture.ts(n), user, &format!("<@{APP}> hello"));
        fixture.apply_event(&event::posted("C01", &message)).await;
    }
    let process = fixture.process("one");
    // The rows of these people may come late: from the first directory sync, or from a delayed event.
    for elapsed_s in [0, 1_800] {
        advance(Duration::from_secs(elapsed_s)).await;
        let jobs = fixture.receive(ports::queue::QueueName::Questions).await;
        assert_eq!(jobs.len(), 2, "after {elapsed_s} s");
        for job in &jobs {
            let outcome = workers::runtime::Worker::handle(process.workers().0, std::slice::from_ref(job))
                .await
                .remove(0);
            assert!(matches!(outcome, workers::runtime::JobOutcome::Retry(_)), "{outcome:?}");
        }
    }
    fixture.add_person(json!({ "id": "U80", "name": "new", "team_id": TEAM })).await;
    fixture.answer_all().await;
    assert_eq!(fixture.posted("C01").len(), 1, "the other one is never known");
}

#[tokio::test(start_paused = true)]
async fn an_old_edited_or_deleted_question_is_not_answered() {
    let fixture = ResponderFixture::new().await;
    let old = event::message("1699990000.000100", "U1", &format!("<@{APP}> hello"));
    fixture.apply_event(&event::posted("C01", &old)).await;
    let plain = event::message(&fixture.ts(10), "U1", "hello");
    fixture.apply_event(&event::posted("C01", &plain)).await;
    let edited = event::edited(&plain, &fixture.ts(20), &format!("<@{APP}> hello"));
    fixture.apply_event(&event::changed("C01", &plain, &edited, &fixture.ts(21))).await;
    let id = fixture.ask("C01", 100, "why?").await;
    let message = event::message(&fixture.ts(100), "U1", &format!("<@{APP}> why?"));
    fixture.apply_event(&event::deleted("C01", &message, &fixture.ts(200))).await;
    fixture.answer_all().await;
    assert_eq!((fixture.posted("C01").len(), fixture.processor.call_count()), (0, 0));
    assert_eq!(fixture.states(&id).await, ("error", ""));
    // A question that waits for hours because no responder runs is not answered either.
    let late = fixture.ask("C01", 300, "why?").await;
    advance(Duration::from_secs(3_700)).await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&late).await, fixture.processor.call_count()), (("", ""), 0));
}

#[tokio::test(start_paused = true)]
async fn a_processor_that_fails_is_called_again_and_one_that_refuses_is_not() {
    let fixture = ResponderFixture::new().await;
    let later = ProcessorError::Transient { reason: "busy".into(), after: Some(Duration::from_secs(30)) };
    fixture.processor.next(Err(later));
    let id = fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.processor.call_count()), (("processed", "sent"), 2));

    fixture.processor.next(Err(ProcessorError::Permanent("no such model".into())));
    let id = fixture.ask("C01", 200, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("error", ""), 1));
    // A person asks again, by a state of the next generation, which the poll finds.
    fixture.restart(&rows::question_state_update(&id, restarted(1), None, 0)).await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 2));
    // An answered question is not answered again.
    fixture.restart(&rows::question_state_update(&id, restarted(2), None, 0)).await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", "sent"), 2));

    fixture.processor.next(Ok(Answer::Skip));
    let id = fixture.ask("C01", 300, "thanks").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("processed", ""), 2));

    // A question is given up after an hour if the processor never answers.
    for _ in 0..1_000 {
        fixture.processor.next(Err(ProcessorError::Transient { reason: "down".into(), after: None }));
    }
    let id = fixture.ask("C01", 400, "why?").await;
    fixture.answer_all().await;
    assert_eq!((fixture.states(&id).await, fixture.posted("C01").len()), (("error", ""), 2));
}

#[tokio::test(start_paused = true)]
async fn a_person_over_budget_is_notified_once_an_hour() {
    let mut fixture = ResponderFixture::new().await;
    fixture.limits.per_user_hour = 2;
    for n in 0..5 {
        fixture.ask("C01", 100 + n, "why?").await;
    }
    fixture.answer_all().await;
    let posted = fixture.posted("C01");
    assert_eq!((posted.len(), fixture.processor.call_count()), (3, 2));
    assert!(posted[2].contains("2 questions in this hour"), "{posted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_workspace_over_budget_gets_no_answers_until_the_next_hour() {
    let mut fixture = ResponderFixture::new().await;
    fixture.limits.per_hour = 2;
    let ask = async |n: u32, user: &str| {
        let message = event::message(&fixture.ts(n), user, &format!("<@{APP}> why?"));
        fixture.apply_event(&event::posted("C01", &message)).await;
        fixture.answer_all().await;
        (fixture.posted("C01").len(), fixture.processor.call_count())
    };
    assert_eq!([ask(100, "U1").await, ask(101, "U2").await], [(1, 1), (2, 2)]);
    assert_eq!(ask(102, "U1").await, (3, 2));
    let notice = fixture.posted("C01").remove(2);
    assert!(notice.contains("This workspace has asked 2 questions in this hour"), "{notice}");
    advance(Duration::from_secs(3_600)).await;
    let message = event::message(&fixture.later(3_600, 103), "U1", &format!("<@{APP}> why?"));
    fixture.apply_event(&event::posted("C01", &message)).await;
    fixture.answer_all().await;
    assert_eq!(fixture.processor.call_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn in_a_thread_over_budget_the_app_is_silent_until_it_is_mentioned() {
    let mut fixture = ResponderFixture::new().await;
    fixture.limits.per_thread = 2;
    fixture.ask("C01", 100, "why?").await;
    fixture.answer_all().await;
    let root = fixture.ts(100);
    let mut answered = Vec::new();
    let mention = format!("<@{APP}> and?");
    for (n, text) in (101..).zip(["a", "b", "c", "d", &*mention, "e", "f", "g"]) {
        fixture.apply_event(&event::posted("C01", &event::reply(&fixture.ts(n), &root, "U2", text))).await;
        let before = fixture.posted("C01").len();
        fixture.answer_all().await;
        if fixture.posted("C01").len() > before {
            answered.push(text);
        }
    }
    assert_eq!(answered, ["a", "b", &*mention, "e", "f"]);
}

#[tokio::test(start_paused = true)]
async fn an_erased_person_leaves_no_question_or_answer_text() {
    let fixture = ResponderFixture::new().await;
    let id = fixture.ask("C01", 100, "a secret").await;
    fixture.answer_all().await;
    let waiting = fixture.ask("C01", 200, "another secret").await;
    fixture.erase(ErasureScope::User(UserId::parse("U1").unwrap())).await;
    fixture.answer_all().await;
    let left: Vec<_> =
        fixture.archive.items().into_iter().filter(|row| format!("{row:?}").contains("secret")).collect();
    assert!(left.is_empty(), "{left:?}");
    let answer = fixture.row(ItemKey::answer(&id.team, &id.channel, &id.ts)).await.unwrap();
    assert!(answer.is_erased());
    assert_eq!((fixture.posted("C01").len(), fixture.states(&waiting).await), (1, ("", "")));
    let left = |kind: &str| {
        let rows = fixture.archive.items().into_iter();
        rows.filter(|row| row.key.item_id.starts_with(kind) && row.text("response_text").is_some()).count()
    };
    assert_eq!([left("answer#"), left("responded#"), left("botmessage#")], [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_erased_with_its_question_and_does_not_return() {
    let fixture = ResponderFixture::new().await;
    fixture.processor.next(Ok(Answer::Text("you told me a secret".into())));
    let id = fixture.ask("C01", 100, "a secret").await;
    fixture.answer_all().await;
    let own = fixture.own_post("C01");
    fixture.write_event(&own).await;
    fixture.erase(ErasureScope::Message(id.channel.clone(), id.ts.clone())).await;
    // Slack delivers it again.
    fixture.write_event(&own).await;
    let left: Vec<_> =
        fixture.archive.items().into_iter().filter(|row| format!("{row:?}").contains("secret")).collect();
    assert!(left.is_empty(), "{left:?}");
}
