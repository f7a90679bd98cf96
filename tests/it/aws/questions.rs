//! Questions on AWS: a mention goes through every queue and table of the responder, and one reply comes into its thread.

use std::time::Duration;

use ports::queue::QueueName;
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::place::AwsInstallation;
use tests::harness::process::{self, ServerProcess};
use tokio::time::Instant;
use wiremock::matchers::{any, body_string_contains};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::fleet::{DRAIN_DEADLINE, Workers, assert_no_quarantine, workers};
use crate::responder::workspace::{AskingWorkspace, CHANNEL, TOKEN};

const DEADLINE: Duration = Duration::from_secs(60);

/// Processes of each worker: each job may go to either.
const EACH: usize = 2;

/// A fleet that answers, beside a Slack and a processor.
struct AnsweringFleet {
    place: AwsInstallation,
    workspace: AskingWorkspace,
    processor: MockServer,
    ingest: ServerProcess,
    workers: Workers,
}

impl AnsweringFleet {
    async fn start() -> Self {
        let (workspace, processor) = (AskingWorkspace::start().await, MockServer::start().await);
        answers(&processor, []).await;
        let place = AwsInstallation::new()
            .await
            .with("SLACK_BOT_TOKEN", Some(TOKEN))
            .with("SLACK_API_URL", Some(&workspace.slack.url()))
            .with("ANNALIST_PROCESSOR_URL", Some(&format!("{}/answer", processor.uri())));
        let synced = annalist_at(&place, &["sync", "--no-join"]).await;
        assert_eq!(synced.code, Some(0), "{synced:?}");
        let ingest = process::ingest(&place).await;
        let workers = workers(&place, EACH, None).await;
        Self { place, workspace, processor, ingest, workers }
    }

    async fn deliver(&self, event_id: &str, told: &Value) {
        let mut sender = EventClient::to(self.ingest.address, RetryDelays::none());
        assert_eq!(sender.deliver(&event::envelope(TEAM, event_id, told)).await, Ok(1));
    }

    /// A person asks; the time of the question.
    async fn ask(&self, n: u32, text: &str) -> String {
        let (ts, told) = self.workspace.mention(n, text);
        self.deliver(&format!("Ev{n}"), &told).await;
        ts
    }

    async fn drained(&self) {
        self.place
            .emptied(&[QueueName::Events, QueueName::Questions, QueueName::Replies], DRAIN_DEADLINE)
            .await;
    }

    /// `annalist questions` with these arguments, which succeeds.
    async fn questions(&self, args: &[&str]) -> String {
        let outcome = annalist_at(&self.place, &[&["questions"], args].concat()).await;
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
        outcome.stdout
    }

    /// The questions of a status.
    async fn listed(&self, status: &str) -> Vec<Value> {
        json_lines(&self.place, &["questions", "list", "--status", status]).await
    }

    /// Posts to Slack, as it counted them, and what they are.
    fn posted(&self) -> (usize, Vec<Value>) {
        (self.workspace.slack.called("chat.postMessage"), self.workspace.posted())
    }

    async fn end(self) {
        assert_no_quarantine(&self.place).await;
        self.workers.end().await;
        assert!(self.ingest.process.sigterm(DEADLINE).await.success());
    }
}

/// A processor that answers, but for questions with a word of these, to which it has another response.
async fn answers<const N: usize>(processor: &MockServer, but_for: [(&str, ResponseTemplate); N]) {
    processor.reset().await;
    for (word, response) in but_for {
        Mock::given(body_string_contains(word)).respond_with(response).mount(processor).await;
    }
    let answer = ResponseTemplate::new(200).set_body_json(json!({ "text": "an answer" }));
    Mock::given(any()).respond_with(answer).mount(processor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mention_has_one_reply_in_its_thread_however_often_slack_delivers_it() {
    let fleet = AnsweringFleet::start().await;
    let (asked, told) = fleet.workspace.mention(1, "why?");
    fleet.deliver("Ev1", &told).await;
    fleet.drained().await;
    let (calls, posted) = fleet.posted();
    let [reply] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!((calls, &reply["text"], &reply["thread_ts"]), (1, &json!("an answer"), &json!(asked)));

    // SQS knows the first one, and the archive the second.
    fleet.deliver("Ev1", &told).await;
    fleet.deliver("Ev2", &told).await;
    fleet.drained().await;
    assert_eq!(fleet.posted(), (1, posted.clone()));

    let listed = json_lines(&fleet.place, &["questions", "list"]).await;
    let [question] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(
        (&question["message_id"], &question["status"], &question["channel_name"], &question["retries"]),
        (&json!(asked), &json!("processed"), &json!("general"), &json!(0))
    );
    let answer = &question["answer"];
    assert_eq!((&answer["status"], &answer["posted"]), (&json!("sent"), &json!([reply["ts"]])));
    let shown = fleet.questions(&["show", "#general", &asked]).await;
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
    // The responder cannot tell this program; each look of it takes a while.
    while fleet.listed("processing").await.is_empty() {
        assert!(Instant::now() < until, "{:?}", json_lines(&fleet.place, &["questions", "list"]).await);
    }
    let cancelled = fleet.questions(&["cancel", CHANNEL, &waiting]).await;
    assert_eq!(cancelled, format!("{waiting} is not answered.\n"));
    answers(&fleet.processor, []).await;
    fleet.drained().await;
    assert_eq!(fleet.posted(), (0, Vec::new()));

    let retried = fleet.questions(&["retry", CHANNEL, &failing]).await;
    assert_eq!(retried, format!("{failing} is asked again, by a responder that runs.\n"));
    fleet.drained().await;
    let (calls, posted) = fleet.posted();
    let [reply] = &posted[..] else { panic!("{posted:?}") };
    assert_eq!((calls, &reply["thread_ts"]), (1, &json!(failing)));
    let stays = fleet.questions(&["retry", CHANNEL, &failing]).await;
    assert_eq!(stays, format!("{failing} was answered, and that stays so.\n"));

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
