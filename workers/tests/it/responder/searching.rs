//! Answers from the archive's own search.

use std::sync::Arc;

use ports::archive::{ArchiveExt, ItemKey, Update};
use ports::changes::Changes;
use processor::{Answer, Named, Processor, Prompt, PromptFacts};
use rules::{history, public_mark};
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId};
use testkit::corpus::event;
use testkit::memory::archive::MemoryArchive;
use workers::responder::archive_search::ArchiveSearch;
use workers::store::store_history;

/// A question in a public channel of a workspace.
fn question(team: &str, asked: &str) -> Prompt {
    let named = |id: &str| Named { id: id.into(), name: None };
    let facts = PromptFacts {
        id: "1".into(),
        team_id: team.into(),
        channel: named("C0"),
        thread_ts: "1700000100.000100".into(),
        asker: named("U1"),
        now: "2026-11-24T00:00:00Z".into(),
    };
    let mut prompt = Prompt::new(facts);
    prompt.raw = asked.into();
    prompt
}

#[tokio::test]
async fn what_is_public_in_another_workspace_is_not_shown() {
    let archive = Arc::new(MemoryArchive::new());
    for (team, text) in [("T1", "deploy of ours"), ("T2", "deploy of theirs")] {
        let (team, channel) = (TeamId::parse(team).unwrap(), ChannelId::parse(&format!("C{team}")).unwrap());
        archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        archive.write(&public_mark::opening(&team, &channel)).await.unwrap();
        let message = to_raw_value(&event::message("1700000000.000100", "U1", text)).unwrap();
        for stored in store_history(&*archive, &[history::read(&team, &channel, &message).unwrap()]).await {
            stored.unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (rows, changes) = (archive.clone(), archive as Arc<dyn Changes>);
    let search = ArchiveSearch::new(rows, changes, folder.path().join("index.db"));
    for (team, asked, expected) in [
        ("T1", "search deploy", Some("ours")),
        ("T2", "search deploy", Some("theirs")),
        ("T1", "search theirs", None),
        ("T1", "search -ours", None),
    ] {
        let Answer::Text(answer) = search.answer(&question(team, asked)).await.unwrap() else {
            panic!("{asked}: no answer")
        };
        match expected {
            Some(expected) => {
                assert_eq!(answer.lines().count(), 1, "{answer}");
                assert!(answer.ends_with(&format!("deploy of {expected}")), "{answer}");
            }
            None => assert_eq!(answer, "Nothing was found in public channels.", "{asked}"),
        }
    }
}
