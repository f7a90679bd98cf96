//! Questions on AWS: a mention passes through every queue and table of the responder, and gets one reply in
//! its thread.

use std::time::Duration;

use ports::queue::QueueName;
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::AwsInstallation;
use tests::harness::process::{self, ServerProcess};
use tokio::time::Instant;
use wiremock::matchers::{any, body_string_contains};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::fleet::{DRAIN_DEADLINE, Workers, assert_no_quarantine, workers};
use crate::responder::workspace::{AskingWorkspace, CHANNEL, TOKEN};

const DEADLINE: Duration = Duration::from_secs(60);

/// Processes of each worker: either may receive a job.
const EACH: usize = 2;

/// A fleet that answers questions, with a Slack and a processor.
struct AnsweringFleet {
    installation: AwsInstallation,
    workspace: AskingWorkspace,
    processor: MockServer,
    ingest: ServerProcess,
    workers: Workers,
}

impl AnsweringFleet {
    async fn start() -> Self {
        let (workspace, processor) = (AskingWorkspace::start().await, MockServer::start().await);
        answers(&processor, []).await;
        let installation = AwsInstallation::new()
            .await
            .with_slack(&workspace.slack.url(), TOKEN)
            .with_variable("ANNALIST_PROCESSOR_URL", Some(&format!("{}/answer", processor.uri())));
        annalist_at(&installation, &["sync", "--no-join"]).await.succeeded();
        let ingest = process::ingest(&installation).await;
        let workers = workers(&installation, EACH).await;
        Self { installation, workspace, processor, ingest, workers }
    }

    async fn deliver(&self, event_id: &str, event: &Value) {
        let mut sender = EventClient::for_address(self.ingest.address, RetryDelays::none());
        assert_eq!(sender.deliver(&event::envelope(TEAM, event_id, event)).await, Ok(1));
    }

    /// Delivers a person's question, and returns its `ts`.
    async fn ask(&self, n: u32, text: &str) -> String {
        let (ts, mention) = self.workspace.mention(n, text);
        self.deliver(&format!("Ev{n}"), &mention).await;
        ts
    }

    async fn drained(&self) {
        self.installation
            .wait_until_empty(&[QueueName::Events, QueueName::Questions, QueueName::Replies], DRAIN_DEADLINE)
            .await;
    }

    /// The output of `annalist questions` with these arguments, which must succeed.
    async fn questions(&self, args: &[&str]) -> String {
        let outcome = annalist_at(&self.installation, &[&["questions"], args].concat()).await;
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
        outcome.stdout
    }

    /// The questions with a status.
    async fn listed(&self, status: &str) -> Vec<Value> {
        json_lines(&self.installation, &["questions", "list", "--status", status]).await
    }

    /// The number of posts that Slack counted, and the posts.
    fn posted(&self) -> (usize, Vec<Value>) {
        (self.workspace.slack.call_count("chat.postMessage"), self.workspace.posted())
    }

    async fn end(self) {
        assert_no_quarantine(&self.installation).await;
        self.workers.end().await;
        self.ingest.process.stop().await;
    }
}

/// Makes the processor answer every question, with another response for questions that contain one of these
/// words.
async fn answers<const N: usize>(processor: &MockServer, exceptions: [(&str, ResponseTemplate); N]) {
    processor.reset().await;
    for (word, response) in exceptions {
        Mock::given(body_string_contains(word)).respond_with(response).mount(processor).await;
    }
    let answer = ResponseTemplate::new(200).set_body_json(json!({ "text": "an answer" }));
    Mock::given(any()).respond_with(answer).mount(processor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mention_gets_one_reply_in_its_thread_however_often_slack_delivers_it() {
    let fleet = AnsweringFleet::start().await;
    let (question_ts, mention) = fleet.workspace.mention(1, "why?");
    fleet.deliver("Ev1", &mention).await;
    fleet.drained().await;
    let (calls, posted) = fleet.posted();
    let [reply] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!((calls, &reply["text"], &reply["thread_ts"]), (1, &json!("an answer"), &json!(question_ts)));

    // SQS deduplicates the first one, and the archive the second.
    fleet.deliver("Ev1", &mention).await;
    fleet.deliver("Ev2", &mention).await;
    fleet.drained().await;
    assert_eq!(fleet.posted(), (1, posted.clone()));

    let listed = json_lines(&fleet.installation, &["questions", "list"]).await;
    let [question] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(
        (&question["message_id"], &question["status"], &question["channel_name"], &question["retries"]),
        (&json!(question_ts), &json!("processed"), &json!("general"), &json!(0))
    );
    let answer = &question["answer"];
    assert_eq!((&answer["status"], &answer["posted"]), (&json!("sent"), &json!([reply["ts"]])));
    let shown = fleet.questions(&["show", "#general", &question_ts]).await;
    assert!(shown.contains("processed, answer sent") && shown.contains("an answer"), "{shown}");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_fails_is_retried_and_one_that_waits_is_cancelled() {
    let fleet = AnsweringFleet::start().await;
    let broken = ResponseTemplate::new(400);
    let busy = ResponseTemplate::new(503).insert_header("retry-after", "1");
    answers(&fleet.processor, [("unanswerable", broken), ("patience", busy)]).await;
    let failing = fleet.ask(1, "unanswerable?").await;
    fleet.drained().await;
    let failed = fleet.listed("error").await;
    let [question] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!(
        (&question["message_id"], &question["error_message"], &question["answer"]),
        (&json!(failing), &json!("the processor answered HTTP 400"), &Value::Null)
    );

    let waiting = fleet.ask(2, "with patience?").await;
    let until = Instant::now() + DEADLINE;
    // The responder cannot notify this program, so it polls; each poll takes a while.
    while fleet.listed("processing").await.is_empty() {
        assert!(
            Instant::now() < until,
            "{:?}",
            json_lines(&fleet.installation, &["questions", "list"]).await
        );
    }
    let cancelled = fleet.questions(&["cancel", CHANNEL, &waiting]).await;
    assert_eq!(cancelled, format!("{waiting} is not answered.\n"));
    answers(&fleet.processor, []).await;
    fleet.drained().await;
    assert_eq!(fleet.posted(), (0, Vec::new()));

    let retried = fleet.questions(&["retry", CHANNEL, &failing]).await;
    assert_eq!(retried, format!("{failing} is asked again; a running responder answers it.\n"));
    fleet.drained().await;
    let (calls, posted) = fleet.posted();
    let [reply] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!((calls, &reply["thread_ts"]), (1, &json!(failing)));
    let stays = fleet.questions(&["retry", CHANNEL, &failing]).await;
    assert_eq!(stays, format!("{failing} was already answered; nothing changes.\n"));

    let processed = fleet.listed("processed").await;
    let [question] = &processed[..] else { panic!("{processed:?}") };
    assert_eq!(
        (&question["message_id"], &question["retries"], &question["answer"]["posted"]),
        (&json!(failing), &json!(1), &json!([reply["ts"]]))
    );
    let failed = fleet.listed("error").await;
    let [question] = &failed[..] else { panic!("{failed:?}") };
    assert_eq!(
        (&question["message_id"], &question["error_message"]),
        (&json!(waiting), &json!("question cancelled"))
    );
    fleet.end().await;
}
