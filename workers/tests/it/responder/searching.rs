//! Answers from the archive's own search.

use std::sync::Arc;

use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::changes::Changes;
use processor::{Answer, NamedId, Processor, Prompt};
use rules::{history, public_mark};
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::event;
use testkit::memory::archive::MemoryArchive;
use workers::responder::archive_search::ArchiveSearch;
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
    archive.write(&public_mark::opening(&team, &channel)).await.unwrap();
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
        archive.write(&public_mark::opening(&team, &channel)).await.unwrap();
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
