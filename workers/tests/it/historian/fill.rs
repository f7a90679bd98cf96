//! Everything that Slack still shows is read by itself: historians on one queue, with a fake Slack on virtual time.

use std::future::pending;

use reader::history;
use rules::history::progress::{HistoryProgress, HistoryState};
use testkit::fake_slack::START_S;
use tokio::time::{interval, timeout};

use super::closing::HistorianFleet;
use super::*;

const CHANNELS: usize = 6;

fn channel_id(number: usize) -> ChannelId {
    ChannelId::parse(&format!("C{number}")).unwrap()
}

/// A workspace with channels of different sizes, all public. The messages of each are spread over the same time.
async fn workspace() -> HistorianFixture {
    let fixture = HistorianFixture::with_messages(&[]);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.clear();
        for number in 1..=CHANNELS {
            let id = format!("C{number}");
            workspace.channels.push(testkit::fake_slack::channel(&id, &id.to_lowercase()));
            let count = 30 * i64::try_from(number).unwrap();
            for n in 0..count {
                let second = BEGINNING + n * 10 * DAY / count;
                workspace.channel_history(&id).post(&message_at(second, "hi"));
            }
        }
    });
    fixture.slack.set_page_size(10);
    fixture.archive.write(&Update::mark(ItemKey::team(&team()))).await.unwrap();
    for number in 1..=CHANNELS {
        fixture.archive.write(&public_mark::opening(&team(), &channel_id(number))).await.unwrap();
    }
    fixture
}

impl HistorianFixture {
    async fn messages_of(&self, number: usize) -> usize {
        let rows = Query::partition(key::messages(&team(), &channel_id(number)));
        query_all(&*self.archive, rows).await.unwrap().len()
    }

    async fn progress(&self) -> Option<HistoryProgress> {
        let row = self.archive.get(&ItemKey::history_progress(&team())).await.unwrap();
        row.and_then(|row| HistoryProgress::read(&team(), &row))
    }

    async fn wait_for_state(&self, expected: HistoryState, within: Duration) -> HistoryProgress {
        let reached = async {
            let mut seconds = interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                if let Some(progress) = self.progress().await
                    && progress.state(progress.turn.micros() / 1_000_000) == expected
                {
                    return progress;
                }
            }
        };
        timeout(within, reached).await.unwrap()
    }
}

/// Lets virtual time pass.
async fn let_pass(time: Duration) {
    drop(timeout(time, pending::<()>()).await);
}

#[tokio::test(start_paused = true)]
async fn every_channel_is_read_to_its_beginning_and_the_progress_says_so() {
    let fixture = workspace().await;
    let fleet = HistorianFleet::with_mode(&fixture, 2, BackfillMode::All);
    let reading = fixture.wait_for_state(HistoryState::Reading, Duration::from_secs(120)).await;
    assert_eq!((reading.channels, reading.unreadable), (CHANNELS as u64, 0));
    let done = fixture.wait_for_state(HistoryState::Done, Duration::from_secs(600)).await;
    assert_eq!((done.read, done.mode.as_str(), done.since), (CHANNELS as u64, "all", Some(ts(BEGINNING))));
    for number in 1..=CHANNELS {
        assert_eq!(fixture.messages_of(number).await, 30 * number, "C{number}");
    }
    // Six channels need 63 pages; a look back at what was read costs none.
    let calls = fixture.history_calls();
    assert!((63..=66).contains(&calls), "{calls}");
    // Nothing is read again, and one of the processes looks once in five minutes.
    let looks = fixture.slack.call_count("auth.test");
    let_pass(Duration::from_secs(3_600)).await;
    assert_eq!(fixture.history_calls(), calls);
    let looks = fixture.slack.call_count("auth.test") - looks;
    assert!((10..=13).contains(&looks), "{looks}");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn all_channels_grow_backwards_together() {
    let fixture = workspace().await;
    let historian = Historian::new(fixture.ports(), Arc::clone(&fixture.api), BackfillMode::All);
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    let oldest = async |number| {
        let first = Query { limit: 1, ..Query::partition(key::messages(&team(), &channel_id(number))) };
        let first = fixture.archive.query(&first).await.unwrap().items;
        Ts::parse(&first[0].key.timestamp).unwrap().micros() / 1_000_000
    };
    let mut reached = Vec::new();
    for number in 1..=CHANNELS {
        reached.push(oldest(number).await);
    }
    // A page of the smallest channel is more than three days, and one of the largest half a day.
    let (least, most) = (reached.iter().min().unwrap(), reached.iter().max().unwrap());
    assert!(most - least <= 4 * DAY, "{reached:?}");
    let [next] = &fixture.sent(QueueName::Backfill).await[..] else { panic!("one job follows") };
    assert!(next.body.contains("\"n\":1"), "{}", next.body);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_appears_later_is_read_within_seconds() {
    let fixture = workspace().await;
    let fleet = HistorianFleet::with_mode(&fixture, 1, BackfillMode::All);
    fixture.wait_for_state(HistoryState::Done, Duration::from_secs(600)).await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.push(testkit::fake_slack::channel("C9", "late"));
        workspace.channel_history("C9").post(&message_at(BEGINNING, "hi"));
    });
    fixture.archive.write(&public_mark::opening(&team(), &channel_id(9))).await.unwrap();
    let_pass(Duration::from_secs(30)).await;
    assert_eq!(fixture.messages_of(9).await, 1);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_slack_refuses_stops_no_other_and_is_asked_for_again_when_the_app_joins() {
    let fixture = workspace().await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.unreadable.insert("C3".to_owned(), "not_in_channel".to_owned());
    });
    let fleet = HistorianFleet::with_mode(&fixture, 1, BackfillMode::All);
    let refused = fixture.wait_for_state(HistoryState::Refused, Duration::from_secs(600)).await;
    assert_eq!((refused.read, refused.unreadable), (CHANNELS as u64 - 1, 1));
    fixture.slack.change_workspace(TOKEN, |workspace| drop(workspace.unreadable.remove("C3")));
    let joined = Ts::parse(&format!("{}.000000", START_S + 900)).unwrap();
    fixture.archive.write(&Update::mark(ItemKey::joined(&team(), &channel_id(3), &joined))).await.unwrap();
    fixture.wait_for_state(HistoryState::Done, Duration::from_secs(900)).await;
    assert_eq!(fixture.messages_of(3).await, 90);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_hides_old_messages_ends_the_reading() {
    let fixture = workspace().await;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = Some(BEGINNING + 5 * DAY));
    let fleet = HistorianFleet::with_mode(&fixture, 1, BackfillMode::All);
    fixture.wait_for_state(HistoryState::Done, Duration::from_secs(600)).await;
    let calls = fixture.history_calls();
    let_pass(Duration::from_secs(3_600)).await;
    assert_eq!(fixture.history_calls(), calls);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_steps_repeats_at_most_two_pages() {
    let whole = workspace().await;
    let fleet = HistorianFleet::with_mode(&whole, 1, BackfillMode::All);
    whole.wait_for_state(HistoryState::Done, Duration::from_secs(600)).await;
    fleet.stop().await;
    let rows = |fixture: &HistorianFixture| {
        let mut rows = fixture.archive.items();
        rows.retain(|row| row.key.item_id.starts_with("message#"));
        rows
    };
    for steps in [3, 40, 111, 222, 333] {
        let fixture = workspace().await;
        let crashing = FaultyArchive::with_crash_point(fixture.archive.clone(), CrashPoint::after(steps));
        let ports = Ports { archive: Arc::new(crashing), ..fixture.ports() };
        let historian = Historian::new(ports, Arc::clone(&fixture.api), BackfillMode::All);
        drop(historian.handle(&[first_turn()]).await);
        let before = fixture.history_calls();
        let fleet = HistorianFleet::with_mode(&fixture, 1, BackfillMode::All);
        fixture.wait_for_state(HistoryState::Done, Duration::from_secs(600)).await;
        fleet.stop().await;
        assert!(rows(&fixture) == rows(&whole), "after {steps} steps");
        assert!(fixture.history_calls() <= whole.history_calls() + 2, "{before} before {steps} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_that_ends_during_the_reading_is_filled_first() {
    let fixture = workspace().await;
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channel_history("C1").post(&message_at(END - 5_000, "missed"));
    });
    fixture.add_outage(END - 6_000, END - 4_000).await;
    let historian = Historian::new(fixture.ports(), Arc::clone(&fixture.api), BackfillMode::All);
    assert_eq!(historian.handle(&[first_turn()]).await, [JobOutcome::Done]);
    assert_eq!(fixture.row(END - 5_000).await.text("text"), Some("missed"));
    let history = fixture.slack.calls().into_iter().find(|call| call.method == "conversations.history");
    assert_eq!(history.unwrap().parameters["latest"], ts(END - 4_000).as_str(), "the gap comes first");
    assert!(history::progress(&*fixture.archive).await.unwrap().len() <= 1);
}
