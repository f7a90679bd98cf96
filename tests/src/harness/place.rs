//! Where a program works: a data folder, alone or beside a Slack, or an installation on AWS.

use std::path::Path;
use std::time::Duration;

use aws::Aws;
use aws::provision::{Parts, provision};
use ports::queue::topology::{QUEUES, QueueRole};
use ports::queue::{QueueName, QueueRef};
use testkit::fake_slack::FakeSlack;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::stack::Stack;

/// Leads a program to where it works.
pub trait ProgramEnvironment: Sync {
    /// Adds what the program has to be told.
    fn lead(&self, command: &mut Command);
}

impl ProgramEnvironment for Path {
    fn lead(&self, command: &mut Command) {
        command.arg("--data").arg(self);
    }
}

/// A data folder beside a Slack.
#[derive(Clone, Copy)]
pub struct FolderWithSlack<'a> {
    /// The folder.
    pub data: &'a Path,
    /// The Slack.
    pub slack: &'a FakeSlack,
    /// The token that programs have for it.
    pub token: &'a str,
}

impl ProgramEnvironment for FolderWithSlack<'_> {
    fn lead(&self, command: &mut Command) {
        self.data.lead(command);
        command.env("SLACK_BOT_TOKEN", self.token).env("SLACK_API_URL", self.slack.url());
    }
}

/// An installation on AWS of its own, provisioned.
#[derive(Debug)]
pub struct AwsInstallation {
    /// The account it is in.
    pub aws: Aws,
    environment: Vec<(&'static str, String)>,
}

impl ProgramEnvironment for AwsInstallation {
    fn lead(&self, command: &mut Command) {
        for (name, value) in &self.environment {
            command.env(name, value);
        }
    }
}

impl AwsInstallation {
    /// Makes one on the stack of this test run: every queue, table and the bucket.
    ///
    /// # Panics
    /// If something cannot be made.
    pub async fn new() -> Self {
        let stack = Stack::shared();
        let aws = stack.aws().await;
        provision(&aws, Parts::ALL, false, &mut |_| {}).await.expect("the stack can be provisioned");
        Self { environment: stack.environment(aws.names()), aws }
    }

    /// The same, as a program sees it that reaches AWS through another endpoint: a proxy.
    pub fn through(&self, endpoint: &str) -> Self {
        let mut environment = self.environment.clone();
        environment.retain(|(name, _)| *name != "AWS_ENDPOINT_URL");
        environment.push(("AWS_ENDPOINT_URL", endpoint.to_owned()));
        Self { aws: self.aws.clone(), environment }
    }

    /// The same with another value of a variable; none unsets it.
    pub fn with(&self, name: &'static str, value: Option<&str>) -> Self {
        let mut environment = self.environment.clone();
        environment.retain(|(known, _)| *known != name);
        environment.extend(value.map(|value| (name, value.to_owned())));
        Self { aws: self.aws.clone(), environment }
    }

    /// The variables that lead a program here.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Waits until a file is going up in parts.
    ///
    /// # Panics
    /// If none is at the deadline.
    pub async fn uploading(&self, deadline: Duration) {
        let stack = Stack::shared();
        let client = aws_sdk_s3::config::Builder::from(&stack.sdk(stack.endpoint()).await);
        let client = aws_sdk_s3::Client::from_conf(client.force_path_style(true).build());
        let until = Instant::now() + deadline;
        loop {
            let asked = client.list_multipart_uploads().bucket(self.aws.names().bucket()).send().await;
            if asked.expect("the stack lists uploads").uploads.is_some_and(|uploads| !uploads.is_empty()) {
                return;
            }
            assert!(Instant::now() < until, "no file is going up after {deadline:?}");
            // The uploader cannot notice this; it asks again.
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until no message is on any live queue, in the order of the flow.
    ///
    /// An emulator's counts are exact, so once is enough.
    ///
    /// # Panics
    /// If that is not so at the deadline, or a message went to a dead-letter queue.
    pub async fn drained(&self, deadline: Duration) {
        let live = QUEUES.iter().filter(|spec| spec.role == QueueRole::Live);
        self.emptied(&live.map(|spec| spec.name).collect::<Vec<_>>(), deadline).await;
    }

    /// Waits until no message is on these queues.
    ///
    /// # Panics
    /// As [`AwsInstallation::drained`].
    pub async fn emptied(&self, queues: &[QueueName], deadline: Duration) {
        let queue = self.aws.queue();
        let until = Instant::now() + deadline;
        loop {
            let mut empty = true;
            for name in queues {
                empty &= queue.depth((*name).into()).await.expect("the stack counts").is_empty();
            }
            if empty {
                break;
            }
            assert!(Instant::now() < until, "the queues are not empty after {deadline:?}");
            // The processes that work cannot tell this one; it asks again.
            sleep(Duration::from_millis(50)).await;
        }
        for name in queues {
            let dead = queue.depth(QueueRef::dead_letters(*name)).await.expect("the stack counts");
            assert!(dead.is_empty(), "{name} has dead letters: {dead:?}");
        }
    }
}
