//! When workspaces are synced: each when it is due, eight at once, and again after a failure, a kill or a new token.

use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::queue::QueueName;
use rules::schedule::{AppState, WorkKind, WorkspaceRow};
use serde_json::json;
use testkit::deliveries::receive_visible;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, SlackAnswer, tokens};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::timeout;
use workers::directory::AT_ONCE;
use workers::runtime::{self, RuntimeSettings, Worker};

use super::fixture::{DEADLINE, DirectoryFixture, TOKEN, team, ts};
use crate::watched_worker::WatchedWorker;

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// A Slack with this number of workspaces, and a fixture with a token for each.
async fn with_workspaces(count: usize) -> DirectoryFixture {
    let slack = FakeSlack::start().await;
    let entries: Vec<(String, String)> =
        (0..count).map(|number| (format!("T{number:04}"), format!("xoxb-{number}"))).collect();
    for (team, token) in &entries {
        slack.set_workspace(token, FakeWorkspace::with_size(team, 0, 0));
    }
    let entries: Vec<(&str, &str)> =
        entries.iter().map(|(team, token)| (team.as_str(), token.as_str())).collect();
    DirectoryFixture::with(slack, tokens(&entries))
}

impl DirectoryFixture {
    async fn row(&self, name: &str) -> Option<WorkspaceRow> {
        let row = self.archive.get(&ItemKey::team(&team(name))).await.unwrap();
        row.as_ref().and_then(WorkspaceRow::read)
    }

    /// How often the workspace of this token was synced.
    fn syncs(&self, token: &str) -> usize {
        let calls = self.slack.calls();
        calls.iter().filter(|call| call.token == token && call.method == "conversations.list").count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_hundred_workspaces_eight_are_synced_at_once_and_one_that_hangs_delays_no_other() {
    const WORKSPACES: usize = 300;
    let fixture = with_workspaces(WORKSPACES).await;
    fixture.slack.change_workspace("xoxb-7", |hanging| hanging.answer_delay = Some(HOUR));
    let worker = WatchedWorker::new(fixture.worker(None));
    let (stop, shutdown) = watch::channel(false);
    let settings = RuntimeSettings { drain_deadline: Duration::ZERO, ..RuntimeSettings::default() };
    let running = runtime::run(worker.clone(), fixture.ports(), settings, shutdown);
    let mut done = worker.done.subscribe();
    let all_others = async {
        done.wait_for(|done| *done == WORKSPACES - 1).await.unwrap();
        stop.send_replace(true);
    };
    timeout(DEADLINE, async { tokio::join!(running, all_others) }).await.unwrap();
    assert_eq!(*worker.most.borrow(), 8);
    for number in 0..WORKSPACES {
        let expected = usize::from(number != 7);
        assert_eq!(fixture.syncs(&format!("xoxb-{number}")), expected, "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_after_a_kill_syncs_the_rest_and_nothing_again() {
    const WORKSPACES: usize = 40;
    let fixture = with_workspaces(WORKSPACES).await;
    // They take every slot, so that nothing but them is under way at the kill.
    let hanging: Vec<String> = (20..20 + AT_ONCE).map(|number| format!("xoxb-{number}")).collect();
    let delay = |delay| {
        for token in &hanging {
            fixture.slack.change_workspace(token, |workspace| workspace.answer_delay = delay);
        }
    };
    delay(Some(HOUR));
    let (_stop, shutdown) = watch::channel(false);
    let first = WatchedWorker::new(fixture.worker(None));
    let running = runtime::run(first, fixture.ports(), RuntimeSettings::default(), shutdown);
    let all_hang = async {
        let asks = |token: &String| fixture.slack.calls().iter().any(|call| call.token == *token);
        while !hanging.iter().all(asks) {
            yield_now().await;
        }
    };
    tokio::select! {
        () = running => panic!("it runs until it is killed"),
        reached = timeout(DEADLINE, all_hang) => reached.unwrap(),
    }
    delay(None);
    let mut before = Vec::new();
    for number in 0..WORKSPACES {
        let row = fixture.row(&format!("T{number:04}")).await;
        before.push(row.is_some_and(|row| row.schedule(WorkKind::Sync).due_ms > 0));
    }
    let synced = before.iter().filter(|synced| **synced).count();
    assert!((10..WORKSPACES).contains(&synced), "{synced}");

    // The leases of the killed process end, and what it sent is sent again.
    fixture.clock.advance(21 * MINUTE);
    let calls: Vec<usize> = (0..WORKSPACES).map(|number| fixture.syncs(&format!("xoxb-{number}"))).collect();
    let second = fixture.worker(None);
    while fixture.work(&second).await > 0 {}
    for (number, was_synced) in before.into_iter().enumerate() {
        let since = fixture.syncs(&format!("xoxb-{number}")) - calls[number];
        assert_eq!(since, usize::from(!was_synced), "{number}");
    }
}

#[tokio::test]
async fn a_workspace_is_synced_again_after_an_hour_and_a_failed_one_sooner() {
    let fixture = with_workspaces(1).await;
    let worker = fixture.worker(None);
    assert_eq!((fixture.work(&worker).await, fixture.work(&worker).await), (1, 0));
    fixture.clock.advance(54 * MINUTE);
    assert_eq!(fixture.work(&worker).await, 0);
    fixture.clock.advance(12 * MINUTE);
    fixture.slack.plan_answers("auth.test", vec![SlackAnswer::new(503); 3]);
    assert_eq!(fixture.work(&worker).await, 1);
    assert_eq!(fixture.syncs("xoxb-0"), 1);
    assert_eq!(fixture.work(&worker).await, 0);
    fixture.clock.advance(5 * MINUTE);
    fixture.slack.with_state(|state| state.clear_planned_answers("auth.test"));
    assert_eq!((fixture.work(&worker).await, fixture.syncs("xoxb-0")), (1, 2));
}

#[tokio::test]
async fn a_refused_token_is_tried_again_after_hours_and_its_workspace_is_known_as_refused() {
    let fixture = with_workspaces(2).await;
    let worker = fixture.worker(None);
    assert_eq!(fixture.work(&worker).await, 2);
    fixture.slack.remove_workspace("xoxb-0");
    fixture.clock.advance(66 * MINUTE);
    assert_eq!(fixture.work(&worker).await, 2);
    let row = fixture.row("T0000").await.unwrap();
    assert_eq!(row.state, AppState::TokenFailed);
    assert!(row.state_reason.unwrap().contains("invalid_auth"));
    assert_eq!(fixture.row("T0001").await.unwrap().state, AppState::Active);
    fixture.clock.advance(2 * HOUR);
    assert_eq!(fixture.work(&worker).await, 1, "the other one");
    fixture.clock.advance(4 * HOUR + MINUTE);
    fixture.slack.set_clock(START_S + 7 * 3_600);
    fixture.slack.set_workspace("xoxb-0", FakeWorkspace::with_size("T0000", 0, 0));
    assert_eq!(fixture.work(&worker).await, 2);
    assert_eq!(fixture.row("T0000").await.unwrap().state, AppState::Active);
}

#[tokio::test]
async fn a_new_token_is_used_at_the_next_tick_also_after_the_app_was_uninstalled() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 0, 0)).await;
    let worker = fixture.worker(None);
    assert_eq!(fixture.work(&worker).await, 1);
    let clock = slack::ids::Ts::parse(&ts(1)).unwrap();
    let uninstalled = AppState::Uninstalled.update(&team("T1"), &clock, "app_uninstalled");
    fixture.archive.write(&uninstalled).await.unwrap();
    fixture.clock.advance(48 * HOUR);
    assert_eq!(fixture.work(&worker).await, 0, "the token is the same");

    fixture.slack.set_workspace("xoxb-new", FakeWorkspace::with_size("T1", 0, 0));
    fixture.slack.set_clock(START_S + 48 * 3_600);
    let renewed = fixture.with_token("xoxb-new");
    assert_eq!(fixture.work(&renewed).await, 1);
    let row = fixture.row("T1").await.unwrap();
    assert_eq!((row.state, row.state_reason), (AppState::Active, None));
    assert_eq!((fixture.syncs(TOKEN), fixture.syncs("xoxb-new")), (1, 1));
}

#[tokio::test]
async fn a_state_that_a_process_with_a_wrong_clock_stores_hides_no_later_event() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 0, 0)).await;
    let worker = fixture.worker(None);
    // Hours ahead of Slack's.
    fixture.clock.advance(6 * HOUR);
    assert_eq!(fixture.work(&worker).await, 1);
    fixture.handle_event(json!({ "type": "app_uninstalled", "event_ts": ts(60) })).await;
    assert_eq!(fixture.row("T1").await.unwrap().state, AppState::Uninstalled);

    let other = DirectoryFixture::new(FakeWorkspace::with_size("T1", 0, 0)).await;
    let worker = other.worker(None);
    assert_eq!(other.work(&worker).await, 1);
    other.slack.refuse("conversations.list", json!({ "ok": false, "error": "token_revoked" }));
    other.clock.advance(6 * HOUR);
    assert_eq!(other.work(&worker).await, 1);
    assert_eq!(other.row("T1").await.unwrap().state, AppState::TokenFailed);
    other.handle_event(json!({ "type": "app_uninstalled", "event_ts": ts(60) })).await;
    let row = other.row("T1").await.unwrap();
    assert_eq!((row.state, row.state_reason.as_deref()), (AppState::Uninstalled, Some("app_uninstalled")));
}

#[tokio::test]
async fn a_workspace_that_slack_does_not_know_gets_no_row() {
    let fixture = with_workspaces(2).await;
    fixture.slack.set_workspace("xoxb-0", FakeWorkspace::with_size("T0OTHER", 0, 0));
    fixture.slack.remove_workspace("xoxb-1");
    let worker = fixture.worker(None);
    assert_eq!(fixture.work(&worker).await, 2);
    for unknown in ["T0000", "T0001", "T0OTHER"] {
        assert_eq!(fixture.row(unknown).await, None);
    }
    worker.poll().await;
    assert!(receive_visible(&*fixture.queue, QueueName::Directory).await.is_empty(), "not every minute");
}
