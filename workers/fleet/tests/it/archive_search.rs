//! Answers from the archive's own search.

use std::sync::Arc;

use fleet::archive_search::ArchiveSearch;
use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::changes::Changes;
use ports::clock::{ManualClock, TimestampMs};
use processor::{Answer, NamedId, Processor, Prompt};
use rules::visibility::VisibilityEvidence;
use rules::{history, public_mark};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::event;
use testkit::deliveries::delivery;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::channel_indexer::ChannelIndexer;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};
use workers::store::store_history;

/// A question in a public channel of a workspace.
fn question(team: &str, query: &str) -> Prompt {
    let named = |id: &str| NamedId { id: id.into(), name: None };
    Prompt {
        id: "1".into(),
        team_id: team.into(),
        channel: named("C0"),
        thread_ts: "1700000100.000100".into(),
        asker: named("U1"),
        now: "2026-11-24T00:00:00Z".into(),
        raw: query.into(),
        is_mention: true,
        ..Prompt::default()
    }
}

/// Makes a channel known to be public now.
async fn open(archive: &MemoryArchive, team: &TeamId, channel: &ChannelId) {
    archive.write(&public_mark::opening(team, channel)).await.unwrap();
    note(archive, VisibilityEvidence::change(team, channel, false, &ts("1700003600.000000"))).await;
}

async fn note(archive: &MemoryArchive, evidence: VisibilityEvidence) {
    let row = archive.item(&evidence.key());
    archive.write(&evidence.update(row.as_ref()).unwrap()).await.unwrap();
}

fn ts(text: &str) -> Ts {
    Ts::parse(text).unwrap()
}

async fn write(archive: &MemoryArchive, team: &TeamId, channel: &ChannelId, ts: &str, text: &str) {
    let message = to_raw_value(&event::message(ts, "U1", text)).unwrap();
    for stored in store_history(archive, &[history::read(team, channel, &message).unwrap()]).await {
        stored.unwrap();
    }
}

#[tokio::test]
async fn a_public_message_is_found_behind_many_that_may_not_be_shown() {
    let archive = Arc::new(MemoryArchive::new());
    let [channel, unmarked] = ["C1", "C2"].map(|channel| ChannelId::parse(channel).unwrap());
    let team = TeamId::parse("T1").unwrap();
    archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
    open(&archive, &team, &channel).await;
    write(&archive, &team, &channel, "1700000000.000100", "an old deploy").await;
    for second in 1..=60 {
        write(&archive, &team, &unmarked, &format!("17000000{second:02}.000100"), "deploy").await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (rows, changes) = (archive.clone(), archive as Arc<dyn Changes>);
    let search = ArchiveSearch::new(rows, changes, folder.path().join("index.db"));
    let answer = search.answer(&question("T1", "search deploy")).await.unwrap();
    assert!(matches!(&answer, Answer::Text(text) if text.ends_with("an old deploy")), "{answer:?}");
}

#[tokio::test]
async fn a_public_message_of_another_workspace_is_not_shown() {
    let archive = Arc::new(MemoryArchive::new());
    for (team, text) in [("T1", "deploy of ours"), ("T2", "deploy of theirs")] {
        let (team, channel) = (TeamId::parse(team).unwrap(), ChannelId::parse(&format!("C{team}")).unwrap());
        archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        open(&archive, &team, &channel).await;
        write(&archive, &team, &channel, "1700000000.000100", text).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (rows, changes) = (archive.clone(), archive as Arc<dyn Changes>);
    let search = ArchiveSearch::new(rows, changes, folder.path().join("index.db"));
    for (team, query, expected) in [
        ("T1", "search deploy", Some("ours")),
        ("T2", "search deploy", Some("theirs")),
        ("T1", "search theirs", None),
        ("T1", "search -ours", None),
    ] {
        let Answer::Text(answer) = search.answer(&question(team, query)).await.unwrap() else {
            panic!("{query}: no answer")
        };
        match expected {
            Some(expected) => {
                assert_eq!(answer.lines().count(), 1, "{answer}");
                assert!(answer.ends_with(&format!("deploy of {expected}")), "{answer}");
            }
            None => assert_eq!(answer, "Nothing was found in public channels.", "{query}"),
        }
    }
}

#[tokio::test]
async fn what_is_not_known_to_be_public_now_is_not_shown() {
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let change = |is_private, at: &str| VisibilityEvidence::change(&team, &channel, is_private, &ts(at));
    let listed = |is_private, at: &str| VisibilityEvidence::object(&team, &channel, is_private, &ts(at));
    let nothing = "Nothing was found in public channels.";
    for (case, evidence, expected) in [
        ("only marked", vec![], nothing),
        ("public in the hour", vec![listed(false, "1699999300.000000")], "deploy"),
        ("public before the message", vec![change(false, "1699990000.000000")], nothing),
        ("converted", vec![listed(false, "1700000900.000000"), change(true, "1700000901.000000")], nothing),
        (
            "listed as private",
            vec![change(false, "1700000900.000000"), listed(true, "1700000950.000000")],
            nothing,
        ),
        (
            "public again",
            vec![change(true, "1700000900.000000"), listed(false, "1700000950.000000")],
            "deploy",
        ),
    ] {
        let archive = Arc::new(MemoryArchive::new());
        archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        archive.write(&public_mark::opening(&team, &channel)).await.unwrap();
        write(&archive, &team, &channel, "1700000000.000100", "deploy").await;
        for evidence in evidence {
            note(&archive, evidence).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let (rows, changes) = (archive.clone(), archive as Arc<dyn Changes>);
        let search = ArchiveSearch::new(rows, changes, folder.path().join("index.db"));
        let answer = search.answer(&question("T1", "search deploy")).await.unwrap();
        assert!(matches!(&answer, Answer::Text(text) if text.ends_with(expected)), "{case}: {answer:?}");
    }
}

#[tokio::test]
async fn a_channel_whose_conversion_was_lost_is_not_quoted_once_anything_shows_it_to_be_private() {
    const LATER: &str = "1700000300.000000";
    let private = |event: Value| event::with_fields(event, [("channel_type", "group".into())]);
    let renamed = |kind: &str, is_private: Value| json!({ "type": kind, "channel": { "id": "C1", "name": "plan", "is_private": is_private }, "event_ts": LATER });
    let message = event::posted("C1", &event::message(LATER, "U2", "in private"));
    let edited = event::changed(
        "C1",
        &event::message("1700000000.000100", "U1", "deploy"),
        &event::edited(&event::message("1700000000.000100", "U1", "deploy"), LATER, "deploy again"),
        LATER,
    );
    let conversion = event::message(LATER, "U2", "has made this channel private");
    let conversion = event::subtyped(conversion, "channel_convert_to_private", json!({}));
    let reaction = event::reaction_added("C1", "1700000000.000100", "U2", "eyes", LATER);
    let joined = json!({ "type": "member_joined_channel", "channel": "C1", "channel_type": "G", "user": "U0ANNALIST", "event_ts": LATER });
    for (what, to_writer, to_indexer, in_history) in [
        ("nothing", None, None, None),
        ("a message", Some(private(message)), None, None),
        ("an edit", Some(private(edited)), None, None),
        ("a reaction", Some(private(reaction)), None, None),
        ("a conversion without a type", Some(event::posted("C1", &conversion)), None, None),
        ("a renaming of a group", None, Some(renamed("group_rename", Value::Null)), None),
        ("a renaming with an object", None, Some(renamed("channel_rename", true.into())), None),
        (
            "a group that is archived",
            None,
            Some(json!({ "type": "group_archive", "channel": "C1", "event_ts": LATER })),
            None,
        ),
        ("the app's own join", None, Some(joined), None),
        ("a conversion in history", None, None, Some(conversion)),
    ] {
        let archive = Arc::new(MemoryArchive::new());
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_400_000));
        let writer = MessageWriter::new(archive.clone(), Arc::new(MemoryQueue::new(clock)));
        let indexer = ChannelIndexer::new(archive.clone(), None);
        let public = event::posted("C1", &event::message("1700000000.000100", "U1", "deploy"));
        for (worker, event) in [
            (&writer as &dyn Worker, Some(public)),
            (&writer, to_writer),
            (&indexer as &dyn Worker, to_indexer),
        ] {
            if let Some(event) = event {
                let job = delivery(&event::envelope("T1", "Ev1", &event));
                assert_eq!(worker.handle(&[job]).await, [JobOutcome::Done], "{what}");
            }
        }
        let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
        if let Some(message) = in_history {
            let message = to_raw_value(&message).unwrap();
            for stored in store_history(&*archive, &[history::read(&team, &channel, &message).unwrap()]).await
            {
                stored.unwrap();
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let (rows, changes) = (archive.clone(), archive as Arc<dyn Changes>);
        let search = ArchiveSearch::new(rows, changes, folder.path().join("index.db"));
        let answer = search.answer(&question("T1", "search deploy")).await.unwrap();
        let is_shown = matches!(&answer, Answer::Text(text) if text.contains("deploy"));
        assert_eq!(is_shown, what == "nothing", "{what}: {answer:?}");
    }
}
