//! `annalist doctor` on AWS: each missing part is one line, and no resource is created.

use ports::clock::{Clock, SystemClock};
use testkit::fake_slack::{FakeSlack, FakeWorkspace};
use tests::harness::binaries::binaries;
use tests::harness::command::{CommandOutput, annalist_with};
use tests::harness::environment::AwsInstallation;
use tests::harness::process::SIGNING_SECRET;
use tokio::net::TcpListener;

async fn doctor(installation: &AwsInstallation, slack: &FakeSlack, listen: &str) -> CommandOutput {
    slack.set_clock(SystemClock.now().seconds());
    let mut variables = installation.environment();
    variables.extend([("SLACK_SIGNING_SECRET", SIGNING_SECRET), ("SLACK_BOT_TOKEN", "xoxb-1")]);
    annalist_with(&["doctor", "--listen", listen, "--slack-api-url", &slack.url()], &variables).await
}

fn findings(outcome: &CommandOutput) -> Vec<&str> {
    let lines = outcome.stdout.lines().filter(|line| line.starts_with("finding"));
    lines.filter_map(|line| line.split_whitespace().nth(1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_missing_part_is_a_finding_and_existing_parts_are_not() {
    let slack = FakeSlack::start().await;
    slack.set_workspace("xoxb-1", FakeWorkspace::with_size("T1", 1, 0));
    // Before Slack's clock is set: building the binaries takes longer than a clock may be off.
    binaries();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let whole = AwsInstallation::new().await;
    let well = doctor(&whole, &slack, &closed).await;
    assert_eq!(findings(&well), ["events"], "{well:?}");
    for expected in [
        "ok       archive         queue, archive and files can be used (--backend aws)",
        "skipped  ingest          nothing answers on ",
        "ok       backlog         events 0, channels 0, files 0",
    ] {
        assert!(well.stdout.contains(expected), "{expected:?} is not in {well:?}");
    }
    assert!(!well.stdout.contains("disk"), "{well:?}");

    for (name, value, expected) in [
        ("ANNALIST_BUCKET", Some("annalist-not-there"), &["files", "events"][..]),
        ("ANNALIST_PREFIX", Some("elsewhere"), &["queue", "events", "backlog"]),
        ("ANNALIST_BUCKET", None, &["archive"]),
        ("AWS_REGION", None, &["archive"]),
    ] {
        let outcome = doctor(&whole.with_variable(name, value), &slack, &closed).await;
        assert_eq!((outcome.code, findings(&outcome)), (Some(1), expected.to_vec()), "{name}: {outcome:?}");
    }
    let table = doctor(&whole.with_variable("ANNALIST_TABLE", Some("NotThere")), &slack, &closed).await;
    let found = findings(&table);
    assert!(
        found.starts_with(&["archive"]) && table.stdout.contains("annalist provision --dry-run"),
        "{table:?}"
    );
}
