//! What the closing of a day costs with many workspaces.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ArchiveExt, ItemKey};
use ports::clock::Clock;
use rules::figures::rollup::RollupDay;
use rules::public_mark;
use serde_json::json;
use slack::ids::{TeamId, Ts};
use testkit::faults::{CallFault, FaultSchedule, FaultyArchive, PortMethod};
use tokio::time::{Instant, timeout};
use workers::runtime::Worker;

use super::fixture::{DAY, StatisticianFixture, channel};

const WORKSPACES: usize = 30;
const CHANNELS: usize = 50;

/// About what DynamoDB takes.
const QUERY: Duration = Duration::from_millis(5);

/// Queries that each take their time.
#[derive(Default)]
struct SlowQueries(AtomicUsize);

#[async_trait]
impl FaultSchedule for SlowQueries {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        if method == PortMethod::Query {
            self.0.fetch_add(1, Ordering::Relaxed);
            drop(timeout(QUERY, pending::<()>()).await);
        }
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_of_many_workspaces_closes_with_one_query_for_each_channel_several_at_once() {
    let fixture = StatisticianFixture::new(1).await;
    let closing = RollupDay::closed_at(fixture.clock.now()).and_then(RollupDay::next).unwrap();
    let mut expected = 0;
    for workspace in 0..WORKSPACES {
        let team = TeamId::parse(&format!("T{workspace:04}")).unwrap();
        fixture.set(ItemKey::team(&team), json!({ "seen": true })).await;
        for number in 0..CHANNELS {
            let channel = channel(&format!("C{number:04}"));
            fixture.archive.write(&public_mark::opening(&team, &channel)).await.unwrap();
            if number % 10 == 0 {
                expected += 1;
                let ts = Ts::parse(&format!("{}.000100", closing.bound())).unwrap();
                fixture.set(ItemKey::message(&team, &channel, &ts), json!({ "text": "hello" })).await;
            }
        }
    }
    fixture.settle().await;
    fixture.clock.advance(Duration::from_secs(DAY.unsigned_abs()));

    let queries = Arc::new(SlowQueries::default());
    let archive = FaultyArchive::with_schedule(fixture.archive.clone(), queries.clone());
    let began = Instant::now();
    fixture.statistician_on(Arc::new(archive)).poll().await;
    let (count, took) = (queries.0.load(Ordering::Relaxed), began.elapsed());
    let due = fixture.rows("rollupdue#").len();
    assert_eq!(due, expected);
    let (channels, teams) = (WORKSPACES * CHANNELS + 3, WORKSPACES + 1);
    assert!(count <= channels + 4 * teams + 10, "{count} queries");
    assert!(took < Duration::from_secs(2), "{took:?} for {count} queries");
}
