//! An archive of several workspaces, and searches in some of them.

use ports::archive::ItemKey;
use serde_json::json;
use slack::ids::TeamId;

use crate::fixture::{SearchFixture, message, request, team};

fn other() -> TeamId {
    TeamId::parse("T2").unwrap()
}

#[tokio::test]
async fn a_search_in_one_workspace_finds_nothing_of_another() {
    const QUERIES: [&str; 6] = ["word", "word -other", "-other", "\"a word\"", "wo*", "is:thread"];
    let fixture = SearchFixture::open().await;
    fixture.put(ItemKey::team(&other()), json!({})).await;
    for team in [team(), other()] {
        let mut reply = message("1700000001.000100", "a word");
        reply["thread_ts"] = "1700000000.000100".into();
        fixture.store_in(&team, "C1", &[message("1700000000.000100", "a word"), reply]).await;
        fixture.store_in(&team, &format!("C{team}"), &[message("1700000002.000100", "a word")]).await;
    }
    let index = fixture.caught_up().await;
    for query in QUERIES {
        for (teams, expected_locations) in [
            (vec![team()], &["T1/CT1", "T1/C1", "T1/C1"][..]),
            (vec![other()], &["T2/CT2", "T2/C1", "T2/C1"]),
            (vec![], &[]),
        ] {
            for is_ranked in [false, true] {
                let mut request = request(query);
                (request.teams, request.is_ranked) = (teams.clone(), is_ranked);
                let answer = fixture.answer(&index, request).await;
                let found =
                    answer.hits.iter().map(|hit| format!("{}/{}", hit.location.team, hit.location.channel));
                let mut found: Vec<String> = found.collect();
                found.sort_unstable_by(|a, b| b.cmp(a));
                let expected = if query == "is:thread" {
                    expected_locations.get(1..).unwrap_or_default()
                } else {
                    expected_locations
                };
                assert_eq!(found, expected, "{query} in {teams:?}");
            }
        }
    }
    let mut both = request("word after:2023-01-01");
    both.teams.push(other());
    // The two channels with the same id are one channel, which both workspaces share.
    assert_eq!(fixture.answer(&index, both).await.hits.len(), 4);
}
