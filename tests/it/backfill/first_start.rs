//! What `annalist up` reads by itself when it begins.

use std::time::Duration;

use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::command::{json_lines, status};
use tests::harness::environment::{FolderWithSlack, ProgramEnvironment};
use tests::harness::process;
use tokio::process::Command;
use tokio::time::timeout;

const TOKEN: &str = "xoxb-1";

/// The first poll comes after seconds, the next one 15 s later, and each page takes more than a second.
const DEADLINE: Duration = Duration::from_secs(75);

/// A user's environment: nothing says which history is read.
struct ByDefault<'a>(FolderWithSlack<'a>);

impl ProgramEnvironment for ByDefault<'_> {
    fn configure(&self, command: &mut Command) {
        self.0.configure(command);
        // Blank counts as unset.
        command.env("ANNALIST_BACKFILL", "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_slack_still_shows_is_stored_without_a_command() {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new("T1") };
    for (id, name) in [("C0GENERAL", "general"), ("C0RANDOM", "random")] {
        workspace.channels.push(channel(id, name));
        for n in 0..30 {
            let ts = format!("{}.000100", 1_690_000_000 + n * 1_000);
            workspace.channel_history(id).post(&event::message(&ts, "U0FIRST", &format!("old {n}")));
        }
    }
    slack.set_workspace(TOKEN, workspace);
    let folder = tempfile::tempdir().unwrap();
    let environment = ByDefault(FolderWithSlack { data: folder.path(), slack: &slack, token: TOKEN });
    let up = process::up(&environment).await;
    let read = async {
        while status(folder.path()).await["history"][0]["state"] != "done" {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, read).await.unwrap();
    let history = &status(folder.path()).await["history"][0];
    assert_eq!((&history["channels"], &history["since"]), (&2.into(), &"2023-07-22T04:26:40.0001Z".into()));
    for channel in ["general", "random"] {
        let messages = json_lines(folder.path(), &["messages", channel, "--limit", "1000"]).await;
        assert_eq!(messages.len(), 30, "{channel}");
    }
    up.process.stop().await;
}
