//! Kills parts of the fleet at random moments, while Slack retries every request that did not get a 200.

use std::time::Duration;

use ports::archive::ItemKey;
use ports::files::FileKey;
use rules::project;
use serde_json::json;
use tests::harness::client::RetryDelays;
use tests::harness::environment::AwsInstallation;
use tests::harness::load::RunningLoad;
use tests::harness::process::{self, Process};
use tests::harness::verify::assert_messages;

use super::files::read;
use super::fleet::{DRAIN_DEADLINE, MINUTE, SENDERS, TOKEN, assert_no_quarantine};
use crate::killed_downloads::{job, stalling_slack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_when_parts_are_killed_under_load() {
    let installation = AwsInstallation::new().await;
    let mut random = fastrand::Rng::with_seed(20_261_123);
    let mut ingest = process::ingest(&installation).await;
    let mut writers = vec![
        process::message_writer(&installation).await,
        process::message_writer(&installation).await,
        process::message_writer(&installation).await,
    ];
    let mut load = RunningLoad::start(ingest.address, SENDERS, 2, &RetryDelays::slack(MINUTE));
    for _ in 0..4 {
        load.wait_for_acks(1 + random.usize(..60)).await;
        // This tests the moment itself: there is no signal to wait for.
        tokio::time::sleep(Duration::from_micros(random.u64(..300_000))).await;
        writers.swap_remove(random.usize(..writers.len())).sigkill().await;
        ingest.process.sigkill().await;
        ingest = process::ingest(&installation).await;
        load.set_server(ingest.address);
        writers.push(process::message_writer(&installation).await);
    }
    load.wait_for_acks(1).await;
    let sent = load.stop().await;
    assert!(sent.requests > sent.acked, "no kill affected a sender");
    // The messages of a killed writer become visible once their leases end.
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    assert_messages(&installation, &sent.model).await;
    assert_no_quarantine(&installation).await;
}

/// Two and a half parts of an upload.
const SIZE_BYTES: usize = 20 * 1024 * 1024;

async fn downloader(installation: &AwsInstallation, slack: &str) -> Process {
    let installation = installation.with_slack(&format!("{slack}/api/"), TOKEN);
    process::worker_process("file-downloader", &installation).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_download_publishes_no_partial_file_and_is_restarted() {
    let installation = AwsInstallation::new().await;
    let slack = stalling_slack(SIZE_BYTES).await;
    let job = job(&slack, SIZE_BYTES);
    let key = FileKey::shared(&job.team, &job.share.channel, &job.share.ts, &job.object.id);
    installation.aws.queue().send(vec![job.outgoing()]).await.remove(0).unwrap();

    let killed = downloader(&installation, &slack).await;
    installation.wait_for_upload(DRAIN_DEADLINE).await;
    killed.sigkill().await;
    let files = installation.aws.files();
    assert!(files.open(&key).await.unwrap().is_none());

    let _finishes = downloader(&installation, &slack).await;
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    let row =
        installation.aws.archive().get(&ItemKey::file(&job.team, &job.object.id)).await.unwrap().unwrap();
    let row = project::file(&row).unwrap().into_json();
    assert_eq!((&row["state"], &row["size_bytes"]), (&json!("held"), &json!(SIZE_BYTES)));
    let content = read(&installation.aws, &key).await.unwrap().unwrap();
    assert!(content == vec![7; SIZE_BYTES], "{} bytes are stored", content.len());
}
