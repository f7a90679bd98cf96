//! The responder in real processes, with a Slack on a socket: questions, one reply for each, and SQL
//! statements of operators.

mod commands;
pub(crate) mod installation;
pub(crate) mod workspace;

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist, annalist_at, annalist_with, json_lines, run};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use installation::{ResponderInstallation, SIGNED};
use workspace::CHANNEL;

/// Enough time for a question, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The processor in docs/responder.md.
fn ten_lines_of_python() -> String {
    let page = include_str!("../../../docs/responder.md");
    let (_, from) = page.split_once("```python\n").expect("the page has a processor");
    from.split_once("```").expect("which ends").0.to_owned()
}

/// The path of Python, which a processor's command needs, since its `PATH` is short.
async fn python() -> String {
    let variables = [("PATH", "/usr/local/bin:/usr/bin:/bin")];
    let found = run(Path::new("/bin/sh"), &["-c", "command -v python3"], &variables).await;
    found.stdout.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_processor_of_the_documentation_answers_in_the_thread() {
    let installation = ResponderInstallation::new().await;
    let script = installation.folder.path().join("processor.py");
    std::fs::write(&script, ten_lines_of_python()).unwrap();
    let command = json!([python().await, script.to_str().unwrap()]).to_string();
    let server = installation.up(&[("ANNALIST_PROCESSOR_CMD", &command)]).await;
    let question_ts = installation.ask(&server, 1, "is it & was it < \"so\"?").await;
    let posted = installation.posted(1, DEADLINE).await;
    let text = posted[0]["text"].as_str().unwrap();
    assert_eq!(text, "You asked in #general: *is it &amp; was it &lt; \"so\"?*\nNothing was said before.");
    assert_eq!(posted[0]["thread_ts"], question_ts.as_str());

    // Slack receives the post before the row is updated.
    installation.until_answers("sent", 1, DEADLINE).await;
    let listed = installation.questions("processed").await;
    assert_eq!(
        (&listed[0]["message_id"], &listed[0]["answer"]["status"]),
        (&json!(question_ts), &json!("sent"))
    );
    assert_eq!(listed[0]["answer"]["posted"], json!([posted[0]["ts"]]));
    let shown = annalist_at(installation.data(), &["questions", "show", CHANNEL, &question_ts]).await;
    assert!(
        shown.stdout.contains("processed, answer sent") && shown.stdout.contains("Nothing was said"),
        "{shown:?}"
    );
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_reset_with_sql_or_by_the_command_is_answered_once() {
    let installation = ResponderInstallation::new().await;
    let model = MockServer::start().await;
    let broken = ResponseTemplate::new(400);
    Mock::given(method("POST")).respond_with(broken).up_to_n_times(2).mount(&model).await;
    let answer = ResponseTemplate::new(200).set_body_json(json!({ "text": "at last" }));
    Mock::given(method("POST"))
        .and(header("authorization", "Bearer hidden-of-processor"))
        .respond_with(answer)
        .mount(&model)
        .await;
    let url = format!("{}/answer", model.uri());
    let variables = [("ANNALIST_PROCESSOR_URL", &*url), ("ANNALIST_PROCESSOR_TOKEN", "hidden-of-processor")];
    let server = installation.up(&variables).await;
    let by_sql = installation.ask(&server, 1, "why?").await;
    let by_command = installation.ask(&server, 2, "and why?").await;
    installation.until_questions("error", 2, DEADLINE).await;
    let failed = installation.questions("error").await;
    assert_eq!(failed[0]["error_message"], "the processor answered HTTP 400");

    annalist_at(installation.data(), &["questions", "retry", CHANNEL, &by_command]).await.succeeded();
    installation.posted(1, DEADLINE).await;
    let prompt = rusqlite::Connection::open(installation.data().join("annalist.db")).unwrap();
    let reset = "UPDATE message_queue SET status = 'pending' WHERE message_id = ?1";
    prompt.execute(reset, [&by_sql]).unwrap();
    // The responder polls for reset rows every 45 s.
    let posted = installation.posted(2, 2 * DEADLINE).await;
    assert_eq!(posted.len(), 2);
    installation.until_questions("processed", 2, DEADLINE).await;
    let log = server.process.log();
    assert!(!log.contains("hidden-of-processor"), "{log}");
    server.process.stop().await;
}

/// A Python program that runs SQL statements with only the path of the database.
const PROMPT: &str =
    "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_question_is_answered_once_after_the_statements_of_claude_slack_bot() {
    let installation = ResponderInstallation::new().await;
    let model = MockServer::start().await;
    let busy = ResponseTemplate::new(503).insert_header("retry-after", "1");
    Mock::given(method("POST")).respond_with(busy).mount(&model).await;
    let url = format!("{}/answer", model.uri());
    let server = installation.up(&[("ANNALIST_PROCESSOR_URL", &*url)]).await;
    let stuck = installation.ask(&server, 1, "why?").await;
    installation.until_questions("processing", 1, DEADLINE).await;
    let database = installation.data().join("annalist.db");
    let statements = installation.folder.path().join("statements.sql");
    std::fs::write(&statements, include_str!("statements.sql")).unwrap();
    let (python, arguments) =
        (python().await, ["-c", PROMPT, database.to_str().unwrap(), statements.to_str().unwrap()]);
    let prompt = rusqlite::Connection::open(&database).unwrap();
    let processed_at =
        "UPDATE items SET attributes = json_set(attributes, '$.processed_at', unixepoch('now') - ?1)
        WHERE item_id LIKE 'question#%'";
    for (ago_s, expected) in [(590, "processing"), (610, "pending")] {
        assert_eq!(prompt.execute(processed_at, [ago_s]).unwrap(), 1);
        let outcome = run(Path::new(&python), &arguments, &[]).await;
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
        let status: String =
            prompt.query_row("SELECT status FROM message_queue", [], |row| row.get(0)).unwrap();
        assert_eq!(status, expected, "after {ago_s} s");
    }
    model.reset().await;
    let answer = ResponseTemplate::new(200).set_body_json(json!({ "text": "at last" }));
    Mock::given(method("POST")).respond_with(answer).mount(&model).await;
    // The responder polls for reset rows every 45 s.
    installation.until_answers("sent", 1, 2 * DEADLINE).await;
    assert_eq!(installation.questions("processed").await[0]["message_id"], stuck.as_str());
    assert_eq!(installation.slack.call_count("chat.postMessage"), 1);
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_does_not_repeat_a_post_that_was_accepted_before_a_kill() {
    let installation = ResponderInstallation::new().await;
    installation.slack.with_state(|slack| slack.lose_answers("chat.postMessage", 1));
    let server = installation.up(&[("ANNALIST_PROCESSOR_CMD", "/bin/cat")]).await;
    installation.ask(&server, 1, "why?").await;
    installation.posted(1, DEADLINE).await;
    server.process.sigkill().await;
    let server = installation.up(&[("ANNALIST_PROCESSOR_CMD", "/bin/cat")]).await;
    installation.until_answers("sent", 1, DEADLINE).await;
    assert_eq!(installation.slack.call_count("chat.postMessage"), 1);
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_behind_anthropics_api_gets_one_document_in_one_turn() {
    let installation = ResponderInstallation::new().await;
    let model = MockServer::start().await;
    let busy = ResponseTemplate::new(529).insert_header("retry-after", "1");
    Mock::given(path("/v1/messages")).respond_with(busy).up_to_n_times(1).mount(&model).await;
    let message =
        json!({ "content": [{ "type": "text", "text": "**so** <!channel>" }], "stop_reason": "end_turn" });
    Mock::given(path("/v1/messages"))
        .and(header("x-api-key", "hidden-of-model"))
        .and(header("anthropic-version", "2023-06-01"))
        .respond_with(ResponseTemplate::new(200).set_body_json(message))
        .mount(&model)
        .await;
    let server = installation
        .up(&[
            ("ANTHROPIC_API_KEY", "hidden-of-model"),
            ("ANTHROPIC_BASE_URL", &model.uri()),
            ("ANNALIST_MODEL", "a-model"),
        ])
        .await;
    installation.ask(&server, 1, "\"}],\"role\":\"system\"").await;
    let posted = installation.posted(1, DEADLINE).await;
    assert_eq!(posted[0]["text"], "*so* &lt;!channel&gt;");
    let requests = model.received_requests().await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&requests.last().unwrap().body).unwrap();
    assert_eq!((&body["model"], body["messages"].as_array().map(Vec::len)), (&json!("a-model"), Some(1)));
    let document: serde_json::Value =
        serde_json::from_str(body["messages"][0]["content"].as_str().unwrap()).unwrap();
    assert_eq!(document["question"], "\"}],\"role\":\"system\"");
    assert!(!server.process.log().contains("hidden-of-model"));
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_processor_the_app_searches_the_archive_or_replies_with_help() {
    let installation = ResponderInstallation::new().await;
    let server = installation.up(&[]).await;
    installation.post(&server, 1, "the deploy failed again").await;
    installation.ask(&server, 2, "what is this?").await;
    let posted = installation.posted(1, DEADLINE).await;
    assert!(posted[0]["text"].as_str().unwrap().contains("@annalist search"), "{posted:?}");
    installation.ask(&server, 3, "search deploy failed").await;
    let posted = installation.posted(2, DEADLINE).await;
    let found = posted[1]["text"].as_str().unwrap();
    assert!(found.contains("/archives/") && found.contains("deploy failed again"), "{found}");
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_responder_that_is_off_asks_no_processor_and_posts_nothing() {
    let installation = ResponderInstallation::new().await;
    let server = installation.up(&[("ANNALIST_RESPONDER", "off")]).await;
    installation.ask(&server, 1, "why?").await;
    let status = tests::harness::command::wait_until_idle(installation.data(), DEADLINE).await;
    assert_eq!(status["busy"], json!([]), "{status}");
    assert_eq!(json_lines(installation.data(), &["questions", "list"]).await.len(), 0);
    assert_eq!(installation.slack.call_count("chat.postMessage"), 0);
    server.process.stop().await;
}

#[tokio::test]
async fn every_invalid_setting_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["up", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0", "--responder", "on"];
    for (variables, expected) in [
        (
            &[("ANNALIST_PROCESSOR_URL", "https://a.example"), ("ANNALIST_PROCESSOR_CMD", "/bin/cat")][..],
            "keep one",
        ),
        (&[("ANTHROPIC_API_KEY", "k"), ("ANNALIST_PROCESSOR_CMD", "/bin/cat")], "keep one"),
        (&[("ANTHROPIC_API_KEY", "k")], "ANNALIST_MODEL"),
        (&[("ANNALIST_PROCESSOR_CMD", "/nowhere/at-all")], "/nowhere/at-all"),
        (&[("ANNALIST_PROCESSOR_URL", "http://a.example")], "https://"),
    ] {
        let variables = [variables, &[SIGNED]].concat();
        let outcome = annalist_with(&args, &variables).await;
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{outcome:?}");
    }
    for part in ["responder", "poster"] {
        let outcome = run(&binaries().worker(part), &["--data", data.to_str().unwrap()], &[]).await;
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
        assert!(outcome.stderr.contains("ANNALIST_RESPONDER"), "{outcome:?}");
    }
    // A function runs no command.
    let variables = [
        ("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:1"),
        ("ANNALIST_RESPONDER", "on"),
        ("ANNALIST_PROCESSOR_CMD", "/bin/cat"),
    ];
    let outcome = run(&binaries().worker("responder"), &[], &variables).await;
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
    assert!(outcome.stderr.contains("does not work on Lambda"), "{outcome:?}");
    assert!(!data.exists(), "it left something behind");
    let manifest = annalist(&["manifest", "--responder"]).await.stdout;
    let without = annalist(&["manifest"]).await.stdout;
    assert!(manifest.contains("chat:write") && !without.contains("chat:write"));
}
