//! The rate of history calls, counted by a fake Slack on virtual time that permits 50 calls a minute.

use rules::gap::closing::GapState;
use testkit::fake_slack::SlackAnswer;

use super::closing::HistorianFleet;
use super::*;

const HISTORY: &str = "conversations.history";

/// Slack's limit for an internal app.
const PER_MINUTE: usize = 50;

/// Enough pages for eight minutes, so that the first six are full.
const PAGES: i64 = 400;

fn fixture() -> HistorianFixture {
    let messages: Vec<Value> = (0..2 * PAGES).map(|n| message_at(BEGINNING + n, "hi")).collect();
    let fixture = HistorianFixture::with_messages(&messages);
    fixture.slack.set_page_size(2);
    fixture.slack.with_state(|state| state.set_rate_limit(HISTORY, PER_MINUTE));
    fixture
}

/// Counts the pages that Slack returned in each of the minutes 2 to 6 after the first call.
fn pages_a_minute(fixture: &HistorianFixture) -> Vec<usize> {
    let calls = fixture.slack.calls();
    let answered_at_ms: Vec<i64> = calls
        .iter()
        .filter(|call| call.method == HISTORY && call.status == 200)
        .map(|call| call.at_ms)
        .collect();
    let minute = |n: i64| (answered_at_ms[0] + n * 60_000)..(answered_at_ms[0] + (n + 1) * 60_000);
    (1..6).map(|n| answered_at_ms.iter().filter(|at_ms| minute(n).contains(at_ms)).count()).collect()
}

fn early(fixture: &HistorianFixture) -> usize {
    fixture.slack.calls().iter().filter(|call| call.early).count()
}

/// Reads all pages with `processes` processes on one queue.
async fn read_with(fixture: &HistorianFixture, processes: u64) {
    fixture.mark_public().await;
    fixture.add_outage(BEGINNING, END).await;
    let fleet = HistorianFleet::start(fixture, processes);
    fleet.wait_for_gap(fixture, GapState::Filled, Duration::from_secs(3_600)).await;
    fleet.stop().await;
    assert_eq!(fixture.texts().await.len(), 2 * usize::try_from(PAGES).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_backfill_uses_the_whole_rate_limit_and_no_more() {
    let fixture = fixture();
    fixture.read(BEGINNING, END).await;
    let pages = pages_a_minute(&fixture);
    assert!(pages.iter().all(|pages| (48..=50).contains(pages)), "{pages:?}");
    assert!(fixture.slack.calls().iter().all(|call| call.status == 200));
}

#[tokio::test(start_paused = true)]
async fn two_processes_together_call_no_more_often_than_one() {
    for processes in [1, 2] {
        let fixture = fixture();
        read_with(&fixture, processes).await;
        let pages = pages_a_minute(&fixture);
        assert!(pages.iter().all(|pages| (48..=50).contains(pages)), "{processes}: {pages:?}");
        assert_eq!(early(&fixture), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn no_process_calls_slack_before_a_pause_ends() {
    let fixture = fixture();
    let pause = |seconds| std::iter::once(SlackAnswer::rate_limited(seconds));
    fixture.slack.plan_answers(HISTORY, pause(40).chain(pause(7)));
    read_with(&fixture, 2).await;
    let refused = fixture.slack.calls().iter().filter(|call| call.status == 429).count();
    assert!(refused >= 2, "{refused}");
    assert_eq!(early(&fixture), 0);
}
