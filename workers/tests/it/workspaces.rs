//! The stored facts of a workspace, and requests that name no workspace.

use std::sync::Arc;

use ports::clock::{ManualClock, TimestampMs};
use ports::queue::Queue;
use ports::queue::route::route_unreadable;
use reader::directory;
use serde_json::json;
use slack::ids::TeamId;
use testkit::corpus::{TEAM, event};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

use testkit::deliveries::{delivery, delivery_of};

fn writer() -> (Arc<MemoryArchive>, MessageWriter) {
    let archive = Arc::new(MemoryArchive::new());
    let queue = Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(1_700_000_000_000))));
    let writer = MessageWriter::new(archive.clone(), queue as Arc<dyn Queue>);
    (archive, writer)
}

#[tokio::test]
async fn a_workspaces_name_and_address_are_the_newest_in_any_order() {
    let ts = |second: u32| format!("{second}.000000");
    let events = [
        json!({ "type": "team_rename", "name": "Acme", "event_ts": ts(10) }),
        json!({ "type": "team_rename", "name": "Acme Inc.", "event_ts": ts(20) }),
        json!({ "type": "team_domain_change", "url": "https://acme.slack.com", "domain": "acme", "event_ts": ts(15) }),
        json!({ "type": "team_domain_change", "url": "https://acme-inc.slack.com", "domain": "acme-inc", "event_ts": ts(25) }),
    ];
    for rotation in 0..events.len() {
        let (archive, writer) = writer();
        let mut payloads = events.to_vec();
        payloads.rotate_left(rotation);
        let jobs: Vec<_> =
            payloads.iter().map(|payload| delivery(&event::envelope(TEAM, "Ev1", payload))).collect();
        let outcomes = writer.handle(&jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        let workspace =
            directory::read_workspace_facts(&*archive, &TeamId::parse(TEAM).unwrap()).await.unwrap();
        assert_eq!(workspace.name.as_deref(), Some("Acme Inc."));
        assert_eq!(workspace.base_url.as_deref(), Some("https://acme-inc.slack.com/"));
    }
}

#[tokio::test]
async fn a_request_without_a_workspace_or_with_an_invalid_id_is_quarantined_with_the_reason() {
    let (_, writer) = writer();
    for (envelope, why) in [
        (
            json!({ "type": "event_callback", "event": { "type": "team_rename" } }),
            "names no workspace (team_id)",
        ),
        (json!({ "type": "event_callback", "team_id": "t#1", "event": {} }), "Slack's shape"),
        (json!({ "type": "event_callback", "team_id": "T1", "event": { "channel": "c#" } }), "Slack's shape"),
    ] {
        let outcomes = writer.handle(&[delivery(&envelope.to_string())]).await;
        let [JobOutcome::Quarantine(reason)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(reason.contains(why), "{reason}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_quarantined_with_the_reason() {
    let (archive, writer) = writer();
    for (body, why) in [
        (r#"{"team_id":"T1","team_id":"T1","event":{"type":"emoji_changed"}}"#, "duplicate field `team_id`"),
        (r#"{"team_id":"T1","\ud83d":1}"#, "hex escape"),
    ] {
        let outcomes = writer.handle(&[delivery_of(route_unreadable(body))]).await;
        let [JobOutcome::Quarantine(reason)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(reason.contains(why), "{reason}");
    }
    assert_eq!(archive.items(), []);
}
