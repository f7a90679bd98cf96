//! Tests of the historian with a fake Slack on virtual time.

mod closing;
mod errors;
mod fill;
mod pace;
mod reconcile;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, ItemKey, Query, Update, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::{Delivery, Queue, QueueName};
use rules::filled::{self, FilledSpan};
use rules::gap::dropped;
use rules::history::job::FillJob;
use rules::interval::Interval;
use rules::{project, public_mark};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use slack_api::WebApi;
use testkit::corpus::event;
use testkit::deliveries::{delivery_of, receive_visible};
use testkit::fake_slack::{FakeSlack, FakeWorkspace};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use tokio::time::Instant;
use workers::historian::BackfillMode;
use workers::historian::{
    ChannelReader, Consequence, Historian, HistoryCalls, HistoryError, PageBudget, PausePolicy, PlannedSpan,
    ReadCounts, ReadSnapshot, SpanEnd, ThreadChoice,
};
use workers::runtime::{JobOutcome, JobRetry, Ports, Worker};

const TOKEN: &str = "xoxb-1";
const DAY: i64 = 86_400;
/// The second of the first message.
const BEGINNING: i64 = 1_699_000_000;
/// The second up to which history is read.
const END: i64 = 1_700_000_000;

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse("C1").unwrap()
}

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{second}.000000")).unwrap()
}

fn span(from: i64, to: i64) -> PlannedSpan {
    let span = Interval { from: from * 1_000_000, to: to * 1_000_000 };
    PlannedSpan { span, to: ts(to) }
}

fn message_at(second: i64, text: &str) -> Value {
    event::message(ts(second).as_str(), "U01", text)
}

fn reply_at(second: i64, root: i64) -> Value {
    event::reply(ts(second).as_str(), ts(root).as_str(), "U02", "a reply")
}

struct HistorianFixture {
    slack: FakeSlack,
    api: Arc<WebApi>,
    archive: Arc<MemoryArchive>,
    queue: Arc<MemoryQueue>,
    clock: Arc<ManualClock>,
}

impl HistorianFixture {
    /// A workspace with one channel that contains these messages.
    fn with_messages(messages: &[Value]) -> Self {
        let slack = FakeSlack::on_virtual_time();
        let mut workspace = FakeWorkspace::new("T1");
        workspace.channels.push(testkit::fake_slack::channel("C1", "general"));
        for message in messages {
            workspace.channel_history("C1").post(message);
        }
        slack.set_workspace(TOKEN, workspace);
        let clock = ManualClock::starting_at(TimestampMs(END * 1_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        Self { api: slack.client_in_memory(TOKEN), slack, archive: Arc::default(), queue, clock }
    }

    async fn read_into(
        &self,
        archive: &dyn Archive,
        planned: &PlannedSpan,
        look_back_days: i64,
    ) -> (Result<SpanEnd, HistoryError>, ReadSnapshot) {
        self.read_choosing(archive, planned, look_back_days, ThreadChoice::Incomplete).await
    }

    async fn read_choosing(
        &self,
        archive: &dyn Archive,
        planned: &PlannedSpan,
        look_back_days: i64,
        threads: ThreadChoice<'_>,
    ) -> (Result<SpanEnd, HistoryError>, ReadSnapshot) {
        let calls = HistoryCalls::new(Arc::clone(&self.api), team(), PausePolicy::WaitOut);
        let (counts, channel) = (ReadCounts::default(), channel());
        let reader = ChannelReader {
            archive,
            queue: Some(&*self.queue),
            calls: &calls,
            channel: &channel,
            look_back_micros: look_back_days * DAY * 1_000_000,
            counts: &counts,
            threads,
        };
        let end = reader.read_span(planned, &mut PageBudget::unlimited()).await;
        (end, counts.snapshot())
    }

    async fn read(&self, from: i64, to: i64) -> (SpanEnd, ReadSnapshot) {
        let (end, tally) = self.read_into(&*self.archive, &span(from, to), 30).await;
        (end.unwrap(), tally)
    }

    async fn texts(&self) -> Vec<String> {
        let rows =
            query_all(&*self.archive, Query::partition(key::messages(&team(), &channel()))).await.unwrap();
        let rows = rows.iter().filter_map(project::message);
        rows.map(|row| row.text().unwrap_or_default().to_owned()).collect()
    }

    async fn spans(&self) -> Vec<(i64, i64)> {
        let rows = query_all(&*self.archive, Query::partition(key::filled(&team()))).await.unwrap();
        let second = |ts: &Ts| ts.micros() / 1_000_000;
        filled::spans(&rows).iter().map(|FilledSpan { from, to, .. }| (second(from), second(to))).collect()
    }

    fn history_calls(&self) -> usize {
        self.slack.call_count("conversations.history") + self.slack.call_count("conversations.replies")
    }

    fn historian(&self) -> Historian {
        Historian::new(self.ports(), Arc::clone(&self.api), BackfillMode::Gaps)
    }

    fn ports(&self) -> Ports {
        Ports { queue: self.queue.clone(), archive: self.archive.clone(), clock: self.clock.clone() }
    }

    /// Stores the rows of the workspace and of its public channel.
    async fn mark_public(&self) {
        self.archive.write(&Update::mark(ItemKey::team(&team()))).await.unwrap();
        self.archive.write(&public_mark::opening(&team(), &channel())).await.unwrap();
    }

    async fn sent(&self, queue: QueueName) -> Vec<Delivery> {
        receive_visible(&*self.queue, queue).await
    }

    /// Sends what is due after five minutes.
    async fn poll_later(&self, historian: &Historian) {
        self.clock.advance(Duration::from_secs(300));
        historian.poll().await;
    }

    /// Runs the turns that wait, and those that follow them; returns how many.
    async fn run_turns(&self, historian: &Historian) -> usize {
        let mut count = 0;
        loop {
            let jobs = self.sent(QueueName::Backfill).await;
            if jobs.is_empty() {
                return count;
            }
            for job in jobs {
                assert_eq!(historian.handle(std::slice::from_ref(&job)).await, [JobOutcome::Done]);
                self.ack(&job).await;
                count += 1;
            }
        }
    }

    async fn ack(&self, job: &Delivery) {
        let receipts = std::slice::from_ref(&job.receipt);
        let acked = self.queue.ack(QueueName::Backfill.into(), receipts).await;
        assert!(acked.iter().all(Result::is_ok), "{acked:?}");
    }
}

/// A first turn that no poll has sent.
fn first_turn() -> Delivery {
    delivery_of(FillJob { team: team(), n: 0, began_ms: END * 1_000 }.outgoing())
}

#[tokio::test(start_paused = true)]
async fn a_channel_is_read_page_by_page_with_its_threads_and_files_to_its_beginning() {
    let mut messages: Vec<Value> =
        (0..250).map(|n| message_at(BEGINNING + n, &format!("message {n}"))).collect();
    messages.push(reply_at(BEGINNING + 500, BEGINNING + 7));
    messages.push(event::file_share(ts(BEGINNING + 600).as_str(), "U01", "see", &["F1"]));
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.set_page_size(100);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.messages, tally.new, tally.threads), (SpanEnd::Whole, 252, 252, 1));
    assert_eq!(fixture.texts().await.len(), 252);
    assert_eq!(fixture.spans().await, [(0, END)]);
    assert_eq!(fixture.sent(QueueName::Files).await.len(), 1);
    assert_eq!((fixture.slack.call_count("conversations.history"), fixture.history_calls()), (3, 4));
    // A second read skips complete threads and finds nothing new.
    let (_, again) = fixture.read(0, END).await;
    assert_eq!((again.messages, again.new, again.updated, again.threads), (251, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn history_stores_the_people_of_other_organisations_and_the_bots_that_it_describes() {
    let by_eve = |second: i64, name: &str| {
        let profile = json!({ "display_name": name, "team": "T0OTHER" });
        event::with_fields(event::message(ts(second).as_str(), "U0EVE", "hi"), [("user_profile", profile)])
    };
    let by_jira = event::with_fields(
        event::bot_message(ts(BEGINNING + 2).as_str(), "B0JIRA", "custom", "done"),
        [("bot_profile", json!({ "id": "B0JIRA", "name": "Jira Cloud" }))],
    );
    let messages = [by_eve(BEGINNING, "eva"), by_jira, by_eve(BEGINNING + 9, "eve")];
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.read(0, END).await;
    let eve = ItemKey::user(&team(), &UserId::parse("U0EVE").unwrap());
    assert_eq!(fixture.archive.item(&eve).unwrap().text("display_name"), Some("eve"));
    let jira = ItemKey::bot(&team(), &UserId::parse("B0JIRA").unwrap());
    assert_eq!(fixture.archive.item(&jira).unwrap().text("name"), Some("Jira Cloud"));
    let message = ItemKey::message(&team(), &channel(), &ts(BEGINNING));
    let raw = fixture.archive.item(&message).unwrap().text("raw_event").unwrap().to_owned();
    assert!(!raw.contains("eva") && !raw.contains("T0"), "it is stored once, not in each message: {raw}");
}

#[tokio::test(start_paused = true)]
async fn fields_that_differ_in_each_response_cause_no_writes() {
    let mut messages: Vec<Value> = (0..20).map(|n| message_at(BEGINNING + n, "hi")).collect();
    messages.push(reply_at(BEGINNING + 500, BEGINNING + 7));
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.volatile = true);
    fixture.read(0, END).await;
    let rows = fixture.archive.items();
    for _ in 0..5 {
        let (_, tally) = fixture.read(0, END).await;
        assert_eq!((tally.new, tally.updated), (0, 0));
    }
    assert_eq!(fixture.archive.items(), rows);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_to_an_older_message_is_found_and_the_older_message_alone_is_not_stored() {
    let old = BEGINNING + DAY;
    let messages = [
        message_at(old - 40 * DAY, "far too old"),
        reply_at(old + 5 * DAY + 20, old - 40 * DAY),
        message_at(old, "old"),
        message_at(old + 1, "old and quiet"),
        reply_at(old + 5 * DAY, old),
        message_at(old + 5 * DAY + 10, "new"),
    ];
    let fixture = HistorianFixture::with_messages(&messages);
    let (end, tally) = fixture.read(old + 5 * DAY - 60, END).await;
    assert_eq!((end, tally.threads), (SpanEnd::Whole, 1));
    assert_eq!(fixture.texts().await, ["old", "a reply", "new"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_steps_repeats_a_page_and_loses_nothing() {
    let mut messages: Vec<Value> = (0..40).map(|n| message_at(BEGINNING + n, "hi")).collect();
    messages.push(reply_at(BEGINNING + 500, BEGINNING + 7));
    let whole = HistorianFixture::with_messages(&messages);
    whole.slack.set_page_size(10);
    let counting = CrashPoint::never();
    let archive = FaultyArchive::with_crash_point(whole.archive.clone(), Arc::clone(&counting));
    whole.read_into(&archive, &span(0, END), 30).await.0.unwrap();
    let uninterrupted = whole.history_calls();
    for steps in (0..counting.steps()).step_by(7) {
        let fixture = HistorianFixture::with_messages(&messages);
        fixture.slack.set_page_size(10);
        let crashing = FaultyArchive::with_crash_point(fixture.archive.clone(), CrashPoint::after(steps));
        assert!(fixture.read_into(&crashing, &span(0, END), 30).await.0.is_err());
        let reached = fixture.spans().await.first().map_or(END, |(from, _)| *from);
        fixture
            .read_into(&*fixture.archive, &PlannedSpan { to: ts(END), ..span(0, reached) }, 30)
            .await
            .0
            .unwrap();
        assert_eq!(fixture.archive.items(), whole.archive.items(), "after {steps} steps");
        assert!(fixture.history_calls() <= uninterrupted + 3, "after {steps} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_with_a_cursor_is_not_the_end() {
    let messages: Vec<Value> = (0..30).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.set_page_size(10);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.empty_page_every = 2);
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.messages), (SpanEnd::Whole, 30));
}

#[tokio::test(start_paused = true)]
async fn messages_hidden_by_the_plan_are_recorded_as_unreadable_and_not_as_filled() {
    let messages = [message_at(BEGINNING, "hidden"), message_at(BEGINNING + 2 * DAY, "shown")];
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = Some(BEGINNING + DAY));
    let (end, _) = fixture.read(0, END).await;
    assert_eq!(end, SpanEnd::Limited);
    assert_eq!(fixture.texts().await, ["shown"]);
    assert_eq!(fixture.spans().await, [(BEGINNING + 2 * DAY, END)]);
    let rows = query_all(&*fixture.archive, Query::partition(key::unreadable(&team()))).await.unwrap();
    let limits = filled::unreadables(&rows);
    assert_eq!((limits.len(), &limits[0].from), (1, &ts(BEGINNING + 2 * DAY)));
}

#[tokio::test(start_paused = true)]
async fn a_restricted_app_is_detected_and_makes_one_call_a_minute() {
    let messages: Vec<Value> = (0..100).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.restricted = true);
    let start = Instant::now();
    let (end, tally) = fixture.read(0, END).await;
    assert_eq!((end, tally.messages), (SpanEnd::Whole, 100));
    // Seven pages of fifteen: Slack counts the first two against the same minute.
    assert!(start.elapsed() >= Duration::from_secs(300), "{:?}", start.elapsed());
    let early: Vec<_> = fixture.slack.calls().into_iter().filter(|call| call.early).collect();
    assert!(early.is_empty(), "{early:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_records_the_reason() {
    let fixture = HistorianFixture::with_messages(&[message_at(BEGINNING, "hi")]);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.unreadable.insert("C1".to_owned(), "not_in_channel".to_owned());
    });
    let (end, _) = fixture.read_into(&*fixture.archive, &span(0, END), 30).await;
    assert!(matches!(end.unwrap_err().consequence(), Consequence::Channel(Some(_))));
    let rows = query_all(&*fixture.archive, Query::partition(key::unreadable(&team()))).await.unwrap();
    assert_eq!(filled::unreadables(&rows)[0].reason, filled::UnreadableReason::NotInChannel);
    assert_eq!(fixture.spans().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_read_in_several_turns_and_only_if_its_channel_is_public() {
    let messages: Vec<Value> = (0..50).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.set_page_size(2);
    let historian = fixture.historian();
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!(
        (fixture.history_calls(), fixture.texts().await.len()),
        (0, 0),
        "the channel is not known to be public"
    );
    fixture.mark_public().await;
    fixture.add_outage(BEGINNING, END).await;
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!(fixture.texts().await.len(), 40, "twenty pages");
    let [next] = &fixture.sent(QueueName::Backfill).await[..] else { panic!("no continuation") };
    assert!(next.body.contains("\"n\":1"), "{}", next.body);
    assert_eq!(historian.handle(std::slice::from_ref(next)).await, [JobOutcome::Done]);
    assert_eq!(fixture.texts().await.len(), 50);
    // What was read is not read again.
    let calls = fixture.history_calls();
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!(fixture.history_calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_retried_after_the_pause_that_slack_asks_for() {
    let fixture = HistorianFixture::with_messages(&[message_at(BEGINNING, "hi")]);
    fixture.mark_public().await;
    fixture.add_outage(BEGINNING, END).await;
    fixture.slack.plan_answers("conversations.history", [testkit::fake_slack::SlackAnswer::rate_limited(17)]);
    let outcomes = fixture.historian().handle(&[first_turn()]).await;
    let [JobOutcome::Retry(JobRetry { after: Some(after), .. })] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(after.as_secs(), 17);
}
