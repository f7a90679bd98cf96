//! When processes read the facts of erasures.

use aws::ERASURE_REFRESH;
use ports::archive::{ArchiveExt, ErasureFact, ErasureScope, ItemKey, Update, WriteOutcome};
use ports::clock::{ManualClock, TimestampMs};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};
use tests::harness::proxy::Proxy;
use tests::harness::stack::Stack;

use super::fixture::{self, unguarded_update};

const TEAMS: usize = 5;

fn message(team: usize) -> Update {
    let key = ItemKey::new(format!("message#T{team}#C1"), "1700000000.000100");
    unguarded_update(key, json!({ "text": "text" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_read_again_only_after_one_was_written() {
    let aws = fixture::provisioned().await;
    let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
    let proxy = Proxy::in_front_of(Stack::shared().endpoint(), 0).await;
    let process = Stack::shared().aws_at(&proxy.endpoint, aws.names().clone()).await;
    let (writer, eraser) = (process.writing_archive(clock.clone()), aws.writing_archive(clock.clone()));
    let read = || {
        let requests = proxy.requests();
        ["GetItem", "Query"].map(|operation| requests.get(operation).copied().unwrap_or_default())
    };
    for _ in 0..10 {
        for team in 1..=TEAMS {
            assert_eq!(writer.write(&message(team)).await.unwrap(), WriteOutcome::Applied);
        }
        clock.advance(ERASURE_REFRESH);
    }
    assert_eq!(read(), [10, TEAMS], "a row each time, and the facts of each workspace once");

    let fact = ErasureFact {
        team: TeamId::parse("T1").unwrap(),
        scope: ErasureScope::Channel(ChannelId::parse("C1").unwrap()),
        until: Ts::parse("1700000001.000000").unwrap(),
    };
    eraser.write(&fact.update()).await.unwrap();
    clock.advance(ERASURE_REFRESH);
    let refused = writer.write(&message(1)).await.unwrap();
    assert!(matches!(&refused, WriteOutcome::Rejected(item) if item.is_erased()), "{refused:?}");
    assert_eq!(writer.write(&message(2)).await.unwrap(), WriteOutcome::Applied);
    let [_, queries] = read();
    assert_eq!(queries, TEAMS + 2);

    // The eraser was killed before it said so, and repeats the fact.
    assert!(matches!(eraser.write(&fact.update()).await.unwrap(), WriteOutcome::Rejected(_)));
    clock.advance(ERASURE_REFRESH);
    writer.write(&message(2)).await.unwrap();
    let [_, queries] = read();
    assert_eq!(queries, TEAMS + 3);
}
