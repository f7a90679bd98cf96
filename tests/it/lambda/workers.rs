//! Workers behind event source mappings.

use std::collections::BTreeSet;

use ports::queue::{QueueName, QueueRef};
use serde_json::{Value, json};
use testkit::corpus::{Model, Shape, TEAM, Workload, channel_id, event};
use testkit::fake_files;
use testkit::fake_slack::{self, FakeSlack, FakeWorkspace};
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist_at, json_lines};
use tests::harness::environment::AwsInstallation;
use tests::harness::lambda::RunningFunction;
use tests::harness::lambda::poller::Poller;
use tests::harness::stack::Stack;
use tests::harness::verify::assert_messages;

use super::{DEADLINE, answer, metric_lines, signed};

const TOKEN: &str = "xoxb-test";

async fn worker(name: &str, installation: &AwsInstallation) -> RunningFunction {
    RunningFunction::start(&binaries().worker(name), installation).await
}

async fn deliver(ingest: &RunningFunction, body: &str) {
    assert_eq!(answer(ingest, &signed(body)).await.status, 200);
}

/// Passes the messages of a queue to a function until the queue is empty; all of them must succeed.
async fn drain(installation: &AwsInstallation, queue: QueueName, function: &RunningFunction) {
    let handled = Poller::for_queue(installation, queue).await.poll_until_empty(function).await;
    assert!(!handled.is_empty());
    assert!(handled.iter().all(|handled| handled.failed.is_empty()), "{handled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_turn_events_into_rows_and_files() {
    let installation = AwsInstallation::new().await;
    let slack = fake_files::slack().await;
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    let mut model = Model::default();
    for event in
        Workload::new(Shape { seed: 5, channels: 4, irregular_envelopes: true, ..Shape::default() }).take(120)
    {
        deliver(&ingest, &event.body).await;
        model.apply(&event);
    }
    let shared = fake_files::message_with_file(&slack, "F0001", "1700000000.000001");
    deliver(&ingest, &event::envelope(TEAM, "EvFile", &event::posted(&channel_id(900), &shared))).await;

    let writer = worker("message-writer", &installation).await;
    drain(&installation, QueueName::Events, &writer).await;
    let api = format!("{}/api/", slack.uri());
    let downloader = worker("file-downloader", &installation.with_slack(&api, TOKEN)).await;
    drain(&installation, QueueName::Files, &downloader).await;

    assert_messages(&installation, &model).await;
    let files = json_lines(&installation, &["files", &channel_id(900)]).await;
    assert_eq!(files.iter().map(|file| file["state"].clone()).collect::<Vec<_>>(), ["held"]);
    // The metrics count every job.
    let jobs = |printed: &str| {
        metric_lines(printed).iter().filter_map(|line| line["annalist_acks_total"].as_u64()).sum::<u64>()
    };
    writer.process.wait_for_output_that(|printed| jobs(printed) == 121, DEADLINE).await;
    // AWS bills each name with each value of its dimensions as a metric: at most five.
    let printed = [&ingest, &writer, &downloader].map(|function| function.process.output());
    let mut billed = BTreeSet::new();
    for line in printed.iter().flat_map(|printed| metric_lines(printed)) {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Dimensions"], json!([["installation"]]), "{line}");
        for metric in directive["Metrics"].as_array().unwrap() {
            billed.insert((metric["Name"].to_string(), line["installation"].to_string()));
        }
    }
    assert!((2..=5).contains(&billed.len()), "{billed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_cannot_be_stored_is_quarantined_and_counted_in_the_metrics() {
    let installation = AwsInstallation::new().await;
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    let odd = event::posted("not/an id", &event::message("1700000000.000001", "U0001", "odd"));
    deliver(&ingest, &event::envelope(TEAM, "Ev1", &odd)).await;
    let full = installation.with_variable("ANNALIST_METRICS", Some("full"));
    let prefix = installation.aws.names().prefix();
    let writer = worker("message-writer", &full).await;
    drain(&installation, QueueName::Events, &writer).await;
    assert_eq!(json_lines(&installation, &["quarantine", "list"]).await.len(), 1);
    // The metric that the template's alarm evaluates.
    writer.process.wait_for_output("quarantined", DEADLINE).await;
    let lines = metric_lines(&writer.process.output());
    let alarm_line = lines.iter().find(|line| line.get("annalist_quarantined_total").is_some()).unwrap();
    assert_eq!(
        (&alarm_line["annalist_quarantined_total"], &alarm_line["installation"]),
        (&json!(1), &json!(prefix))
    );
    // The metrics that `ANNALIST_METRICS=full` adds.
    let quarantined = lines.iter().find(|line| line["outcome"] == "quarantined").unwrap();
    assert_eq!(quarantined["annalist_worker_jobs_total"], 1);
    assert_eq!(quarantined["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Annalist");
    let mut dimensions: Vec<&str> = quarantined["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    dimensions.sort_unstable();
    assert_eq!(dimensions, ["outcome", "worker"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_returns_to_the_queue_if_the_table_fails() {
    let installation = AwsInstallation::new().await;
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    let posted = |number: i64| {
        let message = event::message(&testkit::corpus::ts(1_700_000_000_000_000 + number), "U0001", "hello");
        event::envelope(TEAM, &format!("Ev{number}"), &event::posted(&channel_id(1), &message))
    };
    for number in 0..3 {
        deliver(&ingest, &posted(number)).await;
    }
    let broken = installation.with_variable("ANNALIST_TABLE", Some("nowhere-at-all"));
    let writer = worker("message-writer", &broken).await;
    let poller = Poller::for_queue(&installation, QueueName::Events).await;
    let handled = poller.poll_once(&writer).await;
    assert_eq!((handled.received, handled.failed.len()), (3, 3));

    let writer = worker("message-writer", &installation).await;
    let until = tokio::time::Instant::now() + DEADLINE;
    let mut done = 0;
    while done < 3 {
        // The first message of the group backs off for an unknown time.
        let handled = poller.poll_once(&writer).await;
        done += handled.received - handled.failed.len();
        assert!(tokio::time::Instant::now() < until, "{done} of 3 were handled");
    }
    let rows = json_lines(&installation, &["messages", &channel_id(1)]).await;
    assert_eq!(rows.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_tried_again_by_the_scheduled_command_and_quarantined_the_fourth_time() {
    let installation = AwsInstallation::new().await;
    let name = installation.aws.names().queue(QueueRef::dead_letters(QueueName::Events));
    let sqs = Stack::shared().sqs().await;
    let url = sqs.get_queue_url().queue_name(&name).send().await.unwrap().queue_url.unwrap();
    let message = event::posted(&channel_id(1), &event::message("1700000000.000001", "U0001", "dead"));
    let body = ports::queue::job::encode_event(&event::envelope(TEAM, "Ev1", &message));
    let origin = r#"{"v":1,"origin":{"sent_at_ms":1700000000000,"message_id":"first","trips":3},"#;
    for (number, body) in [body.clone(), body.replacen(r#"{"v":1,"#, origin, 1)].into_iter().enumerate() {
        sqs.send_message()
            .queue_url(&url)
            .message_body(body)
            .message_group_id("T1#C1")
            .message_deduplication_id(number.to_string())
            .send()
            .await
            .unwrap();
    }
    let writer = worker("message-writer", &installation).await;
    let answered = writer.invoke(&json!({ "annalist": "dead-letters" }), DEADLINE).await.unwrap();
    assert_eq!(answered, json!({ "batchItemFailures": [] }));
    let listed = json_lines(&installation, &["quarantine", "list"]).await;
    assert_eq!(listed.len(), 1);
    let status = json_lines(&installation, &["status"]).await;
    let waiting = &status[0]["waiting"][0];
    assert_eq!((&waiting["team_id"], &waiting["cause"]), (&json!("T1"), &json!("redelivered")), "{status:?}");
    assert!(listed[0]["reason"].as_str().unwrap().contains("without success"), "{listed:?}");
    // The alarm's metric counts these too.
    writer.process.wait_for_output("quarantined", DEADLINE).await;
    let lines = metric_lines(&writer.process.output());
    let sum = |name: &str| lines.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    assert_eq!((sum("annalist_dead_letters_total"), sum("annalist_quarantined_total")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_for_another_function_is_refused_completely() {
    let installation = AwsInstallation::new().await;
    let writer = worker("message-writer", &installation).await;
    let record = |arn: &str| {
        json!({ "Records": [{
            "messageId": "m", "receiptHandle": "r", "body": "{}", "attributes": {}, "messageAttributes": {},
            "eventSource": "aws:sqs", "eventSourceARN": arn, "awsRegion": "eu-central-1",
        }] })
    };
    let prefix = installation.aws.names().prefix();
    for (payload, expected) in [
        (record("arn:aws:sqs:eu-central-1:1:elsewhere.fifo"), "ANNALIST_PREFIX"),
        (record(&format!("arn:aws:sqs:eu-central-1:1:{prefix}-files.fifo")), "map events to it"),
        (json!({}), "contains no messages"),
        (json!({ "annalist": "sync" }), "has no command"),
    ] {
        let error = writer.invoke(&payload, DEADLINE).await.unwrap_err();
        assert!(error["errorMessage"].as_str().unwrap().contains(expected), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_is_synced_on_its_schedule_and_a_new_channel_is_joined_before_the_response() {
    let installation = AwsInstallation::new().await;
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace::new(TEAM);
    let not_joined = [("is_member", false.into())];
    workspace.channels = vec![event::with_fields(fake_slack::channel("C0001", "general"), not_joined)];
    slack.set_workspace(TOKEN, workspace);
    let slack_installation = installation.with_slack(&slack.url(), TOKEN);
    let directory = worker("directory", &slack_installation).await;
    let answered = directory.invoke(&json!({ "annalist": "dead-letters" }), DEADLINE).await.unwrap();
    assert_eq!(answered, json!({ "batchItemFailures": [] }));
    drain(&installation, QueueName::Directory, &directory).await;
    let indexer = worker("channel-indexer", &slack_installation).await;
    let names = json_lines(&installation, &["channels"]).await;
    assert_eq!(names.iter().map(|channel| channel["name"].clone()).collect::<Vec<_>>(), ["general"]);
    assert!(slack.joined(TOKEN) == ["C0001"], "the sync joins what it found");

    // A channel that was created a moment ago.
    slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.push(fake_slack::channel("C0002", "new"));
        workspace.members.push(fake_slack::person("U0001", "ada"));
    });
    let ingest = RunningFunction::start(&binaries().ingest, &installation).await;
    let created = json!({
        "type": "channel_created", "event_ts": "1700000000.000001",
        "channel": { "id": "C0002", "name": "new", "created": 1_700_000_000, "creator": "U0001" },
    });
    deliver(&ingest, &event::envelope(TEAM, "EvNew", &created)).await;
    drain(&installation, QueueName::Channels, &indexer).await;
    let joined = slack.calls().into_iter().filter(|call| call.method == "conversations.join");
    let channels: Vec<String> = joined.filter_map(|call| call.parameters.get("channel").cloned()).collect();
    assert_eq!(channels, ["C0001", "C0002"]);
    let status = annalist_at(&installation, &["channels"]).await;
    assert!(status.stdout.contains("new"), "{status:?}");
}
