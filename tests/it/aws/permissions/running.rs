//! Checks that the role of each running part permits its calls.

use std::collections::BTreeSet;

use aws_resources::names::Names;
use aws_resources::permissions::{PermittedPart, Target};
use ports::archive::rows::is_transient;
use ports::queue::topology::TableRole;
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_files;
use testkit::fake_slack::{self, FakeSlack, FakeWorkspace};
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::environment::AwsInstallation;
use tests::harness::process::{self, Process};
use tests::harness::proxy::{ForwardedRequest, Proxy};
use tests::harness::stack::Stack;

use super::iam;
use crate::aws::fleet::{DRAIN_DEADLINE, TOKEN};

const CHANNEL: &str = "C0GENERAL";

/// A request as IAM sees it: the action and the resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IamRequest {
    action: String,
    on: String,
}

impl IamRequest {
    /// The actions and resources of a request that the proxy passed on.
    fn of(passed: &ForwardedRequest) -> Vec<Self> {
        let (service, operation, on) =
            match passed.target.as_deref().and_then(|target| target.split_once('.')) {
                Some((service, operation)) => {
                    let body: Value = serde_json::from_str(&passed.body).unwrap();
                    let service = if service == "AmazonSQS" { "sqs" } else { "dynamodb" };
                    let mut on = names_in(&body);
                    // The permission to delete a row depends on its partition.
                    if let ("DeleteItem", Some(partition)) = (operation, body["Key"]["itemId"]["S"].as_str())
                    {
                        on = on.iter().map(|table| format!("{table}/{partition}")).collect();
                    }
                    (service, operation.to_owned(), on)
                }
                None => {
                    let (path, query) = passed.path.split_once('?').unwrap_or((&passed.path, ""));
                    ("s3", s3_operation(&passed.method, path, query), vec![path.trim_matches('/').to_owned()])
                }
            };
        let actions = iam::actions(service, &operation);
        let requests_on = |on: &String| {
            actions.iter().map(|action| Self { action: action.clone(), on: on.clone() }).collect()
        };
        on.iter().flat_map(|on| -> Vec<Self> { requests_on(on) }).collect()
    }
}

/// The queue, table or tables that a request is about.
fn names_in(body: &Value) -> Vec<String> {
    if let Some(tables) = body["RequestItems"].as_object() {
        return tables.keys().cloned().collect();
    }
    let named = ["QueueUrl", "QueueName", "TableName"].iter().find_map(|name| body[name].as_str());
    let name =
        named.unwrap_or_else(|| panic!("{body} names no resource")).rsplit('/').next().unwrap().to_owned();
    match body["IndexName"].as_str() {
        Some(index) => vec![format!("{name}/index/{index}")],
        None => vec![name],
    }
}

/// The name of an S3 operation; not every request contains it.
fn s3_operation(method: &str, path: &str, query: &str) -> String {
    if let Some(named) = query.split('&').find_map(|pair| pair.strip_prefix("x-id=")) {
        return named.to_owned();
    }
    let is_bucket = !path.trim_matches('/').contains('/');
    match (method, is_bucket) {
        ("HEAD", true) => "HeadBucket",
        ("HEAD", false) => "HeadObject",
        ("POST", false) if query.starts_with("uploads") => "CreateMultipartUpload",
        ("POST", false) => "CompleteMultipartUpload",
        (method, _) => panic!("what is {method} {path}?{query}?"),
    }
    .to_owned()
}

fn part(name: &str) -> PermittedPart {
    PermittedPart::by_name(name).unwrap_or_else(|| panic!("there is no part {name}"))
}

/// Whether one of the parts may send this request.
fn is_permitted(parts: &[PermittedPart], names: &Names, request: &IamRequest) -> bool {
    let grants = parts.iter().flat_map(|part| part.grants());
    let mut of_action = grants.filter(|grant| grant.actions.contains(&request.action.as_str()));
    of_action.any(|grant| grant.targets.iter().any(|target| is_on(*target, names, &request.on)))
}

fn is_on(target: Target, names: &Names, on: &str) -> bool {
    let table = names.table(TableRole::Archive);
    match target {
        Target::Queue(queue) => on == names.queue(queue),
        Target::Table => on == table,
        Target::PassingRows => {
            let partition = on.strip_prefix(table).and_then(|rest| rest.strip_prefix('/'));
            partition.is_some_and(is_transient)
        }
        Target::ExistenceTable => on == names.table(TableRole::Existence),
        Target::Index => on.strip_prefix(table).is_some_and(|rest| rest.starts_with("/index/")),
        Target::Claims => on == names.table(TableRole::Claims),
        Target::Bucket => on == names.bucket(),
        Target::Objects(keys) => {
            let key = on.strip_prefix(names.bucket()).and_then(|rest| rest.strip_prefix('/'));
            key.is_some_and(|key| key.starts_with(keys.trim_end_matches('*')))
        }
        Target::SigningSecret
        | Target::BotToken
        | Target::ModelKey
        | Target::ProcessorToken
        | Target::OwnLog
        | Target::Everything => false,
    }
}

/// A running part and a proxy that records its requests.
struct WatchedPart {
    parts: Vec<PermittedPart>,
    proxy: Proxy,
}

impl WatchedPart {
    async fn of(parts: &[&str]) -> Self {
        let parts = parts.iter().map(|name| part(name)).collect();
        let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
        proxy.record();
        Self { parts, proxy }
    }

    async fn worker(&self, installation: &AwsInstallation, name: &str, slack: &str) -> Process {
        let installation = installation.with_endpoint(&self.proxy.endpoint).with_slack(slack, TOKEN);
        process::worker_process(name, &installation).await
    }

    /// Asserts that every recorded request is permitted, and returns the actions.
    fn assert_permitted(&self, names: &Names) -> BTreeSet<String> {
        let requests: BTreeSet<IamRequest> = self.proxy.recorded().iter().flat_map(IamRequest::of).collect();
        let beyond: Vec<&IamRequest> =
            requests.iter().filter(|request| !is_permitted(&self.parts, names, request)).collect();
        assert!(beyond.is_empty(), "{:?} sent requests that are not permitted: {beyond:?}", self.parts);
        requests.into_iter().map(|request| request.action).collect()
    }
}

/// Events that reach every queue, a row too large for the table, a file, and quarantine.
fn bodies(files: &wiremock::MockServer) -> Vec<String> {
    let root = event::message("1700000000.000100", "U0FIRST", "root");
    // Its row contains the text twice; the event contains it once, so that each emulator's queue accepts it.
    let large = json!({ "type": "message", "user": "U0FIRST", "ts": "1700000001.000100",
        "text": "large ".repeat(35_000) });
    let edited = event::edited(&root, "1700000005.000000", "root, edited");
    let mut topic = event::message("1700000002.000100", "U0FIRST", "set the channel topic");
    topic["subtype"] = json!("channel_topic");
    topic["topic"] = json!("all of it");
    let events = [
        event::channel_created(CHANNEL, "general", "1699999999.000100"),
        event::posted(CHANNEL, &root),
        event::posted(CHANNEL, &large),
        event::posted(CHANNEL, &topic),
        event::changed(CHANNEL, &root, &edited, "1700000005.000000"),
        event::posted(CHANNEL, &fake_files::message_with_file(files, "F0FIRST", "1700000003.000100")),
        event::posted("c/../x", &event::message("1700000008.000100", "U0FIRST", "hostile")),
    ];
    let numbered = events.iter().enumerate();
    numbered.map(|(number, event)| event::envelope(TEAM, &format!("Ev{number}"), event)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_parts_send_only_permitted_requests() {
    let installation = AwsInstallation::new().await;
    let names = installation.aws.names();
    let (files, slack) = (fake_files::slack().await, FakeSlack::start().await);
    let mut workspace = FakeWorkspace::with_size(TEAM, 3, 3);
    workspace.channels.push(fake_slack::channel(CHANNEL, "general"));
    workspace.members.push(fake_slack::person("U0FIRST", "first"));
    slack.set_workspace(TOKEN, workspace);

    let ingest = WatchedPart::of(&["ingest"]).await;
    let writer = WatchedPart::of(&["message-writer"]).await;
    let indexer = WatchedPart::of(&["channel-indexer"]).await;
    let directory = WatchedPart::of(&["directory"]).await;
    let downloader = WatchedPart::of(&["file-downloader"]).await;
    let server = process::ingest(&installation.with_endpoint(&ingest.proxy.endpoint)).await;
    let of_files = format!("{}/api/", files.uri());
    let workers = [
        writer.worker(&installation, "message-writer", &of_files).await,
        indexer.worker(&installation, "channel-indexer", &slack.url()).await,
        downloader.worker(&installation, "file-downloader", &of_files).await,
        directory.worker(&installation, "directory", &slack.url()).await,
    ];
    let mut sender = EventClient::for_address(server.address, RetryDelays::none());
    for body in bodies(&files) {
        assert_eq!(sender.deliver(&body).await, Ok(1), "{}", server.process.log());
    }
    workers[3].wait_for_log("the directory is synced", DRAIN_DEADLINE).await;
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    for worker in workers {
        worker.stop().await;
    }
    server.process.stop().await;

    // Check that each part did its work: otherwise the test would prove nothing.
    for (watched, expected) in [
        (&ingest, &["sqs:GetQueueUrl", "sqs:SendMessage"][..]),
        (
            &writer,
            &[
                "sqs:DeleteMessage",
                "sqs:SendMessage",
                "dynamodb:UpdateItem",
                "dynamodb:BatchWriteItem",
                "s3:PutObject",
            ],
        ),
        (&indexer, &["sqs:DeleteMessage", "dynamodb:Query", "dynamodb:UpdateItem"]),
        (&directory, &["sqs:DeleteMessage", "dynamodb:Query", "dynamodb:UpdateItem"]),
        (&downloader, &["sqs:DeleteMessage", "dynamodb:UpdateItem", "s3:PutObject", "s3:ListBucket"]),
    ] {
        let actions = watched.assert_permitted(names);
        for action in expected {
            assert!(actions.contains(*action), "{:?} never did {action}: {actions:?}", watched.parts);
        }
    }
}

#[test]
fn a_role_permits_neither_another_action_nor_another_resource() {
    let names = Names::new("annalist", [None; 3], "bucket").unwrap();
    for (name, action, on, permitted) in [
        ("ingest", "sqs:SendMessage", "annalist-events.fifo", true),
        ("ingest", "sqs:SendMessage", "annalist-files.fifo", false),
        ("ingest", "sqs:ReceiveMessage", "annalist-events.fifo", false),
        ("message-writer", "sqs:DeleteMessage", "annalist-events-dlq.fifo", true),
        ("message-writer", "sqs:DeleteMessage", "annalist-files.fifo", false),
        ("message-writer", "dynamodb:Query", "SlackArchive", true),
        ("message-writer", "dynamodb:Query", "SlackArchive/index/parent-index", false),
        ("message-writer", "dynamodb:DeleteItem", "SlackArchive/quarantine#events", true),
        ("file-downloader", "dynamodb:DeleteItem", "SlackArchive/meta#attempts#files#T1", true),
        ("annalist", "dynamodb:DeleteItem", "SlackArchive/meta#existence", true),
        ("message-writer", "dynamodb:DeleteItem", "SlackArchive/message#T1#C1", false),
        ("annalist", "dynamodb:DeleteItem", "SlackArchive/meta#teams", false),
        ("directory", "dynamodb:DeleteItem", "SlackArchive/membership#T1#C1", true),
        ("directory", "dynamodb:DeleteItem", "SlackArchive/user#T1", false),
        ("ingest", "dynamodb:DeleteItem", "SlackArchive/quarantine#events", false),
        ("message-writer", "dynamodb:BatchWriteItem", "slack-existence-check-cache", true),
        ("message-writer", "dynamodb:PutItem", "slack-existence-check-cache", false),
        ("file-downloader", "dynamodb:BatchGetItem", "slack-existence-check-cache", false),
        ("message-writer", "s3:PutObject", "bucket/bulk/1/2", true),
        ("message-writer", "s3:PutObject", "bucket/slack/T1/C1", false),
        ("file-downloader", "s3:PutObject", "bucket/slack/T1/C1", true),
        ("file-downloader", "dynamodb:PutItem", "slack-processed-events", true),
        ("file-downloader", "dynamodb:Query", "slack-processed-events", false),
        ("message-writer", "dynamodb:PutItem", "slack-processed-events", false),
        ("annalist", "dynamodb:Query", "SlackArchive/index/parent-index", true),
    ] {
        let request = IamRequest { action: action.to_owned(), on: on.to_owned() };
        assert_eq!(is_permitted(&[part(name)], &names, &request), permitted, "{name} {request:?}");
    }
}
