//! Jobs beyond the day's limit of quarantine rows, and jobs that cannot be decoded.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ports::archive::{Archive, ArchiveExt, ItemKey, Update};
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::queue::job::encode_event;
use ports::queue::{Delivery, GroupId, MessageId, Queue, QueueName, Receipt};
use reader::gaps;
use serde_json::json;
use slack::ids::TeamId;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::quarantine::{self, Quarantined};
use workers::runtime::Ports;

/// Twenty minutes past noon.
const NOON: TimestampMs = TimestampMs(1_700_050_800_000);

struct QuarantineFixture {
    clock: Arc<ManualClock>,
    ports: Ports,
}

impl QuarantineFixture {
    /// Two workspaces, on a day that stores no whole jobs any more and has room for this number of outlines.
    async fn with_room_for(outlines: u64) -> Self {
        let clock = ManualClock::starting_at(NOON);
        let shared: SharedClock = clock.clone();
        let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new(Arc::clone(&shared)));
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::new());
        for team in ["T1", "T2"] {
            archive.write(&Update::mark(ItemKey::team(&TeamId::parse(team).unwrap()))).await.unwrap();
        }
        let (day, outlines) = (NOON.seconds() / 86_400, 10_000 - outlines);
        let full = Update {
            set: [("kept".to_owned(), format!("{day}/100000/0/{outlines}").into())].into_iter().collect(),
            ..Update::new(ItemKey::new("meta#quarantine", "kept"))
        };
        archive.write(&full).await.unwrap();
        Self { clock, ports: Ports { queue, archive, clock: shared } }
    }

    async fn put(&self, bodies: &[String]) {
        let jobs: Vec<Delivery> = bodies.iter().enumerate().map(|(n, body)| job(n, body)).collect();
        let reason = "Slack does not know user U9";
        let jobs: Vec<(&Delivery, &str)> = jobs.iter().map(|job| (job, reason)).collect();
        let results = quarantine::insert_all(&self.ports, QueueName::Events.into(), &jobs).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    async fn rows(&self) -> Vec<Quarantined> {
        quarantine::list(&*self.ports.archive).await.unwrap()
    }

    async fn count(&self) -> u64 {
        quarantine::count(&*self.ports.archive).await.unwrap()
    }

    /// `{from}-{to}` of a workspace's gaps, in seconds.
    async fn gaps(&self, team: &str) -> Vec<String> {
        let gaps = gaps::read(&*self.ports.archive, &TeamId::parse(team).unwrap()).await.unwrap();
        let second = |micros: i64| micros / 1_000_000;
        gaps.iter()
            .map(|gap| {
                assert_eq!((gap.reason.as_str(), &gap.channel), ("dropped", &None));
                format!("{}-{}", second(gap.from.micros()), second(gap.to.as_ref().unwrap().micros()))
            })
            .collect()
    }
}

fn job(number: usize, body: &str) -> Delivery {
    Delivery {
        message_id: MessageId(number.to_string()),
        group: GroupId::from_parts(&["T1", "C1"]),
        body: body.to_owned(),
        receive_count: 1,
        sent_at: NOON.plus(Duration::from_millis(number as u64)),
        receipt: Receipt(number.to_string()),
    }
}

fn message_job(team: &str, clock: &str) -> String {
    let event = json!({ "type": "message", "channel": "C1", "user": "U9", "text": "secret", "ts": clock, "event_ts": clock });
    encode_event(&json!({ "team_id": team, "event": event }).to_string())
}

#[tokio::test]
async fn jobs_beyond_the_outlines_of_a_day_become_one_row_and_gaps_of_their_hours() {
    let fixture = QuarantineFixture::with_room_for(1).await;
    let now = message_job("T1", "1700050800.000100");
    fixture.put(&[now.clone(), now.clone(), message_job("T1", "1700040000.000100")]).await;
    let rows = fixture.rows().await;
    // The key of the counting row is the beginning of its day.
    let [counted, outline] = &rows[..] else { panic!("{rows:?}") };
    assert!(outline.reason.contains("sha256"), "{outline:?}");
    assert!(counted.reason.starts_with("Slack does not know user: 2 more jobs of this day"), "{counted:?}");
    assert!(!counted.reason.contains("U9") && !counted.payload.contains("secret"), "{counted:?}");
    let times = [counted.first_seen, counted.last_seen].map(|seen| seen.0 - NOON.0);
    assert_eq!((times, fixture.count().await), ([1, 2], 3));
    let hours = ["1700038800-1700042400", "1700049600-1700053200"];
    assert_eq!(fixture.gaps("T1").await, hours);
    assert_eq!(fixture.gaps("T2").await, [""; 0], "the jobs are of the other workspace");

    // Redelivered jobs may be counted again, but add no row and no gap.
    fixture.put(&[now.clone(), now]).await;
    assert_eq!((fixture.rows().await.len(), fixture.count().await), (2, 5));
    assert_eq!(fixture.gaps("T1").await, hours);
    assert!(fixture.rows().await.iter().any(|row| row.reason.contains("user: 4 more jobs")));
}

#[tokio::test]
async fn concurrent_batches_are_all_counted_and_the_next_day_starts_at_zero() {
    let fixture = QuarantineFixture::with_room_for(0).await;
    let batch = [message_job("T1", "1700050800.000100"), encode_event("7")];
    join_all((0..8).map(|_| fixture.put(&batch))).await;
    assert_eq!((fixture.rows().await.len(), fixture.count().await), (1, 16));
    fixture.clock.advance(Duration::from_secs(24 * 3_600));
    fixture.put(&batch).await;
    assert_eq!(fixture.rows().await.len(), 3, "the new day has room for rows");
}

#[tokio::test]
async fn jobs_without_a_known_workspace_become_one_gap_in_each_workspace() {
    let fixture = QuarantineFixture::with_room_for(0).await;
    let made_up = (0..500).map(|n| message_job(&format!("T{n}X"), &format!("{n}.000100")));
    fixture.put(&made_up.chain([encode_event("7"), "no job".into()]).collect::<Vec<_>>()).await;
    let hour = ["1700049600-1700053200"];
    assert_eq!(fixture.gaps("T1").await, hour);
    assert_eq!(fixture.gaps("T2").await, hour);
    assert_eq!(fixture.gaps("T7X").await, [""; 0]);
}

#[tokio::test]
async fn a_counting_row_cannot_be_replayed_and_its_gaps_stay_when_it_is_dropped() {
    let fixture = QuarantineFixture::with_room_for(0).await;
    fixture.put(&[message_job("T1", "1700050800.000100")]).await;
    let row = fixture.rows().await.remove(0);
    let Ports { queue, archive, clock } = &fixture.ports;
    let replayed = quarantine::replay(&**queue, &**archive, &**clock, &row).await;
    assert!(matches!(replayed, Err(quarantine::QuarantineError::Withheld)), "{replayed:?}");
    // More jobs were counted meanwhile, so the row is not the one that a person saw.
    fixture.put(&[message_job("T1", "1700050800.000200")]).await;
    assert!(!quarantine::discard(&**archive, &row).await.unwrap());
    let row = fixture.rows().await.remove(0);
    assert!(quarantine::discard(&**archive, &row).await.unwrap());
    assert_eq!((fixture.count().await, fixture.gaps("T1").await.len()), (0, 1));
    fixture.put(&[message_job("T1", "1700050800.000300")]).await;
    assert_eq!(fixture.count().await, 1, "the count starts again");
}

#[tokio::test]
async fn dropping_an_unreadable_event_leaves_a_gap_of_the_hour_it_arrived_in() {
    let unreadable = [r#"{"event":{"type":"message"}}"#, "7", r#"{"team_id":"t#1","event":{}}"#];
    for event in unreadable {
        let fixture = QuarantineFixture::with_room_for(1).await;
        let unlimited = Update {
            set: [("kept".to_owned(), "0/0/0".into())].into_iter().collect(),
            ..Update::new(ItemKey::new("meta#quarantine", "kept"))
        };
        fixture.ports.archive.write(&unlimited).await.unwrap();
        fixture.put(&[encode_event(event)]).await;
        let row = fixture.rows().await.remove(0);
        assert!(row.is_unreadable());
        assert!(quarantine::discard(&*fixture.ports.archive, &row).await.unwrap());
        for team in ["T1", "T2"] {
            assert_eq!(fixture.gaps(team).await, ["1700049600-1700053200"], "{event}");
        }
    }
}
