//! Gaps that close by themselves: historians on one queue, with a fake Slack on virtual time.

use std::future::pending;

use ports::queue::run::RunId;
use reader::coverage::TeamCoverage;
use reader::gaps;
use rules::gap::closing::GapState;
use rules::gap::run::RunSpan;
use testkit::clock::virtual_clock;
use testkit::fake_slack::{START_S, refusal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{advance, interval, timeout};
use workers::runtime::{self, RuntimeSettings};

use super::*;

/// The maximum time from the first event after an outage until the missed messages are stored.
const CLOSED_WITHIN: Duration = Duration::from_secs(360);

/// Several processes, each with one historian.
pub(super) struct HistorianFleet {
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl HistorianFleet {
    pub(super) fn start(fixture: &HistorianFixture, processes: u64) -> Self {
        Self::with_mode(fixture, processes, BackfillMode::Gaps)
    }

    pub(super) fn with_mode(fixture: &HistorianFixture, processes: u64, mode: BackfillMode) -> Self {
        // The machine's clock agrees with Slack's.
        let clock = virtual_clock(TimestampMs(START_S * 1_000));
        let queue = Arc::new(MemoryQueue::on_virtual_time(Arc::clone(&clock)));
        let ports = Ports { queue, archive: fixture.archive.clone(), clock: clock.clone() };
        let (stop, shutdown) = watch::channel(false);
        let mut running = JoinSet::new();
        for seed in 0..processes {
            // Each process has its own client, because a client counts only its own calls.
            let api = fixture.slack.client_in_memory(TOKEN);
            let historian = Arc::new(Historian::new(ports.clone(), api, mode));
            let settings = RuntimeSettings { seed, ..RuntimeSettings::default() };
            running.spawn(runtime::run(historian, ports.clone(), settings, shutdown.clone()));
        }
        Self { stop, running }
    }

    /// Waits until the only gap is in the expected state.
    pub(super) async fn wait_for_gap(
        &self,
        fixture: &HistorianFixture,
        expected: GapState,
        within: Duration,
    ) {
        let reached = async {
            let mut seconds = interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                let gaps = gaps::progress(&*fixture.archive, &team()).await.unwrap();
                let [gap] = &gaps[..] else { panic!("{gaps:?}") };
                if gap.state == expected {
                    return;
                }
            }
        };
        timeout(within, reached).await.unwrap();
    }

    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            ended.unwrap();
        }
    }
}

impl HistorianFixture {
    /// Posts messages to the channel in Slack.
    fn post_to_slack(&self, messages: &[Value]) {
        self.slack.change_workspace(TOKEN, |workspace| {
            for message in messages {
                workspace.channel_history("C1").post(message);
            }
        });
    }

    /// Makes Slack refuse to show the channel.
    fn refuse_channel(&self, code: &str) {
        self.slack.change_workspace(TOKEN, |workspace| {
            workspace.unreadable.insert("C1".to_owned(), code.to_owned());
        });
    }

    /// Stores a mark that the app joined the channel.
    pub(super) async fn add_join_mark(&self, clock: Ts) {
        let joined = ItemKey::joined(&team(), &channel(), &clock);
        self.archive.write(&Update::mark(joined)).await.unwrap();
    }

    /// Stores two runs of ingest with no event between these times.
    pub(super) async fn add_outage(&self, from: i64, to: i64) {
        for (run, first, last) in [("0123456789abcde0", BEGINNING, from), ("0123456789abcde1", to, to)] {
            let mut span = RunSpan::from_event(ts(first));
            span.include(&ts(last));
            for update in span.updates(&team(), &RunId::parse(run).unwrap()) {
                self.archive.write(&update).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_two_hours_in_a_large_channel_is_filled_completely_within_minutes() {
    let stopped = END - 2 * 3_600;
    let before: Vec<Value> = (0..9_640).map(|n| message_at(stopped - 172 * (9_640 - n), "before")).collect();
    let fixture = HistorianFixture::with_messages(&before);
    let roots = |n: i64| stopped - 172 * 25 * (n + 1);
    fixture.post_to_slack(&(0..360).map(|n| reply_at(roots(n) + 60, roots(n))).collect::<Vec<_>>());
    fixture.mark_public().await;
    fixture.read(BEGINNING - 30 * DAY, stopped).await;

    // Messages, threads, and replies to older messages.
    let mut missed: Vec<Value> = (0..360).map(|n| message_at(stopped + 1 + 19 * n, "missed")).collect();
    missed.extend((0..40).map(|n| reply_at(stopped + 5 + 19 * 9 * n, stopped + 1 + 19 * 9 * n)));
    missed.extend((0..20).map(|n| reply_at(stopped + 6 + 19 * 9 * n, roots(n))));
    fixture.post_to_slack(&missed);
    fixture.add_outage(stopped, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.wait_for_gap(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await.len(), 9_640 + 360 + 360 + 40 + 20);
    let (_, again) = fixture.read(stopped, END).await;
    assert_eq!((again.new, again.updated), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_missed_reply_is_found_even_if_a_missed_deletion_keeps_the_count_the_same() {
    let (stopped, started) = (END - 3_600, END - 1_800);
    let root = stopped - 600;
    let fixture = HistorianFixture::with_messages(&[message_at(root, "root"), reply_at(root + 60, root)]);
    fixture.mark_public().await;
    fixture.read(BEGINNING, stopped).await;
    let late = reply_at(started + 5, root);
    fixture.change_channel(|channel| {
        channel.delete(ts(root + 60).as_str());
        channel.post(&reply_at(stopped + 5, root));
        channel.post(&late);
    });
    fixture.store_event(&event::posted("C1", &late)).await;
    fixture.add_outage(stopped, started).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.wait_for_gap(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.row(stopped + 5).await.text("text"), Some("a reply"));
}

#[tokio::test(start_paused = true)]
async fn a_gap_hidden_by_the_plan_is_lost_and_coverage_reports_the_oldest_visible_message() {
    let (hidden, shown) = (END - 7_200, END - 1_800);
    let fixture =
        HistorianFixture::with_messages(&[message_at(hidden + 5, "hidden"), message_at(shown, "shown")]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = Some(END - 3_600));
    fixture.mark_public().await;
    fixture.add_outage(hidden, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.wait_for_gap(&fixture, GapState::Lost, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await, ["shown"]);
    let coverage = TeamCoverage::read(&*fixture.archive, &team()).await.unwrap();
    assert_eq!(coverage.channel_coverage(&channel()).await.unwrap().limited_before, Some(ts(shown)));
}

#[tokio::test(start_paused = true)]
async fn a_gap_that_is_open_by_slacks_clock_is_not_read_even_if_the_local_clock_is_ahead() {
    let fixture = HistorianFixture::with_messages(&[]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(END + 60))).await.unwrap();
    fixture.clock.advance(Duration::from_secs(3_600));
    let historian = fixture.historian();
    historian.poll().await;
    assert_eq!((fixture.run_turns(&historian).await, fixture.history_calls()), (1, 0));
    advance(Duration::from_secs(120)).await;
    fixture.poll_later(&historian).await;
    assert_eq!((fixture.run_turns(&historian).await, fixture.history_calls()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_is_requested_once_a_day_and_filled_once_the_app_joins() {
    let fixture = HistorianFixture::with_messages(&[message_at(END - 1_000, "missed")]);
    fixture.refuse_channel("not_in_channel");
    fixture.mark_public().await;
    fixture.add_join_mark(ts(BEGINNING)).await;
    fixture.add_outage(END - 3_600, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    let calls_after = async |hours: u64| {
        let hours = Duration::from_secs(hours * 3_600);
        timeout(hours, pending::<()>()).await.unwrap_err();
        fixture.history_calls()
    };
    assert_eq!([calls_after(1).await, calls_after(22).await, calls_after(2).await], [1, 1, 2]);
    fleet.wait_for_gap(&fixture, GapState::Missing, CLOSED_WITHIN).await;

    fixture.slack.change_workspace(TOKEN, |workspace| workspace.unreadable.clear());
    let now = fixture.api.slack_time(&team()).await.unwrap();
    fixture.add_join_mark(Interval { from: now.micros() + 1, to: 0 }.from_ts()).await;
    fleet.wait_for_gap(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await, ["missed"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_with_many_gaps_is_requested_once() {
    let fixture = HistorianFixture::with_messages(&[]);
    fixture.refuse_channel("missing_scope");
    fixture.mark_public().await;
    for second in [100, 200, 300] {
        fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING + second))).await.unwrap();
    }
    let historian = fixture.historian();
    historian.poll().await;
    assert_eq!(fixture.run_turns(&historian).await, 1);
    assert_eq!(fixture.history_calls(), 1);
    let now = fixture.api.slack_time(&team()).await.unwrap();
    assert_eq!(gaps::unread_spans(&*fixture.archive, &team(), &now, 9).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_a_refused_token_ends_and_a_later_one_reads() {
    let fixture = HistorianFixture::with_messages(&[message_at(BEGINNING, "missed")]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    let historian = fixture.historian();
    // The client has called Slack before, so it knows the workspace of its token.
    fixture.api.teams().await.unwrap();
    fixture.slack.plan_answers("auth.test", [refusal("token_revoked")]);
    historian.poll().await;
    assert_eq!((fixture.run_turns(&historian).await, fixture.history_calls()), (1, 0));
    historian.poll().await;
    assert_eq!(fixture.run_turns(&historian).await, 0, "it is not due yet");
    fixture.poll_later(&historian).await;
    assert_eq!(fixture.run_turns(&historian).await, 1);
    assert_eq!(fixture.texts().await, ["missed"], "the token is accepted again");
}
