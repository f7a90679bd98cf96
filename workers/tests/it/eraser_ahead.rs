//! What an erasure finds beside the rows before its time: what is there although its time is later, and bytes
//! that no row names.

use std::collections::BTreeSet;

use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{ArchiveExt, ItemKey};
use ports::files::FileKey;
use serde_json::Value;
use slack::ids::Ts;
use testkit::corpus::{TEAM, event};
use workers::eraser::{ErasedAhead, Eraser, EraserCounts, EraserMode, unnamed};

use crate::eraser::{EraserFixture, SECRET, channel, fact, person, team};

/// The rows and jobs that are there are found first, as `annalist erase` does.
async fn erase_with_what_is_ahead(fixture: &EraserFixture, facts: &[ErasureFact]) -> EraserCounts {
    let ahead = ErasedAhead::find(&*fixture.archive, facts).await.unwrap();
    let all = [facts, &ahead.message_facts(facts)].concat();
    let eraser =
        Eraser::begin(&*fixture.archive, &fixture.files, all.clone(), EraserMode::Act).await.unwrap();
    let eraser = eraser.with_ahead(ahead);
    for fact in &all {
        fixture.archive.write(&fact.update()).await.unwrap();
    }
    let mut sum = EraserCounts::default();
    for part in eraser.parts().await.unwrap() {
        sum += eraser.run_part(&part).await.unwrap();
    }
    sum
}

#[tokio::test]
async fn what_is_there_is_erased_whatever_its_time_and_what_comes_later_is_kept() {
    let ahead = |second: u32| Ts::parse(&format!("176000{second:04}.000100")).unwrap();
    for scope in [person("U1"), ErasureScope::Channel(channel("C1"))] {
        let fixture = EraserFixture::filled().await;
        let said = event::message(ahead(1).as_str(), "U1", &format!("of tomorrow {SECRET}"));
        let edited = event::edited(&said, ahead(3).as_str(), &format!("still of tomorrow {SECRET}"));
        let before = [event::posted("C1", &said), event::changed("C1", &said, &edited, ahead(3).as_str())];
        fixture.store_events(&before).await;
        fixture.share("F9", SECRET, &[("C1", 2)]).await;
        let odd = event::message(ahead(2).as_str(), "U1", &format!("too far ahead {SECRET}"));
        fixture.quarantine(&event::posted("C1", &odd)).await;
        let facts = fact(scope.clone());
        erase_with_what_is_ahead(&fixture, &facts).await;
        // Slack delivers all of it again, with one more edit.
        let again = event::edited(&said, ahead(4).as_str(), &format!("edited after it {SECRET}"));
        fixture.store_events(&before).await;
        fixture.store_events(&[event::changed("C1", &edited, &again, ahead(4).as_str())]).await;
        fixture.store_events(&[event::posted("C1", &odd)]).await;
        let leaks = fixture.leaks();
        // What the other scope covers stays.
        let expected = |leak: &String| match scope {
            ErasureScope::User(_) => leak.contains("channel#") || leak.contains("channelindex#"),
            ErasureScope::Channel(_) | ErasureScope::Message(..) => {
                !leak.contains("#C1") && !leak.contains("quarantine#")
            }
        };
        assert!(leaks.iter().all(expected), "{scope:?}: {leaks:?}");
        for key in [ahead(1), ahead(2), Ts::parse("1760000000.000100").unwrap()] {
            assert!(
                fixture.row(&ItemKey::message(&team(), &channel("C1"), &key)).is_erased(),
                "{scope:?} {key}"
            );
        }
        let later = event::message(ahead(9).as_str(), "U1", "said later");
        fixture.store_events(&[event::posted("C1", &later)]).await;
        let row = fixture.row(&ItemKey::message(&team(), &channel("C1"), &ahead(9)));
        assert_eq!(row.text("text"), Some("said later"), "{scope:?}");
        if scope != person("U1") {
            let day = fixture.row(&ItemKey::members(&team(), &channel("C1"), "2025-10-09"));
            assert!(day.is_erased(), "{day:?}");
        }
    }
}

#[tokio::test]
async fn an_erasure_by_a_clock_that_is_far_behind_is_refused() {
    let fixture = EraserFixture::new();
    let events: Vec<Value> = (0..10_001)
        .map(|n| event::posted("C1", &event::message(&format!("17000{n:05}.000100"), "U1", "said")))
        .collect();
    fixture.store_events(&events).await;
    let until = Ts::parse("1500000000.000000").unwrap();
    let facts: Vec<ErasureFact> =
        fact(person("U1")).into_iter().map(|fact| ErasureFact { until: until.clone(), ..fact }).collect();
    let error = ErasedAhead::find(&*fixture.archive, &facts).await.unwrap_err().to_string();
    assert!(error.contains("2017-07-14") && error.contains("correct its clock"), "{error}");
}

#[tokio::test]
async fn bytes_that_no_row_names_are_found_and_those_that_a_row_names_are_not() {
    let fixture = EraserFixture::filled().await;
    let named: Vec<FileKey> = fixture.files.published().into_keys().collect();
    let without_row = [
        "slack/T0CORPUS/C1/1700000002.000100/F404",
        "slack/T0CORPUS/C1/1700000002.000100/F1.0011aabb",
        "slack/T0CORPUS/C9/1700000002.000100/F1",
        "slack/T0CORPUS/images/00112233445566778899aabbccddeeff",
    ]
    .map(|key| FileKey::parse(&key.replace("T0CORPUS", TEAM)).unwrap());
    let foreign = FileKey::parse("slack/notes.txt").unwrap();
    let all = named.iter().chain(&without_row).chain([&foreign]).cloned();
    let found = unnamed(&*fixture.archive, all).await.unwrap();
    assert!(named.len() >= 5, "{named:?}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), without_row.into_iter().collect());
}
