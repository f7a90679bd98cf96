//! Drains one full queue with one, two and four message-writers.

use std::time::{Duration, Instant};

use ports::queue::QueueName;
use tests::harness::client::RetryDelays;
use tests::harness::environment::AwsInstallation;
use tests::harness::load::RunningLoad;
use tests::harness::process;
use tests::harness::verify::assert_messages;

use crate::progress;
use crate::report::{BenchSection, figure};

const EVENTS: usize = 2000;
const SENDERS: usize = 16;
const DEADLINE: Duration = Duration::from_secs(600);

pub(super) async fn measure() -> anyhow::Result<BenchSection> {
    let mut rows = Vec::new();
    for writers in [1, 2, 4] {
        progress(&format!("aws: {writers} writers"));
        let installation = AwsInstallation::new().await;
        let ingest = process::ingest(&installation).await;
        let mut load = RunningLoad::start(ingest.address, SENDERS, 7, &RetryDelays::none());
        load.wait_for_acks(EVENTS).await;
        let sent = load.stop().await;
        let began = Instant::now();
        let mut running = Vec::new();
        for _ in 0..writers {
            running.push(process::message_writer(&installation).await);
        }
        installation.wait_until_empty(&[QueueName::Events], DEADLINE).await;
        let elapsed = began.elapsed();
        // Edits and deletions show whether the order was kept.
        assert_messages(&installation, &sent.model).await;
        rows.push(vec![
            writers.to_string(),
            figure(sent.acked as f64 / elapsed.as_secs_f64()),
            format!("{} of {}", sent.model.rows(), sent.model.rows()),
        ]);
    }
    Ok(BenchSection {
        title: "Several message-writers on AWS",
        method: format!(
            "{EVENTS} events of {SENDERS} senders with channels of their own wait on the queue; then the given number \
             of `message-writer` processes starts. Timed from their start until the queue is empty. Every row is then \
             compared with what was sent. The limit is the emulator, one Python process for queue and table, not the \
             writers: the result shows that several writers together do the work of one, in order."
        ),
        columns: &["writers", "events/s", "rows as sent"],
        rows,
        goals: Vec::new(),
    })
}
