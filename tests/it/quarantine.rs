//! Sends a large quarantine back to its queue, with real processes.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use embedded::Database;
use ports::clock::{Clock, SystemClock, TimestampMs};
use ports::queue::job::encode_event;
use ports::queue::{Delivery, GroupId, MessageId, Queue, QueueName, Receipt};
use serde_json::{Value, json};
use testkit::deliveries::receive_visible;
use tests::harness::binaries::binaries;
use tests::harness::procfs;
use tokio::process::Command;
use tokio::time::{interval, timeout};
use workers::quarantine;
use workers::runtime::Ports;

const JOBS: u64 = 10_000;
/// Every twentieth job is sent back.
const EVERY: u64 = 20;
/// All of them take 100 MB.
const TEXT_BYTES: usize = 10_000;
const MAX_RSS_KIB: u64 = 80 * 1024;
const DEADLINE: Duration = Duration::from_secs(120);

fn delivery(number: u64) -> Delivery {
    let event = json!({
        "type": "message", "channel": "C1", "channel_type": "channel", "event_ts": "1700000000.000100",
        "n": number, "text": "x".repeat(TEXT_BYTES),
    });
    Delivery {
        message_id: MessageId(number.to_string()),
        group: GroupId::from_parts(&["T1", "C1"]),
        body: encode_event(&json!({ "team_id": "T1", "event": event }).to_string()),
        receive_count: 1,
        // Ten jobs of each millisecond.
        sent_at: TimestampMs(1_700_000_000_000 + i64::try_from(number / 10).unwrap()),
        receipt: Receipt("1".into()),
    }
}

/// The numbers of all jobs on the queue, in their order.
async fn numbers(queue: &dyn Queue) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let deliveries = receive_visible(queue, QueueName::Events).await;
        if deliveries.is_empty() {
            return numbers;
        }
        let receipts: Vec<Receipt> = deliveries.iter().map(|delivery| delivery.receipt.clone()).collect();
        numbers.extend(deliveries.iter().map(|delivery| {
            let body: Value = serde_json::from_str(&delivery.body).unwrap();
            body["event"]["event"]["n"].as_u64().unwrap()
        }));
        queue.ack(QueueName::Events.into(), &receipts).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_among_ten_thousand_are_sent_back_in_order_in_bounded_memory_even_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = SystemClock::shared();
    let database = Database::open(data.path(), Arc::clone(&clock)).unwrap();
    let ports = Ports { queue: database.queue(), archive: database.archive(), clock };
    for first in (0..JOBS).step_by(1_000) {
        let deliveries: Vec<Delivery> = (first..first + 1_000).map(delivery).collect();
        let reason = |index: usize| if (index as u64).is_multiple_of(EVERY) { "odd" } else { "late" };
        let jobs: Vec<(&Delivery, &str)> =
            deliveries.iter().enumerate().map(|(index, delivery)| (delivery, reason(index))).collect();
        let put = quarantine::insert_all(&ports, QueueName::Events.into(), &jobs).await;
        assert!(put.iter().all(Result::is_ok));
    }
    let replay = || {
        let mut command = Command::new(&binaries().annalist);
        command.args(["quarantine", "replay", "--team", "T1", "--reason", "ODD", "--data"]).arg(data.path());
        command.env_clear().kill_on_drop(true).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut killed = replay();
    let mut tick = interval(Duration::from_millis(5));
    let begun = async {
        while ports.queue.depth(QueueName::Events.into()).await.unwrap().waiting < 10 {
            tick.tick().await;
        }
    };
    timeout(DEADLINE, begun).await.unwrap();
    killed.kill().await.unwrap();
    let odd = JOBS / EVERY;
    let left = quarantine::count(&*ports.archive).await.unwrap() - (JOBS - odd);
    assert!(left > 0 && left < odd, "{left}");

    let child = replay();
    let pid = child.id().unwrap();
    let mut peak_rss_kib = 0;
    let mut output = std::pin::pin!(child.wait_with_output());
    let output = loop {
        tokio::select! {
            output = &mut output => break output.unwrap(),
            _ = tick.tick() => {
                peak_rss_kib = procfs::usage(pid).map_or(peak_rss_kib, |usage| usage.peak_rss_kib);
            }
        }
    };
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), printed), (Some(0), format!("Sent back {left} jobs.\n")));
    assert!(peak_rss_kib > 0 && peak_rss_kib < MAX_RSS_KIB, "{peak_rss_kib} KiB");
    assert_eq!(quarantine::count(&*ports.archive).await.unwrap(), JOBS - odd);
    // The kill may have come between the send of a job and the deletion of its row.
    let mut numbers = numbers(&*ports.queue).await;
    numbers.dedup();
    assert!(numbers.iter().copied().eq((0..JOBS).step_by(usize::try_from(EVERY).unwrap())), "{numbers:?}");
    database.close().await;
}
