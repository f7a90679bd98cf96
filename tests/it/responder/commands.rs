//! `annalist questions`, with an `annalist up` whose processor is available or unavailable.

use serde_json::{Value, json};
use tests::harness::command::{CommandOutput, annalist_at, json_lines};
use wiremock::matchers::body_string_contains;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::DEADLINE;
use super::installation::ResponderInstallation;
use super::workspace::CHANNEL;

async fn questions(installation: &ResponderInstallation, args: &[&str]) -> CommandOutput {
    annalist_at(installation.data(), &[&["questions"], args].concat()).await
}

/// Makes the processor answer every question, except that it answers 503 to questions with this word.
async fn answers(model: &MockServer, exception: Option<&str>) {
    model.reset().await;
    if let Some(word) = exception {
        let busy = ResponseTemplate::new(503).insert_header("retry-after", "1");
        Mock::given(body_string_contains(word)).respond_with(busy).mount(model).await;
    }
    let answer = ResponseTemplate::new(200).set_body_json(json!({ "text": "an answer" }));
    Mock::given(wiremock::matchers::any()).respond_with(answer).mount(model).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_listed_shown_cancelled_and_retried() {
    let installation = ResponderInstallation::new().await;
    let model = MockServer::start().await;
    answers(&model, Some("unanswerable")).await;
    let url = format!("{}/answer", model.uri());
    let server = installation.up(&[("ANNALIST_PROCESSOR_URL", &*url)]).await;
    let none = questions(&installation, &["list"]).await;
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "There are no such questions.\n"));

    let waiting = installation.ask(&server, 1, "unanswerable?").await;
    installation.until_questions("processing", 1, DEADLINE).await;
    let listed = questions(&installation, &["list", "--status", "processing"]).await.stdout;
    assert!(listed.contains("#general") && listed.contains(&waiting), "{listed}");
    assert!(listed.contains("unanswerable?") && listed.contains("processing"), "{listed}");
    let shown = questions(&installation, &["show", "#general", &waiting]).await.stdout;
    assert!(shown.contains("unanswerable?") && !shown.contains("Answer"), "{shown}");

    let cancelled = questions(&installation, &["cancel", CHANNEL, &waiting]).await;
    assert_eq!((cancelled.code, cancelled.stdout), (Some(0), format!("{waiting} is not answered.\n")));
    answers(&model, None).await;
    // A later question is answered, the cancelled one is not.
    let answered = installation.ask(&server, 2, "and this?").await;
    installation.until_answers("sent", 1, DEADLINE).await;
    let all = json_lines(installation.data(), &["questions", "list"]).await;
    let fields = |question: &Value, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| question[*name].clone()).collect()
    };
    let names = ["message_id", "status", "error_message", "retries", "answer"];
    let expected = [json!(waiting), json!("error"), json!("question cancelled"), json!(1), json!(null)];
    assert_eq!(fields(&all[0], &names), expected);
    assert_eq!(fields(&all[1], &names[..2]), [json!(answered), json!("processed")]);

    let refused = questions(&installation, &["cancel", CHANNEL, &answered]).await;
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{refused:?}");
    assert!(refused.stderr.contains("delete the answer in Slack"), "{refused:?}");
    let stays = questions(&installation, &["retry", CHANNEL, &answered]).await;
    assert_eq!(stays.stdout, format!("{answered} was already answered; nothing changes.\n"));
    for command in ["show", "retry", "cancel"] {
        let unknown = questions(&installation, &[command, CHANNEL, "1.000000"]).await;
        assert_eq!((unknown.code, unknown.stderr.lines().count()), (Some(1), 1), "{unknown:?}");
        assert!(unknown.stderr.contains("annalist questions list"), "{unknown:?}");
    }

    questions(&installation, &["retry", CHANNEL, &waiting]).await.succeeded();
    installation.until_answers("sent", 2, DEADLINE).await;
    assert_eq!(installation.slack.call_count("chat.postMessage"), 2);
    let shown = questions(&installation, &["show", CHANNEL, &waiting, "--json"]).await.stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let expected = [json!(waiting), json!("processed"), json!(null), json!(2)];
    assert_eq!(fields(&shown, &names[..4]), expected);
    assert_eq!(shown["answer"]["posted"].as_array().map(Vec::len), Some(1));
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_of_any_length_waits_for_an_unavailable_processor() {
    let installation = ResponderInstallation::new().await;
    // On this port no process listens.
    let server = installation.up(&[("ANNALIST_PROCESSOR_URL", "http://127.0.0.1:1/answer")]).await;
    installation.ask(&server, 1, &"why ".repeat(10_000)).await;
    installation.until_questions("processing", 1, DEADLINE).await;
    assert_eq!(installation.slack.call_count("chat.postMessage"), 0);
    server.process.stop().await;

    let model = MockServer::start().await;
    answers(&model, None).await;
    let url = format!("{}/answer", model.uri());
    let server = installation.up(&[("ANNALIST_PROCESSOR_URL", &*url)]).await;
    installation.until_answers("sent", 1, DEADLINE).await;
    assert_eq!(installation.slack.call_count("chat.postMessage"), 1);
    let request: Value = serde_json::from_slice(&model.received_requests().await.unwrap()[0].body).unwrap();
    assert_eq!(request["question"].as_str().map(str::len), Some(4 * 10_000 - 1));
    // The views that scripts read with SQL.
    let prompt = rusqlite::Connection::open(installation.data().join("annalist.db")).unwrap();
    for (table, expected) in [("message_queue", "processed"), ("response_queue", "sent")] {
        let status: String =
            prompt.query_row(&format!("SELECT status FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(status, expected, "{table}");
    }
    server.process.stop().await;
}
