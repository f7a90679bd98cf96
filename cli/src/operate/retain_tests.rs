use ports::archive::ItemKey;
use serde_json::Value;

use super::*;
use crate::fixture::{CliFixture, output};

/// Of the fixture's day: 2026-11-20.
const YOUNG: &str = "1795000000.000100";
const OLD: &str = "1780000000.000100";

#[derive(clap::Parser)]
struct ParsedRetainCommand {
    #[command(subcommand)]
    command: RetainCommand,
}

async fn retain(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let json: &[&str] = &["--json", "--data", "unused"];
    let ParsedRetainCommand { command } =
        clap::Parser::try_parse_from([&["annalist"], arguments, json].concat())?;
    let clock: SharedClock = fixture.ports.clock.clone();
    let printed = output(async |out| run(&fixture.backend, &clock, &command, out).await).await?;
    Ok(printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

async fn texts(fixture: &CliFixture) -> Vec<String> {
    let mut texts = Vec::new();
    for (channel, ts) in [("C1", OLD), ("C1", YOUNG), ("C2", OLD), ("C2", YOUNG)] {
        let row = fixture.archive().get(&ItemKey::new(format!("message#T1#{channel}"), ts)).await.unwrap();
        texts.extend(row.and_then(|row| row.text("text").map(str::to_owned)));
    }
    texts
}

async fn filled() -> CliFixture {
    let fixture = CliFixture::open().await;
    for (channel, ts, text) in [
        ("C1", OLD, "old in C1"),
        ("C1", YOUNG, "young in C1"),
        ("C2", OLD, "old in C2"),
        ("C2", YOUNG, "young in C2"),
    ] {
        fixture.post("T1", channel, ts, text).await;
    }
    fixture
}

#[tokio::test]
async fn a_preview_counts_what_the_run_removes_and_changes_nothing() {
    let fixture = filled().await;
    let file = json!({ "id": "F1", "name": "a.txt", "size": 4, "mode": "hosted", "filetype": "text",
        "url_private_download": "https://files.slack.com/a.txt" });
    fixture.share("T1", "C2", "1780000001.000100", &file).await;
    fixture.edit("T1", "C2", OLD, "1780000009.000000", "edited in C2").await;
    let preview = retain(&fixture, &["set", "--workspace", "90d"]).await.unwrap();
    let counts =
        |line: &Value| ["messages", "revisions", "files", "bytes", "held"].map(|name| line[name].clone());
    assert_eq!(counts(&preview[0]), [3, 1, 1, 0, 0].map(Value::from));
    assert_eq!((&preview[0]["dry_run"], &preview[0]["channel_id"]), (&json!(true), &json!(null)));
    assert_eq!(retain(&fixture, &["list"]).await.unwrap(), Vec::<Value>::new());
    assert_eq!(retain(&fixture, &["run"]).await.unwrap().last().unwrap()["messages"], 0);
    retain(&fixture, &["set", "--workspace", "90d", "--yes"]).await.unwrap();
    assert_eq!(texts(&fixture).await.len(), 4);
    let dry = retain(&fixture, &["run", "--dry-run"]).await.unwrap();
    let done = retain(&fixture, &["run"]).await.unwrap();
    for run in [&dry, &done] {
        assert_eq!(counts(run.last().unwrap()), counts(&preview[0]));
    }
    assert_eq!(texts(&fixture).await, ["young in C1", "young in C2"]);
    assert_eq!(
        counts(retain(&fixture, &["run"]).await.unwrap().last().unwrap()),
        [0, 0, 0, 0, 0].map(Value::from)
    );
}

#[tokio::test]
async fn a_rule_of_a_channel_replaces_that_of_the_workspace_and_brings_nothing_back() {
    let fixture = filled().await;
    retain(&fixture, &["set", "--workspace", "90d", "--yes"]).await.unwrap();
    retain(&fixture, &["set", "C2", "forever", "--yes"]).await.unwrap();
    retain(&fixture, &["run"]).await.unwrap();
    assert_eq!(texts(&fixture).await, ["young in C1", "old in C2", "young in C2"]);
    // A longer rule keeps what is there, and accepts nothing that has expired before.
    retain(&fixture, &["set", "C1", "1000d", "--yes"]).await.unwrap();
    fixture.post("T1", "C1", OLD, "old in C1").await;
    fixture.post("T1", "C1", "1780000002.000100", "late").await;
    retain(&fixture, &["run"]).await.unwrap();
    assert_eq!(texts(&fixture).await, ["young in C1", "old in C2", "young in C2"]);
    let late = fixture.archive().get(&ItemKey::new("message#T1#C1", "1780000002.000100")).await.unwrap();
    assert!(late.unwrap().has_flag("expired"));
    fixture.advance_by(Duration::from_secs(1));
    // Without its own rule, that of the workspace applies again.
    retain(&fixture, &["unset", "C2", "--yes"]).await.unwrap();
    assert_eq!(retain(&fixture, &["list"]).await.unwrap().len(), 2);
    assert_eq!(retain(&fixture, &["list", "--history"]).await.unwrap().len(), 4);
    retain(&fixture, &["run"]).await.unwrap();
    assert_eq!(texts(&fixture).await, ["young in C1", "young in C2"]);
}

#[tokio::test]
async fn what_a_hold_keeps_is_removed_after_its_release() {
    let fixture = filled().await;
    let team = TeamId::parse("T1").unwrap();
    let scope = ports::archive::erasure::HoldScope {
        channel: Some(ChannelId::parse("C1").unwrap()),
        ..ports::archive::erasure::HoldScope::default()
    };
    let hold = ports::archive::erasure::HoldFact {
        team,
        id: "3f9a12c4".into(),
        scope,
        reason: "case 12".into(),
        by: None,
        set_at: Ts::parse(YOUNG).unwrap(),
        release: None,
        is_swept: false,
    };
    fixture.archive().write(&hold.update()).await.unwrap();
    retain(&fixture, &["set", "--workspace", "90d", "--yes"]).await.unwrap();
    let done = retain(&fixture, &["run"]).await.unwrap();
    assert_eq!((&done[2]["messages"], &done[2]["held"]), (&json!(1), &json!(1)));
    assert_eq!(texts(&fixture).await, ["old in C1", "young in C1", "young in C2"]);
    let release = ports::archive::erasure::HoldRelease {
        at: Ts::parse("1795000001.000000").unwrap(),
        reason: "closed".into(),
        by: None,
    };
    fixture.archive().write(&hold.release(&release)).await.unwrap();
    assert_eq!(retain(&fixture, &["run"]).await.unwrap()[2]["messages"], 1);
    assert_eq!(texts(&fixture).await, ["young in C1", "young in C2"]);
}

#[tokio::test]
async fn a_wrong_rule_is_refused_and_nothing_is_stored() {
    let fixture = filled().await;
    for wrong in [
        &["set", "C1", "0d"][..],
        &["set", "C1", "90"],
        &["set", "C1", "forever1"],
        &["set", "--workspace", "C1", "90d"],
        &["set", "90d"],
    ] {
        let error = retain(&fixture, &[wrong, &["--yes"]].concat()).await.unwrap_err();
        assert!(error.is::<UsageError>(), "{wrong:?}: {error}");
    }
    let error = retain(&fixture, &["set", "C9", "90d", "--yes"]).await.unwrap_err();
    assert!(error.to_string().contains("no channel C9"), "{error}");
    assert_eq!(retain(&fixture, &["list", "--history"]).await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_second_run_waits_and_then_says_that_another_runs() {
    let fixture = filled().await;
    let clock: SharedClock = fixture.ports.clock.clone();
    let team = TeamId::parse("T1").unwrap();
    let other = Claimant::new(fixture.backend.claims(), clock, "other", ClaimSettings::default());
    let held = claim(&other, &team).await.unwrap();
    let second = retain(&fixture, &["run"]);
    tokio::time::pause();
    let error = second.await.unwrap_err().to_string();
    assert!(error.contains("another run removes what has expired in T1"), "{error}");
    tokio::time::resume();
    held.release().await;
    retain(&fixture, &["run"]).await.unwrap();
}
