use std::time::Duration;

use bytes::Bytes;
use ports::claims::{Claim, ClaimAnswer, ClaimContext, ClaimKey, ClaimMode, ClaimOwner};
use ports::files::FileKey;
use ports::queue::job::{encode_event, encode_job};
use ports::queue::{DedupId, GroupId, Outgoing, QueueName};
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, Ts, UserId};

use super::*;
use crate::fixture::{CliFixture, output, parsed};

/// Runs the command and returns its output.
async fn run_erase(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<String> {
    let args = EraseArgs { backend: fixture.data(), ..parsed(arguments).unwrap() };
    output(async |out| run(&fixture.backend, fixture.clock(), &args, out).await).await
}

async fn as_json(fixture: &CliFixture, arguments: &[&str]) -> Value {
    let line = run_erase(fixture, &[arguments, &["--json"]].concat()).await.unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    serde_json::from_str(&line).unwrap()
}

async fn erase_error(fixture: &CliFixture, arguments: &[&str]) -> String {
    run_erase(fixture, arguments).await.unwrap_err().to_string()
}

#[test]
fn exactly_one_scope_is_required_and_a_message_takes_two_words_or_a_link() {
    let parsed = parsed::<EraseArgs>;
    assert!(parsed(&["--user", "U1", "--yes", "--compact"]).is_ok());
    assert_eq!(parsed(&["--message", "#a", "1.000000", "--yes"]).unwrap().message.unwrap().len(), 2);
    assert_eq!(parsed(&["--channel", "https://a.slack.com/archives/C1"]).unwrap().channel.unwrap(), "C1");
    assert_eq!(parsed(&["--replay"]).unwrap().replay, Some(None));
    assert_eq!(parsed(&["--replay", "a/b"]).unwrap().replay, Some(Some("a/b".into())));
    for wrong in [&[][..], &["--yes"], &["--user", "U1", "--channel", "C1"], &["--message", "a", "b", "c"]] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_dry_run_prints_counts_and_changes_nothing() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    fixture.edit("T1", "C1", "1700000000.000100", "1700000009.000000", "still mine").await;
    fixture.person("T1", "U1", "ana").await;
    let output = run_erase(&fixture, &["--user", "@ana"]).await.unwrap();
    for expected in [
        "user#U1 in T1, before 2026-",
        "1 message, 1 earlier version, 1 person",
        "in names and topics that this person gave to channels",
        "Nothing was changed: --yes",
    ] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    let line = as_json(&fixture, &["--user", "@ana"]).await;
    let expected = json!({ "scope": "user#U1", "dry_run": true, "messages": 1, "revisions": 1, "files": 0, "unnamed_files": 0, "bytes": 0,
        "users": 1, "reports": 0, "quarantined": 0, "jobs": 0, "until": "1795178096.000000" });
    assert_eq!(line, expected);
    let team = TeamId::parse("T1").unwrap();
    assert!(read_facts(fixture.archive(), [&team]).await.unwrap().is_empty());
    assert!(!fixture.data().data.data.join(FILE).exists());
}

#[tokio::test]
async fn an_erasure_is_recorded_and_can_be_repeated() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let output = run_erase(&fixture, &["--message", "C1", "p1700000000000100", "--yes"]).await.unwrap();
    assert!(
        output.starts_with("Erased for good: 1 message. It stays in backups") && output.lines().count() == 1,
        "{output}"
    );
    let list = std::fs::read_to_string(fixture.data().data.data.join(FILE)).unwrap();
    let line = json!({ "team": "T1", "scope": "message#C1#1700000000.000100", "until": "1795178096.000000" });
    assert_eq!(serde_json::from_str::<Value>(&list).unwrap(), line);
    let again = as_json(&fixture, &["--message", "C1", "1700000000.000100", "--yes"]).await;
    assert_eq!((&again["messages"], &again["dry_run"]), (&json!(0), &json!(false)));
    let replayed = as_json(&fixture, &["--replay", "--yes"]).await;
    assert_eq!((&replayed["scope"], &replayed["messages"]), (&json!("replay"), &json!(0)));
    let link = "https://example.slack.com/archives/C1/p1700000000000100";
    assert_eq!(as_json(&fixture, &["--message", link]).await["scope"], "message#C1#1700000000.000100");
}

#[tokio::test]
async fn erasing_a_person_removes_claims_about_them() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let about = ClaimContext { user_id: UserId::parse("U1").ok(), ..ClaimContext::default() };
    let (lease, ttl) = (Duration::from_secs(30), Duration::from_secs(3600));
    let key = ClaimKey::for_file(&FileId::parse("F1").unwrap(), &Ts::parse("1.000000").unwrap());
    let claim = Claim { key, owner: ClaimOwner::new("one", 1), about, lease, ttl };
    let claims = fixture.backend.claims();
    claims.claim(&claim, ClaimMode::IfFree).await.unwrap();
    claims.complete(&claim).await.unwrap();
    for (arguments, expected) in
        [(&["--user", "U1"][..], ClaimAnswer::Completed), (&["--user", "U1", "--yes"], ClaimAnswer::Claimed)]
    {
        run_erase(&fixture, arguments).await.unwrap();
        assert_eq!(claims.claim(&claim, ClaimMode::IfFree).await.unwrap(), expected, "{arguments:?}");
    }
}

#[tokio::test]
async fn an_unknown_name_is_a_one_line_error_with_similar_names() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    fixture.channel("T1", "C1", "1.000000", "general").await;
    fixture.person("T1", "U2", "barbara").await;
    fixture.person("T1", "U3", "barbara").await;
    for (arguments, expected) in [
        (["--user", "barbra"], "did you mean barbara?"),
        (["--user", "@barbara"], "several people are called @barbara, U2, U3: name one by their id"),
        (["--user", "U9"], "no person is called U9"),
        (["--channel", "generel"], "did you mean #general?"),
        (["--message", "C1"], "--message takes a channel and a timestamp"),
        (["--replay", "/nowhere/erasures.jsonl"], "cannot read /nowhere/erasures.jsonl"),
        (["--replay", "/dev/zero"], "cannot read /dev/zero: it is not a regular file"),
        (["--replay", "/"], "cannot read /: it is not a regular file"),
    ] {
        let output = erase_error(&fixture, &arguments).await;
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
    let output = erase_error(&fixture, &["--message", "C1", "1700000000.000200"]).await;
    assert!(output.contains("no message 1700000000.000200"), "{output}");
    // A person without a profile can still have messages.
    assert_eq!(as_json(&fixture, &["--user", "U1"]).await["messages"], 1);
    let other = erase_error(&fixture, &["--user", "U1", "--team", "T9"]).await;
    assert!(other.contains("no workspace T9"), "{other}");
}

#[tokio::test]
async fn a_replay_of_an_empty_list_prints_only_a_notice_and_a_missing_list_is_an_error() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    for arguments in [&["--replay"][..], &["--replay", "--yes"]] {
        let error = erase_error(&fixture, arguments).await;
        assert!(error.contains("there is no list") && error.contains("--replay FILE"), "{error}");
    }
    std::fs::write(fixture.data().data.data.join(FILE), "").unwrap();
    for arguments in [&["--replay"][..], &["--replay", "--yes"]] {
        let output = run_erase(&fixture, arguments).await.unwrap();
        assert_eq!(output, "Nothing was erased before: there is nothing to erase again.\n");
    }
}

#[tokio::test]
async fn a_replay_erases_every_readable_line_and_names_the_others() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let list = fixture.data().data.data.join("other.jsonl");
    let name = list.to_str().unwrap();
    let line = r#"{"team":"T1","scope":"user#U1","until":"1795178096.000000"}"#;
    let cut = r#"{"team":"T1","sc"#;
    // The last line may lack its line break.
    std::fs::write(&list, line).unwrap();
    assert_eq!(as_json(&fixture, &["--replay", name]).await["messages"], 1);
    for (text, unreadable) in [
        (format!("{line}\n\n{cut}"), "line 3:"),
        (format!("{cut}\n{line}\nnonsense\n"), "lines 1, 3:"),
        (cut.to_owned(), "line 1:"),
    ] {
        fixture.post("T1", "C1", "1700000000.000200", "again").await;
        std::fs::write(&list, &text).unwrap();
        let args = EraseArgs { backend: fixture.data(), ..parsed(&["--replay", name]).unwrap() };
        let mut printed = Vec::new();
        let error = run(&fixture.backend, fixture.clock(), &args, &mut printed).await.unwrap_err();
        assert!(error.to_string().contains(unreadable), "{error}");
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(printed.contains("user#U1 in T1"), text.contains("user#U1"), "{printed}");
    }
}

/// Stores bytes under a key.
async fn store_bytes(fixture: &CliFixture, key: &str) {
    let files = fixture.backend.files();
    let mut writer = files.create(&FileKey::parse(key).unwrap()).await.unwrap();
    writer.write(Bytes::from_static(b"unnamed")).await.unwrap();
    writer.publish().await.unwrap();
}

#[tokio::test]
async fn an_erasure_is_a_line_of_its_own_after_a_line_that_a_full_disk_has_cut() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let list = fixture.data().data.data.join(FILE);
    let line = r#"{"team":"T1","scope":"message#C1#1700000000.000100","until":"1795178096.000000"}"#;
    for (before, after) in [
        ("", format!("{line}\n")),
        (r#"{"team":"T1","sc"#, format!("{{\"team\":\"T1\",\"sc\n{line}\n")),
        ("{}\n", format!("{{}}\n{line}\n")),
    ] {
        std::fs::write(&list, before).unwrap();
        run_erase(&fixture, &["--message", "C1", "1700000000.000100", "--yes"]).await.unwrap();
        assert_eq!(std::fs::read_to_string(&list).unwrap(), after);
    }
}

#[tokio::test]
async fn bytes_that_no_row_names_are_erased_unless_a_job_on_a_queue_stores_them() {
    let fixture = CliFixture::open().await;
    fixture.post("T1", "C1", "1700000000.000100", "mine").await;
    let job = |file: &str| FileJob {
        team: TeamId::parse("T1").unwrap(),
        share: Share {
            channel: ChannelId::parse("C1").unwrap(),
            ts: Ts::parse("1700000000.000200").unwrap(),
        },
        user: UserId::parse("U2").ok(),
        object: FileObject::read(&json!({ "id": file })).unwrap(),
        refresh: false,
        version: None,
    };
    let queued = job("F3");
    let image = json!({ "team": "T1", "user": "U2", "url": "https://a" });
    let image = Outgoing { body: encode_job("image", &image), ..job("F4").outgoing() };
    for sent in fixture.backend.queue().send(vec![queued.outgoing(), image]).await {
        sent.unwrap();
    }
    let picture = FileKey::image(&queued.team, "https://a");
    let kept = [
        "slack/T1/C1/1700000000.000200/F3",
        queued.version_key().as_str(),
        picture.as_str(),
        "slack/T2/C1/1700000000.000100/F1",
        "slack/notes.txt",
    ]
    .map(str::to_owned);
    let erased = [
        "slack/T1/C1/1700000000.000100/F1",
        "slack/T1/C7/1700000000.000100/F1",
        "slack/T1/images/00112233445566778899aabbccddeeff",
    ]
    .map(str::to_owned);
    for key in kept.iter().chain(&erased) {
        store_bytes(&fixture, key).await;
    }
    let files = fixture.data().data.data.join("files");
    let planned = as_json(&fixture, &["--user", "U1"]).await;
    assert_eq!((&planned["unnamed_files"], &planned["bytes"]), (&json!(3), &json!(21)));
    assert!(erased.iter().all(|key| files.join(key).exists()));
    let output = run_erase(&fixture, &["--user", "U1", "--yes"]).await.unwrap();
    assert!(output.contains("3 files that no row names, 21 B of files and pictures"), "{output}");
    assert!(erased.iter().all(|key| !files.join(key).exists()));
    assert!(kept.iter().all(|key| files.join(key).exists()));
}

#[tokio::test]
async fn what_is_there_is_erased_whatever_its_time_and_is_erased_again_after_a_restore() {
    let fixture = CliFixture::open().await;
    // The clock of this machine is at 1795178096.
    let (stored, queued, later) = ("1795178296.000100", "1795178396.000100", "1795178496.000100");
    fixture.post("T1", "C1", stored, "of the next minutes").await;
    let message = json!({ "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "text": "queued", "ts": queued });
    let body = json!({ "type": "event_callback", "team_id": "T1", "event": message }).to_string();
    let job = Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&["T1", "C1"]),
        dedup: DedupId::from_parts(&[b"1"]),
        body: encode_event(&body),
    };
    fixture.backend.queue().send(vec![job]).await[0].as_ref().unwrap();
    let planned = as_json(&fixture, &["--user", "U1"]).await;
    assert_eq!((&planned["messages"], &planned["jobs"]), (&json!(1), &json!(1)), "{planned}");
    let done = as_json(&fixture, &["--user", "U1", "--yes"]).await;
    assert_eq!((&done["messages"], &done["jobs"]), (&json!(1), &json!(1)), "{done}");
    let list = std::fs::read_to_string(fixture.data().data.data.join(FILE)).unwrap();
    assert!(list.lines().count() == 3 && list.contains(stored) && list.contains(queued), "{list}");
    // A backup from before it has them again.
    let restored = CliFixture::open().await;
    for ts in [stored, queued, later] {
        restored.post("T1", "C1", ts, "again").await;
    }
    let file = restored.data().data.data.join("other.jsonl");
    std::fs::write(&file, list).unwrap();
    let replayed = as_json(&restored, &["--replay", file.to_str().unwrap(), "--yes"]).await;
    assert_eq!(replayed["messages"], 2, "what was written later is kept: {replayed}");
}
