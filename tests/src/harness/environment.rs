//! The environment of a program: a data folder, with or without a Slack, or an installation on AWS.

use std::path::Path;
use std::time::Duration;

use aws::Aws;
use aws::provision::Parts;
use ports::queue::topology::{QUEUES, QueueRole};
use ports::queue::{QueueName, QueueRef};
use testkit::fake_slack::FakeSlack;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::stack::Stack;

/// The environment in which a program runs.
pub trait ProgramEnvironment: Sync {
    /// Adds the arguments and variables that the program needs.
    fn configure(&self, command: &mut Command);
}

impl ProgramEnvironment for Path {
    fn configure(&self, command: &mut Command) {
        command.arg("--data").arg(self);
    }
}

/// A data folder and a Slack.
#[derive(Clone, Copy)]
pub struct FolderWithSlack<'a> {
    pub data: &'a Path,
    pub slack: &'a FakeSlack,
    /// The token that programs use for it.
    pub token: &'a str,
}

impl ProgramEnvironment for FolderWithSlack<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        command.env("SLACK_BOT_TOKEN", self.token).env("SLACK_API_URL", self.slack.url());
    }
}

/// A separate, provisioned installation on AWS.
#[derive(Debug)]
pub struct AwsInstallation {
    /// A client of its account.
    pub aws: Aws,
    environment: Vec<(&'static str, String)>,
}

impl ProgramEnvironment for AwsInstallation {
    fn configure(&self, command: &mut Command) {
        for (name, value) in &self.environment {
            command.env(name, value);
        }
    }
}

impl AwsInstallation {
    /// Provisions an installation on the stack of this test run: every queue, every table and the bucket.
    ///
    /// # Panics
    /// If a resource cannot be created.
    pub async fn new() -> Self {
        let stack = Stack::shared();
        let aws = stack.provisioned(Parts::ALL).await;
        Self { environment: stack.environment(aws.names()), aws }
    }

    /// The same installation for a program that reaches AWS through another endpoint, such as a proxy.
    pub fn with_endpoint(&self, endpoint: &str) -> Self {
        self.with_variable("AWS_ENDPOINT_URL", Some(endpoint))
    }

    /// The same installation with a Slack whose API has this address, and the token that programs use for it.
    pub fn with_slack(&self, api_url: &str, token: &str) -> Self {
        self.with_variable("SLACK_API_URL", Some(api_url)).with_variable("SLACK_BOT_TOKEN", Some(token))
    }

    /// The same installation with another value of a variable; `None` unsets it.
    pub fn with_variable(&self, name: &'static str, value: Option<&str>) -> Self {
        let mut environment = self.environment.clone();
        environment.retain(|(known, _)| *known != name);
        environment.extend(value.map(|value| (name, value.to_owned())));
        Self { aws: self.aws.clone(), environment }
    }

    /// The variables with which a program uses this installation.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        self.environment.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Waits until a multipart upload is in progress.
    ///
    /// # Panics
    /// If no upload is in progress at the deadline.
    pub async fn wait_for_upload(&self, deadline: Duration) {
        let client = Stack::shared().s3().await;
        let until = Instant::now() + deadline;
        loop {
            let listed = client.list_multipart_uploads().bucket(self.aws.names().bucket()).send().await;
            if listed.expect("the stack lists uploads").uploads.is_some_and(|uploads| !uploads.is_empty()) {
                return;
            }
            assert!(Instant::now() < until, "no upload is in progress after {deadline:?}");
            // The uploader cannot notify this process, so it polls.
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until no message is on any live queue, in the order of the flow.
    ///
    /// An emulator's counts are exact, so one check is enough.
    ///
    /// # Panics
    /// If a message is left at the deadline, or in a dead-letter queue.
    pub async fn wait_until_drained(&self, deadline: Duration) {
        let live = QUEUES.iter().filter(|spec| spec.role == QueueRole::Live);
        self.wait_until_empty(&live.map(|spec| spec.name).collect::<Vec<_>>(), deadline).await;
    }

    /// Waits until no message is on these queues.
    ///
    /// # Panics
    /// As [`AwsInstallation::wait_until_drained`].
    pub async fn wait_until_empty(&self, queues: &[QueueName], deadline: Duration) {
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
            // The workers cannot notify this process, so it polls.
            sleep(Duration::from_millis(50)).await;
        }
        for name in queues {
            let dead = queue.depth(QueueRef::dead_letters(*name)).await.expect("the stack counts");
            assert!(dead.is_empty(), "{name} has dead letters: {dead:?}");
        }
    }
}
