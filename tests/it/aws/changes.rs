//! Changes of messages, on DynamoDB.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws::Aws;
use futures_util::future::join_all;
use jiff::tz::TimeZone;
use ports::archive::{ArchiveExt, ItemKey, Query, Update, key, query_all};
use ports::clock::{Clock, ManualClock, SystemClock, TimestampMs};
use reader::search::query::SearchQuery;
use rules::history;
use search::follower;
use search::hits::{self, SearchRequest};
use search::index::SearchIndex;
use serde_json::json;
use serde_json::value::to_raw_value;
use slack::ids::{ChannelId, TeamId};
use testkit::conformance::SuitePace;
use testkit::conformance::changes::{ChangesFixture, ChangesTraits, suite};
use testkit::faults::{CrashPoint, FaultyArchive};
use tests::harness::stack::Stack;
use workers::store::store_history;

use super::TABLES_AND_BUCKET;

const WRITERS: u64 = 3;
const CHANNELS: [&str; 2] = ["C1", "C2"];

async fn provisioned() -> Aws {
    Stack::shared().provisioned(TABLES_AND_BUCKET).await
}

/// A clock set to the start of the current hour.
fn clock() -> Arc<ManualClock> {
    ManualClock::starting_at(TimestampMs(SystemClock.now().seconds() / 3600 * 3_600_000))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_changes_of_dynamodb_conform() {
    let pace = SuitePace { at_once: 4, time_limit: Duration::from_secs(240) };
    suite(ChangesTraits { by_row: false, histories: (2, 60), pace }, || async {
        let (aws, clock) = (provisioned().await, clock());
        ChangesFixture {
            archive: aws.writing_archive(clock.clone()),
            changes: aws.changes(clock.clone()),
            clock,
            keep: Box::new(()),
        }
    })
    .await;
}

/// The keys of the rows that a search finds; it reads each hit from the archive.
async fn found(aws: &Aws, index: &SearchIndex, team: &TeamId) -> BTreeSet<(String, String)> {
    let request = SearchRequest {
        query: SearchQuery::parse("written").unwrap(),
        teams: vec![team.clone()],
        zone: TimeZone::UTC,
        limit: usize::MAX,
        is_ranked: false,
        with_deleted: false,
        before: None,
        hidden: Arc::default(),
    };
    let answer = hits::search(&*aws.archive(), index, request).await.unwrap();
    answer.hits.into_iter().map(|hit| (hit.location.messages(), hit.ts.to_string())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_finds_the_rows_of_writers_that_crashed() {
    let (aws, clock) = (provisioned().await, clock());
    let changes = aws.changes(clock.clone());
    let team = TeamId::parse("T1").unwrap();
    let channels = CHANNELS.map(|channel| ChannelId::parse(channel).unwrap());
    let archive = aws.archive();
    archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
    for channel in &channels {
        archive.write(&Update::mark(ItemKey::public_mark(&team, channel))).await.unwrap();
    }

    let folder = tempfile::tempdir().unwrap();
    let index = SearchIndex::open(&folder.path().join("index.db")).await.unwrap();
    let follow = async || {
        follower::catch_up(&index, &*changes, &*archive, follower::BATCH_SIZE, |_| true).await.unwrap()
    };
    assert!(follow().await);
    let (mut processes, mut hours) = (0, BTreeSet::new());
    for round in 0..6 {
        hours.insert(ports::changes::hour_of(clock.now()));
        let writers = (0..WRITERS).map(|writer| {
            // Each crashes after some steps; the next one writes the messages that are left.
            let mut random = fastrand::Rng::with_seed(round * WRITERS + writer);
            let (aws, clock) = (aws.clone(), Arc::clone(&clock));
            let (team, channels) = (team.clone(), channels.clone());
            async move {
                let (mut left, mut lives) = (28_u64, 0);
                while left > 0 {
                    lives += 1;
                    let point = CrashPoint::after(random.u64(5..40));
                    let archive = aws.writing_archive(clock.clone());
                    let archive = FaultyArchive::with_crash_point(archive, point);
                    while left > 0 {
                        let seconds = 1_700_000_000 + (left % 3) * 86_400 + round * 1000 + left;
                        let ts = format!("{seconds}.00000{writer}");
                        let raw = json!({ "type": "message", "ts": ts, "user": "U1", "text": "was written" });
                        let channel = &channels[usize::from(left % 2 == 0)];
                        let raw = to_raw_value(&raw).unwrap();
                        let message = history::read(&team, channel, &raw).unwrap();
                        if store_history(&archive, &[message]).await.iter().any(Result::is_err) {
                            break;
                        }
                        left -= 1;
                    }
                }
                lives
            }
        });
        processes += join_all(writers).await.into_iter().sum::<usize>();
        assert!(follow().await);
        clock.advance(Duration::from_secs(25 * 60));
    }
    clock.advance(Duration::from_secs(2 * 3600));
    assert!(follow().await);

    let mut stored = BTreeSet::new();
    for channel in &channels {
        let rows = query_all(&*archive, Query::partition(key::messages(&team, channel))).await.unwrap();
        stored.extend(rows.into_iter().map(|row| (row.key.item_id, row.key.timestamp)));
    }
    assert_eq!(stored.len(), 6 * 3 * 28);
    assert_eq!(found(&aws, &index, &team).await, stored);
    assert_eq!(index.count().await.unwrap(), 6 * 3 * 28);
    let marks = query_all(&*archive, Query::partition(key::change_marks(&team))).await.unwrap().len();
    let most = processes * hours.len() * channels.len() * 3;
    assert!((1..=most).contains(&marks), "{marks} marks instead of at most {most}");
    assert!(marks <= hours.len() * channels.len() * 3, "processes of one hour mark the same rows");
}
