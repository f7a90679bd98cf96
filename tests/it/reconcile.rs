//! `annalist reconcile` on the real binary, with a Slack on a socket.

use std::path::Path;

use ports::clock::{ManualClock, SharedClock, TimestampMs};
use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, channel};
use tests::harness::command::{CommandOutput, annalist_at, json_lines};
use tests::harness::environment::FolderWithSlack;

use crate::import::rows;

const TOKEN: &str = "xoxb-1";

/// A timestamp three days before the start of Slack's clock, plus this number of minutes.
fn ts(minute: i64) -> String {
    format!("{}.000100", START_S - 3 * 86_400 + minute * 60)
}

fn message_at(minute: i64) -> Value {
    event::message(&ts(minute), "U1", &format!("said in minute {minute}"))
}

/// A workspace with a channel of twenty messages and a thread, and a data folder with only its channels.
async fn workspace(data: &Path) -> FakeSlack {
    let slack = FakeSlack::start().await;
    let mut workspace = FakeWorkspace::new("T1");
    workspace.channels = vec![channel("C1", "general"), channel("C2", "quiet")];
    let history = workspace.channel_history("C1");
    (0..20).for_each(|minute| history.post(&message_at(minute)));
    (1..4).for_each(|second| history.post(&event::reply(&thread_ts(second), &ts(10), "U2", "a reply")));
    slack.set_workspace(TOKEN, workspace);
    let clock: SharedClock = ManualClock::starting_at(TimestampMs(0));
    embedded::Database::open(data, clock).unwrap().close().await;
    run(&slack, data, &["sync", "--no-join"]).await.succeeded();
    slack
}

fn thread_ts(second: i64) -> String {
    format!("{}.000100", START_S - 3 * 86_400 + 600 + second)
}

async fn run(slack: &FakeSlack, data: &Path, args: &[&str]) -> CommandOutput {
    annalist_at(&FolderWithSlack { data, slack, token: TOKEN }, args).await
}

/// The lines that `reconcile --json` prints, and its exit code.
async fn reconcile(slack: &FakeSlack, data: &Path, args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let outcome = run(slack, data, &[&["reconcile", "--json"], args].concat()).await;
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, outcome.code)
}

fn of_channel(id: &str, missing: u64, changed: u64, extra: u64, filled: u64) -> Value {
    json!({ "channel_id": id, "missing": missing, "changed": changed, "extra": extra, "filled": filled })
}

fn sum(missing: u64, changed: u64, extra: u64, filled: u64, reactions_removed: u64) -> Value {
    json!({ "missing": missing, "changed": changed, "extra": extra, "filled": filled,
        "reactions_removed": reactions_removed })
}

#[tokio::test]
async fn a_period_is_compared_and_filled_and_then_has_no_differences() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let slack = workspace(data).await;
    let before = rows(data);
    let (lines, code) = reconcile(&slack, data, &["--dry-run"]).await;
    let mut first = of_channel("C1", 23, 0, 0, 0);
    let named: Vec<String> = (0..11).map(ts).chain((1..4).map(thread_ts)).chain((11..20).map(ts)).collect();
    first["missing_ts"] = json!(named);
    let mut second = of_channel("C2", 0, 0, 0, 0);
    second["missing_ts"] = json!([]);
    assert_eq!((lines, code), (vec![first, second, sum(23, 0, 0, 0, 0)], Some(1)));
    assert_eq!(rows(data), before, "a dry run writes nothing");

    let (lines, code) = reconcile(&slack, data, &["general"]).await;
    assert_eq!((lines, code), (vec![of_channel("C1", 23, 0, 0, 23), sum(23, 0, 0, 23, 0)], Some(0)));
    slack.change_workspace(TOKEN, |workspace| workspace.volatile = true);
    for args in [&[][..], &["--all"], &["--from", "2023-11-01", "--to", "2023-11-20"]] {
        let (lines, code) = reconcile(&slack, data, args).await;
        assert_eq!((lines.last(), code), (Some(&sum(0, 0, 0, 0, 0)), Some(0)), "{args:?}");
    }
    let filled = json_lines(data, &["coverage", "general"]).await;
    assert_eq!(filled[0]["spans"][0]["source"], "history", "{filled:?}");
    let outcome = run(&slack, data, &["reconcile"]).await;
    let expected = "#general: missing 0, changed 0, extra 0\n#quiet: missing 0, changed 0, extra 0\n\
                    missing 0, changed 0, extra 0\n";
    assert_eq!((outcome.stdout.as_str(), outcome.code), (expected, Some(0)), "{outcome:?}");
}

#[tokio::test]
async fn missed_changes_are_filled_and_messages_missing_in_slack_stay_until_mark_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let slack = workspace(data).await;
    reconcile(&slack, data, &[]).await;
    slack.change_workspace(TOKEN, |workspace| {
        let history = workspace.channel_history("C1");
        history.post(&event::edited(&message_at(3), &ts(500), "edited unseen"));
        history.delete(&ts(4));
        history.delete(&ts(10));
        history.react(&ts(5), "U9", "tada");
    });
    let (lines, code) = reconcile(&slack, data, &["C1"]).await;
    assert_eq!((lines, code), (vec![of_channel("C1", 0, 3, 1, 3), sum(0, 3, 1, 3, 0)], Some(1)));
    let message = async |minute: i64| {
        let all = json_lines(data, &["messages", "general"]).await;
        all.into_iter().find(|message| message["ts"] == ts(minute)).unwrap()
    };
    assert_eq!(message(3).await["text"], "edited unseen");
    let revisions = json_lines(data, &["revisions", "general", &ts(3)]).await;
    assert_eq!((revisions.len(), &revisions[0]["text"]), (1, &json!("said in minute 3")));
    assert_eq!(message(5).await["reactions"], json!([{ "name": "tada", "users": ["U9"], "count": 1 }]));
    assert_eq!((&message(10).await["deleted"], &message(4).await["deleted"]), (&json!(true), &Value::Null));

    let outcome = run(&slack, data, &["reconcile", "C1"]).await;
    assert!(outcome.stdout.contains(&format!("\n  extra: {}\n", ts(4))), "{outcome:?}");
    assert!(outcome.code == Some(1) && outcome.stderr.contains("1 extra: --mark-deleted"), "{outcome:?}");
    let before = rows(data);
    let (_, code) = reconcile(&slack, data, &["C1", "--mark-deleted", "--dry-run"]).await;
    assert_eq!((rows(data), code), (before, Some(1)), "a dry run marks nothing");
    let (lines, code) = reconcile(&slack, data, &["C1", "--mark-deleted"]).await;
    assert_eq!((lines, code), (vec![of_channel("C1", 0, 0, 1, 0), sum(0, 0, 1, 0, 0)], Some(0)));
    let marked = message(4).await;
    assert_eq!((&marked["deleted"], &marked["text"]), (&json!(true), &json!("said in minute 4")));
    assert_eq!(reconcile(&slack, data, &[]).await.1, Some(0));
}

#[tokio::test]
async fn an_unreadable_channel_is_reported_and_wrong_usage_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let slack = workspace(data).await;
    slack.change_workspace(TOKEN, |workspace| {
        workspace.unreadable.insert("C2".to_owned(), "not_in_channel".to_owned());
    });
    let (lines, code) = reconcile(&slack, data, &[]).await;
    assert_eq!((lines.len(), code), (3, Some(1)), "{lines:?}");
    assert_eq!((&lines[1]["channel_id"], &lines[1]["state"]), (&json!("C2"), &json!("unreadable")));
    assert!(lines[1]["error"].as_str().unwrap().contains("not_in_channel"), "{lines:?}");
    assert_eq!(lines[2], sum(23, 0, 0, 23, 0));
    for (args, code, expected) in [
        (&["--from", "2023-11-10", "--to", "2023-11-10"][..], 2, "--from"),
        (&["--from", "tomorrow"], 2, "2026-11-20"),
        (&["#nowhere"], 1, "no channel"),
    ] {
        run(&slack, data, &[&["reconcile"], args].concat()).await.assert_refused(code, expected);
    }
    let no_token = annalist_at(data, &["reconcile"]).await;
    assert!(no_token.code == Some(1) && no_token.stderr.contains("SLACK_BOT_TOKEN"), "{no_token:?}");
}

#[tokio::test]
async fn a_backfilled_channel_has_no_differences() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let slack = workspace(data).await;
    let hide = |hidden: bool| {
        slack.change_workspace(TOKEN, |workspace| {
            let refused = hidden.then(|| ("C2".to_owned(), "not_in_channel".to_owned()));
            workspace.unreadable = refused.into_iter().collect();
        });
    };
    hide(true);
    let outcome = run(&slack, data, &["backfill", "--all"]).await;
    assert!(
        outcome.stdout.starts_with("#general: 23 messages, 23 new, 0 updated; 1 thread, 2 calls\n"),
        "{outcome:?}"
    );
    assert!(
        outcome.stdout.contains("\n#quiet: 0 messages") && outcome.stdout.contains("; unreadable: "),
        "{outcome:?}"
    );
    assert!(
        outcome.code == Some(1) && outcome.stderr.contains("1 channel was not read to the end"),
        "{outcome:?}"
    );
    hide(false);
    let outcome = run(&slack, data, &["backfill", "--all", "--json"]).await;
    let lines: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states: Vec<&Value> = lines.iter().map(|line| &line["state"]).collect();
    assert_eq!(
        (states, outcome.code),
        (vec![&json!("done"), &json!("done"), &Value::Null], Some(0)),
        "{lines:?}"
    );
    assert_eq!((&lines[2]["new"], &lines[2]["remaining"]), (&json!(0), &json!(0)), "{lines:?}");
    let (lines, code) = reconcile(&slack, data, &["--all"]).await;
    assert_eq!((lines.last(), code), (Some(&sum(0, 0, 0, 0, 0)), Some(0)));
    assert_eq!(run(&slack, data, &["backfill"]).await.code, Some(2));
}

#[tokio::test]
async fn a_night_is_compared_now_and_costs_no_call_again_in_the_same_night() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let slack = workspace(data).await;
    let (lines, code) = reconcile(&slack, data, &["--nightly"]).await;
    assert_eq!((lines.len(), code), (3, Some(0)), "{lines:?}");
    let of = |line: &Value, names: &[&str]| names.iter().map(|name| line[*name].clone()).collect::<Vec<_>>();
    let counts = ["missing", "changed", "extra", "filled"];
    assert_eq!(of(&lines[0], &counts), [json!(23), json!(0), json!(0), json!(23)], "{lines:?}");
    assert_eq!(of(&lines[0], &["channel_id", "state"]), [json!("C1"), json!("verified")]);
    assert_eq!(of(&lines[2], &["channels", "verified"]), [json!(2), json!(2)], "{lines:?}");
    let through = lines[0]["through"].clone();
    assert_eq!(json_lines(data, &["coverage", "general"]).await[0]["verified"]["through"], through);

    let (again, code) = reconcile(&slack, data, &["--nightly"]).await;
    assert_eq!(of(&again[2], &["missing", "calls", "verified"]), [json!(0), json!(0), json!(2)], "{again:?}");
    assert_eq!(code, Some(0));

    slack.change_workspace(TOKEN, |workspace| {
        workspace.unreadable.insert("C2".to_owned(), "not_in_channel".to_owned());
    });
    slack.set_clock(START_S + 2 * 86_400);
    let (lines, code) = reconcile(&slack, data, &["--nightly"]).await;
    assert_eq!(of(&lines[1], &["channel_id", "state"]), [json!("C2"), json!("unreadable")], "{lines:?}");
    assert_eq!((lines[2]["verified"].clone(), code), (json!(1), Some(1)), "{lines:?}");
}
