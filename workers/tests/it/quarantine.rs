//! Jobs beyond the day's limit of quarantine rows, and jobs that cannot be decoded.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ports::archive::{Archive, ArchiveExt, ErasureFact, ErasureScope, Item, ItemKey, Update};
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::files::FileKey;
use ports::queue::job::encode_event;
use ports::queue::{Delivery, GroupId, MessageId, Queue, QueueName, Receipt};
use reader::gaps;
use rules::file::row::{self, Share};
use rules::file::{FileJob, FileObject, FileState, job};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
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
        let fixture = Self::new().await;
        fixture.set_kept(&format!("{}/100000/0/{}", NOON.seconds() / 86_400, 10_000 - outlines)).await;
        fixture
    }

    /// Stores the totals of T1 and of unknown workspaces.
    async fn set_kept(&self, totals: &str) {
        for partition in ["meta#T1#quarantine", "meta#quarantine"] {
            let kept = Update {
                set: [("kept".to_owned(), totals.into())].into_iter().collect(),
                ..Update::new(ItemKey::new(partition, "kept"))
            };
            self.ports.archive.write(&kept).await.unwrap();
        }
    }

    /// Two workspaces, on a day that stores whole jobs.
    async fn new() -> Self {
        let clock = ManualClock::starting_at(NOON);
        let shared: SharedClock = clock.clone();
        let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new(Arc::clone(&shared)));
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::new());
        for team in ["T1", "T2"] {
            archive.write(&Update::mark(ItemKey::team(&TeamId::parse(team).unwrap()))).await.unwrap();
        }
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
async fn a_workspace_that_has_filled_its_day_takes_no_room_of_another_and_unknown_ones_share_theirs() {
    let fixture = QuarantineFixture::new().await;
    let day = NOON.seconds() / 86_400;
    let body = message_job("T1", "1700050800.000100");
    let mut jobs = Vec::new();
    for (number, team) in ["T1", "T2", "T8STRANGE", "T9STRANGE", "?"].into_iter().enumerate() {
        jobs.push(Delivery { group: GroupId::from_parts(&[team, "C1"]), ..job(number, &body) });
    }
    let one_left = format!("{day}/99999/0/0");
    let nothing_left = format!("{day}/100000/0/0");
    for (strangers, expected) in
        [(&one_left, [true, false, true, true, false]), (&nothing_left, [true, false, true, true, true])]
    {
        fixture.set_kept(&nothing_left).await;
        let strangers = Update {
            set: [("kept".to_owned(), strangers.clone().into())].into_iter().collect(),
            ..Update::new(ItemKey::new("meta#quarantine", "kept"))
        };
        fixture.ports.archive.write(&strangers).await.unwrap();
        let outlined: Vec<(&Delivery, &str)> = jobs.iter().map(|job| (job, "odd")).collect();
        quarantine::insert_all(&fixture.ports, QueueName::Events.into(), &outlined).await;
        let rows = fixture.rows().await;
        let outlined: Vec<bool> = rows.iter().map(|row| !row.payload.contains("secret")).collect();
        // Jobs without a workspace are counted first.
        assert_eq!(outlined, expected);
    }
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
        fixture.set_kept("0/0/0").await;
        fixture.put(&[encode_event(event)]).await;
        let row = fixture.rows().await.remove(0);
        assert!(row.is_unreadable());
        assert!(quarantine::discard(&*fixture.ports.archive, &row).await.unwrap());
        for team in ["T1", "T2"] {
            assert_eq!(fixture.gaps(team).await, ["1700049600-1700053200"], "{event}");
        }
    }
}

#[tokio::test]
async fn what_was_erased_before_it_failed_gets_no_row() {
    let fixture = QuarantineFixture::new().await;
    let team = TeamId::parse("T1").unwrap();
    let until = Ts::parse("1700050000.000000").unwrap();
    let scopes = [
        ErasureScope::User(UserId::parse("U9").unwrap()),
        ErasureScope::Channel(ChannelId::parse("C8").unwrap()),
        ErasureScope::Message(ChannelId::parse("C1").unwrap(), Ts::parse("1700049000.000100").unwrap()),
    ];
    for scope in scopes {
        let fact = ErasureFact { team: team.clone(), scope, until: until.clone() };
        fixture.ports.archive.write(&fact.update()).await.unwrap();
    }
    let event = |event: Value| encode_event(&json!({ "team_id": "T1", "event": event }).to_string());
    let message = |channel: &str, user: &str, ts: &str| json!({ "type": "message", "channel": channel, "user": user, "text": "secret", "ts": ts, "event_ts": ts });
    let (before, after) = ("1700049000.000100", "1700050500.000100");
    let malformed = |user: &str, ts: &str| json!({ "type": "message", "channel": "C1", "user": user, "text": "secret", "ts": "soon", "event_ts": ts });
    let share = Share { channel: ChannelId::parse("C8").unwrap(), ts: Ts::parse(before).unwrap() };
    let object = FileObject::read(&json!({ "id": "F1", "name": "secret" })).unwrap();
    let file = FileJob { team, share, user: None, object, refresh: false, version: None };
    for (what, body, is_kept) in [
        ("by the person", event(message("C1", "U9", before)), false),
        ("by the person, later", event(message("C1", "U9", after)), true),
        ("by another person", event(message("C1", "U1", "1700049001.000100")), true),
        ("the message", event(message("C1", "U1", before)), false),
        ("in the channel", event(message("C8", "U1", before)), false),
        ("in the channel, later", event(message("C8", "U1", after)), true),
        ("malformed", event(malformed("U9", before)), false),
        ("malformed, later", event(malformed("U9", after)), true),
        ("malformed, another person", event(malformed("U1", "1700049002.000100")), true),
        ("of another workspace", message_job("T2", before), true),
        ("a file of the channel", file.outgoing().body, false),
    ] {
        fixture.put(&[body]).await;
        let rows = fixture.rows().await;
        assert_eq!(rows.len(), usize::from(is_kept), "{what}");
        for row in rows {
            assert!(quarantine::remove(&*fixture.ports.archive, &row).await.unwrap());
        }
    }
    // What the malformed event said besides is missing.
    let gaps = gaps::read(&*fixture.ports.archive, &TeamId::parse("T1").unwrap()).await.unwrap();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
}

#[tokio::test]
async fn a_dropped_file_is_missing_and_can_be_asked_for_again() {
    let fixture = QuarantineFixture::new().await;
    let archive = &*fixture.ports.archive;
    let team = TeamId::parse("T1").unwrap();
    let share = |ts: &str| Share { channel: ChannelId::parse("C1").unwrap(), ts: Ts::parse(ts).unwrap() };
    let of = |file: &str, ts: &str| {
        let object = FileObject::read(&json!({ "id": file, "name": "a.txt" })).unwrap();
        FileJob { team: team.clone(), share: share(ts), user: None, object, refresh: false, version: None }
    };
    let (stored, erased) = (of("F2", "2.000000"), of("F3", "3.000000"));
    let key = FileKey::shared(&team, &share("1.000000").channel, &share("1.000000").ts, &stored.object.id);
    let is_stored = FileState::Stored(key);
    archive.write(&row::settled(&team, &stored.object.id, &is_stored)).await.unwrap();
    archive.erase(&ItemKey::message(&team, &erased.share.channel, &erased.share.ts)).await.unwrap();
    for job in [of("F1", "1.000000"), stored, erased] {
        fixture.put(&[job.outgoing().body]).await;
        let rows = fixture.rows().await;
        let [quarantined] = &rows[..] else { panic!("{rows:?}") };
        assert!(quarantine::discard(archive, quarantined).await.unwrap());
        let file = &job.object.id;
        let of_file = archive.get(&ItemKey::file(&team, file)).await.unwrap();
        let of_message =
            archive.get(&ItemKey::message(&team, &job.share.channel, &job.share.ts)).await.unwrap();
        let state = |row: &Option<Item>| row.as_ref().and_then(|row| row::state(row, file));
        match file.as_str() {
            "F1" => {
                let row = of_file.as_ref().unwrap();
                assert!(
                    matches!(row::state(row, file), Some(FileState::Failed(why)) if why.contains("dropped"))
                );
                assert_eq!(state(&of_message), state(&of_file));
                assert!(job::retry_job(&team, row, b"1").is_some(), "it shows where the file was shared");
            }
            "F2" => assert_eq!(
                (state(&of_file), state(&of_message)),
                (Some(is_stored.clone()), Some(is_stored.clone()))
            ),
            _ => assert_eq!(of_file, None),
        }
    }
    assert!(fixture.rows().await.is_empty());
}
