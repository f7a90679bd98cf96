//! Reconciliation: history is compared with the archive before it is stored.

use std::collections::BTreeSet;

use ports::archive::ErasureFacts;
use rules::message::stored_version;
use testkit::corpus::event::{changed, deleted, edited, posted, reaction_added, subtyped};
use testkit::deliveries::delivery;
use workers::historian::{Comparison, FoundDifferences};
use workers::message_writer::MessageWriter;
use workers::store::PreviewArchive;

use super::*;

/// A comparison of messages from `from` to `END`, when the read begins: newer messages are not compared.
fn comparison(from: i64, marks_deleted: bool) -> Comparison {
    Comparison::new(span(from, END).span, marks_deleted, ErasureFacts::default())
}

/// Missing, changed, extra, filled, reactions removed.
fn counts(found: &FoundDifferences) -> [u64; 5] {
    [found.missing, found.changed, found.extra, found.filled, found.reactions_removed]
}

fn seconds(timestamps: &BTreeSet<Ts>) -> Vec<i64> {
    timestamps.iter().map(|ts| ts.micros() / 1_000_000).collect()
}

impl HistorianFixture {
    async fn reconcile_into(
        &self,
        archive: &dyn Archive,
        from: i64,
        marks_deleted: bool,
    ) -> FoundDifferences {
        let comparison = comparison(from, marks_deleted);
        self.read_choosing(archive, &span(from, END), 30, ThreadChoice::Compared(&comparison))
            .await
            .0
            .unwrap();
        comparison.found()
    }

    async fn reconcile(&self, from: i64) -> FoundDifferences {
        self.reconcile_into(&*self.archive, from, false).await
    }

    /// Stores an event through the message-writer.
    pub(super) async fn store_event(&self, event: &Value) {
        let writer = MessageWriter::new(self.archive.clone(), self.queue.clone());
        let id = format!("Ev{}", self.archive.items().len());
        let body = event::envelope("T1", &id, event);
        assert_eq!(writer.handle(&[delivery(&body)]).await, [JobOutcome::Done], "{event}");
    }

    pub(super) fn change_channel(&self, change: impl FnOnce(&mut testkit::fake_slack::ChannelHistory)) {
        self.slack.change_workspace(TOKEN, |workspace| change(workspace.channel_history("C1")));
    }

    pub(super) async fn row(&self, second: i64) -> ports::archive::Item {
        self.archive.get(&ItemKey::message(&team(), &channel(), &ts(second))).await.unwrap().unwrap()
    }
}

/// Ten messages; the first has three replies.
fn a_week() -> Vec<Value> {
    let messages = (0..10).map(|n| message_at(BEGINNING + n * 1_000, &format!("message {n}")));
    messages.chain((1..4).map(|n| reply_at(BEGINNING + n, BEGINNING))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_was_read_has_no_differences_despite_fields_that_differ_in_each_response() {
    let mut messages = a_week();
    messages.push(event::file_share(ts(BEGINNING + 600).as_str(), "U01", "see", &["F1"]));
    messages.push(subtyped(reply_at(BEGINNING + 700, BEGINNING), "thread_broadcast", serde_json::json!({})));
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.volatile = true);
    let found = fixture.reconcile(BEGINNING - 10).await;
    assert_eq!(counts(&found), [15, 0, 0, 15, 0]);
    assert_eq!(fixture.spans().await, [(BEGINNING - 10, END)]);
    assert_eq!(fixture.sent(QueueName::Files).await.len(), 1);
    let rows = fixture.archive.items();
    for _ in 0..3 {
        assert_eq!(fixture.reconcile(BEGINNING - 10).await, FoundDifferences::default());
    }
    assert_eq!(fixture.archive.items(), rows);
}

#[tokio::test(start_paused = true)]
async fn changes_in_a_gap_are_found_and_filled_and_deletions_are_marked_on_request() {
    let fixture = HistorianFixture::with_messages(&a_week());
    for message in a_week() {
        fixture.store_event(&posted("C1", &message)).await;
    }
    let reacted =
        reaction_added("C1", ts(BEGINNING + 5_000).as_str(), "U9", "eyes", ts(BEGINNING + 5_001).as_str());
    fixture.store_event(&reacted).await;
    assert_eq!(counts(&fixture.reconcile(0).await), [0, 0, 0, 0, 1]);

    let before = message_at(BEGINNING + 1_000, "message 1");
    let after = edited(&before, ts(END - 100).as_str(), "edited in the gap");
    fixture.change_channel(|history| {
        history.apply_event(&changed("C1", &before, &after, ts(END - 100).as_str()));
        history.apply_event(&deleted(
            "C1",
            &message_at(BEGINNING + 2_000, "message 2"),
            ts(END - 90).as_str(),
        ));
        history.delete(ts(BEGINNING).as_str());
        history.delete(ts(BEGINNING + 3).as_str());
        history.react(ts(BEGINNING + 3_000).as_str(), "U3", "tada");
        history.post(&message_at(BEGINNING + 2_500, "missed"));
        history.post(&reply_at(BEGINNING + 9, BEGINNING));
    });
    let rows = fixture.archive.items();
    let preview = PreviewArchive::new(Some(fixture.archive.clone()));
    let planned = fixture.reconcile_into(&preview, 0, true).await;
    assert_eq!(fixture.archive.items(), rows, "a preview writes nothing");
    assert_eq!(seconds(&planned.missing_ts), [BEGINNING + 9, BEGINNING + 2_500]);
    assert_eq!(seconds(&planned.extra_ts), [BEGINNING + 3, BEGINNING + 2_000]);

    let found = fixture.reconcile(0).await;
    assert_eq!(counts(&found), [2, 3, 2, 5, 1]);
    assert_eq!(fixture.row(BEGINNING + 1_000).await.text("text"), Some("edited in the gap"));
    let revisions = key::revisions(&team(), &channel(), &ts(BEGINNING + 1_000));
    let revisions = query_all(&*fixture.archive, Query::partition(revisions)).await.unwrap();
    assert_eq!(revisions.iter().map(|row| row.text("text")).collect::<Vec<_>>(), [Some("message 1")]);
    assert!(fixture.row(BEGINNING).await.has_flag("deleted"), "its root is a tombstone");
    assert!(!fixture.row(BEGINNING + 2_000).await.has_flag("deleted"), "absence marks nothing by itself");

    let marked = fixture.reconcile_into(&*fixture.archive, 0, true).await;
    assert_eq!((counts(&marked), marked.marked), ([0, 0, 2, 0, 1], 2));
    for second in [BEGINNING + 3, BEGINNING + 2_000] {
        let row = fixture.row(second).await;
        assert!(row.has_flag("deleted") && stored_version(&row).is_some(), "{row:?}");
    }
    assert_eq!(counts(&fixture.reconcile(0).await), [0, 0, 0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_message_counts_as_deleted_only_if_slack_shows_messages_on_both_sides() {
    let messages: Vec<Value> = (0..6).map(|n| message_at(BEGINNING + n * DAY, "here")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.read(0, END).await;
    fixture.change_channel(|history| {
        for n in [0, 3, 5] {
            history.delete(ts(BEGINNING + n * DAY).as_str());
        }
    });
    assert_eq!(seconds(&fixture.reconcile(0).await.extra_ts), [BEGINNING + 3 * DAY]);
    // Before the span, the read only looks for a message on the other side of its beginning.
    assert_eq!(seconds(&fixture.reconcile(BEGINNING + 3 * DAY).await.extra_ts), [BEGINNING + 3 * DAY]);
    assert_eq!(fixture.reconcile(BEGINNING + 3 * DAY + 1).await.extra, 0);
    // Slack's plan hides older messages.
    let limit = BEGINNING + 3 * DAY + 1;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = Some(limit));
    assert_eq!(fixture.reconcile(0).await.extra, 0);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = None);
    // Pages shorter than the requested limit may leave out messages.
    fixture.slack.set_page_size(2);
    assert_eq!(fixture.reconcile(BEGINNING + 2 * DAY).await.extra, 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_missing_between_two_full_pages_counts_as_deleted() {
    let fixture = HistorianFixture::with_messages(
        &(0..2_000).map(|n| message_at(BEGINNING + n, "here")).collect::<Vec<_>>(),
    );
    fixture.read(0, END).await;
    // The first page ends with the message before it.
    fixture.change_channel(|history| history.delete(ts(BEGINNING + 1_000).as_str()));
    assert_eq!(seconds(&fixture.reconcile(0).await.extra_ts), [BEGINNING + 1_000]);
}

#[tokio::test(start_paused = true)]
async fn threads_are_compared_with_the_replies_on_their_pages() {
    let fixture = HistorianFixture::with_messages(&a_week());
    fixture.read(0, END).await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        let history = workspace.channel_history("C1");
        history.delete(ts(BEGINNING + 1).as_str());
        history.post(&reply_at(BEGINNING + 2_001, BEGINNING + 2_000));
        history.delete(ts(BEGINNING + 2_001).as_str());
    });
    fixture.store_event(&posted("C1", &reply_at(BEGINNING + 2_001, BEGINNING + 2_000))).await;
    // Slack no longer counts a reply to the second root.
    let found = fixture.reconcile(0).await;
    assert_eq!(seconds(&found.extra_ts), [BEGINNING + 1, BEGINNING + 2_001]);
    // A thread that began before the span is compared only inside the span.
    assert_eq!(seconds(&fixture.reconcile(BEGINNING + 2).await.extra_ts), [BEGINNING + 2_001]);
    fixture.change_channel(|history| history.post(&reply_at(BEGINNING + 5, BEGINNING)));
    let found = fixture.reconcile(BEGINNING + 4).await;
    assert_eq!((seconds(&found.missing_ts), found.filled), (vec![BEGINNING + 5], 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_posted_during_the_read_is_neither_missing_nor_deleted() {
    let fixture = HistorianFixture::with_messages(&a_week());
    fixture.read(0, END).await;
    fixture.store_event(&posted("C1", &reply_at(END + 1, BEGINNING))).await;
    fixture.change_channel(|history| history.post(&reply_at(END + 2, BEGINNING)));
    assert_eq!(fixture.reconcile(0).await, FoundDifferences::default());
}

#[tokio::test(start_paused = true)]
async fn a_restricted_app_and_pauses_are_handled_as_in_a_backfill() {
    let messages: Vec<Value> = (0..40).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.restricted = true);
    fixture.slack.plan_answers("conversations.history", [testkit::fake_slack::SlackAnswer::rate_limited(17)]);
    let start = Instant::now();
    assert_eq!(counts(&fixture.reconcile(0).await), [40, 0, 0, 40, 0]);
    assert!(start.elapsed() >= Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(fixture.slack.calls().iter().all(|call| !call.early));
}
