//! Tests of what messages say about their authors: in the rows that the message-writer writes, and after an
//! erasure.

use std::sync::Arc;

use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{Archive, ItemKey, Query, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::Delivery;
use rules::project;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::eraser::EraserMode;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use crate::eraser::erase;

/// Appears in everything that must be erased.
const SECRET: &str = "topsecret";

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

/// A message of a person of another organisation.
fn by_eve(ts: &str, name: &str) -> Value {
    let profile = json!({ "display_name": name, "real_name": name, "team": "T0OTHER" });
    event::with_fields(event::message(ts, "U0EVE", "hi"), [("user_profile", profile)])
}

/// A message of an app without a user.
fn by_bot(ts: &str, id: &str, name: &str, user: &str) -> Value {
    let profile = json!({ "id": id, "name": name, "user_id": user, "updated": 1_600_000_000 });
    event::with_fields(event::bot_message(ts, id, "custom", "done"), [("bot_profile", profile)])
}

struct AuthorFixture {
    archive: Arc<MemoryArchive>,
    writer: MessageWriter,
}

impl AuthorFixture {
    fn new() -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let writer = MessageWriter::new(archive.clone(), Arc::new(MemoryQueue::new(clock)));
        Self { archive, writer }
    }

    async fn store(&self, events: &[Value]) {
        for (number, payload) in events.iter().enumerate() {
            let job = delivery(&event::envelope(TEAM, &format!("Ev{number}"), payload));
            let job = Delivery { sent_at: TimestampMs(i64::MAX), ..job };
            assert_eq!(self.writer.handle(&[job]).await, [JobOutcome::Done], "{payload}");
        }
    }

    async fn rows(&self, partition: String) -> Vec<Value> {
        let items = query_all(&*self.archive, Query::partition(partition)).await.unwrap();
        items.iter().map(project::directory).collect()
    }

    /// Erases a person, then stores the same events again.
    async fn erase_and_replay(&self, user: &str, events: &[Value]) {
        let scope = ErasureScope::User(UserId::parse(user).unwrap());
        let until = Ts::parse("1750000000.000000").unwrap();
        let facts = [ErasureFact { team: team(), scope, until }];
        for mode in [EraserMode::Act, EraserMode::ActAgain] {
            erase(&*self.archive, &MemoryFiles::new(), &facts, mode).await.unwrap();
        }
        self.store(events).await;
    }

    /// The keys of the rows that contain the secret.
    fn leaks(&self) -> Vec<ItemKey> {
        let rows = self.archive.items().into_iter();
        rows.filter(|row| row.to_json().to_string().contains(SECRET)).map(|row| row.key).collect()
    }
}

#[tokio::test]
async fn a_person_of_another_organisation_and_a_bot_are_stored_with_their_messages() {
    let fixture = AuthorFixture::new();
    let first = by_eve("1700000001.000100", "eva");
    let edited = event::edited(&first, "1700000004.000000", "ho");
    fixture
        .store(&[
            event::posted("C01", &by_eve("1700000003.000100", "eve")),
            event::posted("C01", &by_bot("1700000005.000100", "B0JIRA", "Jira Cloud", "U0JIRA")),
            event::changed("C01", &first, &edited, "1700000004.000100"),
        ])
        .await;
    let people = fixture.rows(key::users(&team())).await;
    assert_eq!(people.len(), 1);
    assert_eq!(
        ["user_id", "display_name", "organisation"].map(|name| people[0][name].as_str().unwrap()),
        ["U0EVE", "eve", "T0OTHER"]
    );
    let organisations = fixture.rows(key::organisations(&team())).await;
    assert_eq!(organisations.iter().map(|row| &row["organisation_id"]).collect::<Vec<_>>(), ["T0OTHER"]);
    let bots = fixture.rows(key::bots(&team())).await;
    assert_eq!(bots.iter().map(|row| &row["name"]).collect::<Vec<_>>(), ["Jira Cloud"]);

    fixture.store(&[event::user_change("U0EVE", "eve of the directory", "1600000000.000000")]).await;
    let people = fixture.rows(key::users(&team())).await;
    assert_eq!(people[0]["name"], "eve of the directory", "it outranks what messages say");
    fixture.store(&[event::posted("C01", &by_eve("1700000009.000100", "evelyn"))]).await;
    assert_eq!(fixture.rows(key::users(&team())).await, people);
}

#[tokio::test]
async fn erasing_the_author_of_a_files_comment_erases_each_version_of_it() {
    let fixture = AuthorFixture::new();
    let comment = |text: &str| {
        json!({ "type": "message", "subtype": "file_comment", "ts": "1700000001.000100",
            "comment": { "id": "Fc1", "user": "U0EVE", "comment": text }, "text": format!("commented: {text}") })
    };
    let (first, second) = (comment(&format!("{SECRET} 1")), comment(&format!("{SECRET} 2")));
    let second = event::with_fields(second, [("edited", json!({ "ts": "1700000002.000000" }))]);
    let events = [event::posted("C01", &first), event::changed("C01", &first, &second, "1700000002.000100")];
    fixture.store(&events).await;
    assert_eq!(fixture.leaks().len(), 2);
    fixture.erase_and_replay("U0EVE", &events).await;
    assert_eq!(fixture.leaks(), []);
}

#[tokio::test]
async fn erasing_a_stranger_leaves_nothing_of_theirs_and_the_bot_of_another_user_stays() {
    let fixture = AuthorFixture::new();
    let ts = |second: u32| format!("170000000{second}.000100");
    let events = [
        event::posted("C01", &by_eve(&ts(1), SECRET)),
        event::posted("C01", &by_bot(&ts(2), "B0NAMESAKE", SECRET, "U0APP")),
        event::posted("C01", &by_bot(&ts(3), "B0EVES", SECRET, "U0EVE")),
    ];
    fixture.store(&events).await;
    let person = ItemKey::user(&team(), &UserId::parse("U0EVE").unwrap());
    let bot = |id: &str| ItemKey::bot(&team(), &UserId::parse(id).unwrap());
    let leaks = fixture.leaks();
    assert!([&person, &bot("B0NAMESAKE"), &bot("B0EVES")].iter().all(|key| leaks.contains(key)), "{leaks:?}");
    fixture.erase_and_replay("U0EVE", &events).await;
    let message = |second| {
        let (channel, ts) = (ChannelId::parse("C01").unwrap(), Ts::parse(&ts(second)).unwrap());
        ItemKey::message(&team(), &channel, &ts)
    };
    // The messages of apps are not the person's.
    assert_eq!(fixture.leaks(), [bot("B0NAMESAKE"), message(2), message(3)]);
    assert!(fixture.archive.get(&person).await.unwrap().unwrap().is_erased());
}
