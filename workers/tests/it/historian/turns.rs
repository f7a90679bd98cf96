//! Which turns are sent: one for each workspace that is due, whatever the others do, and never two.

use rules::schedule::{WorkKind, WorkspaceRow};
use testkit::fake_slack::tokens;
use testkit::faults::{CallFault, FaultPlan, PortMethod};
use tokio::sync::watch;
use tokio::time::timeout;
use workers::runtime::{self, RuntimeSettings};

use super::*;
use crate::watched_worker::WatchedWorker;

/// A generous limit for what needs no time.
const DEADLINE: Duration = Duration::from_secs(20);

/// Before [`DEADLINE`], no call ends that Slack does not answer.
const HOUR: Duration = Duration::from_secs(3_600);

impl HistorianFixture {
    async fn schedule(&self) -> rules::schedule::WorkSchedule {
        let row = self.archive.get(&ItemKey::team(&team())).await.unwrap();
        WorkspaceRow::read(&row.unwrap()).unwrap().schedule(WorkKind::History)
    }
}

#[tokio::test(start_paused = true)]
async fn a_workspace_without_a_schedule_is_due_and_no_second_turn_is_sent_until_it_is_due_again() {
    let fixture = HistorianFixture::with_messages(&[message_at(BEGINNING, "missed")]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    // Both have read the row before either writes it, at different times.
    let slow = FaultPlan::none().with_rule(
        PortMethod::Write,
        1..=u64::MAX,
        CallFault::Delay(Duration::from_secs(1)),
    );
    let archive = Arc::new(FaultyArchive::new(fixture.archive.clone(), slow));
    let ports = || Ports { archive: archive.clone(), ..fixture.ports() };
    let historian = || Historian::new(ports(), Arc::clone(&fixture.api), BackfillMode::Gaps);
    let (historian, other) = (historian(), historian());
    assert!(historian.poll_interval().is_some());
    let later = async {
        fixture.clock.advance(Duration::from_millis(1));
        other.poll().await;
    };
    tokio::join!(biased; historian.poll(), later);
    historian.poll().await;
    assert_eq!(fixture.queue.depth(QueueName::Backfill.into()).await.unwrap().waiting, 1);
    assert_eq!(fixture.run_turns(&historian).await, 1);
    assert_eq!(fixture.texts().await, ["missed"]);
    let left = reader::gaps::unread_spans(&*fixture.archive, &team(), &ts(END), 10).await.unwrap();
    assert_eq!(left, []);
    // Five minutes later one of them looks again.
    historian.poll().await;
    assert_eq!(fixture.run_turns(&historian).await, 0);
    fixture.clock.advance(Duration::from_secs(300));
    tokio::join!(historian.poll(), other.poll());
    assert_eq!(fixture.run_turns(&historian).await, 1);
    // A process that starts may end a downtime.
    fixture.clock.advance(Duration::from_secs(1));
    fixture.historian().poll().await;
    assert_eq!(fixture.run_turns(&historian).await, 1);
}

/// Otherwise a workspace whose history takes days, or whose Slack does not answer, would keep the gaps of all others
/// waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_is_read_while_another_workspace_hangs_and_has_a_turn_waiting() {
    let slack = FakeSlack::start().await;
    let mut hanging = FakeWorkspace::new("T0");
    hanging.answer_delay = Some(HOUR);
    slack.set_workspace("xoxb-0", hanging);
    let mut workspace = FakeWorkspace::new("T1");
    workspace.channels.push(testkit::fake_slack::channel("C1", "general"));
    workspace.channel_history("C1").post(&message_at(BEGINNING, "missed"));
    slack.set_workspace(TOKEN, workspace);
    let fixture = HistorianFixture {
        api: slack.client(tokens(&[("T0", "xoxb-0"), ("T1", TOKEN)])),
        slack,
        ..HistorianFixture::with_messages(&[])
    };
    let hanging = TeamId::parse("T0").unwrap();
    fixture.archive.write(&Update::mark(ItemKey::team(&hanging))).await.unwrap();
    let historian = fixture.historian();
    timeout(DEADLINE, historian.poll()).await.unwrap();
    let [first] = &fixture.sent(QueueName::Backfill).await[..] else { panic!("one workspace has a row") };
    // Its turn is not over when the other workspace becomes due.
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    timeout(DEADLINE, historian.poll()).await.unwrap();
    let second = fixture.sent(QueueName::Backfill).await;
    let groups: Vec<&str> = second.iter().map(|job| job.group.as_str()).collect();
    assert_eq!((first.group.as_str(), groups), ("T0", vec!["T1"]));
    let read = async {
        tokio::select! {
            biased;
            outcomes = historian.handle(std::slice::from_ref(first)) => panic!("it hangs: {outcomes:?}"),
            outcomes = historian.handle(&second) => outcomes,
        }
    };
    assert_eq!(timeout(DEADLINE, read).await.unwrap(), [JobOutcome::Done]);
    assert_eq!(fixture.texts().await, ["missed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_workspaces_are_read_at_once_so_that_seven_that_hang_delay_no_other() {
    let slack = FakeSlack::start().await;
    let entries: Vec<(String, String)> = (1..8)
        .map(|number| (format!("T0{number}"), format!("xoxb-0{number}")))
        .chain([("T1".to_owned(), TOKEN.to_owned())])
        .collect();
    for (team, token) in &entries {
        let mut workspace = FakeWorkspace::new(team);
        workspace.channels.push(testkit::fake_slack::channel("C1", "general"));
        workspace.channel_history("C1").post(&message_at(BEGINNING, "missed"));
        workspace.answer_delay = (token != TOKEN).then_some(HOUR);
        slack.set_workspace(token, workspace);
    }
    let entries: Vec<(&str, &str)> =
        entries.iter().map(|(team, token)| (team.as_str(), token.as_str())).collect();
    let fixture = HistorianFixture {
        api: slack.client(tokens(&entries)),
        slack,
        ..HistorianFixture::with_messages(&[])
    };
    for (name, _) in &entries {
        let team = TeamId::parse(name).unwrap();
        fixture.archive.write(&Update::mark(ItemKey::team(&team))).await.unwrap();
        fixture.archive.write(&public_mark::opening(&team, &channel())).await.unwrap();
        fixture.archive.write(&dropped(&team, Some(channel()), ts(BEGINNING))).await.unwrap();
    }
    let worker = WatchedWorker::new(fixture.historian());
    timeout(DEADLINE, worker.poll()).await.unwrap();
    let mut done = worker.done.subscribe();
    let (stop, shutdown) = watch::channel(false);
    let settings = RuntimeSettings { drain_deadline: Duration::ZERO, ..RuntimeSettings::default() };
    let running = runtime::run(worker.clone(), fixture.ports(), settings, shutdown);
    let read = async {
        done.wait_for(|done| *done == 1).await.unwrap();
        stop.send_replace(true);
    };
    timeout(DEADLINE, async { tokio::join!(running, read) }).await.unwrap();
    assert_eq!(fixture.texts().await, ["missed"]);
}

#[tokio::test(start_paused = true)]
async fn each_turn_renews_the_time_of_sending_and_a_lost_one_is_sent_again_after_twenty_minutes() {
    let messages: Vec<Value> = (0..100).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.set_page_size(2);
    fixture.mark_public().await;
    fixture.add_outage(BEGINNING, END).await;
    let historian = fixture.historian();
    historian.poll().await;
    for turn in 0..2 {
        fixture.clock.advance(Duration::from_secs(15 * 60));
        historian.poll().await;
        let [job] = &fixture.sent(QueueName::Backfill).await[..] else { panic!("one job at turn {turn}") };
        assert_eq!(historian.handle(std::slice::from_ref(job)).await, [JobOutcome::Done]);
        fixture.ack(job).await;
    }
    // The third turn waits too long, so another one is sent, and only that one reads.
    fixture.clock.advance(Duration::from_secs(20 * 60));
    historian.poll().await;
    let calls = fixture.history_calls();
    let jobs = fixture.sent(QueueName::Backfill).await;
    let [lost, sent_again] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(historian.handle(std::slice::from_ref(lost)).await, [JobOutcome::Done]);
    assert_eq!(fixture.history_calls(), calls);
    assert_eq!(historian.handle(std::slice::from_ref(sent_again)).await, [JobOutcome::Done]);
    assert_eq!(fixture.texts().await.len(), 100);
    assert_eq!(fixture.schedule().await.sent_ms, None);
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_any_two_steps_of_a_turn_repeats_at_most_a_page() {
    let messages: Vec<Value> = (0..60).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let start = async || {
        let fixture = HistorianFixture::with_messages(&messages);
        fixture.slack.set_page_size(2);
        fixture.mark_public().await;
        fixture.add_outage(BEGINNING, END).await;
        fixture.historian().poll().await;
        fixture
    };
    let whole = start().await;
    whole.run_turns(&whole.historian()).await;
    let counting = start().await;
    let point = CrashPoint::never();
    let killed_at = async |fixture: &HistorianFixture, point: Arc<CrashPoint>| {
        let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), point);
        let ports = Ports { archive: Arc::new(archive), ..fixture.ports() };
        let killed = Historian::new(ports, Arc::clone(&fixture.api), BackfillMode::Gaps);
        let [job] = &fixture.sent(QueueName::Backfill).await[..] else { panic!("one turn was sent") };
        drop(killed.handle(std::slice::from_ref(job)).await);
        // It is delivered again, as it was not acked.
        assert_eq!(fixture.historian().handle(std::slice::from_ref(job)).await, [JobOutcome::Done]);
        fixture.ack(job).await;
    };
    killed_at(&counting, Arc::clone(&point)).await;
    let steps = point.steps();
    for after in (0..steps).step_by(9).chain([steps - 2, steps - 1, steps]) {
        let fixture = start().await;
        killed_at(&fixture, CrashPoint::after(after)).await;
        fixture.run_turns(&fixture.historian()).await;
        assert_eq!(fixture.texts().await.len(), 60, "after {after} of {steps} steps");
        let (calls, expected) = (fixture.history_calls(), whole.history_calls());
        assert!((expected..=expected + 1).contains(&calls), "{calls} calls after {after} of {steps} steps");
        assert_eq!(fixture.schedule().await.sent_ms, None, "after {after} of {steps} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn a_span_of_an_earlier_version_ends_and_its_gap_is_read_by_the_next_turn() {
    let fixture = HistorianFixture::with_messages(&[message_at(BEGINNING, "missed")]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    let body = json!({ "v": 1, "backfill": { "team": "T1", "channel": "C1", "from": ts(BEGINNING), "to": ts(END),
        "why": "downtime", "page": 0 } });
    let earlier = Delivery { body: body.to_string(), ..first_turn() };
    let historian = fixture.historian();
    assert_eq!(historian.handle(&[earlier]).await, [JobOutcome::Done]);
    assert_eq!(fixture.history_calls(), 0);
    historian.poll().await;
    assert_eq!(fixture.run_turns(&historian).await, 1);
    assert_eq!(fixture.texts().await, ["missed"]);
}
