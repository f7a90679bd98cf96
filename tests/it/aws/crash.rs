//! Parts of the fleet killed at random moments, while Slack repeats what was not answered 200.

use std::time::Duration;

use tests::harness::client::RetryDelays;
use tests::harness::load::Load;
use tests::harness::place::Installation;
use tests::harness::process;
use tests::harness::verify::assert_messages;

use super::fleet::{DRAIN_DEADLINE, MINUTE, SENDERS, assert_no_quarantine};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_parts_are_killed_under_load() {
    let installation = Installation::new().await;
    let mut random = fastrand::Rng::with_seed(20_261_123);
    let mut ingest = process::ingest(&installation).await;
    let mut writers = vec![
        process::message_writer(&installation).await,
        process::message_writer(&installation).await,
        process::message_writer(&installation).await,
    ];
    let mut load = Load::start(ingest.address, SENDERS, 2, &RetryDelays::slack(MINUTE));
    for _ in 0..4 {
        load.acked(1 + random.usize(..60)).await;
        // The moment itself is what is tested: nothing is waited for.
        tokio::time::sleep(Duration::from_micros(random.u64(..300_000))).await;
        writers.swap_remove(random.usize(..writers.len())).sigkill().await;
        ingest.process.sigkill().await;
        ingest = process::ingest(&installation).await;
        load.follow(ingest.address);
        writers.push(process::message_writer(&installation).await);
    }
    load.acked(1).await;
    let sent = load.stop().await;
    assert!(sent.requests > sent.acked, "no kill was felt by any sender");
    // What a killed writer held is free once its lease ends.
    installation.drained(DRAIN_DEADLINE).await;
    assert_messages(&installation, &sent.model).await;
    assert_no_quarantine(&installation).await;
}
