//! What `annalist up` reads by itself when it begins.

use std::time::Duration;

use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::client::deliver;
use tests::harness::command::{json_lines, status, wait_until_idle};
use tests::harness::environment::{FolderWithSlack, ProgramEnvironment};
use tests::harness::process;
use tokio::process::Command;
use tokio::time::timeout;

const TOKEN: &str = "xoxb-1";
const HISTORY: &str = "conversations.history";

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_acked_in_time_and_readable_before_the_history_is_read() {
    const CHANNELS: usize = 30;
    const EVENTS: usize = 100;
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new("T1") };
    for n in 0..CHANNELS {
        let id = format!("C{n:03}OLD");
        workspace.channels.push(channel(&id, &format!("old-{n}")));
        workspace.channel_history(&id).post(&event::message("1690000000.000100", "U0FIRST", "old"));
    }
    slack.set_workspace(TOKEN, workspace);
    let folder = tempfile::tempdir().unwrap();
    let environment = ByDefault(FolderWithSlack { data: folder.path(), slack: &slack, token: TOKEN });
    let up = process::up(&environment).await;
    let reads = async {
        while slack.call_count(HISTORY) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, reads).await.expect("history is read");
    let posted = |n| {
        let message = event::message(&format!("{}.000100", 1_700_000_000 + n), "U0FIRST", "live");
        event::posted("C000OLD", &message)
    };
    // Each within Slack's three seconds, at the first attempt.
    deliver(up.address, "T1", &(0..EVENTS).map(posted).collect::<Vec<_>>()).await;
    wait_until_idle(folder.path(), DEADLINE).await;
    let messages = json_lines(folder.path(), &["messages", "C000OLD", "--limit", "1000"]).await;
    let live = messages.iter().filter(|message| message["text"] == "live");
    // Slack permits 50 calls a minute, and each channel takes one.
    let calls = slack.call_count(HISTORY);
    assert!(calls < CHANNELS, "history was read meanwhile, in {calls} calls");
    assert_eq!(live.count(), EVENTS);
    up.process.stop().await;
}

/// A user's environment that says which history is read.
struct WithMode<'a>(FolderWithSlack<'a>, &'static str);

impl ProgramEnvironment for WithMode<'_> {
    fn configure(&self, command: &mut Command) {
        self.0.configure(command);
        command.env("ANNALIST_BACKFILL", self.1);
    }
}

/// A Slack with a message from before the events, one that was missed between two of them, and an archive that has
/// just received the second one.
struct Missed {
    slack: FakeSlack,
    folder: tempfile::TempDir,
    mode: &'static str,
}

impl Missed {
    const OLD: &'static str = "1690000000.000100";
    const BEFORE: &'static str = "1700000000.000100";
    const MISSED: &'static str = "1700003600.000100";
    const AFTER: &'static str = "1700007200.000100";

    async fn new(mode: &'static str) -> Self {
        let slack = FakeSlack::start().await;
        let mut workspace = FakeWorkspace { knows_every_id: true, ..FakeWorkspace::new("T1") };
        workspace.channels.push(channel("C0GENERAL", "general"));
        slack.set_workspace(TOKEN, workspace);
        for ts in [Self::OLD, Self::BEFORE, Self::MISSED, Self::AFTER] {
            slack.change_workspace(TOKEN, |workspace| {
                workspace.channel_history("C0GENERAL").post(&event::message(ts, "U0FIRST", "said"));
            });
        }
        // By Slack's clock, the second event comes before the search for gaps.
        slack.set_clock(1_700_007_260);
        Self { slack, folder: tempfile::tempdir().unwrap(), mode }
    }

    /// Starts `up`, which receives the event of a message.
    async fn up(&self, ts: &str) -> process::ServerProcess {
        let folder = FolderWithSlack { data: self.folder.path(), slack: &self.slack, token: TOKEN };
        let up = process::up(&WithMode(folder, self.mode)).await;
        deliver(up.address, "T1", &[event::posted("C0GENERAL", &event::message(ts, "U0FIRST", "said"))])
            .await;
        wait_until_idle(self.folder.path(), DEADLINE).await;
        up
    }

    async fn stored(&self) -> Vec<String> {
        let messages = json_lines(self.folder.path(), &["messages", "C0GENERAL"]).await;
        messages.iter().map(|message| message["ts"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_from_before_the_events_is_read_unless_all_is() {
    let (off, gaps) = (Missed::new("off").await, Missed::new("gaps").await);
    off.up(Missed::BEFORE).await.process.sigkill().await;
    gaps.up(Missed::BEFORE).await.process.sigkill().await;
    // This one starts first: once the other one has filled its gap, its own search for gaps has come too.
    let up_without = off.up(Missed::AFTER).await;
    let up = gaps.up(Missed::AFTER).await;
    let filled = async {
        while gaps.stored().await.len() < 3 {
            tokio::task::yield_now().await;
        }
        wait_until_idle(gaps.folder.path(), DEADLINE).await;
    };
    timeout(DEADLINE, filled).await.expect("the gap is filled");
    assert_eq!(gaps.stored().await, [Missed::BEFORE, Missed::MISSED, Missed::AFTER]);
    assert_eq!(off.stored().await, [Missed::BEFORE, Missed::AFTER]);
    assert_eq!((off.slack.call_count(HISTORY), gaps.slack.call_count(HISTORY) > 0), (0, true));
    up.process.stop().await;
    up_without.process.stop().await;
}
