//! Jobs that wait for a token, with real processes and a Slack that refuses one: they leave the queue, are shown
//! with their cause, and go on by themselves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use embedded::DATABASE_FILE;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_at, json_lines, status, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process::{self, ServerProcess};
use tokio::process::Command;
use tokio::time::Instant;

const HEALTHY: &str = "T0HEALTHY";
const REFUSED: &str = "T0REFUSED";
const WITHOUT: &str = "T0WITHOUT";
const GENERAL: &str = "C0GENERAL";
const CONVERTED: &str = "C0CONVERTED";
const KNOWN: &str = "U0KNOWN";
const NEWCOMER: &str = "U0NEWCOMER";
const EVERYBODY: [&str; 2] = [KNOWN, NEWCOMER];

/// A trial comes at most a minute after the cause has ended; the rest is for a busy machine.
const DEADLINE: Duration = Duration::from_secs(100);

/// A program with a file of tokens for a Slack.
pub(crate) struct WithTokens<'a, E: ?Sized> {
    base: &'a E,
    slack: FakeSlack,
    folder: TempDir,
}

impl<E: ProgramEnvironment + ?Sized> ProgramEnvironment for WithTokens<'_, E> {
    fn configure(&self, command: &mut Command) {
        self.base.configure(command);
        command.env("SLACK_BOT_TOKENS_FILE", self.file()).env("SLACK_API_URL", self.slack.url());
    }
}

impl<'a, E: ProgramEnvironment + ?Sized> WithTokens<'a, E> {
    async fn new(base: &'a E) -> Self {
        Self { base, slack: FakeSlack::start().await, folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tokens.json")
    }

    /// Gives each of these workspaces the token `xoxb-{team}-{version}` at Slack and in the file, and no other any. These
    /// people are their members.
    fn set_tokens(&self, teams: &[(&str, u32)], people: &[&str]) {
        for team in [HEALTHY, REFUSED, WITHOUT] {
            (1..=2).for_each(|version| self.slack.remove_workspace(&token(team, version)));
        }
        let mut entries = Vec::new();
        for (team, version) in teams {
            let mut workspace = FakeWorkspace::new(team);
            workspace.channels = vec![channel(GENERAL, "general"), channel(CONVERTED, "converted")];
            workspace.members = people.iter().map(|user| person(user, &user.to_lowercase())).collect();
            self.slack.set_workspace(&token(team, *version), workspace);
            entries.push(format!("{team:?}: {:?}", token(team, *version)));
        }
        std::fs::write(self.file(), format!("{{{}}}", entries.join(", "))).unwrap();
    }

    async fn messages(&self, team: &str, channel: &str) -> Vec<Value> {
        // Before its first event, the archive does not know the workspace.
        let listed = annalist_at(self, &["messages", channel, "--team", team, "--json"]).await;
        let lines = listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    async fn until_stored(&self, team: &str, channel: &str, expected: usize, deadline: Duration) {
        let until = Instant::now() + deadline;
        loop {
            let stored = self.messages(team, channel).await.len();
            if stored == expected {
                return;
            }
            assert!(
                Instant::now() < until && stored < expected,
                "{team} {channel}: {stored} of {expected} messages"
            );
        }
    }

    /// Waits until `status` shows each of these workspaces with the cause, and only wakes on the queue.
    async fn until_waiting(&self, expected: &[(&str, &str, &str)]) -> Value {
        let until = Instant::now() + DEADLINE;
        loop {
            let report = status(self).await;
            let lines = report["waiting"].as_array().unwrap();
            let shown = expected.iter().all(|(team, cause, reason)| {
                lines.iter().any(|line| {
                    line["team_id"] == *team
                        && line["queue"] == "events"
                        && line["cause"] == *cause
                        && line["reason"].as_str().unwrap().contains(reason)
                })
            });
            let events = &report["queues"][0];
            let on_queue = events["waiting"].as_u64().unwrap() + events["in_flight"].as_u64().unwrap();
            if shown && on_queue <= u64::try_from(expected.len()).unwrap() {
                assert_eq!((&report["idle"], &report["quarantined"]), (&false.into(), &0.into()), "{report}");
                return report;
            }
            assert!(Instant::now() < until, "not shown as waiting: {report}");
        }
    }
}

fn token(team: &str, version: u32) -> String {
    format!("xoxb-{team}-{version}")
}

fn message(channel: &str, user: &str, ts: &str) -> Value {
    event::posted(channel, &event::message(ts, user, &format!("of {ts}")))
}

fn private(event: Value) -> Value {
    event::with_fields(event, [("channel_type", "group".into())])
}

/// Messages of channels and of a person that Slack confirms.
fn before() -> Vec<Value> {
    vec![message(GENERAL, KNOWN, "1700000001.000100"), message(CONVERTED, KNOWN, "1700000002.000100")]
}

/// Messages of a person whom the archive does not know yet; meanwhile one of the channels becomes private.
fn during() -> Vec<Value> {
    let first = event::message("1700000003.000100", NEWCOMER, "of the newcomer");
    let converts = private(message(CONVERTED, KNOWN, "1700000005.000100"));
    vec![
        event::posted(GENERAL, &first),
        message(CONVERTED, NEWCOMER, "1700000004.000100"),
        event::with_fields(converts, [("subtype", "channel_convert_to_private".into())]),
        private(message(CONVERTED, NEWCOMER, "1700000006.000100")),
        event::posted(GENERAL, &event::edited(&first, "1700000007.000100", "edited")),
        message(GENERAL, NEWCOMER, "1700000008.000100"),
    ]
}

/// What is stored of both, in each channel.
const STORED: [(&str, usize); 2] = [(GENERAL, 3), (CONVERTED, 4)];

/// One workspace works, the token of a second one is refused, and a third one has none: the jobs of both are shown
/// with what they wait for, and none is on the queue.
pub(crate) async fn begin_outage<'a, E: ProgramEnvironment + ?Sized>(
    base: &'a E,
) -> (WithTokens<'a, E>, ServerProcess) {
    let environment = WithTokens::new(base).await;
    environment.set_tokens(&[(HEALTHY, 1), (REFUSED, 1)], &[KNOWN]);
    let server = process::up_with(&environment, &["--no-join"]).await;
    for team in [HEALTHY, REFUSED] {
        deliver(server.address, team, &before()).await;
        environment.until_stored(team, GENERAL, 1, DEADLINE).await;
        environment.until_stored(team, CONVERTED, 1, DEADLINE).await;
    }
    // The directory that was read at the start does not have the newcomer.
    environment.slack.change_workspace(&token(HEALTHY, 1), |workspace| {
        workspace.members.push(person(NEWCOMER, &NEWCOMER.to_lowercase()));
    });
    environment.slack.remove_workspace(&token(REFUSED, 1));
    let (began, calls) = (Instant::now(), environment.calls(&token(REFUSED, 1)));
    for team in [HEALTHY, REFUSED] {
        deliver(server.address, team, &during()).await;
    }
    deliver(server.address, WITHOUT, &[message(GENERAL, NEWCOMER, "1700000003.000100")]).await;
    for (channel, stored) in STORED {
        environment.until_stored(HEALTHY, channel, stored, DEADLINE).await;
    }
    let names_team = format!("no token for {WITHOUT}");
    let expected = [(REFUSED, "token", "invalid_auth"), (WITHOUT, "no_token", names_team.as_str())];
    environment.until_waiting(&expected).await;
    let asked = environment.calls(&token(REFUSED, 1)) - calls;
    let minutes = began.elapsed().as_secs() / 60 + 1;
    assert!(u64::try_from(asked).unwrap() <= 12 * minutes, "{asked} calls in {minutes} minutes");
    (environment, server)
}

/// The tokens are set right, and nothing else is done: what waited is stored like what did not.
pub(crate) async fn end_outage<E: ProgramEnvironment + ?Sized>(environment: &WithTokens<'_, E>) {
    environment.set_tokens(&[(HEALTHY, 1), (REFUSED, 2), (WITHOUT, 1)], &EVERYBODY);
    let began = Instant::now();
    for (channel, stored) in STORED {
        environment.until_stored(REFUSED, channel, stored, DEADLINE.saturating_sub(began.elapsed())).await;
        let of = async |team: &str| {
            let text = serde_json::to_string(&environment.messages(team, channel).await).unwrap();
            text.replace(team, "TEAM")
        };
        assert_eq!(of(REFUSED).await, of(HEALTHY).await, "{channel}");
    }
    environment.until_stored(WITHOUT, GENERAL, 1, DEADLINE).await;
    let report = wait_until_idle(environment, DEADLINE).await;
    assert_eq!(
        (&report["quarantined"], &report["waiting"]),
        (&0.into(), &Value::Array(Vec::new())),
        "{report}"
    );
}

impl<E: ?Sized> WithTokens<'_, E> {
    fn calls(&self, token: &str) -> usize {
        self.slack.calls().iter().filter(|call| call.token == token).count()
    }
}

/// As if every message on the queues had been received 999 times.
fn age_messages(data: &Path) {
    let database = Connection::open(data.join(DATABASE_FILE)).unwrap();
    let aged = database
        .execute(
            "INSERT INTO leases (seq, queue, visible_at_ms, receive_count, owner)
             SELECT seq, queue, 0, 999, 0 FROM jobs WHERE true
             ON CONFLICT (seq) DO UPDATE SET receive_count = 999",
            [],
        )
        .unwrap();
    assert!(aged > 0, "there are messages on the queues");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_without_a_valid_token_wait_are_shown_and_go_on_however_often_they_were_received() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (environment, server) = begin_outage(data.as_path()).await;
    server.process.stop().await;
    let ingest = process::ingest(data.as_path()).await;
    deliver(ingest.address, WITHOUT, &[message(GENERAL, NEWCOMER, "1700000009.000100")]).await;
    ingest.process.stop().await;
    age_messages(&data);
    let server = process::up_with(&environment, &["--no-join"]).await;
    environment.until_waiting(&[(REFUSED, "token", "invalid_auth"), (WITHOUT, "no_token", "no token")]).await;
    age_messages(&data);
    environment.set_tokens(&[(HEALTHY, 1), (REFUSED, 2), (WITHOUT, 1)], &EVERYBODY);
    environment.until_stored(WITHOUT, GENERAL, 2, DEADLINE).await;
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_the_token_is_right_a_workspace_is_stored_like_one_without_an_outage() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (environment, server) = begin_outage(data.as_path()).await;
    end_outage(&environment).await;
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_while_jobs_are_sent_back_loses_none_and_another_workspace_goes_on() {
    const JOBS: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let environment = WithTokens::new(data.as_path()).await;
    environment.set_tokens(&[(HEALTHY, 1)], &EVERYBODY);
    let server = process::up_with(&environment, &["--no-join"]).await;
    let waiting: Vec<Value> =
        (0..JOBS).map(|n| message(GENERAL, KNOWN, &format!("1700000001.{n:06}"))).collect();
    deliver(server.address, REFUSED, &waiting).await;
    environment.until_waiting(&[(REFUSED, "no_token", "no token")]).await;
    environment.set_tokens(&[(HEALTHY, 1), (REFUSED, 1)], &EVERYBODY);
    let until = Instant::now() + DEADLINE;
    while environment.messages(REFUSED, GENERAL).await.len() < 100 {
        assert!(Instant::now() < until, "no job was sent back");
    }
    server.process.sigkill().await;
    let stored = environment.messages(REFUSED, GENERAL).await.len();
    assert!(stored < JOBS, "it was killed before it had sent all back: {stored}");

    let server = process::up_with(&environment, &["--no-join"]).await;
    deliver(server.address, HEALTHY, &before()).await;
    environment.until_stored(HEALTHY, GENERAL, 1, Duration::from_secs(10)).await;
    environment.until_stored(REFUSED, GENERAL, JOBS, DEADLINE).await;
    let report = wait_until_idle(&environment, DEADLINE).await;
    assert_eq!(
        (&report["quarantined"], &report["waiting"]),
        (&0.into(), &Value::Array(Vec::new())),
        "{report}"
    );
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_wrote_is_erased_while_it_waits_and_never_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let environment = WithTokens::new(data.as_path()).await;
    environment.set_tokens(&[(HEALTHY, 1)], &EVERYBODY);
    let server = process::up_with(&environment, &["--no-join"]).await;
    let said =
        [message(GENERAL, NEWCOMER, "1700000001.000100"), message(GENERAL, KNOWN, "1700000002.000100")];
    deliver(server.address, WITHOUT, &said).await;
    environment.until_waiting(&[(WITHOUT, "no_token", "no token")]).await;
    // Nothing of the workspace is stored so far but what waits.
    let erase = ["erase", "--user", NEWCOMER, "--team", WITHOUT, "--yes"];
    json_lines(&environment, &erase).await;
    environment.set_tokens(&[(HEALTHY, 1), (WITHOUT, 1)], &EVERYBODY);
    environment.until_stored(WITHOUT, GENERAL, 1, DEADLINE).await;
    wait_until_idle(&environment, DEADLINE).await;
    let stored = environment.messages(WITHOUT, GENERAL).await;
    assert!(stored.len() == 1 && stored[0].to_string().contains(KNOWN), "{stored:?}");
    server.process.stop().await;
}
