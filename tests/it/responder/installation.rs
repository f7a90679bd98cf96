//! A workspace with an archive, and an `annalist up` that answers questions.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ports::clock::{SharedClock, SystemClock};
use serde_json::Value;
use tempfile::TempDir;
use testkit::corpus::{TEAM, event};
use tests::harness::binaries::binaries;
use tests::harness::client::{EventClient, RetryDelays};
use tests::harness::command::{annalist_with, json_lines};
use tests::harness::process::{self, SIGNING_SECRET, ServerProcess};
use tokio::process::Command;
use tokio::time::Instant;

use super::workspace::{AskingWorkspace, TOKEN};

pub(crate) const SIGNED: (&str, &str) = ("SLACK_SIGNING_SECRET", SIGNING_SECRET);

pub(crate) struct ResponderInstallation {
    workspace: AskingWorkspace,
    pub(crate) folder: TempDir,
    data: PathBuf,
}

impl Deref for ResponderInstallation {
    type Target = AskingWorkspace;

    fn deref(&self) -> &AskingWorkspace {
        &self.workspace
    }
}

impl ResponderInstallation {
    /// A workspace whose directory is already in the archive.
    pub(crate) async fn new() -> Self {
        let workspace = AskingWorkspace::start().await;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let clock: SharedClock = SystemClock::shared();
        embedded::Database::open(&data, Arc::clone(&clock)).unwrap().close().await;
        let url = workspace.slack.url();
        let variables = [("SLACK_BOT_TOKEN", TOKEN), ("SLACK_API_URL", &*url)];
        annalist_with(&["sync", "--data", data.to_str().unwrap()], &variables).await.succeeded();
        Self { workspace, folder, data }
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// `annalist up` with the responder and these variables.
    pub(crate) async fn up(&self, variables: &[(&str, &str)]) -> ServerProcess {
        let mut command = Command::new(&binaries().annalist);
        command.args(["up", "--listen", "127.0.0.1:0", "--slack-api-url", &self.slack.url()]);
        command.arg("--data").arg(&self.data).env("SLACK_BOT_TOKEN", TOKEN).env("ANNALIST_RESPONDER", "on");
        command.envs(variables.iter().copied());
        process::serve(&mut command).await
    }

    /// Posts a person's question, and returns its `ts`.
    pub(crate) async fn ask(&self, server: &ServerProcess, n: u32, text: &str) -> String {
        deliver(server, n, self.mention(n, text)).await
    }

    /// Posts a person's message, and returns its `ts`.
    pub(crate) async fn post(&self, server: &ServerProcess, n: u32, text: &str) -> String {
        deliver(server, n, self.message(n, text)).await
    }

    /// Waits until the app has posted this number of messages, and returns them.
    pub(crate) async fn posted(&self, count: usize, deadline: Duration) -> Vec<Value> {
        let until = Instant::now() + deadline;
        loop {
            let posted = self.workspace.posted();
            if posted.len() >= count {
                return posted;
            }
            assert!(
                Instant::now() < until,
                "{} of {count} messages are posted: {:?}",
                posted.len(),
                self.all().await
            );
            // The program cannot notify this one, so it polls; each poll takes a while.
            self.all().await;
        }
    }

    async fn all(&self) -> Vec<Value> {
        json_lines(self.data(), &["questions", "list"]).await
    }

    pub(crate) async fn questions(&self, status: &str) -> Vec<Value> {
        json_lines(self.data(), &["questions", "list", "--status", status]).await
    }

    /// Waits until this many questions have this status.
    pub(crate) async fn until_questions(&self, status: &str, count: usize, deadline: Duration) {
        self.until(count, deadline, |question| question["status"] == status).await;
    }

    /// Waits until this many answers have this status.
    pub(crate) async fn until_answers(&self, status: &str, count: usize, deadline: Duration) {
        self.until(count, deadline, |question| question["answer"]["status"] == status).await;
    }

    async fn until(&self, count: usize, deadline: Duration, matches: impl Fn(&Value) -> bool) {
        let until = Instant::now() + deadline;
        loop {
            let all = self.all().await;
            if all.iter().filter(|question| matches(question)).count() >= count {
                return;
            }
            assert!(Instant::now() < until, "too few questions match: {all:?}");
        }
    }
}

async fn deliver(server: &ServerProcess, n: u32, (ts, event): (String, Value)) -> String {
    let mut sender = EventClient::for_address(server.address, RetryDelays::none());
    assert_eq!(sender.deliver(&event::envelope(TEAM, &format!("Ev{n}"), &event)).await, Ok(1));
    ts
}
