//! An installation that a Slack has delivered to, and what the doctor says of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::corpus::TEAM;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, person};
use tests::harness::client::deliver;
use tests::harness::command::{CommandOutput, annalist, annalist_with, wait_until_idle};
use tests::harness::place::FolderWithSlack;
use tests::harness::process::{self, SIGNING_SECRET, ServerProcess};

pub(super) const TOKEN: &str = "xoxb-1-hidden";
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A Slack, an `annalist up` that it has delivered a message to, and what `doctor` is told of them.
pub(super) struct DoctorInstallation {
    pub(super) slack: FakeSlack,
    pub(super) data: PathBuf,
    pub(super) up: ServerProcess,
    _folder: TempDir,
}

/// What the doctor is to be told instead of what is right.
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
        slack.set(TOKEN, FakeWorkspace { scopes, members, ..FakeWorkspace::of(TEAM, 3, 0) });
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("archive");
        let up = up(&data, &slack).await;
        let installation = Self { slack, data, up, _folder: folder };
        installation.deliver(installation.message("hello")).await;
        installation
    }

    /// A message that is written now.
    pub(super) fn message(&self, text: &str) -> Value {
        let ts = format!("{}.000100", SystemClock.now().seconds());
        json!({ "type": "message", "channel": "C00000", "channel_type": "channel", "user": "U1", "text": text,
            "ts": ts, "event_ts": ts })
    }

    pub(super) async fn deliver(&self, told: Value) {
        deliver(self.up.address, TEAM, &[told]).await;
        wait_until_idle(self.data.as_path(), DEADLINE).await;
    }

    pub(super) fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    pub(super) fn request_url(&self) -> String {
        format!("http://{}/slack/events", self.up.address)
    }

    pub(super) async fn doctor(&self, instead: DoctorOverrides<'_>) -> CommandOutput {
        self.slack.at(SystemClock.now().seconds());
        self.doctor_at_this_time(instead).await
    }

    pub(super) async fn doctor_at_this_time(&self, instead: DoctorOverrides<'_>) -> CommandOutput {
        let (address, url, api) = (self.up.address.to_string(), self.request_url(), self.slack.url());
        let metrics = self.up.process.metrics_address().await.to_string();
        let mut args = vec!["doctor", "--data", self.data(), "--slack-api-url", &api];
        args.extend(["--metrics-listen", &metrics]);
        args.extend(["--listen", instead.listen.unwrap_or(&address), "--url", instead.url.unwrap_or(&url)]);
        args.extend(instead.flags);
        let secret = ("SLACK_SIGNING_SECRET", instead.secret.unwrap_or(SIGNING_SECRET));
        let token = ("SLACK_BOT_TOKEN", instead.token.unwrap_or(TOKEN));
        let outcome = annalist_with(&args, &[secret, token]).await;
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        for secret in [SIGNING_SECRET, "hidden", "wrong-secret"] {
            assert!(!said.contains(secret), "a secret was printed: {said}");
        }
        outcome
    }

    /// The doctor finds exactly this and says so at the end as well.
    pub(super) async fn finds(&self, instead: DoctorOverrides<'_>, check: &str, says: &[&str]) {
        assert_finds(&self.doctor(instead).await, check, says);
    }
}

pub(super) async fn up(data: &Path, slack: &FakeSlack) -> ServerProcess {
    process::up_with(&FolderWithSlack { data, slack, token: TOKEN }, &["--no-join"]).await
}

pub(super) fn findings(outcome: &CommandOutput) -> Vec<&str> {
    outcome.stdout.lines().filter(|line| line.starts_with("finding")).collect()
}

pub(super) fn assert_finds(outcome: &CommandOutput, check: &str, says: &[&str]) {
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let [line] = findings(outcome)[..] else { panic!("not one finding: {outcome:?}") };
    assert!(line.starts_with(&format!("finding  {check} ")), "{line}");
    for expected in says {
        assert!(line.contains(expected), "{expected:?} is not in {line}");
    }
    assert!(line.contains(" → "), "{line}");
    let last = outcome.stderr.trim_end();
    assert!(last.starts_with(&format!("annalist: 1 finding: {check}: ")) && !last.contains('\n'), "{last}");
}
