//! What was written to messages, on DynamoDB.
#![expect(clippy::unwrap_used, reason = "what a test unwraps is what it claims")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws::Aws;
use aws::provision::{Parts, provision};
use futures_util::future::join_all;
use ports::archive::{ArchiveExt, Attributes, ItemKey, Query, Update, key, query_all};
use ports::changes::{ChangeBatch, ChangeCursor, Changes};
use ports::clock::{Clock, ManualClock, SharedClock, SystemClock, TimestampMs};
use slack::ids::{ChannelId, TeamId};
use testkit::conformance::Pace;
use testkit::conformance::changes::{ChangesFixture, ChangesTraits, suite};
use testkit::faults::{CrashPoint, CrashingArchive};
use tests::harness::stack::Stack;

const WRITERS: u64 = 3;
const CHANNELS: [&str; 2] = ["C1", "C2"];

async fn provisioned() -> Aws {
    let aws = Stack::shared().aws().await;
    let parts = Parts { queues: &[], tables: true, bucket: true };
    provision(&aws, parts, false, &mut |_| {}).await.unwrap();
    aws
}

/// Stands on a whole hour of today.
fn clock() -> Arc<ManualClock> {
    ManualClock::starting_at(TimestampMs(SystemClock.now().seconds() / 3600 * 3_600_000))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_changes_of_dynamodb_conform() {
    let pace = Pace { at_once: 4, time_limit: Duration::from_secs(240) };
    suite(ChangesTraits { by_row: false, histories: (2, 60), pace }, || async {
        let (aws, clock) = (provisioned().await, clock());
        ChangesFixture {
            archive: aws.marking_archive(Arc::clone(&clock) as SharedClock),
            changes: aws.changes(Arc::clone(&clock) as SharedClock),
            clock,
            keep: Box::new(()),
        }
    })
    .await;
}

/// Reads what a pass names into a copy; where the next pass begins.
async fn pass(
    aws: &Aws,
    changes: &dyn Changes,
    copy: &mut BTreeSet<(String, String)>,
    mut cursor: Option<ChangeCursor>,
) -> Option<ChangeCursor> {
    loop {
        match changes.since(cursor.as_ref(), 3).await.unwrap() {
            ChangeBatch::Spans { spans, next } => {
                cursor = Some(next);
                if spans.is_empty() {
                    return cursor;
                }
                for span in spans {
                    let rows = query_all(&*aws.archive(), span.query()).await.unwrap();
                    copy.extend(rows.into_iter().map(|row| (row.key.item_id, row.key.timestamp)));
                }
            }
            other @ (ChangeBatch::Items { .. } | ChangeBatch::Rebuild) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_finds_what_writers_wrote_that_died() {
    let (aws, clock) = (provisioned().await, clock());
    let changes = aws.changes(Arc::clone(&clock) as SharedClock);
    let team = TeamId::parse("T1").unwrap();
    let channels = CHANNELS.map(|channel| ChannelId::parse(channel).unwrap());
    let archive = aws.archive();
    archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
    for channel in &channels {
        archive.write(&Update::mark(ItemKey::public_mark(&team, channel))).await.unwrap();
    }

    let mut copy = BTreeSet::new();
    let mut cursor = pass(&aws, &*changes, &mut copy, None).await;
    let (mut processes, mut hours) = (0, BTreeSet::new());
    for round in 0..6 {
        hours.insert(ports::changes::hour_of(clock.now()));
        let writers = (0..WRITERS).map(|writer| {
            // Each dies after some steps; what it did not write, the next one is handed again.
            let mut random = fastrand::Rng::with_seed(round * WRITERS + writer);
            let (aws, clock) = (aws.clone(), Arc::clone(&clock));
            let (team, channels) = (team.clone(), channels.clone());
            async move {
                let (mut left, mut lives) = (28_u64, 0);
                while left > 0 {
                    lives += 1;
                    let point = CrashPoint::after(random.u64(5..40));
                    let archive = aws.marking_archive(Arc::clone(&clock) as SharedClock);
                    let archive = CrashingArchive::new(archive, point);
                    while left > 0 {
                        let seconds = 1_700_000_000 + (left % 3) * 86_400 + round * 1000 + left;
                        let set: Attributes = [("text".to_owned(), "text".into())].into_iter().collect();
                        let channel = &channels[usize::from(left % 2 == 0)];
                        let message =
                            ItemKey::new(key::messages(&team, channel), format!("{seconds}.00000{writer}"));
                        if archive.write(&Update { set, ..Update::new(message) }).await.is_err() {
                            break;
                        }
                        left -= 1;
                    }
                }
                lives
            }
        });
        processes += join_all(writers).await.into_iter().sum::<usize>();
        cursor = pass(&aws, &*changes, &mut copy, cursor).await;
        clock.advance(Duration::from_secs(25 * 60));
    }
    clock.advance(Duration::from_secs(2 * 3600));
    pass(&aws, &*changes, &mut copy, cursor).await;

    let mut held = BTreeSet::new();
    for channel in &channels {
        let rows = query_all(&*archive, Query::partition(key::messages(&team, channel))).await.unwrap();
        held.extend(rows.into_iter().map(|row| (row.key.item_id, row.key.timestamp)));
    }
    assert_eq!(held.len(), 6 * 3 * 28);
    assert_eq!(copy, held);
    let marks = query_all(&*archive, Query::partition(key::change_marks(&team))).await.unwrap().len();
    let most = processes * hours.len() * channels.len() * 3;
    assert!((1..=most).contains(&marks), "{marks} marks instead of at most {most}");
    assert!(marks <= hours.len() * channels.len() * 3, "processes of one hour mark the same rows");
}
