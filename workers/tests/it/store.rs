//! Messages from history and from events in one archive.

use std::sync::Arc;

use ports::archive::erasure::ExpiryFact;
use ports::archive::{
    Archive, ArchiveExt, Attributes, ErasureFact, ErasureScope, ItemKey, Query, Update, key, query_all,
};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::Queue;
use rules::history::{self, HistoryMessage};
use rules::{message, project};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::deliveries;
use testkit::faults::{CrashPoint, FaultyArchive, RecordedCalls};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};
use workers::store::{PreviewArchive, StoredAs, store_history};

const TS: &str = "1700000000.000100";

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse("C01").unwrap()
}

fn listed(message: &Value) -> HistoryMessage {
    history::read(&team(), &channel(), &to_raw_value(message).unwrap()).unwrap()
}

struct StoreFixture {
    memory: Arc<MemoryArchive>,
    archive: FaultyArchive,
    calls: Arc<RecordedCalls>,
}

impl StoreFixture {
    fn new() -> Self {
        let memory = Arc::new(MemoryArchive::new());
        let calls = Arc::<RecordedCalls>::default();
        let archive = FaultyArchive::with_schedule(memory.clone(), calls.clone());
        Self { memory, archive, calls }
    }

    /// Stores a page. Returns the result for each message and the number of writes.
    async fn store(&self, messages: &[Value]) -> (Vec<StoredAs>, usize) {
        self.calls.take_calls();
        let messages: Vec<HistoryMessage> = messages.iter().map(listed).collect();
        let stored = store_history(&self.archive, &messages).await;
        (stored.into_iter().map(Result::unwrap).collect(), self.calls.take_writes())
    }

    async fn handle(&self, events: &[Value]) {
        let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0))));
        let writer = MessageWriter::new(self.memory.clone(), queue);
        for job in deliveries(events) {
            assert_eq!(writer.handle(&[job]).await, [JobOutcome::Done]);
        }
    }

    async fn message(&self) -> Value {
        let key = ItemKey::message(&team(), &channel(), &Ts::parse(TS).unwrap());
        project::message(&self.memory.get(&key).await.unwrap().unwrap()).unwrap().into_json()
    }

    async fn revisions(&self) -> Vec<String> {
        let ts = Ts::parse(TS).unwrap();
        let rows = Query::partition(key::revisions(&team(), &channel(), &ts));
        let rows = query_all(&*self.memory, rows).await.unwrap();
        let message = self.memory.get(&ItemKey::message(&team(), &channel(), &ts)).await.unwrap();
        let replaced = message::versions(&rows, message.as_ref()).replaced;
        replaced.iter().map(|version| version.row.text("text").unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_page_that_is_stored_is_not_written_again() {
    let fixture = StoreFixture::new();
    let page = [event::message(TS, "U01", "hi"), event::reply("1700000001.000000", TS, "U02", "ho")];
    assert_eq!(fixture.store(&page).await, (vec![StoredAs::New, StoredAs::New], 2));
    for counted in 1..4 {
        let volatile = [
            ("reply_count", json!(counted)),
            ("latest_reply", json!(format!("{}.000000", 1_700_000_001 + counted))),
            ("user_profile", json!({ "real_name": counted.to_string() })),
            ("thread_ts", json!(TS)),
        ];
        let again = [event::with_fields(page[0].clone(), volatile), page[1].clone()];
        let (stored, writes) = fixture.store(&again).await;
        // Only the first read finds that the message has become the root of a thread.
        let expected = if counted == 1 { (StoredAs::Updated, 1) } else { (StoredAs::Unchanged, 0) };
        assert_eq!((stored, writes), (vec![expected.0, StoredAs::Unchanged], expected.1));
    }
}

#[tokio::test]
async fn a_message_that_an_event_stored_costs_no_write() {
    let fixture = StoreFixture::new();
    let posted = event::message(TS, "U01", "hi");
    fixture.handle(&[event::posted("C01", &posted)]).await;
    let rows = fixture.memory.items();
    let (stored, writes) = fixture.store(std::slice::from_ref(&posted)).await;
    assert_eq!((stored, writes), (vec![StoredAs::Unchanged], 0));
    assert_eq!(fixture.memory.items(), rows);
    let reacted = json!([{ "name": "tada", "users": ["U02"], "count": 1 }]);
    let reacted = event::with_fields(posted, [("reactions", reacted)]);
    assert_eq!(fixture.store(std::slice::from_ref(&reacted)).await, (vec![StoredAs::Updated], 1));
    assert_eq!(fixture.store(std::slice::from_ref(&reacted)).await, (vec![StoredAs::Unchanged], 0));
    assert_eq!(
        fixture.message().await["reactions"],
        json!([{ "name": "tada", "count": 1, "users": ["U02"] }])
    );
}

#[tokio::test]
async fn a_missed_edit_wins_and_an_older_version_is_kept_once() {
    let fixture = StoreFixture::new();
    let first = event::message(TS, "U01", "first");
    let second = event::edited(&first, "1700000010.000000", "second");
    let third = event::edited(&second, "1700000020.000000", "third");
    fixture.handle(&[event::posted("C01", &first)]).await;
    assert_eq!(fixture.store(std::slice::from_ref(&third)).await, (vec![StoredAs::Updated], 2));
    assert_eq!(fixture.message().await["text"], "third");
    assert_eq!(fixture.revisions().await, ["first"]);
    // From an old export.
    assert_eq!(fixture.store(std::slice::from_ref(&second)).await, (vec![StoredAs::Updated], 1));
    assert_eq!(fixture.store(std::slice::from_ref(&second)).await, (vec![StoredAs::Unchanged], 0));
    assert_eq!(fixture.revisions().await, ["first", "second"]);
}

#[tokio::test]
async fn a_tombstone_deletes_once_and_never_creates_text() {
    let fixture = StoreFixture::new();
    let message = event::message(TS, "U01", "hi");
    fixture.store(std::slice::from_ref(&message)).await;
    let tombstone = [event::tombstone(&message)];
    assert_eq!(fixture.store(&tombstone).await, (vec![StoredAs::Updated], 1));
    assert_eq!(fixture.store(&tombstone).await, (vec![StoredAs::Unchanged], 0));
    let row = fixture.message().await;
    assert_eq!((&row["deleted"], &row["text"]), (&json!(true), &json!("hi")));
}

#[tokio::test]
async fn a_message_twice_in_a_page_is_stored_once_and_an_erased_one_not_at_all() {
    let fixture = StoreFixture::new();
    let first = event::message(TS, "U01", "first");
    let second = event::edited(&first, "1700000010.000000", "second");
    let (stored, _) = fixture.store(&[first.clone(), second, first]).await;
    assert_eq!(stored, [StoredAs::New, StoredAs::Updated, StoredAs::Unchanged]);
    assert_eq!(fixture.message().await["text"], "second");
    let erased = "1700000003.000000";
    let key = ItemKey::message(&team(), &channel(), &Ts::parse(erased).unwrap());
    let set_if_absent: Attributes = [("erased".to_owned(), true.into())].into_iter().collect();
    fixture.memory.write(&Update { set_if_absent, ..Update::new(key) }).await.unwrap();
    let again = event::message(erased, "U01", "gone");
    assert_eq!(fixture.store(&[again]).await, (vec![StoredAs::Unchanged], 0));
}

#[tokio::test]
async fn a_crash_between_any_two_steps_loses_nothing() {
    let first = event::message(TS, "U01", "first");
    let second = event::edited(&first, "1700000010.000000", "second");
    let mut pinned = event::message("1700000001.000000", "U02", "other");
    pinned["pinned_to"] = json!(["C01"]);
    let page = [listed(&second), listed(&pinned)];
    let whole = StoreFixture::new();
    whole.handle(&[event::posted("C01", &first)]).await;
    let counting = CrashPoint::never();
    let archive = FaultyArchive::with_crash_point(whole.memory.clone(), Arc::clone(&counting));
    store_history(&archive, &page).await;
    for steps in 0..counting.steps() {
        let fixture = StoreFixture::new();
        fixture.handle(&[event::posted("C01", &first)]).await;
        let point = CrashPoint::after(steps);
        let crashing = FaultyArchive::with_crash_point(fixture.memory.clone(), point);
        let stored = store_history(&crashing, &page).await;
        assert!(stored.iter().any(Result::is_err), "a step after the crash cannot be done");
        store_history(&*fixture.memory, &page).await;
        assert_eq!(fixture.memory.items(), whole.memory.items(), "after {steps} steps");
    }
}

#[tokio::test]
async fn an_erased_message_is_not_restored_and_its_files_are_not_fetched() {
    let fixture = StoreFixture::new();
    let scope = ErasureScope::User(UserId::parse("U01").unwrap());
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1800000000.000000").unwrap() };
    fixture.memory.write(&fact.update()).await.unwrap();
    let erased = event::file_share(TS, "U01", "MARKER", &["F01"]);
    let page = [erased.clone(), event::message("1700000001.000000", "U02", "hi")];
    assert_eq!(fixture.store(&page).await.0, [StoredAs::Unchanged, StoredAs::New]);
    assert_eq!(fixture.store(&page).await, (vec![StoredAs::Unchanged, StoredAs::Unchanged], 0));
    let key = ItemKey::message(&team(), &channel(), &Ts::parse(TS).unwrap());
    let row = fixture.memory.item(&key).unwrap();
    assert!(row.is_erased() && !row.to_json().to_string().contains("MARKER"));
    let message = listed(&erased);
    assert_eq!(
        (message.files_to_fetch(None).sends.len(), message.files_to_fetch(Some(&row)).sends.len()),
        (1, 0)
    );
}

#[tokio::test]
async fn a_preview_skips_erased_messages() {
    let memory = Arc::new(MemoryArchive::new());
    let scope = ErasureScope::Channel(channel());
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1700000050.000000").unwrap() };
    memory.write(&fact.update()).await.unwrap();
    let before = memory.items();
    let preview = PreviewArchive::new(Some(memory.clone()));
    let page = [event::message(TS, "U01", "MARKER"), event::message("1700000050.000000", "U01", "hi")];
    let page: Vec<HistoryMessage> = page.iter().map(listed).collect();
    let stored: Vec<StoredAs> =
        store_history(&preview, &page).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(stored, [StoredAs::Unchanged, StoredAs::New]);
    assert_eq!(memory.items(), before);
}

#[tokio::test]
async fn a_message_that_has_expired_is_counted_as_such_however_often_it_comes() {
    let memory = Arc::new(MemoryArchive::new());
    let until = Ts::parse("1700000050.000000").unwrap();
    memory.write(&ExpiryFact::expire(&team(), None, &until)).await.unwrap();
    let page = [event::message(TS, "U01", "MARKER"), event::message("1700000050.000000", "U01", "hi")];
    let page: Vec<HistoryMessage> = page.iter().map(listed).collect();
    for expected in [StoredAs::New, StoredAs::Unchanged] {
        let stored: Vec<StoredAs> =
            store_history(&*memory, &page).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(stored, [StoredAs::Expired, expected]);
    }
    assert!(!format!("{:?}", memory.items()).contains("MARKER"));
}
