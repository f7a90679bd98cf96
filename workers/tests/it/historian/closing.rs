//! Gaps that close by themselves: historians that run on one queue, beside a Slack on virtual time.

use std::future::pending;

use ports::archive::Update;
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

/// The longest time from the first event after a stop until what was missed is there.
const CLOSED_WITHIN: Duration = Duration::from_secs(360);

/// Processes with a historian each.
pub(super) struct HistorianFleet {
    pub(super) queue: Arc<MemoryQueue>,
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl HistorianFleet {
    pub(super) fn start(fixture: &HistorianFixture, processes: u64) -> Self {
        // The machine's clock agrees with Slack's.
        let clock = virtual_clock(TimestampMs(START_S * 1_000));
        let queue = Arc::new(MemoryQueue::on_virtual_time(Arc::clone(&clock)));
        let ports = Ports { queue: queue.clone(), archive: fixture.archive.clone(), clock: clock.clone() };
        let (stop, shutdown) = watch::channel(false);
        let mut running = JoinSet::new();
        for seed in 0..processes {
            // A client counts its own calls only: each process has one.
            let api = fixture.slack.client_in_memory(TOKEN);
            let historian = Arc::new(Historian::new(ports.clone(), api, BackfillMode::Gaps));
            let settings = RuntimeSettings { seed, ..RuntimeSettings::default() };
            running.spawn(runtime::run(historian, ports.clone(), settings, shutdown.clone()));
        }
        Self { queue, stop, running }
    }

    /// Waits until there is only one gap, and it stands like this.
    pub(super) async fn until(&self, fixture: &HistorianFixture, expected: GapState, within: Duration) {
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
    /// Slack has these messages too.
    fn are_posted(&self, messages: &[Value]) {
        self.slack.change(TOKEN, |workspace| {
            for message in messages {
                workspace.said_in("C1").post(message);
            }
        });
    }

    /// Slack refuses to show the channel.
    fn refuses(&self, code: &str) {
        self.slack.change(TOKEN, |workspace| {
            workspace.unreadable.insert("C1".to_owned(), code.to_owned());
        });
    }

    /// Slack tells that the app joined the channel.
    async fn joins(&self, clock: Ts) {
        let joined = ItemKey::joined(&team(), &channel(), &clock);
        self.archive.write(&Update::mark(joined)).await.unwrap();
    }

    /// Notes that no process took an event between these times, and that the next one did.
    async fn missed(&self, from: i64, to: i64) {
        for (run, first, last) in [("0123456789abcde0", BEGINNING, from), ("0123456789abcde1", to, to)] {
            let mut span = RunSpan::at(ts(first));
            span.and(&ts(last));
            for update in span.updates(&team(), &RunId::parse(run).unwrap()) {
                self.archive.write(&update).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_two_hours_in_a_large_channel_is_filled_within_minutes_and_leaves_nothing_to_find() {
    let stopped = END - 2 * 3_600;
    let before: Vec<Value> = (0..9_640).map(|n| said(stopped - 172 * (9_640 - n), "before")).collect();
    let fixture = HistorianFixture::of(&before);
    let roots = |n: i64| stopped - 172 * 25 * (n + 1);
    fixture.are_posted(&(0..360).map(|n| replied(roots(n) + 60, roots(n))).collect::<Vec<_>>());
    fixture.mark_public().await;
    fixture.read(BEGINNING - 30 * DAY, stopped).await;

    // Messages, threads, and replies to what was there before.
    let mut missed: Vec<Value> = (0..360).map(|n| said(stopped + 1 + 19 * n, "missed")).collect();
    missed.extend((0..40).map(|n| replied(stopped + 5 + 19 * 9 * n, stopped + 1 + 19 * 9 * n)));
    missed.extend((0..20).map(|n| replied(stopped + 6 + 19 * 9 * n, roots(n))));
    fixture.are_posted(&missed);
    fixture.missed(stopped, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.until(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await.len(), 9_640 + 360 + 360 + 40 + 20);
    let (_, again) = fixture.read(stopped, END).await;
    assert_eq!((again.new, again.updated), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_missed_reply_is_found_where_a_deletion_was_missed_too_and_the_count_is_the_same() {
    let (stopped, started) = (END - 3_600, END - 1_800);
    let root = stopped - 600;
    let fixture = HistorianFixture::of(&[said(root, "root"), replied(root + 60, root)]);
    fixture.mark_public().await;
    fixture.read(BEGINNING, stopped).await;
    let late = replied(started + 5, root);
    fixture.at_slack(|channel| {
        channel.delete(ts(root + 60).as_str());
        channel.post(&replied(stopped + 5, root));
        channel.post(&late);
    });
    fixture.happens(&event::posted("C1", &late)).await;
    fixture.missed(stopped, started).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.until(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.row(stopped + 5).await.text("text"), Some("a reply"));
}

#[tokio::test(start_paused = true)]
async fn what_the_plan_hides_of_a_gap_is_lost_and_coverage_says_from_when_on_slack_shows_messages() {
    let (hidden, shown) = (END - 7_200, END - 1_800);
    let fixture = HistorianFixture::of(&[said(hidden + 5, "hidden"), said(shown, "shown")]);
    fixture.slack.change(TOKEN, |workspace| workspace.visible_from_s = Some(END - 3_600));
    fixture.mark_public().await;
    fixture.missed(hidden, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    fleet.until(&fixture, GapState::Lost, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await, ["shown"]);
    let coverage = TeamCoverage::read(&*fixture.archive, &team()).await.unwrap();
    assert_eq!(coverage.of(&channel()).await.unwrap().limited_before, Some(ts(shown)));
}

#[tokio::test(start_paused = true)]
async fn a_gap_that_goes_on_by_slacks_clock_is_not_read_whatever_this_machines_clock_says() {
    let fixture = HistorianFixture::of(&[]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(END + 60))).await.unwrap();
    fixture.clock.advance(Duration::from_secs(3_600));
    let historian = fixture.historian();
    historian.look().await;
    assert_eq!(fixture.sent(QueueName::Backfill).await, []);
    advance(Duration::from_secs(120)).await;
    historian.look().await;
    assert_eq!(fixture.sent(QueueName::Backfill).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_slack_refuses_to_show_is_asked_for_once_a_day_and_filled_once_the_app_joins() {
    let fixture = HistorianFixture::of(&[said(END - 1_000, "missed")]);
    fixture.refuses("not_in_channel");
    fixture.mark_public().await;
    fixture.joins(ts(BEGINNING)).await;
    fixture.missed(END - 3_600, END).await;
    let fleet = HistorianFleet::start(&fixture, 1);
    let asked_after = async |hours: u64| {
        let hours = Duration::from_secs(hours * 3_600);
        timeout(hours, pending::<()>()).await.unwrap_err();
        fixture.history_calls()
    };
    assert_eq!([asked_after(1).await, asked_after(22).await, asked_after(2).await], [1, 1, 2]);
    fleet.until(&fixture, GapState::Missing, CLOSED_WITHIN).await;

    fixture.slack.change(TOKEN, |workspace| workspace.unreadable.clear());
    let now = fixture.api.now(&team()).await.unwrap();
    fixture.joins(Interval { from: now.micros() + 1, to: 0 }.from_ts()).await;
    fleet.until(&fixture, GapState::Filled, CLOSED_WITHIN).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await, ["missed"]);
}

#[tokio::test(start_paused = true)]
async fn a_channel_with_many_gaps_is_asked_for_once_after_a_look_if_slack_refuses_to_show_it() {
    let fixture = HistorianFixture::of(&[]);
    fixture.refuses("missing_scope");
    fixture.mark_public().await;
    for second in [100, 200, 300] {
        fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING + second))).await.unwrap();
    }
    let historian = fixture.historian();
    historian.look().await;
    let jobs = fixture.sent(QueueName::Backfill).await;
    assert_eq!(jobs.len(), 3);
    for job in &jobs {
        assert_eq!(historian.handle(std::slice::from_ref(job)).await, [JobOutcome::Done]);
    }
    assert_eq!(fixture.history_calls(), 1);
    let now = fixture.api.now(&team()).await.unwrap();
    assert_eq!(gaps::wanted(&*fixture.archive, &team(), &now, 9).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_look_sends_nothing_for_a_workspace_whose_token_is_refused() {
    let fixture = HistorianFixture::of(&[said(BEGINNING, "missed")]);
    fixture.mark_public().await;
    fixture.archive.write(&dropped(&team(), Some(channel()), ts(BEGINNING))).await.unwrap();
    let historian = fixture.historian();
    // It has called Slack before, so it knows whose token it is.
    fixture.api.teams().await.unwrap();
    fixture.slack.next("auth.test", [refusal("token_revoked")]);
    historian.look().await;
    assert_eq!(fixture.sent(QueueName::Backfill).await, []);
    historian.look().await;
    assert_eq!(fixture.sent(QueueName::Backfill).await.len(), 1, "the token is accepted again");
}
