//! Kills real processes at random moments under load, while Slack retries every request that did not get a
//! 200.

use std::collections::BTreeMap;
use std::time::Duration;

use embedded::Database;
use ports::clock::SystemClock;
use ports::queue::job::Job;
use ports::queue::{Queue, QueueName};
use slack::envelope::Envelope;
use testkit::deliveries::receive_visible;
use tests::harness::client::RetryDelays;
use tests::harness::command::wait_until_idle;
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tests::harness::verify::assert_archive_holds;
use tokio::time::sleep;

const KILLS: usize = 5;
const SENDERS: usize = 6;
/// Scaled minute of Slack's retries: long enough that a restart falls between two retries, short enough for a
/// test.
const MINUTE: Duration = Duration::from_millis(20);
/// Approximate time in which `annalist up` recovers and starts to listen.
const STARTING_US: u64 = 60_000;
/// Shorter than a lease, because the leases of a killed process are released at once.
const IDLE_DEADLINE: Duration = Duration::from_secs(20);

/// Waits for a random moment shortly after an ack.
async fn a_random_moment(load: &mut RunningLoad, random: &mut fastrand::Rng) {
    load.wait_for_acks(1 + random.usize(..50)).await;
    // This tests the moment itself: there is no signal to wait for.
    sleep(Duration::from_micros(random.u64(..400_000))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acked_event_is_archived_once_however_often_up_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(20_261_121);
    let mut server = process::up(data.path()).await;
    let mut load = RunningLoad::start(server.address, SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    for _ in 0..KILLS {
        a_random_moment(&mut load, &mut random).await;
        server.process.sigkill().await;
        // Also kill the process that recovers.
        let recovering = process::starting_up(data.path());
        sleep(Duration::from_micros(random.u64(..STARTING_US))).await;
        recovering.sigkill().await;
        server = process::up(data.path()).await;
        load.set_server(server.address);
    }
    load.wait_for_acks(1).await;
    let sent = load.stop().await;

    assert!(sent.requests > sent.acked, "no kill affected a sender");
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    assert_archive_holds(data.path(), &sent.model).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channels_events_keep_their_order_when_ingest_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(20_261_122);
    let mut server = process::ingest(data.path()).await;
    let mut load = RunningLoad::start(server.address, SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    for _ in 0..KILLS {
        a_random_moment(&mut load, &mut random).await;
        server.process.sigkill().await;
        server = process::ingest(data.path()).await;
        load.set_server(server.address);
    }
    load.wait_for_acks(1).await;
    let sent = load.stop().await;
    assert!(sent.requests > sent.acked, "no kill affected a sender");
    server.process.stop().await;

    let database = Database::open(data.path(), SystemClock::shared()).unwrap();
    let queued = event_ids_by_channel(&*database.queue()).await;
    database.close().await;
    assert_eq!(queued, sent.event_ids);
}

/// Drains the queue and returns the event ids of each channel's message group, in the order of delivery.
async fn event_ids_by_channel(queue: &dyn Queue) -> BTreeMap<String, Vec<String>> {
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let deliveries = receive_visible(queue, QueueName::Events).await;
        if deliveries.is_empty() {
            assert!(queue.depth(QueueName::Events.into()).await.unwrap().is_empty());
            return ids;
        }
        for delivery in &deliveries {
            let event = Job::decode(&delivery.body).unwrap().event().unwrap();
            let event_id = Envelope::peek(event.get().as_bytes()).unwrap().event_id.unwrap().into_owned();
            let (_team, channel) = delivery.group.as_str().split_once('#').unwrap();
            ids.entry(channel.to_owned()).or_default().push(event_id);
        }
        let receipts: Vec<_> = deliveries.into_iter().map(|delivery| delivery.receipt).collect();
        assert!(queue.ack(QueueName::Events.into(), &receipts).await.iter().all(Result::is_ok));
    }
}
