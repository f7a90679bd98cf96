//! `annalist doctor` on the real binary: a healthy installation, and each fault caused for real.

mod fixture;

use embedded::DATABASE_FILE;
use ports::clock::{Clock, SystemClock};
use rusqlite::Connection;
use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, SlackAnswer, refusal};
use tests::harness::binaries::binaries;
use tests::harness::client::deliver;
use tests::harness::command::{annalist_with, wait_until_idle};
use tests::harness::process::{self, SIGNING_SECRET};
use tokio::net::TcpListener;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use fixture::{DEADLINE, DoctorInstallation, DoctorOverrides, TOKEN, assert_finding, findings, up};

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_installation_passes_every_check() {
    let installation = DoctorInstallation::new().await;
    let outcome = installation.doctor(DoctorOverrides::default()).await;
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("Nothing is missing that can be seen from here."), "{outcome:?}");
    assert_eq!(lines.pop(), Some(""));
    let checks: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(
        checks,
        [
            "settings",
            "signing-secret",
            "bot-token",
            "scopes",
            "clock",
            "archive",
            "socket",
            "ingest",
            "refused",
            "request-url",
            "channels",
            "events",
            "backlog",
            "quarantine",
            "gaps",
            "files",
            "waiting",
            "history",
            "private",
            "disk",
            "permissions",
            "database",
            "store",
            "responder",
        ]
    );
    for line in lines {
        let state = if line.contains("SLACK_APP_TOKEN is not set") { "skipped  socket " } else { "ok " };
        assert!(line.starts_with(state), "{line}");
    }
    for expected in
        ["@annalist in Workspace", "came back in", "all of 3 public channels", "events 0", "(0700)"]
    {
        assert!(outcome.stdout.contains(expected), "{expected}: {outcome:?}");
    }

    let as_json = DoctorOverrides { flags: &["--json"], ..DoctorOverrides::default() };
    let json = installation.doctor(as_json).await.succeeded();
    let objects: Vec<Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), checks.len());
    for object in objects {
        let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["check", "next", "says", "state"]);
        let state = if object["check"] == "socket" { "skipped" } else { "ok" };
        assert_eq!((&object["state"], &object["next"]), (&state.into(), &Value::Null), "{object}");
    }
    // A run calls `conversations.list` once.
    let calls = installation.slack.call_count("conversations.list");
    installation.doctor(DoctorOverrides::default()).await;
    assert_eq!(installation.slack.call_count("conversations.list"), calls + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ingest_process_on_the_folder_is_no_finding() {
    let installation = DoctorInstallation::new().await;
    let second = process::ingest(installation.data.as_path()).await;
    let outcome = installation.doctor(DoctorOverrides::default()).await;
    assert_eq!(outcome.code, Some(0), "before its first event: {outcome:?}");
    deliver(second.address, TEAM, &[installation.message("to the second")]).await;
    wait_until_idle(installation.data.as_path(), DEADLINE).await;
    let outcome = installation.doctor(DoctorOverrides::default()).await;
    assert_eq!(outcome.code, Some(0), "after its first event: {outcome:?}");
    second.process.stop().await;
    let outcome = installation.doctor(DoctorOverrides::default()).await;
    assert_eq!(outcome.code, Some(0), "after it stopped: {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_on_slacks_side_is_one_finding() {
    let installation = DoctorInstallation::new().await;
    let slack = &installation.slack;
    let defaults = DoctorOverrides::default;

    slack.change_workspace(TOKEN, |workspace| workspace.scopes.retain(|scope| scope != "files:read"));
    installation.assert_one_finding(defaults(), "scopes", &["lacks files:read (files) →", "reinstall"]).await;
    slack.change_workspace(TOKEN, |workspace| workspace.scopes.push("files:read".to_owned()));

    slack.change_workspace(TOKEN, |workspace| {
        for channel in &mut workspace.channels {
            channel["is_member"] = false.into();
        }
    });
    installation.assert_one_finding(defaults(), "channels", &["none of 3", "/invite @annalist"]).await;
    slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["is_member"] = true.into());
    let some = installation.doctor(defaults()).await;
    assert!(some.code == Some(0) && some.stdout.contains("in 1 of 3 public channels"), "{some:?}");

    // A pause that Slack asks for is neither waited out nor a finding.
    slack.plan_answers("conversations.list", [SlackAnswer::rate_limited(3_600)]);
    let limited = installation.doctor(defaults()).await;
    assert!(limited.code == Some(0) && limited.stdout.contains("retry in 3600 s"), "{limited:?}");

    for (error, expected) in [
        ("token_revoked", "was revoked"),
        ("account_inactive", "removed from the workspace"),
        ("token_expired", "has expired"),
        ("invalid_auth", "unknown to Slack"),
    ] {
        slack.plan_answers("auth.test", [refusal(error)]);
        installation.assert_one_finding(defaults(), "bot-token", &[expected]).await;
    }
    for (token, expected) in [
        ("xoxp-1-hidden", "user token"),
        ("xapp-1-hidden", "app-level token"),
        ("", "SLACK_BOT_TOKEN is not set"),
    ] {
        let overrides = DoctorOverrides { token: Some(token), ..defaults() };
        installation.assert_one_finding(overrides, "bot-token", &[expected]).await;
    }

    slack.set_clock(SystemClock.now().seconds() - 400);
    let skewed = installation.doctor_without_setting_clock(defaults()).await;
    assert_finding(&skewed, "clock", &["s ahead of Slack's", "timedatectl"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_between_slack_and_ingest_is_one_finding() {
    let installation = DoctorInstallation::new().await;
    let address = installation.up.address;
    let proxy = async |answer: ResponseTemplate| {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(answer).mount(&server).await;
        server
    };
    let refusing = proxy(ResponseTemplate::new(502)).await;
    let elsewhere = proxy(ResponseTemplate::new(301).insert_header("location", "https://b.example/")).await;
    let parked = proxy(ResponseTemplate::new(200).set_body_string("buy this domain")).await;
    let login = proxy(ResponseTemplate::new(401)).await;
    let slow = proxy(ResponseTemplate::new(200).set_delay(DEADLINE)).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (url, expected) in [
        (format!("http://{address}/other"), "nothing for events at this path (HTTP 404)"),
        (format!("https://{address}/slack/events"), "the encryption fails"),
        (refusing.uri(), "reaches no annalist"),
        (elsewhere.uri(), "it redirects to https://b.example/"),
        (parked.uri(), "not with the challenge"),
        (login.uri(), "requires a login"),
        (slow.uri(), "no answer within 3 s"),
        (format!("http://{closed}/slack/events"), "no connection"),
    ] {
        let overrides = DoctorOverrides { url: Some(&url), ..DoctorOverrides::default() };
        installation.assert_one_finding(overrides, "request-url", &[expected]).await;
    }
    for server in [&refusing, &elsewhere, &parked, &login, &slow] {
        for request in server.received_requests().await.unwrap() {
            assert!(!request.headers.contains_key("authorization"), "{request:?}");
        }
    }
    let unused = closed.to_string();
    let down = DoctorOverrides { listen: Some(&unused), ..DoctorOverrides::default() };
    installation.assert_one_finding(down, "ingest", &["nothing listens on", "annalist up --data"]).await;
    let other = parked.address().to_string();
    let foreign = DoctorOverrides { listen: Some(&other), ..DoctorOverrides::default() };
    installation.assert_one_finding(foreign, "ingest", &["something other than annalist"]).await;

    // Last, because the running process counts the refused request, which is a finding from then on.
    let other = DoctorOverrides { secret: Some("wrong-secret"), ..DoctorOverrides::default() };
    let expected = ["(401): it is signed with another secret", "SLACK_SIGNING_SECRET"];
    installation.assert_one_finding(other, "request-url", &expected).await;
    let counted = installation.doctor(DoctorOverrides::default()).await;
    assert_finding(&counted, "refused", &["1 request was refused", "SLACK_SIGNING_SECRET"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_the_archive_is_one_finding() {
    use std::os::unix::fs::PermissionsExt;

    let installation = DoctorInstallation::new().await;
    let folder = &installation.data;
    let defaults = DoctorOverrides::default;
    let mode = |mode| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    let advice = format!("chmod 700 {}", installation.data());
    installation.assert_one_finding(defaults(), "permissions", &["(0755)", &advice]).await;
    mode(0o700);

    // In a channel without later events: a message would prove that the app is back.
    let left = json!({ "type": "channel_left", "channel": "C00002", "event_ts": "1700000000.000000" });
    installation.deliver(left).await;
    let expected = ["1 time", "from 2023-11-14 22:13 UTC in C00002", "/invite @annalist"];
    installation.assert_one_finding(defaults(), "gaps", &expected).await;

    // A malformed id: quarantined, because no version could store it.
    let mut odd = installation.message("odd");
    odd["channel"] = "not an id".into();
    installation.deliver(odd).await;
    let both = installation.doctor(defaults()).await;
    assert_eq!(both.code, Some(1));
    let found = findings(&both);
    assert!(found.len() == 2 && found[0].contains("1 job in quarantine"), "{both:?}");
    assert!(
        found[0].contains(&format!("annalist quarantine list --data {}", installation.data())),
        "{both:?}"
    );
    assert!(both.stderr.starts_with("annalist: 2 findings; the first: quarantine: "), "{both:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_events_or_without_a_worker_the_finding_names_the_next_step() {
    let slack = FakeSlack::start().await;
    let scopes = vec!["none".to_owned()];
    slack.set_workspace(TOKEN, FakeWorkspace { scopes, ..FakeWorkspace::with_size(TEAM, 3, 0) });
    let folder = tempfile::tempdir().unwrap();
    let up = up(folder.path(), &slack).await;
    let data = folder.path().to_str().unwrap();
    let address = up.address.to_string();
    let variables = [("SLACK_SIGNING_SECRET", SIGNING_SECRET)];
    let args = ["doctor", "--data", data, "--listen", &address, "--slack-api-url", &slack.url()];
    let silent = annalist_with(&args, &variables).await;
    let found = findings(&silent);
    assert!(found.iter().any(|line| line.contains("no message has ever arrived → look at")), "{silent:?}");
    up.process.stop().await;

    // An event that ingest has accepted and no worker handles.
    let ingest = process::ingest(folder.path()).await;
    let message =
        event::posted("C00000", &event::reply("1700000000.000100", "1700000000.000100", "U1", "text"));
    deliver(ingest.address, TEAM, &[message]).await;
    ingest.process.stop().await;
    let stopped = annalist_with(&args, &variables).await;
    let found = findings(&stopped).join("\n");
    for expected in [
        "nothing listens on",
        "1 job on the queue, and no process runs",
        &format!("start `annalist up --data {data}`"),
    ] {
        assert!(found.contains(expected), "{expected:?} is not in {found}");
    }
    assert!(stopped.stdout.contains("1 event to be stored"), "{stopped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_setup_the_first_step_is_listed_first_and_nothing_is_created() {
    // Before Slack's clock is set: building the binaries takes longer than a clock may be off.
    binaries();
    let slack = FakeSlack::start().await;
    slack.set_clock(SystemClock.now().seconds());
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("archive");
    let data = data.to_str().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let args = ["doctor", "--data", data, "--listen", &closed, "--slack-api-url", &slack.url()];

    let first = annalist_with(&args, &[]).await;
    assert_eq!(first.code, Some(1), "{first:?}");
    let names: Vec<&str> =
        findings(&first).iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(names, ["signing-secret", "bot-token", "archive", "ingest"], "{first:?}");
    assert!(first.stdout.contains("ok       clock"), "Slack's clock can be read without a token: {first:?}");
    assert!(first.stderr.contains("4 findings; the first: signing-secret"), "{first:?}");
    assert!(
        first.stderr.contains("annalist manifest --url") && first.stderr.lines().count() == 1,
        "{first:?}"
    );

    let secret = ("SLACK_SIGNING_SECRET", SIGNING_SECRET);
    let second = annalist_with(&args, &[secret]).await;
    assert!(second.stderr.contains("3 findings; the first: bot-token"), "{second:?}");
    let several = [("SLACK_SIGNING_SECRET", "a,b,hidden"), ("SLACK_BOT_TOKEN", "xoxb hidden")];
    let wrong = annalist_with(&args, &several).await;
    assert!(
        wrong.stderr.contains("more than two secrets")
            && wrong.stdout.contains("SLACK_BOT_TOKEN cannot be used")
    );
    assert!(!format!("{wrong:?}").contains("hidden"), "{wrong:?}");
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "{\n  \"T1\": \"xoxb-hidden\",\n  \"T2\" \"xoxb-hidden\"\n}\n").unwrap();
    let file = ("SLACK_BOT_TOKENS_FILE", tokens.path().to_str().unwrap());
    let broken = annalist_with(&args, &[secret, file]).await;
    assert!(broken.stdout.contains("it is not valid JSON at line 3"), "{broken:?}");
    assert!(!format!("{broken:?}").contains("hidden"), "{broken:?}");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0, "something was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_found() {
    let slack = FakeSlack::start().await;
    let folder = tempfile::tempdir().unwrap();
    let up = up(folder.path(), &slack).await;
    up.process.stop().await;
    let file = folder.path().join(DATABASE_FILE);
    let database = Connection::open(&file).unwrap();
    let insert = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
        INSERT INTO items (item_id, timestamp, attributes) SELECT 'spare#' || x, '1', '{}' FROM n";
    database.execute_batch(insert).unwrap();
    // Index entries without their rows, as after a torn page.
    database
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'jobs_order')
             WHERE name = 'items_key'",
        )
        .unwrap();
    database.close().unwrap();
    let data = folder.path().to_str().unwrap();
    let outcome = annalist_with(&["doctor", "--data", data, "--slack-api-url", &slack.url()], &[]).await;
    let found = findings(&outcome).join("\n");
    assert!(found.contains("finding  database        damaged: "), "{outcome:?}");
}
