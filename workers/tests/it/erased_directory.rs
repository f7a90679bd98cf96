//! Erasures of people and channels that the directory lists.

use std::sync::Arc;

use ports::archive::erasure::{ErasureFact, ErasureScope};
use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::Delivery;
use reader::user_groups;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery;
use testkit::fake_slack::{bookmark, user_group};
use testkit::faults::{FaultPlan, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::eraser::EraserMode;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

fn ts(second: u32) -> String {
    format!("170000{second:04}.000100")
}

/// Has the writer handle an event once, in an archive in which some writes may fail.
async fn handle(archive: Arc<dyn Archive>, payload: &Value) -> JobOutcome {
    let writer =
        MessageWriter::new(archive, Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0)))));
    let job = Delivery { sent_at: TimestampMs(i64::MAX), ..delivery(&event::envelope(TEAM, "Ev1", payload)) };
    writer.handle(&[job]).await.remove(0)
}

async fn store_events(archive: &Arc<MemoryArchive>, events: &[Value]) {
    for payload in events {
        assert_eq!(handle(archive.clone(), payload).await, JobOutcome::Done, "{payload}");
    }
}

async fn erase(archive: &MemoryArchive, scope: ErasureScope) {
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1750000000.000000").unwrap() };
    crate::eraser::erase(archive, &MemoryFiles::new(), &[fact], EraserMode::Act).await.unwrap();
}

#[tokio::test]
async fn an_erased_person_is_a_member_of_no_user_group_and_no_later_list_adds_them_again() {
    let archive = Arc::new(MemoryArchive::new());
    let group = |users: &[&str], second: u32| {
        let seconds = 1_700_000_000 + i64::from(second);
        event::user_group_updated(&user_group("S1", "oncall", users, seconds), &ts(second))
    };
    let members = async || {
        let groups = user_groups::user_groups(&*archive, &team()).await.unwrap();
        groups[0]["members"].clone()
    };
    // Only the members are known: an erasure finds them too.
    let added = event::user_group_members_changed("S2", &["U1"], &[], 1_700_000_001, &ts(1));
    store_events(&archive, &[added, group(&["U1", "U2"], 1)]).await;
    assert_eq!(members().await, json!(["U1", "U2"]));
    erase(&archive, ErasureScope::User(UserId::parse("U1").unwrap())).await;
    assert_eq!(members().await, json!(["U2"]));
    let of_unknown = ItemKey::new(format!("usergroupmember#{TEAM}#S2"), "U1");
    assert!(archive.item(&of_unknown).unwrap().is_erased());
    let added = event::user_group_members_changed("S1", &["U1", "U3"], &[], 1_700_000_002, &ts(2));
    store_events(&archive, &[added]).await;
    assert_eq!(members().await, json!(["U2", "U3"]));
    store_events(&archive, &[group(&["U1", "U4"], 3)]).await;
    assert_eq!(members().await, json!(["U4"]));
}

#[tokio::test]
async fn an_erasure_between_two_deliveries_finds_the_members_that_the_first_one_stored() {
    let changed = event::user_group_members_changed("S1", &["U1", "U2"], &[], 1_700_000_001, &ts(1));
    let listed = event::user_group_updated(&user_group("S1", "oncall", &["U1", "U2"], 1_700_000_001), &ts(1));
    for (payload, writes) in [(changed, 3), (listed, 6)] {
        for failing in 1..=writes {
            let archive = Arc::new(MemoryArchive::new());
            let faulty = FaultyArchive::new(archive.clone(), FaultPlan::fail_before(failing));
            assert_ne!(handle(Arc::new(faulty), &payload).await, JobOutcome::Done, "write {failing}");
            erase(&archive, ErasureScope::User(UserId::parse("U1").unwrap())).await;
            store_events(&archive, std::slice::from_ref(&payload)).await;
            let member =
                |user| archive.item(&ItemKey::new(format!("usergroupmember#{TEAM}#S1"), user)).unwrap();
            assert!(member("U1").is_erased(), "write {failing} of {payload}");
            assert!(!member("U2").is_erased());
        }
    }
}

#[tokio::test]
async fn the_bookmarks_of_an_erased_channel_are_erased_and_do_not_come_back() {
    let archive = Arc::new(MemoryArchive::new());
    let channel = |id: &str| ChannelId::parse(id).unwrap();
    let listed = [bookmark("Bk1", "plan", "https://example.com/")];
    let store = async |id: &str, at: u32| {
        let at = Ts::parse(&ts(at)).unwrap();
        for update in rules::bookmark::compare(&team(), &channel(id), &listed, &[], &at).updates {
            archive.write(&update).await.unwrap();
        }
    };
    store("C1", 1).await;
    store("C2", 1).await;
    erase(&archive, ErasureScope::Channel(channel("C2"))).await;
    store("C2", 2).await;
    let is_erased =
        |id: &str| archive.item(&ItemKey::bookmark(&team(), &channel(id), "Bk1")).unwrap().is_erased();
    assert!(is_erased("C2") && !is_erased("C1"));
}
