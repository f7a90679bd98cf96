//! Jobs that wait for something outside themselves: set aside, tried again, and sent back once that has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ports::archive::{Archive, ArchiveExt, ItemKey, Update, key};
use ports::queue::job::{encode_event, in_bulk};
use ports::queue::waiting::WaitCause;
use ports::queue::{DedupId, GroupId, Outgoing, Queue};
use rules::waiting::{NewWait, WaitState};
use serde_json::json;
use slack::ids::TeamId;

use workers::quarantine::{self, QuarantineFilter};
use workers::runtime::RuntimeSettings;

use super::fixture::*;
use super::*;

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

/// Sends jobs of a workspace, each in the group of its channel.
pub(super) async fn send(fixture: &RuntimeFixture, jobs: impl IntoIterator<Item = (&str, String)>) {
    let messages = jobs.into_iter().map(|(group, job)| Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&[group]),
        dedup: DedupId::from_parts(&[job.as_bytes()]),
        body: encode_event(&format!("{{\"event_id\":\"{job}\"}}")),
    });
    for sent in fixture.queue.send(messages.collect()).await {
        sent.unwrap();
    }
}

fn waits(cause: WaitCause) -> Act {
    Act::Finish(JobOutcome::Wait(cause, "as scripted".into()))
}

/// The number of jobs aside.
fn aside(fixture: &RuntimeFixture) -> usize {
    let partition = key::waiting(QueueName::Events, &team());
    fixture.memory.items().iter().filter(|item| item.key.item_id == partition).count()
}

async fn state(fixture: &RuntimeFixture) -> WaitState {
    let row = fixture.memory.get(&ItemKey::waiting(QueueName::Events, &team())).await.unwrap();
    WaitState::read(&row.expect("a state")).expect("it can be read")
}

async fn depth(fixture: &RuntimeFixture) -> u64 {
    let depth = fixture.memory_queue.depth(QueueName::Events.into()).await.unwrap();
    depth.waiting + depth.in_flight
}

/// The row of the earlier job may decide on the later one, such as a message of a channel that is private by now.
#[tokio::test(start_paused = true)]
async fn a_job_behind_a_repeated_one_that_is_set_aside_runs_once_its_row_is_written() {
    let fixture = RuntimeFixture::new();
    send(&fixture, ["a1", "a2"].map(|job| ("T1#C1", job.to_owned()))).await;
    let memory = Arc::clone(&fixture.memory);
    let rows = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&rows);
    let worker = Scripted::new(move |job, tries| match (job, tries) {
        ("a1", 1) => Act::Finish(JobOutcome::retry("down")),
        ("a1", 2) => waits(WaitCause::Token),
        // It was handled behind the failure too, which did not count.
        ("a2", 2..) => {
            let partition = key::waiting(QueueName::Events, &team());
            let aside = memory.items().iter().filter(|item| item.key.item_id == partition).count();
            seen.lock().unwrap().push(aside);
            done()
        }
        _ => done(),
    });
    fixture.run_until_idle(&worker).await;
    assert_eq!(*rows.lock().unwrap(), [1]);
}

/// A worker whose jobs wait until the switch is set; and how often it was asked meanwhile.
fn switched(cause: WaitCause) -> (Arc<Scripted>, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (ended, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let worker = Scripted::new({
        let (ended, asked) = (Arc::clone(&ended), Arc::clone(&asked));
        move |_, _| {
            if ended.load(Ordering::SeqCst) {
                return done();
            }
            asked.fetch_add(1, Ordering::SeqCst);
            waits(cause)
        }
    });
    (worker, ended, asked)
}

#[tokio::test(start_paused = true)]
async fn waiting_jobs_leave_the_queue_cost_one_trial_a_minute_and_go_on_by_themselves() {
    let fixture = RuntimeFixture::new();
    let (worker, ended, asked) = switched(WaitCause::Token);
    send(&fixture, (0..300).map(|n| ("T1#C1", format!("m{n:03}")))).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(60)).await;
    assert_eq!((aside(&fixture), depth(&fixture).await), (300, 1), "all but the wake");
    // Three hours.
    asked.store(0, Ordering::SeqCst);
    sleep(Duration::from_secs(3 * 3_600)).await;
    let trials = asked.load(Ordering::SeqCst);
    assert!((170..=181).contains(&trials), "{trials}");
    assert_eq!((aside(&fixture), depth(&fixture).await), (300, 1));
    assert!(fixture.quarantined().await.is_empty());

    ended.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while worker.done().len() < 300 {
        sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() < Duration::from_secs(100), "{} done", worker.done().len());
    }
    sleep(Duration::from_secs(5)).await;
    let mut names = worker.done();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 300, "each once");
    assert_eq!((worker.done().len(), aside(&fixture), depth(&fixture).await), (300, 0, 0));
    assert!(!state(&fixture).await.waits);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_person_can_send_waiting_jobs_back_at_once_and_as_often_as_they_like() {
    let fixture = RuntimeFixture::new();
    let (worker, ended, asked) = switched(WaitCause::Token);
    send(&fixture, (0..120).map(|n| ("T1#C1", format!("m{n:03}")))).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(30)).await;
    let release = async |filter: QuarantineFilter| {
        let mut sent = 0;
        quarantine::release_waiting(&fixture.ports(), &filter, |jobs| sent += jobs).await.unwrap();
        sleep(Duration::from_secs(10)).await;
        sent
    };
    let other = QuarantineFilter { reason: Some("something else".into()), ..QuarantineFilter::default() };
    assert_eq!(release(other).await, 0);
    // Twice within the five minutes in which the queue drops a message that it has seen.
    for _ in 0..2 {
        asked.store(0, Ordering::SeqCst);
        assert_eq!(release(QuarantineFilter::default()).await, 120);
        assert_eq!((asked.load(Ordering::SeqCst) >= 120, aside(&fixture)), (true, 120));
    }
    ended.store(true, Ordering::SeqCst);
    release(QuarantineFilter::default()).await;
    let mut names = worker.done();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), aside(&fixture)), (120, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_live_job_is_behind_a_small_part_of_a_bulk() {
    let fixture = RuntimeFixture::new();
    let worker = Scripted::new(|_, _| Act::Hang(Duration::from_millis(100)));
    let job = |number: usize| Outgoing {
        queue: QueueName::Events,
        group: GroupId::from_parts(&["T1", &format!("F{number}")]),
        dedup: DedupId::from_parts(&[&number.to_be_bytes()]),
        body: encode_event(&format!("{{\"event_id\":\"b{number}\"}}")),
    };
    for sent in fixture.queue.send((0..4_000).map(|number| in_bulk(job(number))).collect()).await {
        sent.unwrap();
    }
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(60)).await;
    let before = worker.done().len();
    send(&fixture, [("T2#F1", "live".to_owned())]).await;
    while !worker.done().iter().any(|name| name == "live") {
        sleep(Duration::from_secs(1)).await;
    }
    let (ahead, left) = (worker.done().len() - before, aside(&fixture));
    assert!(before > 100 && ahead < 1_200 && left > 1_000, "{before} before it, {ahead} ahead, {left} aside");
    while aside(&fixture) > 0 || depth(&fixture).await > 0 {
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(worker.done().len(), 4_001, "each once");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_later_job_of_the_group_is_not_held() {
    let fixture = RuntimeFixture::new();
    let worker = Scripted::new(|job, _| if job == "m1" { waits(WaitCause::Scope) } else { done() });
    send(&fixture, [("T1#C1", "m1".to_owned()), ("T1#C1", "m2".to_owned())]).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(1)).await;
    assert_eq!((worker.done(), aside(&fixture)), (vec!["m2".to_owned()], 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_job_that_never_succeeds_does_not_keep_the_others() {
    let fixture = RuntimeFixture::new();
    let ended = Arc::new(AtomicBool::new(false));
    let worker = Scripted::new({
        let ended = Arc::clone(&ended);
        move |job, _| {
            if job != "m000" && ended.load(Ordering::SeqCst) { done() } else { waits(WaitCause::Slack) }
        }
    });
    send(&fixture, (0..200).map(|n| ("T1#C1", format!("m{n:03}")))).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(3_600)).await;
    ended.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(180)).await;
    assert_eq!((worker.done().len(), aside(&fixture)), (199, 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_wait_for_order_follow_the_older_ones() {
    let fixture = RuntimeFixture::new();
    let ended = Arc::new(AtomicBool::new(false));
    let worker = Scripted::new({
        let ended = Arc::clone(&ended);
        move |job, tries| match job {
            "m2" if tries == 1 => waits(WaitCause::Order),
            "m1" if !ended.load(Ordering::SeqCst) => waits(WaitCause::NoToken),
            _ => done(),
        }
    });
    send(&fixture, ["m1", "m2", "m3"].map(|job| ("T1#C1", job.to_owned()))).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(600)).await;
    assert_eq!(worker.done(), ["m3"]);
    ended.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(90)).await;
    assert_eq!(worker.done(), ["m3", "m1", "m2"]);
    assert_eq!(depth(&fixture).await, 0);
    running.stop().await;
}

/// Whatever step fails or ends the process: nothing is lost, and nothing is left without a wake.
#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_steps_loses_no_job() {
    for kind in 0..3 {
        for call in 1..30 {
            let queue = match kind {
                0 => FaultPlan::fail_before(call),
                1 => FaultPlan::fail_after(call),
                _ => FaultPlan::none(),
            };
            let archive = if kind == 2 { FaultPlan::fail_after(call) } else { FaultPlan::none() };
            let fixture = RuntimeFixture::faulty(queue, archive);
            let (worker, ended, _) = switched(WaitCause::Token);
            for job in 0..5 {
                let message = Outgoing {
                    queue: QueueName::Events,
                    group: GroupId::from_parts(&["T1#C1"]),
                    dedup: DedupId::from_parts(&[&[job]]),
                    body: encode_event(&format!("{{\"event_id\":\"m{job}\"}}")),
                };
                fixture.memory_queue.send(vec![message]).await.remove(0).unwrap();
            }
            let running = fixture.start(&worker, settings());
            sleep(Duration::from_secs(40)).await;
            running.kill().await;
            let running = fixture.start(&worker, settings());
            sleep(Duration::from_secs(60)).await;
            ended.store(true, Ordering::SeqCst);
            sleep(Duration::from_secs(500)).await;
            let mut names = worker.done();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 5, "kind {kind}, call {call}");
            assert_eq!((aside(&fixture), depth(&fixture).await), (0, 0), "kind {kind}, call {call}");
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_tried_again_and_quarantined_after_the_third_time() {
    let fixture = RuntimeFixture::new();
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let request = ReceiveRequest {
        queue: QueueName::Events.into(),
        max: 10,
        visibility_timeout: Duration::ZERO,
        wait: Duration::ZERO,
    };
    let age = async || {
        for _ in 0..=MAX_RECEIVE_COUNT {
            fixture.memory_queue.receive(request).await.unwrap();
        }
    };
    let dead = async || fixture.memory_queue.depth(QueueRef::dead_letters(QueueName::Events)).await.unwrap();
    for trip in 1..=4 {
        age().await;
        // Its wake may be the second.
        assert!(dead().await.waiting >= 1, "trip {trip}");
        let worker = Scripted::new(|_, _| Act::Finish(JobOutcome::retry("not yet")));
        let running = fixture.start(&worker, settings());
        while !dead().await.is_empty() || (trip < 4 && (aside(&fixture) > 0 || depth(&fixture).await < 2)) {
            sleep(Duration::from_millis(500)).await;
        }
        running.kill().await;
        sleep(Duration::from_secs(400)).await;
        assert_eq!(fixture.quarantined().await.len(), usize::from(trip == 4), "trip {trip}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_waited_for_too_long_is_quarantined_with_its_reason() {
    let fixture = RuntimeFixture::new();
    let (worker, _, _) = switched(WaitCause::Token);
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let longest_wait = Duration::from_secs(24 * 3_600);
    let running = fixture.start(&worker, RuntimeSettings { longest_wait, ..settings() });
    sleep(Duration::from_secs(23 * 3_600)).await;
    assert!(fixture.quarantined().await.is_empty());
    sleep(Duration::from_secs(2 * 3_600)).await;
    let reason = "as scripted (it has waited for more than 1 d)".to_owned();
    assert_eq!(fixture.quarantined().await, [("m1".to_owned(), reason)]);
    assert_eq!((aside(&fixture), depth(&fixture).await), (0, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_or_a_wake_that_cannot_be_read_stops_nothing() {
    let fixture = RuntimeFixture::new();
    let (worker, ended, _) = switched(WaitCause::Token);
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    let mut broken = Update::new(ItemKey::new(key::waiting(QueueName::Events, &team()), "0000000000001-x"));
    broken.set.insert("cause".into(), "of a newer version".into());
    fixture.memory.write(&broken).await.unwrap();
    // A queue of a newer version, and a state that is none.
    for (queue, team) in [(json!("later"), json!("T1")), (json!(["events"]), json!(null))] {
        let mut state = Update::new(ItemKey::new(key::waiting_states(), format!("{queue}#T9")));
        state.set.extend([
            ("queue".to_owned(), queue),
            ("team_id".to_owned(), team),
            ("version".to_owned(), json!("1")),
        ]);
        fixture.memory.write(&state).await.unwrap();
    }
    for body in ["{\"v\":1,\"wake\":7}", "{\"v\":1,\"wake\":{\"team\":\"T9\",\"number\":3}}"] {
        let message = Outgoing {
            queue: QueueName::Events,
            group: GroupId::from_parts(&["T9", "wake"]),
            dedup: DedupId::from_parts(&[body.as_bytes()]),
            body: body.into(),
        };
        fixture.memory_queue.send(vec![message]).await.remove(0).unwrap();
    }
    ended.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    assert_eq!((worker.done(), aside(&fixture), depth(&fixture).await), (vec!["m1".to_owned()], 0, 0));
    let quarantined = fixture.quarantined_reasons().await;
    assert!(quarantined.len() == 1 && quarantined[0].contains("cannot be read"), "{quarantined:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_wake_is_sent_again() {
    let fixture = RuntimeFixture::new();
    let (worker, ended, _) = switched(WaitCause::Token);
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    running.stop().await;
    // The queue is lost, and the archive is not.
    let lost = RuntimeFixture {
        archive: fixture.archive.clone(),
        memory: fixture.memory.clone(),
        ..RuntimeFixture::new()
    };
    ended.store(true, Ordering::SeqCst);
    let running = lost.start(&worker, settings());
    sleep(Duration::from_secs(600)).await;
    assert_eq!((worker.done(), aside(&lost)), (vec!["m1".to_owned()], 0));
    running.stop().await;
}

/// As on a queue that delays its messages for longer than a wake that seems lost is awaited.
#[tokio::test(start_paused = true)]
async fn a_wake_that_is_replaced_before_it_arrives_makes_its_turn() {
    let fixture = RuntimeFixture::new();
    let (worker, ended, _) = switched(WaitCause::Token);
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    ended.store(true, Ordering::SeqCst);
    // Others replace the wake every second and send none of the new ones.
    for _ in 0..60 {
        let mut replaced = state(&fixture).await;
        if !replaced.waits {
            break;
        }
        replaced.renew_wake();
        drop(fixture.memory.write(&replaced.update().unwrap()).await.unwrap());
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!((worker.done(), aside(&fixture)), (vec!["m1".to_owned()], 0));
    running.stop().await;
}

/// As after several processes that each replaced an overdue wake, the last of which died before it sent its own.
#[tokio::test(start_paused = true)]
async fn replaced_wakes_go_away_and_one_is_left() {
    let fixture = RuntimeFixture::new();
    let (worker, _, _) = switched(WaitCause::Token);
    send(&fixture, [("T1#C1", "m1".to_owned())]).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(2)).await;
    for _ in 0..10 {
        let mut replaced = state(&fixture).await;
        replaced.renew_wake();
        drop(fixture.memory.write(&replaced.update().unwrap()).await.unwrap());
        fixture
            .memory_queue
            .send(vec![replaced.wake_job().message(QueueName::Events)])
            .await
            .remove(0)
            .unwrap();
    }
    let mut never_sent = state(&fixture).await;
    never_sent.renew_wake();
    drop(fixture.memory.write(&never_sent.update().unwrap()).await.unwrap());
    sleep(Duration::from_secs(1_200)).await;
    assert!(state(&fixture).await.waits);
    assert_eq!((aside(&fixture), depth(&fixture).await), (1, 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn invented_workspaces_are_bounded() {
    let fixture = RuntimeFixture::new();
    let worker = Scripted::new(|_, _| waits(WaitCause::NoToken));
    let groups: Vec<String> = (0..1_100).map(|n| format!("T{n:05}#C1")).collect();
    send(&fixture, groups.iter().enumerate().map(|(n, group)| (group.as_str(), format!("m{n}")))).await;
    let running = fixture.start(&worker, settings());
    sleep(Duration::from_secs(30)).await;
    let waiting =
        fixture.memory.items().iter().filter(|item| item.key.item_id.starts_with("waiting#")).count();
    // A batch of ten counts before it adds.
    assert!((1_000..1_050).contains(&waiting), "{waiting}");
    assert_eq!(fixture.quarantined().await.len(), 1_100 - waiting);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_beyond_the_bounds_of_a_workspace_is_quarantined() {
    for (jobs, bytes, kept) in [(999_999, 0, 1), (1_000_000, 0, 0), (5, 2 * 1024 * 1024 * 1024, 0)] {
        let fixture = RuntimeFixture::new();
        let (now, reason) = (fixture.ports().clock.now(), "as scripted".to_owned());
        let earlier = NewWait { cause: WaitCause::Token, reason, sent_at_ms: now.0, bytes: 1, trial: None };
        let mut state = WaitState::new(QueueName::Events, &team());
        state.renew_wake();
        state.add(&[earlier], now);
        (state.added_jobs, state.added_bytes) = (jobs, bytes);
        fixture.memory.write(&state.update().unwrap()).await.unwrap();
        let (worker, _, _) = switched(WaitCause::Token);
        send(&fixture, ["m1", "m2"].map(|job| ("T1#C1", job.to_owned()))).await;
        let running = fixture.start(&worker, settings());
        sleep(Duration::from_secs(2)).await;
        let reason = "as scripted (too many jobs of its workspace wait)".to_owned();
        let quarantined = ["m1", "m2"][kept..].iter().map(|job| ((*job).to_owned(), reason.clone()));
        assert_eq!(fixture.quarantined().await, quarantined.collect::<Vec<_>>(), "{jobs} {bytes}");
        assert_eq!(aside(&fixture), kept, "{jobs} {bytes}");
        running.stop().await;
    }
}
