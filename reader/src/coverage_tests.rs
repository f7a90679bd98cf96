use ports::archive::{ArchiveExt, ItemKey};
use rules::filled::{SpanSource, plan_limit_update};
use rules::gap::closing::GapState;
use rules::gap::coverage::{CoverageSource, HoleReason};
use rules::public_mark;
use serde_json::json;
use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::fixture::{at, channel_id, filled, message, set, team};

async fn coverage(archive: &MemoryArchive) -> ChannelCoverage {
    let coverage = TeamCoverage::read(archive, &team()).await.unwrap();
    coverage.channel_coverage(&channel_id("C1")).await.unwrap()
}

#[tokio::test]
async fn delivered_messages_are_live_coverage_and_the_time_before_them_is_a_hole() {
    let archive = MemoryArchive::new();
    archive.write(&public_mark::opening(&team(), &channel_id("C1"))).await.unwrap();
    for second in [50, 60] {
        message(&archive, second, &at(second)).await;
    }
    // A reaction to a message that is not stored.
    let key = ItemKey::message(&team(), &channel_id("C1"), &at(70));
    set(&archive, key, json!({ "ts": at(70) })).await;
    let ChannelCoverage { held, holes, last_message, limited_before, .. } = coverage(&archive).await;
    assert_eq!(held, [CoveredSpan { from: at(50), to: at(60), source: CoverageSource::Live }]);
    let before = (HoleReason::BeforeJoining, GapState::Missing, Some(at(50)));
    assert_eq!(
        holes.iter().map(|hole| (hole.reason, hole.state, hole.to.clone())).collect::<Vec<_>>(),
        [before]
    );
    assert_eq!((last_message, limited_before), (Some(at(60)), None));
}

#[tokio::test]
async fn messages_from_history_count_as_last_messages_but_not_as_events() {
    let archive = MemoryArchive::new();
    message(&archive, 10, &at(10)).await;
    for second in 20..90 {
        message(&archive, second, &rules::version::zero()).await;
    }
    filled(&archive, "C1", 20, 95).await;
    archive.write(&plan_limit_update(&team(), &channel_id("C1"), &at(5))).await.unwrap();
    let coverage = TeamCoverage::read(&archive, &team()).await.unwrap();
    assert_eq!(
        coverage.channels(),
        BTreeSet::from([&channel_id("C1")]),
        "its history was read, although it has no public mark"
    );
    let coverage = coverage.channel_coverage(&channel_id("C1")).await.unwrap();
    assert_eq!(coverage.last_message, Some(at(89)));
    assert_eq!(coverage.limited_before, Some(at(5)));
    let held: Vec<_> =
        coverage.held.iter().map(|span| (span.source, span.from.clone(), span.to.clone())).collect();
    let expected =
        [(CoverageSource::Live, at(10), at(10)), (CoverageSource::Read(SpanSource::History), at(20), at(95))];
    assert_eq!(held, expected);
    let reasons: Vec<_> = coverage.holes.iter().map(|hole| hole.reason.as_str()).collect();
    assert_eq!(reasons, ["plan_limit", "before_joining", "downtime"]);
}
