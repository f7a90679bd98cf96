//! The pages that `annalist backfill` reads with each of its flags, its output, and its exit code.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ports::clock::{ManualClock, SharedClock, TimestampMs};
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, SlackAnswer, channel};
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, annalist_at, json_lines, status};
use tests::harness::environment::{FolderWithSlack, ProgramEnvironment};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use workers::historian::RESTRICTED_ADVICE;

const TOKEN: &str = "xoxb-1";
const HISTORY: &str = "conversations.history";
const DAY_S: i64 = 86_400;

/// The creation time of the channels on Slack: no earlier message can be missing.
const CREATED: &str = "1600000000.000000";

/// A line on standard error that the test waits for, on a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_secs(60);

/// The timestamp this number of days before the fixed time of Slack's clock, 2023-11-14T22:13:20Z.
fn ts(days: i64) -> String {
    format!("{}.000000", START_S - days * DAY_S)
}

fn message_before(days: i64) -> Value {
    event::message(&ts(days), "U1", &format!("said {days} days ago"))
}

/// A Slack whose app is in one of two channels, and a data folder that contains both channels.
struct FlagsFixture {
    slack: FakeSlack,
    folder: tempfile::TempDir,
}

impl FlagsFixture {
    async fn new(messages: &[Value]) -> Self {
        let slack = FakeSlack::start().await;
        let mut workspace = FakeWorkspace::new("T1");
        workspace.channels = vec![channel("C1", "general"), channel("C2", "outside")];
        workspace.channels[1]["is_member"] = false.into();
        messages.iter().for_each(|message| workspace.channel_history("C1").post(message));
        workspace.channel_history("C2").post(&message_before(1));
        slack.set_workspace(TOKEN, workspace);
        let fixture = Self { slack, folder: tempfile::tempdir().unwrap() };
        let clock: SharedClock = ManualClock::starting_at(TimestampMs(0));
        embedded::Database::open(fixture.data(), clock).unwrap().close().await;
        fixture.run(&["sync", "--no-join"]).await.succeeded();
        fixture
    }

    fn data(&self) -> &Path {
        self.folder.path()
    }

    fn environment(&self) -> FolderWithSlack<'_> {
        FolderWithSlack { data: self.data(), slack: &self.slack, token: TOKEN }
    }

    async fn run(&self, args: &[&str]) -> CommandOutput {
        annalist_at(&self.environment(), args).await
    }

    /// The lines that `backfill --json` prints, and its exit code.
    async fn backfill(&self, args: &[&str]) -> (Vec<Value>, Option<i32>) {
        let outcome = self.run(&[&["backfill", "--json"], args].concat()).await;
        (lines(&outcome.stdout), outcome.code)
    }

    async fn texts(&self) -> Vec<String> {
        let messages = json_lines(self.data(), &["messages", "general"]).await;
        messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect()
    }

    async fn files_waiting(&self) -> u64 {
        let status = status(self.data()).await;
        let files = status["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "files");
        files.unwrap()["waiting"].as_u64().unwrap()
    }
}

fn lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines printed if `#general` is read to its end: the channel and the sum. Counts: messages, new,
/// updated, threads, calls.
fn done(from: &str, to: &str, [messages, new, updated, threads, calls]: [u64; 5]) -> Vec<Value> {
    let line = json!({ "channel_id": "C1", "name": "general", "from": from, "to": to, "messages": messages,
        "new": new, "updated": updated, "threads": threads, "calls": calls, "state": "done", "error": null });
    let sum = json!({ "channels": 1, "messages": messages, "new": new, "updated": updated, "threads": threads,
        "calls": calls, "remaining": 0 });
    vec![line, sum]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dates_limit_the_span_and_flags_control_late_replies_and_files() {
    let shared = event::file_share(&ts(5), "U1", "said 5 days ago", &["F1"]);
    let late = event::reply(&ts(4), &ts(20), "U2", "a late reply");
    let fixture =
        FlagsFixture::new(&[message_before(20), message_before(10), shared, late, message_before(2)]).await;
    let span = ["general", "--since", "2023-11-05", "--until", "2023-11-12T00:00:00Z"];
    let (from, to) = ("1699142400.000000", "1699747200.000000");

    let args = [&span[..], &["--thread-days", "10", "--no-files"]].concat();
    assert_eq!(fixture.backfill(&args).await, (done(from, to, [1, 1, 0, 0, 1]), Some(0)));
    assert_eq!(
        (fixture.texts().await, fixture.files_waiting().await),
        (vec!["said 5 days ago".to_owned()], 0)
    );

    // The thread of the late reply began ten days and some hours before the span.
    let args = [&span[..], &["--thread-days", "11"]].concat();
    assert_eq!(fixture.backfill(&args).await, (done(from, to, [3, 2, 0, 1, 2]), Some(0)));
    assert_eq!(fixture.texts().await, ["said 20 days ago", "said 5 days ago", "a late reply"]);
    assert_eq!(fixture.files_waiting().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_messages_are_read_again_for_the_requested_number_of_days() {
    let fixture =
        FlagsFixture::new(&[message_before(20), message_before(10), message_before(5), message_before(2)])
            .await;
    let (from, now) = (CREATED, ts(0));
    assert_eq!(fixture.backfill(&["general"]).await, (done(from, &now, [4, 4, 0, 0, 1]), Some(0)));
    fixture.slack.change_workspace(TOKEN, |workspace| {
        for days in [5, 2] {
            let edited = event::edited(&message_before(days), &ts(1), "edited");
            workspace.channel_history("C1").post(&edited);
        }
    });
    for (days, counts) in [("3", [1, 0, 1, 0, 1]), ("7", [2, 0, 1, 0, 1]), ("0", [0, 0, 0, 0, 0])] {
        let (lines, code) = fixture.backfill(&["general", "--refetch-days", days]).await;
        let from = ts(days.parse().unwrap());
        let mut expected = done(&from, &now, counts);
        if days == "0" {
            // Nothing is missing.
            expected[0]["from"] = Value::Null;
            expected[0]["to"] = Value::Null;
        }
        assert_eq!((lines, code), (expected, Some(0)), "{days} days");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_app_is_not_in_is_joined_only_on_demand() {
    let fixture = FlagsFixture::new(&[]).await;
    let (lines, code) = fixture.backfill(&["outside"]).await;
    let of = |calls: u64, new: u64, state: &str, error: Value| {
        json!({ "channel_id": "C2", "name": "outside", "from": CREATED, "to": ts(0), "messages": new,
            "new": new, "updated": 0, "threads": 0, "calls": calls, "state": state, "error": error })
    };
    let refused = json!("Slack refused conversations.history: not_in_channel");
    assert_eq!((&lines[0], code), (&of(1, 0, "unreadable", refused), Some(1)));
    assert_eq!((&lines[1]["remaining"], fixture.slack.joined(TOKEN)), (&json!(1), vec![]));
    let (lines, code) = fixture.backfill(&["outside", "--join"]).await;
    assert_eq!((&lines[0], code), (&of(3, 1, "done", Value::Null), Some(0)));
    assert_eq!((&lines[1]["remaining"], fixture.slack.joined(TOKEN)), (&json!(0), vec!["C2".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_stored_and_an_invalid_time_are_failures() {
    let fixture = FlagsFixture::new(&[]).await;
    let odd = json!({ "ok": true, "has_more": false, "messages": [{ "type": "message", "text": "no time" }, message_before(1)] });
    fixture.slack.plan_answers(HISTORY, [SlackAnswer::json(&odd)]);
    let outcome = fixture.run(&["backfill", "--json", "general"]).await;
    let expected = done(CREATED, &ts(0), [1, 1, 0, 0, 1]);
    assert_eq!((lines(&outcome.stdout), outcome.code), (expected, Some(1)));
    assert!(outcome.stderr.contains("1 of Slack's messages cannot be stored"), "{outcome:?}");

    let calls = fixture.slack.call_count(HISTORY);
    for period in [
        ["--since", "2023-11-10", "--until", "2023-11-10"],
        ["--since", "2023-11-15", "--until", "2024-01-01"],
    ] {
        fixture.run(&[&["backfill", "general"], &period[..]].concat()).await.assert_refused(2, "--since");
    }
    assert_eq!(fixture.slack.call_count(HISTORY), calls);
}

/// The first pages of a restricted app, which gets one page a minute.
fn first_pages(slack: &FakeSlack) -> [SlackAnswer; 2] {
    slack.with_state(|state| {
        let mut latest = ts(0);
        [0, 60_000].map(|after_ms| {
            let parameters = [("channel", "C1"), ("latest", latest.as_str()), ("limit", "999")];
            let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let page = state.answer(HISTORY, TOKEN, parameters.into(), START_S * 1_000 + after_ms);
            latest = page.value()["messages"][14]["ts"].as_str().unwrap().to_owned();
            page
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restricted_app_gets_advice_while_it_reads_and_ctrl_c_stops_a_backfill_that_continues_later() {
    let messages: Vec<Value> = (0..50).map(|n| message_before(50 - n)).collect();
    let fixture = FlagsFixture::new(&messages).await;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.restricted = true);
    let pages = first_pages(&fixture.slack);
    fixture.slack.plan_answers(HISTORY, pages);

    let mut command = Command::new(&binaries().annalist);
    command.args(["backfill", "general", "--json"]).env_clear();
    fixture.environment().configure(&mut command);
    let mut running =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut stderr_lines = BufReader::new(running.stderr.take().unwrap()).lines();
    let mut seen = String::new();
    let reading = async {
        // Two pages are stored, and the next one has to wait for a minute.
        while !(seen.contains(RESTRICTED_ADVICE) && seen.contains(" 30 messages")) {
            seen += &stderr_lines.next_line().await.unwrap().unwrap();
        }
    };
    timeout(DEADLINE, reading).await.unwrap();
    assert_eq!(seen.matches(RESTRICTED_ADVICE).count(), 1, "{seen}");
    let pid = running.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().await.unwrap().success());
    let mut stdout = String::new();
    running.stdout.take().unwrap().read_to_string(&mut stdout).await.unwrap();
    let code = running.wait().await.unwrap().code();
    let mut stopped = done(CREATED, &ts(0), [30, 30, 0, 0, 2]);
    stopped[0]["state"] = "stopped".into();
    stopped[1]["remaining"] = 1.into();
    assert_eq!((lines(&stdout), code), (stopped, Some(1)));
    let mut last = String::new();
    while let Some(line) = stderr_lines.next_line().await.unwrap() {
        last = line;
    }
    assert!(last.contains("stopped: run it again to continue where it stopped"), "{last}");

    // It continues after the first page, whose messages are known to be stored completely.
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.restricted = false);
    let rest = done(CREATED, &ts(15), [35, 20, 0, 0, 1]);
    assert_eq!(fixture.backfill(&["general"]).await, (rest, Some(0)));
    assert_eq!(fixture.texts().await.len(), 50);
}
