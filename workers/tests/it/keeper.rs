//! Tests of the keeper with a fake Slack on virtual time: nights, and what they prove.

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use ports::archive::erasure::{ExpiryFact, OptOutFact, OptOutScope};
use ports::archive::{Archive, ArchiveExt, ItemKey, Query, key, query_all};
use ports::clock::{Clock, ManualClock, TimestampMs};
use ports::files::Files;
use ports::queue::{Delivery, Queue, QueueName};
use reader::proof::{self, TeamProof};
use rules::history::progress::HistoryProgress;
use rules::history::proof::{
    DAY_MICROS, NightJob, ProofCounts, ProvenSpan, last_night, night_done, night_key,
};
use rules::{project, public_mark};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiUrl, Tokens, WebApi};
use testkit::corpus::event;
use testkit::deliveries::{delivery, delivery_of, receive_visible};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::channel_indexer::ChannelIndexer;
use workers::claims::{ClaimSettings, Claimant};
use workers::historian::BackfillMode;
use workers::keeper::{Keeper, NightSettings, NightTime};
use workers::runtime::{JobOutcome, Ports, Worker};

const TOKEN: &str = "xoxb-1";
const DAY: i64 = 86_400;
/// The last midnight before the fake Slack's time.
const MIDNIGHT: i64 = START_S / DAY * DAY;

/// A keeper whose nights begin at three in UTC.
pub(crate) fn keeper(ports: Ports, files: Arc<dyn Files>, web: Arc<WebApi>) -> Keeper {
    let claims = Arc::new(MemoryClaims::new(ports.clock.clone()));
    let claimant = Claimant::new(claims, ports.clock.clone(), "test", ClaimSettings::default());
    let settings = NightSettings {
        time: NightTime { at: Time::constant(3, 0, 0, 0), zone: TimeZone::UTC },
        writers_know_after: Duration::ZERO,
        backfill: BackfillMode::All,
    };
    Keeper::new(ports, files, web, claimant, settings)
}

/// The first turn of a night.
pub(crate) fn night_job(team: TeamId, night: TimestampMs) -> NightJob {
    NightJob { team, night_ms: night.0, sent_ms: night.0, turn: 0, calls: 0, after: None, reached: None }
}

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

fn ts(second: i64) -> Ts {
    Ts::parse(&format!("{second}.000000")).unwrap()
}

fn message_at(second: i64, text: &str) -> Value {
    event::message(ts(second).as_str(), "U01", text)
}

struct KeeperFixture {
    slack: FakeSlack,
    api: Arc<WebApi>,
    archive: Arc<MemoryArchive>,
    queue: Arc<MemoryQueue>,
    clock: Arc<ManualClock>,
}

impl KeeperFixture {
    /// A workspace with these public channels, each with these messages.
    async fn with_messages(channels: &[&str], messages: &[Value]) -> Self {
        let slack = FakeSlack::on_virtual_time();
        let mut workspace = FakeWorkspace::new("T1");
        for id in channels {
            workspace.channels.push(testkit::fake_slack::channel(id, &id.to_lowercase()));
            messages.iter().for_each(|message| workspace.channel_history(id).post(message));
        }
        slack.set_workspace(TOKEN, workspace);
        let clock = ManualClock::starting_at(TimestampMs(START_S * 1_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let fixture =
            Self { api: slack.client_in_memory(TOKEN), slack, archive: Arc::default(), queue, clock };
        for id in channels {
            fixture.archive.write(&public_mark::opening(&team(), &channel(id))).await.unwrap();
        }
        fixture
    }

    fn keeper_of(&self, archive: Arc<dyn Archive>) -> Keeper {
        let ports = Ports { queue: self.queue.clone(), archive, clock: self.clock.clone() };
        keeper(ports, Arc::new(MemoryFiles::default()), Arc::clone(&self.api))
    }

    /// Does the night that begins this many days after the fake Slack's time. Returns the number of turns.
    async fn night(&self, days: i64) -> usize {
        let keeper = self.keeper_of(self.archive.clone());
        let night = TimestampMs((MIDNIGHT + days * DAY + 3 * 3_600) * 1_000);
        let mut job: Delivery = delivery_of(night_job(team(), night).outgoing());
        for turns in 1.. {
            assert_eq!(keeper.handle(std::slice::from_ref(&job)).await, [JobOutcome::Done]);
            match &receive_visible(&*self.queue, QueueName::Nightly).await[..] {
                [] => return turns,
                [next] => job = next.clone(),
                more => panic!("{more:?}"),
            }
            let receipt = [job.receipt.clone()];
            assert!(self.queue.ack(QueueName::Nightly.into(), &receipt).await.iter().all(Result::is_ok));
        }
        unreachable!("the night ends")
    }

    /// Makes the fake Slack's next midnights the last ones.
    async fn let_days_pass(&self, days: u64) {
        tokio::time::advance(Duration::from_secs(days * 86_400)).await;
    }

    async fn proven(&self, id: &str) -> Option<ProvenSpan> {
        proof::of_channel(&*self.archive, &team(), &channel(id)).await.unwrap().proven
    }

    async fn found(&self, id: &str, days: i64) -> ProofCounts {
        let known = proof::of_channel(&*self.archive, &team(), &channel(id)).await.unwrap();
        known.found_in(&ts(MIDNIGHT + days * DAY))
    }

    async fn of_team(&self) -> TeamProof {
        proof::of_team(&*self.archive, &team()).await.unwrap().unwrap()
    }

    async fn times(&self, id: &str) -> Vec<String> {
        let rows = Query::partition(key::messages(&team(), &channel(id)));
        let rows = query_all(&*self.archive, rows).await.unwrap();
        rows.iter()
            .filter(|row| project::message(row).is_some())
            .map(|row| row.key.timestamp.clone())
            .collect()
    }

    async fn texts(&self, id: &str) -> Vec<String> {
        let rows = Query::partition(key::messages(&team(), &channel(id)));
        let rows = query_all(&*self.archive, rows).await.unwrap();
        rows.iter()
            .filter_map(project::message)
            .map(|row| row.text().unwrap_or_default().to_owned())
            .collect()
    }

    fn calls(&self) -> usize {
        self.slack.call_count("conversations.history") + self.slack.call_count("conversations.replies")
    }

    fn post(&self, id: &str, message: &Value) {
        self.slack.change_workspace(TOKEN, |workspace| workspace.channel_history(id).post(message));
    }

    /// Stores an event about a channel.
    async fn channel_event(&self, event: Value) {
        let indexer = ChannelIndexer::new(self.archive.clone(), None);
        let id = format!("Ev{}", self.archive.items().len());
        let body = event::envelope("T1", &id, &event);
        assert_eq!(indexer.handle(&[delivery(&body)]).await, [JobOutcome::Done], "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_channel_costs_a_call_a_night_and_a_proven_one_costs_none() {
    let messages = [message_at(MIDNIGHT - 90 * DAY, "old"), message_at(MIDNIGHT - DAY, "new")];
    let fixture = KeeperFixture::with_messages(&["C1", "C2", "C3"], &messages).await;
    assert_eq!(fixture.night(0).await, 1);
    assert_eq!(fixture.calls(), 3);
    assert_eq!(fixture.texts("C2").await, ["old", "new"]);
    let expected = ProofCounts { missing: 2, filled: 2, calls: 1, ..ProofCounts::default() };
    assert_eq!(fixture.found("C1", 0).await, expected);
    let proven = fixture.proven("C1").await.unwrap();
    assert_eq!((proven.from.micros(), proven.through, proven.is_whole), (0, ts(MIDNIGHT), true));
    fixture.night(0).await;
    assert_eq!(fixture.calls(), 3, "the night is proven");
    fixture.let_days_pass(1).await;
    fixture.night(1).await;
    assert_eq!(fixture.calls(), 6);
    let proven = fixture.proven("C1").await.unwrap();
    assert_eq!((proven.from.micros(), proven.through), (0, ts(MIDNIGHT + DAY)));
    let found = fixture.of_team().await;
    assert_eq!((found.channels, found.behind.len(), found.through), (3, 0, Some(ts(MIDNIGHT + DAY))));
    assert_eq!(found.found, ProofCounts { calls: 3, ..ProofCounts::default() });
    // No other row grows with the nights.
    let rows = fixture.archive.items();
    assert!(rows.iter().all(|row| !row.key.item_id.starts_with("filled#")));
}

#[tokio::test(start_paused = true)]
async fn a_night_finds_lost_messages_edits_and_replies_of_a_month_and_counts_what_is_gone() {
    let fixture = KeeperFixture::with_messages(&["C1"], &[]).await;
    let root = MIDNIGHT - 10 * DAY;
    for second in [root, root + 1, root + 2, root + 3] {
        fixture.post("C1", &message_at(second, "hi"));
    }
    fixture.night(0).await;
    let reply = |second| event::reply(ts(second).as_str(), ts(root).as_str(), "U02", "late");
    fixture.slack.change_workspace(TOKEN, |workspace| {
        let history = workspace.channel_history("C1");
        history.post(&reply(MIDNIGHT + 50));
        history.post(&message_at(MIDNIGHT + 60, "lost"));
        history.react(ts(root + 1).as_str(), "U03", "eyes");
        history.delete(ts(root + 2).as_str());
    });
    fixture.let_days_pass(1).await;
    fixture.night(1).await;
    let found = fixture.found("C1", 1).await;
    assert_eq!([found.missing, found.changed, found.extra, found.filled], [2, 1, 1, 3], "{found:?}");
    assert_eq!(fixture.texts("C1").await.len(), 6, "nothing is marked as deleted");
    // The thread is complete now, so it costs no call.
    let calls = fixture.calls();
    fixture.let_days_pass(1).await;
    fixture.night(2).await;
    assert_eq!((fixture.calls(), fixture.found("C1", 2).await.missing), (calls + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn older_days_are_compared_once_and_all_channels_grow_backwards_together() {
    let messages: Vec<Value> = (1..100).map(|day| message_at(MIDNIGHT - day * DAY, "hi")).collect();
    let fixture = KeeperFixture::with_messages(&["C1", "C2"], &messages).await;
    fixture.slack.set_page_size(5);
    let began = tokio::time::Instant::now();
    let turns = fixture.night(0).await;
    // Twenty pages of each channel, twenty calls a turn, at most twenty calls a minute.
    assert!((2..=3).contains(&turns) && fixture.calls() <= 42, "{turns} turns, {} calls", fixture.calls());
    assert!(began.elapsed() >= Duration::from_secs(60));
    for id in ["C1", "C2"] {
        let proven = fixture.proven(id).await.unwrap();
        assert!(proven.is_whole && fixture.texts(id).await.len() == 99, "{proven:?}");
    }
    let calls = fixture.calls();
    fixture.let_days_pass(1).await;
    fixture.night(1).await;
    // A month of seven pages.
    assert!(fixture.calls() - calls <= 14, "{}", fixture.calls() - calls);
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_keeps_its_proof_with_the_reason_and_stops_no_other() {
    let fixture = KeeperFixture::with_messages(&["C1", "C2"], &[message_at(MIDNIGHT - DAY, "hi")]).await;
    fixture.night(0).await;
    let refuse = |workspace: &mut FakeWorkspace| {
        drop(workspace.unreadable.insert("C1".to_owned(), "not_in_channel".to_owned()));
    };
    fixture.slack.change_workspace(TOKEN, refuse);
    for days in 1..=4 {
        fixture.let_days_pass(1).await;
        fixture.night(days).await;
    }
    assert_eq!(fixture.proven("C1").await.unwrap().through, ts(MIDNIGHT));
    assert_eq!(fixture.found("C1", 4).await.error.as_deref(), Some("not_in_channel"));
    let found = fixture.of_team().await;
    let behind: Vec<(&str, i64)> = found
        .behind
        .iter()
        .map(|known| (known.channel.as_str(), known.nights_behind(&found.night)))
        .collect();
    assert_eq!((behind, found.through), (vec![("C1", 4)], Some(ts(MIDNIGHT))));
    assert_eq!(fixture.proven("C2").await.unwrap().through, ts(MIDNIGHT + 4 * DAY));
    fixture.slack.change_workspace(TOKEN, |workspace| drop(workspace.unreadable.remove("C1")));
    fixture.let_days_pass(1).await;
    fixture.night(5).await;
    assert_eq!(fixture.of_team().await.behind, []);
}

#[tokio::test(start_paused = true)]
async fn a_night_that_was_killed_at_any_step_ends_as_if_it_had_not_been() {
    let messages: Vec<Value> = (1..12).map(|day| message_at(MIDNIGHT - day * DAY, "hi")).collect();
    let whole = KeeperFixture::with_messages(&["C1", "C2"], &messages).await;
    whole.slack.set_page_size(4);
    whole.night(0).await;
    let mut steps = 0;
    loop {
        let fixture = KeeperFixture::with_messages(&["C1", "C2"], &messages).await;
        fixture.slack.set_page_size(4);
        let point = CrashPoint::after(steps);
        let archive = FaultyArchive::with_crash_point(fixture.archive.clone(), Arc::clone(&point));
        let keeper = fixture.keeper_of(Arc::new(archive));
        let night = TimestampMs((MIDNIGHT + 3 * 3_600) * 1_000);
        drop(keeper.handle(&[delivery_of(night_job(team(), night).outgoing())]).await);
        for id in ["C1", "C2"] {
            // A proof never claims what is not stored.
            if let Some(proven) = fixture.proven(id).await {
                let from = proven.from.to_string();
                let claimed = |times: Vec<String>| -> Vec<String> {
                    times.into_iter().filter(|time| *time >= from).collect()
                };
                let stored = claimed(fixture.times(id).await);
                assert_eq!(stored, claimed(whole.times(id).await), "step {steps}: {proven:?}");
            }
        }
        fixture.night(0).await;
        assert_eq!(fixture.times("C1").await, whole.times("C1").await, "step {steps}");
        let at = ts(START_S);
        let proven = fixture.proven("C2").await.map(|proven| ProvenSpan { at: at.clone(), ..proven });
        assert_eq!(proven, whole.proven("C2").await, "step {steps}");
        if !point.has_crashed() {
            break;
        }
        steps += 3;
    }
    assert!(steps > 20, "{steps} steps");
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_or_is_out_is_neither_read_nor_missing() {
    let messages = [message_at(MIDNIGHT - 20 * DAY, "expired"), message_at(MIDNIGHT - DAY, "kept")];
    let fixture = KeeperFixture::with_messages(&["C1", "C2"], &messages).await;
    let expired = ExpiryFact::expire(&team(), None, &ts(MIDNIGHT - 10 * DAY));
    fixture.archive.write(&expired).await.unwrap();
    let out = OptOutFact {
        team: team(),
        scope: OptOutScope::Channel(channel("C2")),
        at: ts(1),
        is_out: true,
        by: None,
    };
    fixture.archive.write(&out.update()).await.unwrap();
    fixture.night(0).await;
    let found = fixture.found("C1", 0).await;
    assert_eq!((found.missing, found.filled, fixture.calls()), (1, 1, 1));
    assert_eq!(fixture.texts("C1").await, ["kept"]);
    assert_eq!(fixture.proven("C1").await.unwrap().from, ts(MIDNIGHT - 10 * DAY));
    assert_eq!((fixture.proven("C2").await, fixture.of_team().await.channels), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_proof_ends_without_an_error_where_the_plan_hides_the_rest() {
    let messages = [message_at(MIDNIGHT - 95 * DAY, "hidden"), message_at(MIDNIGHT - DAY, "shown")];
    let fixture = KeeperFixture::with_messages(&["C1"], &messages).await;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.visible_from_s = Some(MIDNIGHT - 90 * DAY));
    fixture.night(0).await;
    let proven = fixture.proven("C1").await.unwrap();
    assert_eq!((proven.from, proven.is_whole), (ts(MIDNIGHT - DAY), true));
    assert_eq!(fixture.found("C1", 0).await.error, None);
}

#[tokio::test(start_paused = true)]
async fn an_archived_channel_is_compared_once_a_month_and_when_it_changes() {
    let (old, newest) = (MIDNIGHT - 100 * DAY, MIDNIGHT - DAY);
    let messages = [message_at(old, "old"), message_at(newest, "hi")];
    let fixture = KeeperFixture::with_messages(&["C1"], &messages).await;
    let event = |kind: &str, second: i64| json!({ "type": kind, "channel": "C1", "user": "U01", "event_ts": ts(second) });
    fixture.channel_event(event("channel_archive", MIDNIGHT - 100)).await;
    fixture.night(0).await;
    fixture.let_days_pass(1).await;
    fixture.night(1).await;
    assert_eq!(fixture.calls(), 1);
    let found = proof::of_team(&*fixture.archive, &team()).await.unwrap().unwrap();
    assert_eq!((found.channels, found.behind.len()), (0, 0));
    // A row is lost, and the events of a reply to a message from long before the month.
    let row = fixture.archive.get(&ItemKey::message(&team(), &channel("C1"), &ts(newest))).await.unwrap();
    fixture.archive.delete_unchanged(&row.unwrap()).await.unwrap();
    fixture.post("C1", &event::reply(ts(MIDNIGHT - 200).as_str(), ts(old).as_str(), "U02", "late"));
    fixture.let_days_pass(28).await;
    fixture.night(29).await;
    assert_eq!(fixture.calls(), 1, "it was compared in the last month");
    fixture.let_days_pass(1).await;
    fixture.night(30).await;
    let found = fixture.found("C1", 30).await;
    assert_eq!([found.missing, found.filled, found.calls], [2, 2, 2], "a page and a thread: {found:?}");
    assert_eq!(fixture.texts("C1").await, ["old", "hi", "late"]);
    let proven = fixture.proven("C1").await.unwrap();
    assert_eq!((proven.from.micros(), proven.through), (0, ts(MIDNIGHT + 30 * DAY)));
    fixture.let_days_pass(1).await;
    fixture.night(31).await;
    assert_eq!(fixture.calls(), 3);
    fixture.channel_event(event("channel_unarchive", MIDNIGHT + 31 * DAY + 100)).await;
    fixture.let_days_pass(1).await;
    fixture.night(32).await;
    assert_eq!((fixture.calls(), fixture.of_team().await.channels), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_month_later_the_newest_page_of_an_archived_channel_is_enough() {
    let messages: Vec<Value> = (100..112).map(|day| message_at(MIDNIGHT - day * DAY, "hi")).collect();
    let fixture = KeeperFixture::with_messages(&["C1"], &messages).await;
    fixture.slack.set_page_size(5);
    let archived =
        json!({ "type": "channel_archive", "channel": "C1", "user": "U01", "event_ts": ts(MIDNIGHT - 100) });
    fixture.channel_event(archived).await;
    fixture.night(0).await;
    let (calls, proven) = (fixture.calls(), fixture.proven("C1").await.unwrap());
    assert!(calls >= 3 && proven.is_whole, "{calls}: {proven:?}");
    fixture.let_days_pass(30).await;
    fixture.night(30).await;
    assert_eq!(fixture.calls(), calls + 1);
    let through = ts(MIDNIGHT + 30 * DAY);
    let at = fixture.proven("C1").await.unwrap().at;
    assert_eq!(fixture.proven("C1").await, Some(ProvenSpan { through, at, ..proven }));
}

#[tokio::test(start_paused = true)]
async fn the_first_night_is_the_next_one_and_a_missed_one_is_made_up_for() {
    let fixture = KeeperFixture::with_messages(&["C1"], &[message_at(MIDNIGHT - DAY, "hi")]).await;
    fixture.channel_event(event::channel_created("C1", "general", ts(MIDNIGHT - 2 * DAY).as_str())).await;
    let keeper = fixture.keeper_of(fixture.archive.clone());
    let sent = async || receive_visible(&*fixture.queue, QueueName::Nightly).await.len();
    keeper.poll().await;
    assert_eq!(sent().await, 0, "the archive has begun after the last night");
    fixture.clock.advance(Duration::from_secs(3 * 86_400));
    fixture.let_days_pass(3).await;
    keeper.poll().await;
    let [job] = &receive_visible(&*fixture.queue, QueueName::Nightly).await[..] else { panic!("no night") };
    keeper.poll().await;
    assert_eq!(sent().await, 0, "it has begun");
    assert_eq!(keeper.handle(std::slice::from_ref(job)).await, [JobOutcome::Done]);
    let row = fixture.archive.get(&night_key(&team())).await.unwrap();
    let night = TimestampMs((MIDNIGHT + 3 * DAY + 3 * 3_600) * 1_000);
    assert_eq!(last_night(row.as_ref()), Some(night));
    assert_eq!(fixture.proven("C1").await.unwrap().through.micros(), MIDNIGHT * 1_000_000 + 3 * DAY_MICROS);
    keeper.poll().await;
    assert_eq!(sent().await, 0, "it is done");
}

#[tokio::test(start_paused = true)]
async fn a_night_waits_while_history_is_read_but_not_for_ever() {
    let fixture = KeeperFixture::with_messages(&["C1"], &[]).await;
    fixture.channel_event(event::channel_created("C1", "general", ts(MIDNIGHT - 2 * DAY).as_str())).await;
    let before = TimestampMs((MIDNIGHT - DAY) * 1_000);
    fixture.archive.write(&night_done(&team(), before)).await.unwrap();
    let keeper = fixture.keeper_of(fixture.archive.clone());
    let sent = async || receive_visible(&*fixture.queue, QueueName::Nightly).await.len();
    for (at_s, expected) in [(MIDNIGHT + DAY + 4 * 3_600, 0), (MIDNIGHT + DAY + 6 * 3_600, 1)] {
        fixture.clock.advance(Duration::from_secs((at_s - fixture.clock.now().seconds()).unsigned_abs()));
        let progress = HistoryProgress {
            team: team(),
            mode: "all".to_owned(),
            channels: 2,
            read: 1,
            unreadable: 0,
            is_restricted: false,
            since: None,
            turn: ts(at_s),
        };
        for update in progress.updates(0) {
            fixture.archive.write(&update).await.unwrap();
        }
        keeper.poll().await;
        assert_eq!(sent().await, expected, "{at_s}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_is_compared_and_the_night_ends() {
    let fixture = KeeperFixture::with_messages(&["C1"], &[message_at(MIDNIGHT - DAY, "hi")]).await;
    let web = Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty()));
    let ports = Ports {
        queue: fixture.queue.clone(),
        archive: fixture.archive.clone(),
        clock: fixture.clock.clone(),
    };
    let keeper = keeper(ports, Arc::new(MemoryFiles::default()), web);
    let night = TimestampMs((MIDNIGHT + 3 * 3_600) * 1_000);
    let done = keeper.handle(&[delivery_of(night_job(team(), night).outgoing())]).await;
    assert_eq!((done, fixture.calls()), (vec![JobOutcome::Done], 0));
    let row = fixture.archive.get(&night_key(&team())).await.unwrap();
    assert_eq!((last_night(row.as_ref()), fixture.proven("C1").await), (Some(night), None));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_leaves_the_night_open() {
    let fixture = KeeperFixture::with_messages(&["C1"], &[message_at(MIDNIGHT - DAY, "hi")]).await;
    drop(fixture.api.teams().await);
    fixture.slack.with_state(|state| {
        state.set_refusal("conversations.history", json!({ "ok": false, "error": "token_revoked" }));
    });
    let keeper = fixture.keeper_of(fixture.archive.clone());
    let night = TimestampMs((MIDNIGHT + 3 * 3_600) * 1_000);
    let done = keeper.handle(&[delivery_of(night_job(team(), night).outgoing())]).await;
    assert_eq!(done, [JobOutcome::Done]);
    assert_eq!(fixture.archive.get(&night_key(&team())).await.unwrap(), None);
}
