//! Tests of the eraser on an archive filled by events, downloads and quarantined jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::archive::{Archive, ArchiveExt, Item, ItemKey};
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::files::{FileKey, Files};
use ports::queue::{Delivery, Queue, QueueName, QueueRef};
use reader::directory;
use rules::figures::members;
use rules::file::image::ImageJob;
use rules::file::row::{self, Share, StoredBytes};
use rules::file::{FileObject, FileState, image};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery;
use testkit::faults::{CrashPoint, FaultyArchive, FaultyFiles};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::PortError;
use workers::channel_indexer::ChannelIndexer;
use workers::eraser::{Eraser, EraserCounts, EraserMode, ErasurePart};
use workers::message_writer::MessageWriter;
use workers::quarantine;
use workers::runtime::{JobOutcome, Ports, Worker};

/// Appears in everything that must be erased and in nothing that must stay.
pub(crate) const SECRET: &str = "topsecret";
const PICTURE: &str = "https://a.slack-edge.com/ana.png";
const DEFAULT_PICTURE: &str = "https://a.slack-edge.com/default.png";

pub(crate) fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

pub(crate) fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

pub(crate) fn ts(second: u32) -> Ts {
    Ts::parse(&format!("170000{second:04}.000100")).unwrap()
}

pub(crate) fn person(id: &str) -> ErasureScope {
    ErasureScope::User(UserId::parse(id).unwrap())
}

/// An erasure of everything before 1750000000, later than most events in these tests.
pub(crate) fn fact(scope: ErasureScope) -> Vec<ErasureFact> {
    vec![ErasureFact { team: team(), scope, until: Ts::parse("1750000000.000000").unwrap() }]
}

pub(crate) struct EraserFixture {
    pub(crate) archive: Arc<MemoryArchive>,
    pub(crate) files: MemoryFiles,
    ports: Ports,
}

impl EraserFixture {
    pub(crate) fn new() -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let clock: SharedClock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new(Arc::clone(&clock)));
        let ports = Ports { queue, archive: archive.clone(), clock };
        Self { archive, files: MemoryFiles::new(), ports }
    }

    /// Two people and two channels, with every kind of data that a message can have.
    pub(crate) async fn filled() -> Self {
        let fixture = Self::new();
        let secret =
            |second, text: &str| event::message(ts(second).as_str(), "U1", &format!("{text} {SECRET}"));
        let open = |second, text: &str| event::message(ts(second).as_str(), "U2", text);
        let (before, mine) = (secret(1, "a draft"), secret(2, "with files"));
        let after = event::edited(&before, ts(50).as_str(), &format!("edited {SECRET}"));
        fixture
            .store_events(&[
                event::posted("C1", &before),
                event::changed("C1", &before, &after, ts(50).as_str()),
                event::posted("C1", &mine),
                event::posted("C2", &secret(3, "elsewhere")),
                event::posted("C1", &open(4, "stays")),
                event::reaction_added("C1", ts(4).as_str(), "U1", "tada", ts(60).as_str()),
                event::posted("C1", &event::message("1760000000.000100", "U1", "said after it")),
                fixture.profile("U1", &format!("Ana {SECRET}"), DEFAULT_PICTURE, ts(5)),
                fixture.profile("U1", &format!("Ann {SECRET}"), PICTURE, ts(6)),
                fixture.profile("U2", "Bob", DEFAULT_PICTURE, ts(7)),
            ])
            .await;
        fixture.share("F1", SECRET, &[("C1", 2)]).await;
        fixture.share("F2", SECRET, &[("C1", 2), ("C2", 3)]).await;
        fixture.share("F3", "shared by two", &[("C1", 2), ("C1", 4)]).await;
        for (user, url) in [("U1", DEFAULT_PICTURE), ("U1", PICTURE), ("U2", DEFAULT_PICTURE)] {
            fixture.picture(user, url).await;
        }
        for (id, name) in [("C1", "general"), ("C2", &*format!("plans-{SECRET}"))] {
            let created = event::channel_created(id, name, ts(0).as_str());
            let indexer = ChannelIndexer::new(fixture.archive.clone(), None);
            let job = delivery(&event::envelope(TEAM, &format!("Ev{id}"), &created));
            assert_eq!(indexer.handle(&[job]).await, [JobOutcome::Done]);
        }
        for (id, number) in [("C1", 12), ("C2", 5)] {
            for day in [ts(0), Ts::parse("1760000000.000100").unwrap()] {
                let listed = to_raw_value(&json!({ "id": id, "num_members": number })).unwrap();
                let update = members::listed(&team(), &channel(id), &listed, &day).unwrap();
                fixture.archive.write(&update).await.unwrap();
            }
        }
        fixture.quarantine(&event::posted("C1", &secret(8, "too odd"))).await;
        fixture.quarantine(&event::posted("C1", &open(9, "odd too"))).await;
        fixture
    }

    pub(crate) async fn store_events(&self, events: &[Value]) {
        let writer = MessageWriter::new(self.archive.clone(), Arc::clone(&self.ports.queue));
        for (number, payload) in events.iter().enumerate() {
            let job = delivery(&event::envelope(TEAM, &format!("Ev{number}"), payload));
            let job = Delivery { sent_at: TimestampMs(i64::MAX), ..job };
            assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done], "{payload}");
        }
    }

    fn profile(&self, user: &str, name: &str, picture: &str, at: Ts) -> Value {
        let mut change = event::user_change(user, name, at.as_str());
        change["user"]["profile"]["image_192"] = picture.into();
        change
    }

    /// Stores a file and its rows as the downloader does.
    pub(crate) async fn share(&self, id: &str, bytes: &str, messages: &[(&str, u32)]) {
        let file = FileId::parse(id).unwrap();
        let shares: Vec<Share> = messages
            .iter()
            .map(|(channel_id, second)| Share { channel: channel(channel_id), ts: ts(*second) })
            .collect();
        let key = FileKey::shared(&team(), &shares[0].channel, &shares[0].ts, &file);
        self.publish(&key, bytes).await;
        let object = FileObject::read(&json!({ "id": id, "name": "a.txt", "user": "U1" })).unwrap();
        let stored_bytes = StoredBytes {
            key,
            source: "slack".into(),
            size_bytes: bytes.len() as u64,
            sha256: String::new(),
        };
        for share in &shares {
            let state = FileState::Stored(stored_bytes.key.clone());
            for update in [
                row::seen(&team(), &object, Some(share)),
                row::stored(&team(), &file, &stored_bytes),
                row::on_message(&team(), share, &file, &state),
            ] {
                self.archive.write(&update).await.unwrap();
            }
        }
    }

    async fn picture(&self, user: &str, url: &str) {
        let key = FileKey::image(&team(), url);
        self.publish(&key, url).await;
        let owner = image::ImageOwner::User(UserId::parse(user).unwrap());
        let job = ImageJob { team: team(), owner, url: url.to_owned() };
        self.archive.write(&job.stored(&key)).await.unwrap();
    }

    async fn publish(&self, key: &FileKey, bytes: &str) {
        let mut writer = self.files.create(key).await.unwrap();
        writer.write(Bytes::from(bytes.to_owned())).await.unwrap();
        writer.publish().await.unwrap();
    }

    pub(crate) async fn quarantine(&self, payload: &Value) {
        let job = delivery(&event::envelope(TEAM, "EvOdd", payload));
        quarantine::insert(&self.ports, QueueRef::from(QueueName::Events), &job, "too odd").await.unwrap();
    }

    pub(crate) async fn run(&self, facts: &[ErasureFact], mode: EraserMode) -> EraserCounts {
        erase(&*self.archive, &self.files, facts, mode).await.unwrap()
    }

    /// All rows and files except quarantine rows, whose ids differ in each run.
    fn state(&self) -> BTreeMap<String, String> {
        let rows = self.archive.items().into_iter().filter(|row| !row.key.item_id.starts_with("quarantine#"));
        let rows = rows.map(|row| (format!("{:?}", row.key), row.to_json().to_string()));
        let files = self.files.published().into_iter();
        rows.chain(files.map(|(key, bytes)| (key.to_string(), format!("{bytes:?}")))).collect()
    }

    /// Asserts that both archives have the same rows, files and number of quarantined jobs.
    async fn assert_like(&self, other: &Self, context: &str) {
        let (ours, theirs) = (self.state(), other.state());
        let keys = ours.keys().chain(theirs.keys());
        let different: Vec<_> = keys.filter(|key| ours.get(*key) != theirs.get(*key)).collect();
        assert!(different.is_empty(), "{context}: {different:?}");
        let jobs = quarantine::count(&*self.archive).await.unwrap();
        assert_eq!(jobs, quarantine::count(&*other.archive).await.unwrap(), "{context}");
    }

    pub(crate) fn file_names(&self) -> Vec<String> {
        self.files.published().keys().map(|key| key.as_str().rsplit('/').next().unwrap().to_owned()).collect()
    }

    /// Keys of the rows and files that still contain the secret.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let (rows, files) = (self.archive.items(), self.files.published());
        let rows = rows.iter().filter(|row| row.to_json().to_string().contains(SECRET));
        let files = files
            .iter()
            .filter(|(_, bytes)| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
        rows.map(|row| format!("{:?}", row.key)).chain(files.map(|(key, _)| key.to_string())).collect()
    }

    pub(crate) fn row(&self, key: &ItemKey) -> Item {
        self.archive.item(key).unwrap()
    }
}

/// Runs a complete erasure of the data that the facts cover.
pub(crate) async fn erase(
    archive: &dyn Archive,
    files: &dyn Files,
    facts: &[ErasureFact],
    mode: EraserMode,
) -> Result<EraserCounts, PortError> {
    let eraser = Eraser::begin(archive, files, facts.to_vec(), mode).await?;
    if mode != EraserMode::Plan {
        for fact in facts {
            archive.write(&fact.update()).await?;
        }
    }
    let mut sum = EraserCounts::default();
    for part in eraser.parts().await? {
        sum += eraser.run_part(&part).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn erasing_a_person_leaves_only_their_ids_and_keeps_the_data_of_others() {
    let fixture = EraserFixture::filled().await;
    let facts = fact(person("U1"));
    let before = fixture.state();
    let planned = fixture.run(&facts, EraserMode::Plan).await;
    assert_eq!(fixture.state(), before, "a plan changes nothing");
    let EraserCounts { messages, revisions, files, bytes, users, quarantined, .. } = planned;
    assert_eq!((messages, revisions, files, users, quarantined), (3, 1, 2, 1, 1), "{planned:?}");
    assert_eq!(bytes, (2 * SECRET.len() + PICTURE.len()) as u64);

    let done = fixture.run(&facts, EraserMode::Act).await;
    assert_eq!(
        EraserCounts { rows_read: 0, read_units: 0, ..done },
        EraserCounts { rows_read: 0, read_units: 0, ..planned }
    );
    assert_eq!(
        fixture.leaks(),
        [
            format!("{:?}", ItemKey::new(format!("channel#{TEAM}#C2"), ts(0).as_str())),
            format!("{:?}", ItemKey::new(format!("channelindex#{TEAM}"), "0"))
        ],
        "the name of a channel"
    );
    let stays = fixture.row(&ItemKey::message(&team(), &channel("C1"), &ts(4)));
    assert_eq!(stays.text("text"), Some("stays"));
    assert!(
        stays.attributes.contains_key("reaction#tada#U1"),
        "an id in another person's message stays: {stays:?}"
    );
    let later = Ts::parse("1760000000.000100").unwrap();
    assert!(!fixture.row(&ItemKey::message(&team(), &channel("C1"), &later)).is_erased());
    assert_eq!(
        fixture.file_names().len(),
        2,
        "a file and a picture that others have: {:?}",
        fixture.file_names()
    );
    assert_eq!(fixture.row(&ItemKey::user(&team(), &UserId::parse("U2").unwrap())).text("name"), Some("Bob"));
    assert_eq!(quarantine::count(&*fixture.archive).await.unwrap(), 1);

    let again = fixture.run(&facts, EraserMode::ActAgain).await;
    let EraserCounts { messages, revisions, files, bytes, users, quarantined, .. } = again;
    assert_eq!((messages, revisions, files, bytes, users, quarantined), (0, 0, 0, 0, 0, 0));
}

#[tokio::test]
async fn erasing_a_channel_removes_its_name_and_keeps_later_messages() {
    let fixture = EraserFixture::filled().await;
    let facts = fact(ErasureScope::Channel(channel("C2")));
    let done = fixture.run(&facts, EraserMode::Act).await;
    assert_eq!((done.messages, done.states, done.files, done.users), (1, 1, 0, 0), "{done:?}");
    let channels = directory::read(&*fixture.archive, &team()).await.unwrap();
    assert_eq!(channels.iter().map(|(_, name)| name).collect::<Vec<_>>(), ["general"]);
    assert!(!fixture.leaks().iter().any(|leak| leak.contains("C2")), "{:?}", fixture.leaks());
    // The member counts of both channels, on a day before the erasure and on one after it.
    let members =
        |id: &str, day: &str| members::count(&fixture.row(&ItemKey::members(&team(), &channel(id), day)));
    assert_eq!((members("C2", "2023-11-14"), members("C2", "2025-10-09")), (None, Some(5)));
    assert_eq!((members("C1", "2023-11-14"), members("C1", "2025-10-09")), (Some(12), Some(12)));
    let done = fixture.run(&fact(ErasureScope::Channel(channel("C1"))), EraserMode::Act).await;
    assert_eq!((done.messages, done.files), (3, 3), "{done:?}");
    let later = Ts::parse("1760000000.000100").unwrap();
    assert!(!fixture.row(&ItemKey::message(&team(), &channel("C1"), &later)).is_erased());
}

#[tokio::test]
async fn erasing_a_message_deletes_the_files_that_only_it_shares() {
    let fixture = EraserFixture::filled().await;
    let facts = fact(ErasureScope::Message(channel("C1"), ts(2)));
    let done = fixture.run(&facts, EraserMode::Act).await;
    assert_eq!((done.messages, done.revisions, done.files, done.users), (1, 0, 1, 0), "{done:?}");
    let names = fixture.file_names();
    assert!(!names.contains(&"F1".to_owned()) && names.contains(&"F2".to_owned()), "{names:?}");
    // A message that has not arrived yet gets a tombstone.
    let unseen = fact(ErasureScope::Message(channel("C1"), ts(99)));
    assert_eq!(fixture.run(&unseen, EraserMode::Act).await.messages, 0);
    assert!(fixture.row(&ItemKey::message(&team(), &channel("C1"), &ts(99))).is_erased());
}

#[tokio::test]
async fn a_message_that_a_writer_erased_first_is_erased_with_all_its_data() {
    for scope in [
        person("U1"),
        ErasureScope::Message(channel("C1"), ts(1)),
        ErasureScope::Message(channel("C1"), ts(2)),
    ] {
        let (fixture, other) = (EraserFixture::filled().await, EraserFixture::filled().await);
        let facts = fact(scope);
        other.run(&facts, EraserMode::Act).await;
        let eraser =
            Eraser::begin(&*fixture.archive, &fixture.files, facts.clone(), EraserMode::Act).await.unwrap();
        for fact in &facts {
            fixture.archive.write(&fact.update()).await.unwrap();
        }
        // A writer that has read the facts received these rows' events again.
        let covered: ErasureFacts = facts.iter().collect();
        for row in fixture.archive.items() {
            if covered.covers_row(&row) && !row.key.item_id.starts_with("revision#") {
                fixture.archive.erase(&row.key).await.unwrap();
            }
        }
        for part in eraser.parts().await.unwrap() {
            eraser.run_part(&part).await.unwrap();
        }
        fixture.assert_like(&other, "erased by a writer").await;
    }
}

#[tokio::test]
async fn the_name_is_erased_last_so_that_a_killed_run_can_be_repeated_by_name() {
    for scope in [person("U1"), ErasureScope::Channel(channel("C1"))] {
        let fixture = EraserFixture::filled().await;
        let eraser =
            Eraser::begin(&*fixture.archive, &fixture.files, fact(scope), EraserMode::Act).await.unwrap();
        let last = eraser.parts().await.unwrap().pop();
        assert!(matches!(last, Some(ErasurePart::Person(..) | ErasurePart::Channel(..))), "{last:?}");
    }
}

#[tokio::test]
async fn the_next_run_completes_an_erasure_that_died_after_any_step() {
    for scope in
        [person("U1"), ErasureScope::Channel(channel("C1")), ErasureScope::Message(channel("C1"), ts(2))]
    {
        let facts = fact(scope);
        let whole = EraserFixture::filled().await;
        whole.run(&facts, EraserMode::Act).await;
        for step in 0.. {
            let fixture = EraserFixture::filled().await;
            let point = CrashPoint::after(step);
            let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(&point));
            let files = FaultyFiles::with_crash_point(Arc::new(fixture.files.clone()), Arc::clone(&point));
            let died = erase(&archive, &files, &facts, EraserMode::Act).await;
            assert_eq!(died.is_err(), point.has_crashed(), "step {step}: {died:?}");
            fixture.run(&facts, EraserMode::Act).await;
            fixture.assert_like(&whole, &format!("step {step}")).await;
            if died.is_ok() {
                assert!(step > 10, "{step} steps");
                break;
            }
        }
    }
}
