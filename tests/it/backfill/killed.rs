//! Kills `annalist backfill --all` repeatedly.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use embedded::Database;
use ports::archive::ArchiveExt;
use ports::clock::SystemClock;
use rules::public_mark;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel};
use tests::harness::binaries::binaries;
use tests::harness::command::annalist_at;
use tests::harness::environment::{FolderWithSlack, ProgramEnvironment};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::import;

const TOKEN: &str = "xoxb-1";
const CHANNELS: [&str; 2] = ["C0GENERAL", "C0RANDOM"];

/// Messages per page. Each channel has [`PAGES`] pages, and two messages of each page begin threads.
const PAGE: u64 = 10;
const PAGES: u64 = 4;
const KILLS: usize = 20;

/// A page spans more time than the search for late replies looks back, as a real page of 999 messages mostly
/// does.
const BETWEEN_MESSAGES_S: u64 = 5 * 86_400;

/// Maximum life of a killed process. It calls a method every 1.2 s and each channel needs a call, so no
/// killed run ends.
const LONGEST_LIFE_MS: u64 = 600;

/// Calls that a kill may cost: the page again, the current threads, the search for late replies, and
/// `auth.test`.
const CALLS_PER_KILL: usize = 7;

/// A message whose author belongs to the workspace, so that no row of a stranger is stored with it.
fn of_workspace(message: Value) -> Value {
    event::with_fields(message, [("team", "T1".into())])
}

/// A Slack with two channels, and a data folder whose archive contains both.
struct KilledFixture {
    slack: FakeSlack,
    data: tempfile::TempDir,
}

impl KilledFixture {
    async fn new() -> Self {
        let slack = FakeSlack::start().await;
        slack.set_page_size(usize::try_from(PAGE).unwrap());
        let mut workspace = FakeWorkspace::new("T1");
        for id in CHANNELS {
            workspace.channels.push(channel(id, &id.to_lowercase()));
            for n in 0..PAGE * PAGES {
                let at_s = 1_700_000_000 - (PAGE * PAGES - n) * BETWEEN_MESSAGES_S;
                let root = format!("{at_s}.000100");
                let message = event::message(&root, "U1", &format!("message {n} of {id}"));
                workspace.channel_history(id).post(&of_workspace(message));
                if n % PAGE < 2 {
                    let reply = event::reply(&format!("{}.000100", at_s + 60), &root, "U2", "a reply");
                    workspace.channel_history(id).post(&of_workspace(reply));
                }
                workspace.channel_history(id).react(&root, "U2", "eyes");
            }
        }
        slack.set_workspace(TOKEN, workspace);
        slack.run_clock();
        let data = tempfile::tempdir().unwrap();
        let database = Database::open(data.path(), SystemClock::shared()).unwrap();
        for id in CHANNELS {
            let opening = public_mark::opening(&TeamId::parse("T1").unwrap(), &ChannelId::parse(id).unwrap());
            database.archive().write(&opening).await.unwrap();
        }
        database.close().await;
        Self { slack, data }
    }

    fn environment(&self) -> FolderWithSlack<'_> {
        FolderWithSlack { data: self.data.path(), slack: &self.slack, token: TOKEN }
    }

    fn start(&self) -> Child {
        let mut command = Command::new(&binaries().annalist);
        command.args(["backfill", "--all", "--json"]).env_clear();
        self.environment().configure(&mut command);
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap()
    }

    async fn finish(&self) {
        annalist_at(&self.environment(), &["backfill", "--all", "--json"]).await.succeeded();
    }

    fn calls(&self) -> usize {
        self.slack.calls().len()
    }
}

/// All rows of messages, of their revisions, and of threads.
fn rows(data: &Path) -> Vec<(String, String, String)> {
    let mut rows = import::rows(data);
    rows.retain(|(item, ..)| !item.starts_with("filled#") && !item.starts_with("meta#"));
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_is_killed_at_any_moment_continues_and_repeats_few_calls() {
    let (whole, broken) = (KilledFixture::new().await, KilledFixture::new().await);
    let killing = async {
        let mut random = fastrand::Rng::with_seed(20_261_123);
        for kill in 0..KILLS {
            let mut running = broken.start();
            // This tests the moment itself: during the start, between two writes, or while it waits for
            // Slack.
            sleep(Duration::from_millis(random.u64(..LONGEST_LIFE_MS))).await;
            assert_eq!(running.try_wait().unwrap(), None, "it ended before kill {kill}");
            running.kill().await.unwrap();
        }
        broken.finish().await;
    };
    tokio::join!(whole.finish(), killing);
    let expected = rows(whole.data.path());
    assert_eq!(expected.len() as u64, 2 * PAGES * (PAGE + 2));
    assert_eq!(rows(broken.data.path()), expected);
    let (calls, uninterrupted) = (broken.calls(), whole.calls());
    assert!(
        calls <= uninterrupted + CALLS_PER_KILL * KILLS,
        "{calls} calls, {uninterrupted} without an interruption"
    );
}
