//! An installation that has received an event from a Slack, and the doctor's output for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use embedded::condition;
use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::corpus::TEAM;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, person};
use tests::harness::client::deliver;
use tests::harness::command::{CommandOutput, annalist, annalist_with, wait_until_idle};
use tests::harness::environment::FolderWithSlack;
use tests::harness::process::{self, SIGNING_SECRET, ServerProcess};

pub(super) const TOKEN: &str = "xoxb-1-hidden";
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// With less, a container's memory for files would be a finding too.
const ROOM_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A Slack, an `annalist up` to which it has delivered a message, and the settings with which `doctor` finds
/// both.
pub(super) struct DoctorInstallation {
    pub(super) slack: FakeSlack,
    pub(super) data: PathBuf,
    pub(super) up: ServerProcess,
    _folder: TempDir,
}

/// Settings for the doctor in place of the right ones.
#[derive(Default)]
pub(super) struct DoctorOverrides<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) secret: Option<&'a str>,
    pub(super) url: Option<&'a str>,
    pub(super) listen: Option<&'a str>,
    pub(super) flags: &'a [&'a str],
}

impl DoctorInstallation {
    pub(super) async fn new() -> Self {
        let slack = FakeSlack::start().await;
        let manifest: Value = serde_json::from_str(&annalist(&["manifest"]).await.stdout).unwrap();
        let scopes = manifest["oauth_config"]["scopes"]["bot"].as_array().unwrap().iter();
        let scopes = scopes.map(|scope| scope.as_str().unwrap().to_owned()).collect();
        let members = vec![person("U1", "ada")];
        slack.set_workspace(TOKEN, FakeWorkspace { scopes, members, ..FakeWorkspace::with_size(TEAM, 3, 0) });
        let folder = folder_with_room();
        let data = folder.path().join("archive");
        let up = up(&data, &slack).await;
        let installation = Self { slack, data, up, _folder: folder };
        installation.deliver(installation.message("hello")).await;
        installation
    }

    /// A message with the current time.
    pub(super) fn message(&self, text: &str) -> Value {
        let ts = format!("{}.000100", SystemClock.now().seconds());
        json!({ "type": "message", "channel": "C00000", "channel_type": "channel", "user": "U1", "text": text,
            "ts": ts, "event_ts": ts })
    }

    pub(super) async fn deliver(&self, event: Value) {
        deliver(self.up.address, TEAM, &[event]).await;
        wait_until_idle(self.data.as_path(), DEADLINE).await;
    }

    pub(super) fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    pub(super) fn request_url(&self) -> String {
        format!("http://{}/slack/events", self.up.address)
    }

    pub(super) async fn doctor(&self, overrides: DoctorOverrides<'_>) -> CommandOutput {
        self.slack.set_clock(SystemClock.now().seconds());
        self.doctor_without_setting_clock(overrides).await
    }

    pub(super) async fn doctor_without_setting_clock(&self, overrides: DoctorOverrides<'_>) -> CommandOutput {
        let (address, url, api) = (self.up.address.to_string(), self.request_url(), self.slack.url());
        let metrics = self.up.process.metrics_address().await.to_string();
        let (listen, url) = (overrides.listen.unwrap_or(&address), overrides.url.unwrap_or(&url));
        let args = ["doctor", "--data", self.data(), "--slack-api-url", &api, "--metrics-listen", &metrics];
        let args = [&args[..], &["--listen", listen, "--url", url], overrides.flags].concat();
        let secret = ("SLACK_SIGNING_SECRET", overrides.secret.unwrap_or(SIGNING_SECRET));
        let token = ("SLACK_BOT_TOKEN", overrides.token.unwrap_or(TOKEN));
        let outcome = annalist_with(&args, &[secret, token]).await;
        let output = format!("{}{}", outcome.stdout, outcome.stderr);
        for secret in [SIGNING_SECRET, "hidden", "wrong-secret"] {
            assert!(!output.contains(secret), "a secret was printed: {output}");
        }
        outcome
    }

    /// Asserts that the doctor finds exactly this, and repeats it in its last line.
    pub(super) async fn assert_one_finding(
        &self,
        overrides: DoctorOverrides<'_>,
        check: &str,
        expected: &[&str],
    ) {
        assert_finding(&self.doctor(overrides).await, check, expected);
    }
}

/// A folder in memory if the machine has room there: a nearly full disk would be one finding more.
fn folder_with_room() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    match condition::folder(in_memory) {
        Ok(space) if space.free_bytes >= ROOM_BYTES => tempfile::tempdir_in(in_memory).unwrap(),
        Ok(_) | Err(_) => tempfile::tempdir().unwrap(),
    }
}

pub(super) async fn up(data: &Path, slack: &FakeSlack) -> ServerProcess {
    process::up_with(&FolderWithSlack { data, slack, token: TOKEN }, &["--no-join"]).await
}

pub(super) fn findings(outcome: &CommandOutput) -> Vec<&str> {
    outcome.stdout.lines().filter(|line| line.starts_with("finding")).collect()
}

pub(super) fn assert_finding(outcome: &CommandOutput, check: &str, expected: &[&str]) {
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let [line] = findings(outcome)[..] else { panic!("not one finding: {outcome:?}") };
    assert!(line.starts_with(&format!("finding  {check} ")), "{line}");
    for part in expected {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    assert!(line.contains(" → "), "{line}");
    let last = outcome.stderr.trim_end();
    assert!(last.starts_with(&format!("annalist: 1 finding: {check}: ")) && !last.contains('\n'), "{last}");
}
