//! `annalist setup` without a terminal, on the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, SlackAnswer, refusal};
use testkit::fake_socket::{APP_TOKEN, FakeSocket};
use tests::harness::command::{CommandOutput, annalist_with};
use tests::harness::process::SIGNING_SECRET;

const BOT_TOKEN: &str = "xoxb-1-hidden";

/// A Slack with the app, which opens a connection for each of the next `tickets` questions.
async fn slack_with_app(tickets: usize) -> FakeSlack {
    let slack = FakeSlack::start().await;
    slack.set_workspace(BOT_TOKEN, FakeWorkspace::new("T1"));
    FakeSocket::start(&slack, tickets).await;
    slack
}

async fn setup(slack: &FakeSlack, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let url = slack.url();
    let variables = [variables, &[("SLACK_API_URL", url.as_str())]].concat();
    annalist_with(&[&["setup"], args].concat(), &variables).await
}

/// Asserts that it ended with this code, and one line on standard error that contains this text.
#[track_caller]
fn assert_failed(outcome: &CommandOutput, code: i32, expected: &str) {
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(code), 1), "{outcome:?}");
    assert!(outcome.stderr.contains(expected), "{expected:?} is not in {outcome:?}");
    assert!(!outcome.stderr.contains("hidden") && !outcome.stdout.contains("hidden"), "{outcome:?}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn without_secrets_it_prints_the_link_and_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let slack = slack_with_app(0).await;
    let args = ["--data", data.to_str().unwrap()];
    let url = ["--url", "https://slack.example.com/slack/events"];
    for (extra, variables, expected, is_socket) in [
        (&[][..], &[][..], "SLACK_BOT_TOKEN and SLACK_APP_TOKEN: not set", true),
        (&["--yes"], &[("SLACK_BOT_TOKEN", BOT_TOKEN)], "annalist: SLACK_APP_TOKEN: not set", true),
        (&url, &[("SLACK_APP_TOKEN", APP_TOKEN)], "SLACK_BOT_TOKEN and SLACK_SIGNING_SECRET: not", false),
    ] {
        let outcome = setup(&slack, &[&args, extra].concat(), variables).await;
        assert_failed(&outcome, 2, expected);
        assert_eq!(outcome.stdout.lines().count(), 1, "{outcome:?}");
        let link: slack_api::transport::Url = outcome.stdout.trim().parse().unwrap();
        let manifest = link.query_pairs().find(|(name, _)| name == "manifest_json").unwrap().1.into_owned();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["settings"]["socket_mode_enabled"], is_socket);
    }
    assert!(!data.exists() && slack.calls().is_empty());
}

#[tokio::test]
async fn it_writes_what_up_needs_and_a_second_run_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = data.join("annalist.env");
    let slack = slack_with_app(2).await;
    let args = ["--data", data.to_str().unwrap()];
    let secrets = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)];
    let outcome = setup(&slack, &args, &secrets).await.succeeded();
    let command = format!("  annalist up --data {}\n", data.display());
    for expected in ["installed in Workspace T1", &command, "http://127.0.0.1:3002/"] {
        assert!(outcome.stdout.contains(expected) && outcome.stderr.is_empty(), "{outcome:?}");
    }
    let expected = format!(
        "SLACK_BOT_TOKEN={BOT_TOKEN}\nSLACK_APP_TOKEN={APP_TOKEN}\nANNALIST_VIEWER_LISTEN=127.0.0.1:3002\n"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    assert_eq!((mode(&file), mode(&data)), (0o600, 0o700));

    // Lines of the owner stay, and the settings of the file are known.
    fs::write(&file, format!("# mine\nANNALIST_LOG=debug\n{expected}")).unwrap();
    setup(&slack, &args, &[]).await.succeeded();
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("# mine\nANNALIST_LOG=debug\n{expected}"));
    assert_eq!(mode(&file), 0o600);
    let names: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["annalist.env"]);
}

#[tokio::test]
async fn with_an_address_it_takes_the_signing_secret_and_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("etc/named.env");
    let slack = slack_with_app(0).await;
    let args =
        ["--settings", file.to_str().unwrap(), "--url", "https://slack.example.com", "--viewer-listen"];
    let args = [&args[..], &["127.0.0.1:4000", "--data", folder.path().to_str().unwrap()]].concat();
    let wrong = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_SIGNING_SECRET", "short")];
    assert_failed(&setup(&slack, &args, &wrong).await, 2, "setup needs the signing secret");
    assert!(!file.exists());
    let secrets = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_SIGNING_SECRET", SIGNING_SECRET)];
    let outcome = setup(&slack, &args, &secrets).await.succeeded();
    let expected = format!("--settings {}", file.display());
    assert!(outcome.stdout.contains(&expected) && outcome.stdout.contains("127.0.0.1:4000"), "{outcome:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("\nSLACK_SIGNING_SECRET={SIGNING_SECRET}\n")), "{text}");
    assert!(!text.contains("SLACK_APP_TOKEN"), "{text}");
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn a_wrong_secret_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let slack = slack_with_app(0).await;
    let scopes = ["channels:history", "channels:read"];
    let mut lacking = FakeWorkspace::new("T1");
    lacking.scopes = scopes.map(str::to_owned).to_vec();
    slack.set_workspace("xoxb-2-hidden", lacking);
    let of_another_app = "xapp-1-A0OTHER-1-hidden";
    let app = SlackAnswer::json(&json!({ "ok": true, "bot": { "id": "B0BOT", "app_id": "A0ANNALIST" } }));
    for (bot, app_token, expected) in [
        (
            APP_TOKEN,
            APP_TOKEN,
            "SLACK_BOT_TOKEN: that is an app-level token (xapp-…), but setup needs a bot token",
        ),
        (
            BOT_TOKEN,
            BOT_TOKEN,
            "SLACK_APP_TOKEN: that is a bot token (xoxb-…), but setup needs an app-level token",
        ),
        ("xoxb-9-hidden", APP_TOKEN, "SLACK_BOT_TOKEN: Slack refused auth.test: invalid_auth"),
        ("xoxb-2-hidden", APP_TOKEN, "the app lacks the scopes bookmarks:read, channels:join, emoji:read"),
        (BOT_TOKEN, of_another_app, "it is of the app A0OTHER, and the bot token of the app A0ANNALIST"),
        (BOT_TOKEN, APP_TOKEN, "SLACK_APP_TOKEN: Slack refused apps.connections.open: missing_scope"),
    ] {
        slack.plan_answers("bots.info", [app.clone()]);
        slack.plan_answers("apps.connections.open", [refusal("missing_scope")]);
        let secrets = [("SLACK_BOT_TOKEN", bot), ("SLACK_APP_TOKEN", app_token)];
        let outcome = setup(&slack, &["--data", data.to_str().unwrap()], &secrets).await;
        assert_failed(&outcome, 2, expected);
    }
    assert!(!data.exists());
}

#[tokio::test]
async fn without_slack_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let slack = slack_with_app(0).await;
    let secrets = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)];
    let args = ["--data", data.to_str().unwrap()];
    slack.plan_answers("apps.connections.open", [SlackAnswer::new(503)]);
    assert_failed(&setup(&slack, &args, &secrets).await, 1, "SLACK_APP_TOKEN cannot be checked");
    slack.set_unavailable(true);
    let outcome = setup(&slack, &args, &secrets).await;
    assert_failed(
        &outcome,
        1,
        "SLACK_BOT_TOKEN cannot be checked and nothing was written: Slack cannot be reached",
    );
    assert!(!data.exists());
}

#[tokio::test]
async fn a_wrong_file_is_an_error_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("annalist.env");
    let slack = slack_with_app(2).await;
    let secrets = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)];
    for text in ["SLACK_BOT_TOKNE=hidden\n", "no setting\n"] {
        fs::write(&file, text).unwrap();
        let outcome = setup(&slack, &["--data", folder.path().to_str().unwrap()], &secrets).await;
        assert_failed(&outcome, 2, "annalist.env:1: ");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[tokio::test]
async fn the_unit_of_a_service_has_this_program_and_folder_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (data, unit) = (folder.path().join("data"), folder.path().join("units/acme.service"));
    let slack = slack_with_app(1).await;
    let secrets = [("SLACK_BOT_TOKEN", BOT_TOKEN), ("SLACK_APP_TOKEN", APP_TOKEN)];
    let args = ["--data", data.to_str().unwrap(), "--service", unit.to_str().unwrap()];
    let outcome = setup(&slack, &args, &secrets).await.succeeded();
    assert!(outcome.stdout.contains("systemctl enable --now acme.service"), "{outcome:?}");
    let text = fs::read_to_string(&unit).unwrap();
    for line in [
        format!("Environment=ANNALIST_DATA={}", data.display()),
        format!("EnvironmentFile=-{}/annalist.env", data.display()),
        format!("ReadWritePaths={}", data.display()),
    ] {
        assert!(text.lines().any(|known| known == line), "{line}: {text}");
    }
    assert!(
        text.lines().any(|line| line.starts_with("ExecStart=/") && line.ends_with("/annalist up")),
        "{text}"
    );
    assert!(!text.contains("hidden"), "{text}");
}
