//! A workspace whose messages are stored beside the burst and the import of another one, with real processes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use embedded::{DATABASE_FILE, Database};
use ports::clock::{Clock, SystemClock};
use ports::queue::Outgoing;
use ports::queue::route::{Route, route};
use rusqlite::Connection;
use serde_json::Value;
use slack::envelope::Envelope;
use testkit::corpus::{TEAM, channel_id, event, ts, user_id};
use testkit::fake_files::{self, message_with_file};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, status};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process;
use tokio::process::Command;
use wiremock::MockServer;

use crate::import::export::{Export, exported_message};

const QUIET: &str = "T0QUIET";
const GENERAL: &str = "C0GENERAL";

/// Events of the busy workspace that are on the queue when the workers start.
const BURST: usize = 10_000;
const BUSY_CHANNELS: usize = 10;

/// Messages of the export, and every how many of them has a file.
const EXPORTED: usize = 5_000;
const MESSAGES_TO_A_FILE: usize = 5;

/// Messages of the quiet workspace; each is edited once, beside the burst and the import.
const QUIET_MESSAGES: usize = 400;

/// Within this, an edit of the quiet workspace is stored.
const BOUND: Duration = Duration::from_secs(5);

struct TwoWorkspaces<'a> {
    data: &'a Path,
    tokens: PathBuf,
    slack: MockServer,
}

impl ProgramEnvironment for TwoWorkspaces<'_> {
    fn configure(&self, command: &mut Command) {
        self.data.configure(command);
        command
            .env("SLACK_BOT_TOKENS_FILE", &self.tokens)
            .env("SLACK_API_URL", format!("{}/api/", self.slack.uri()));
    }
}

fn jobs(team: &str, number: usize, event: &Value) -> Vec<Outgoing> {
    let body = event::envelope(team, &format!("EvBusy{number}"), event);
    let Route::Queues(jobs) = route(&Envelope::peek(body.as_bytes()).unwrap(), &body) else {
        panic!("a message is routed to a queue")
    };
    jobs
}

/// What the quiet workspace wrote before.
fn quiet_message(number: usize) -> Value {
    event::message(&ts(1_600_000_000_000_000 + number as i64), &user_id(0), &format!("quiet {number}"))
}

/// The messages of the quiet workspace, and behind them the burst of the other one.
async fn fill_queue(data: &Path) {
    let database = Database::open(data, SystemClock::shared()).unwrap();
    let quiet = (0..QUIET_MESSAGES).map(|n| (QUIET, event::posted(GENERAL, &quiet_message(n))));
    let busy = (0..BURST).map(|n| {
        let message =
            event::message(&ts(1_700_000_000_000_000 + n as i64), &user_id(n % 5), &format!("busy {n}"));
        (TEAM, event::posted(&channel_id(n % BUSY_CHANNELS), &message))
    });
    let all: Vec<_> = quiet.chain(busy).enumerate().collect();
    for some in all.chunks(500) {
        let jobs = some.iter().flat_map(|(number, (team, event))| jobs(team, *number, event)).collect();
        assert!(database.queue().send(jobs).await.iter().all(Result::is_ok));
    }
}

fn export(slack: &MockServer) -> Export {
    let (people, channels) = ([user_id(0)], [(channel_id(0), "general")]);
    let message = |n: usize| {
        let clock = ts(1_600_000_000_000_000 + n as i64 * 1_000_000);
        if n.is_multiple_of(MESSAGES_TO_A_FILE) {
            message_with_file(slack, &format!("F0{n:08}"), &clock)
        } else {
            exported_message(&clock, &user_id(0), &format!("exported {n}"))
        }
    };
    let people: Vec<&str> = people.iter().map(String::as_str).collect();
    let channels: Vec<_> = channels.iter().map(|(id, name)| (id.as_str(), *name)).collect();
    let messages: Vec<Value> = (0..EXPORTED).map(message).collect();
    Export::with_lists(&people, &channels).with("general/2020-09-13.json", &messages.into())
}

/// When each message of the quiet workspace was edited in the archive, by the clock of its writer.
fn stored_ms(data: &Path) -> Vec<i64> {
    let database = Connection::open(data.join(DATABASE_FILE)).unwrap();
    let mut edited = database
        .prepare(
            "SELECT max(changed_at_ms) FROM changes JOIN items ON items.rowid = changes.item_rowid
             WHERE items.item_id = ?1 GROUP BY items.timestamp ORDER BY items.timestamp",
        )
        .unwrap();
    let edited = edited.query_map([format!("message#{QUIET}#{GENERAL}")], |row| row.get(0)).unwrap();
    edited.map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_is_stored_within_seconds_beside_the_burst_and_the_import_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (data, tokens) = (folder.path().join("data"), folder.path().join("tokens.json"));
    std::fs::write(&tokens, format!(r#"{{"{TEAM}": "xoxb-{TEAM}", "{QUIET}": "xoxb-{QUIET}"}}"#)).unwrap();
    let slack = fake_files::slack().await;
    let zip = folder.path().join("export.zip");
    export(&slack).zip(&zip);
    fill_queue(&data).await;
    let environment = TwoWorkspaces { data: &data, tokens, slack };
    let server = process::up_with(&environment, &["--no-join"]).await;
    let is_imported = AtomicBool::new(false);
    let import = async {
        // An archive that so far knows only the other workspace would ask which one it is.
        let imported = annalist_at(&environment, &["import", zip.to_str().unwrap(), "--team", TEAM]).await;
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
        is_imported.store(true, Ordering::Relaxed);
    };
    let edits = async {
        let (mut sent_ms, mut beside_burst) = (Vec::new(), 0);
        for number in 0..QUIET_MESSAGES {
            let now = SystemClock.now();
            let (before, clock) = (quiet_message(number), ts(now.0 * 1_000));
            let edited = event::changed(GENERAL, &before, &event::edited(&before, &clock, "edited"), &clock);
            sent_ms.push(now.0);
            deliver(server.address, QUIET, &[edited]).await;
            let report = status(&environment).await;
            let [waiting, in_flight] =
                ["waiting", "in_flight"].map(|name| report["queues"][0][name].as_u64().unwrap());
            if waiting + in_flight == 0 && is_imported.load(Ordering::Relaxed) {
                return (sent_ms, beside_burst);
            }
            beside_burst += usize::from(waiting > BURST as u64 / 10);
        }
        panic!("the burst or the import takes longer than {QUIET_MESSAGES} edits");
    };
    let ((), (sent_ms, beside_burst)) = tokio::join!(import, edits);
    server.process.stop().await;
    let stored_ms = stored_ms(&data);
    assert_eq!(stored_ms.len(), sent_ms.len(), "each edit is stored once");
    let latest = stored_ms.iter().zip(&sent_ms).map(|(stored, sent)| stored - sent).max().unwrap();
    assert!(beside_burst > 1, "the burst was stored before two edits were sent");
    assert!(latest < BOUND.as_millis() as i64, "an edit took {latest} ms");
}
