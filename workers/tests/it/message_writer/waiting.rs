//! Events that are not stored, and may not be dropped yet.

use ports::queue::waiting::WaitCause;
use rules::waiting::WaitState;

use super::*;

/// Stores that jobs of the workspace wait.
async fn begin_waiting(fixture: &WriterFixture) {
    let mut state = WaitState::new(QueueName::Events, &team());
    state.renew_wake();
    fixture.archive.write(&state.update().unwrap()).await.unwrap();
}

#[tokio::test]
async fn what_would_be_dropped_waits_behind_older_jobs_of_its_workspace() {
    let private = event::with_fields(opener("C7"), [("channel_type", "group".into())]);
    let moved = json!({ "type": "channel_id_changed", "old_channel_id": "C7", "new_channel_id": "C8",
        "event_ts": "1700000002.000000" });
    let deleted = json!({ "type": "file_deleted", "file_id": "F1", "channel_ids": [], "event_ts": "1700000003.000000" });
    for dropped in [private, moved, deleted] {
        let fixture = WriterFixture::new();
        assert_eq!(fixture.handle(std::slice::from_ref(&dropped)).await, [JobOutcome::Done], "nothing waits");
        begin_waiting(&fixture).await;
        let outcomes = fixture.handle(std::slice::from_ref(&dropped)).await;
        assert!(matches!(outcomes[..], [JobOutcome::Wait(WaitCause::Order, _)]), "{dropped}: {outcomes:?}");
        // Sent back, it is behind the older jobs, and none of those has returned.
        let mut job = deliveries(&[dropped]).remove(0);
        job.body =
            job.body.replacen("{\"v\":1,", "{\"v\":1,\"origin\":{\"sent_at_ms\":5,\"message_id\":\"m\"},", 1);
        assert_eq!(fixture.writer.handle(&[job]).await, [JobOutcome::Done]);
    }
}

#[tokio::test]
async fn the_deletion_of_a_file_that_no_public_channel_can_have_does_not_wait() {
    for (channels, parked) in [(json!([]), 0), (json!(["D1"]), 0), (json!(["C7"]), 1), (Value::Null, 1)] {
        let fixture = WriterFixture::new();
        let deleted = json!({ "type": "file_deleted", "file_id": "F1", "channel_ids": channels,
            "event_ts": "1700000003.000000" });
        fixture.store(&[deleted]).await;
        assert_eq!(fixture.sent_to(QueueName::Events).await.len(), parked, "{channels}");
    }
}
