//! The calls of an idle worker to a queue that bills each call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::clock::{ManualClock, TimestampMs};
use ports::queue::{
    BatchResult, Delivery, Depth, Outgoing, Queue, QueueError, QueueName, QueueRef, Receipt, ReceiveRequest,
};
use testkit::memory::archive::MemoryArchive;
use tokio::sync::watch;
use tokio::time::sleep;
use workers::message_writer::MessageWriter;
use workers::runtime::{self, Ports, RuntimeSettings};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An empty SQS queue: a receive is one call per 20 s of waiting, as `aws::queue::calls` shows, and counts
/// lag.
#[derive(Default)]
struct EmptySqs {
    calls: Mutex<BTreeMap<(&'static str, String), CallCounts>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CallCounts {
    made: u64,
    in_flight: u64,
    most_in_flight: u64,
}

impl EmptySqs {
    fn change(&self, operation: &'static str, queue: QueueRef, change: impl FnOnce(&mut CallCounts)) {
        change(self.calls.lock().unwrap().entry((operation, queue.to_string())).or_default());
    }
}

#[async_trait]
impl Queue for EmptySqs {
    async fn send(&self, messages: Vec<Outgoing>) -> BatchResult {
        vec![Ok(()); messages.len()]
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<Delivery>, QueueError> {
        assert_eq!(request.wait, Duration::from_secs(20), "the longest that SQS waits");
        self.change("ReceiveMessage", request.queue, |calls| {
            calls.made += 1;
            calls.in_flight += 1;
            calls.most_in_flight = calls.most_in_flight.max(calls.in_flight);
        });
        sleep(request.wait).await;
        self.change("ReceiveMessage", request.queue, |calls| calls.in_flight -= 1);
        Ok(Vec::new())
    }

    async fn change_visibility(&self, _: QueueRef, entries: &[(Receipt, Duration)]) -> BatchResult {
        vec![Ok(()); entries.len()]
    }

    async fn ack(&self, _: QueueRef, receipts: &[Receipt]) -> BatchResult {
        vec![Ok(()); receipts.len()]
    }

    async fn depth(&self, queue: QueueRef) -> Result<Depth, QueueError> {
        self.change("GetQueueAttributes", queue, |calls| calls.made += 1);
        Ok(Depth { waiting: 0, delayed: 0, in_flight: 0, oldest_age_s: None })
    }

    fn depth_lag(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn ready(&self) -> Result<(), QueueError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_has_one_long_poll_in_flight_and_makes_few_other_calls() {
    let sqs = Arc::new(EmptySqs::default());
    let ports = Ports {
        queue: sqs.clone(),
        archive: Arc::new(MemoryArchive::new()),
        clock: ManualClock::starting_at(TimestampMs(1_700_000_000_000)),
    };
    let writer = MessageWriter::new(Arc::clone(&ports.archive), Arc::clone(&ports.queue));
    let (end, shutdown) = watch::channel(false);
    // The settings of production, with as many slots as AWS has.
    let settings = RuntimeSettings { slots: 16, ..RuntimeSettings::default() };
    let worker = tokio::spawn(runtime::run(Arc::new(writer), ports, settings, shutdown));
    sleep(DAY).await;
    end.send_replace(true);
    worker.await.unwrap();

    let calls = sqs.calls.lock().unwrap().clone();
    let (queue, dead_letters) =
        (QueueRef::from(QueueName::Events), QueueRef::dead_letters(QueueName::Events));
    let of = |operation: &'static str, queue: QueueRef| calls[&(operation, queue.to_string())];
    let a_day = |calls: CallCounts, every_s: u64| {
        let expected = DAY.as_secs() / every_s;
        assert!((expected..=expected + 1).contains(&calls.made), "{calls:?}, expected {expected}");
    };
    for receives in [of("ReceiveMessage", queue), of("ReceiveMessage", dead_letters)] {
        assert_eq!(receives.most_in_flight, 1);
    }
    let idle = tests::bill::IdleWorker::LONG_RUNNING;
    a_day(of("ReceiveMessage", queue), idle.receive_s);
    a_day(of("ReceiveMessage", dead_letters), idle.dead_letters_s);
    a_day(of("GetQueueAttributes", queue), idle.depth_s);
    a_day(of("GetQueueAttributes", dead_letters), idle.depth_s);
    assert_eq!(calls.len(), 4, "{calls:?}");
}
