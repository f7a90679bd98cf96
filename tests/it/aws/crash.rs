//! Kills parts of the fleet at random moments, while Slack retries every request that did not get a 200.

use std::time::Duration;

use ports::archive::ItemKey;
use ports::files::FileKey;
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use rules::project;
use serde_json::json;
use slack::ids::{ChannelId, FileId, TeamId, Ts};
use testkit::corpus::TEAM;
use tests::harness::client::RetryDelays;
use tests::harness::environment::AwsInstallation;
use tests::harness::load::RunningLoad;
use tests::harness::process::{self, Process};
use tests::harness::verify::assert_messages;

use super::fleet::{DRAIN_DEADLINE, MINUTE, SENDERS, TOKEN, assert_no_quarantine};
use testkit::scripted_http::{AfterAnswer, serve_script};

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
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE_BYTES}\r\n\r\n");
    let whole: &'static [u8] = [head.as_bytes(), &[7; SIZE_BYTES]].concat().leak();
    let slack =
        serve_script(vec![(&whole[..SIZE_BYTES / 2], AfterAnswer::Stall), (whole, AfterAnswer::Close)]).await;

    let (team, file) = (TeamId::parse(TEAM).unwrap(), FileId::parse("F01").unwrap());
    let share = Share { channel: ChannelId::parse("C01").unwrap(), ts: Ts::parse("1.000000").unwrap() };
    let key = FileKey::shared(&team, &share.channel, &share.ts, &file);
    let object = json!({ "id": "F01", "size": SIZE_BYTES, "url_private": format!("{slack}/files/F01") });
    let object = FileObject::read(&object).unwrap();
    let job = FileJob { team: team.clone(), share, user: None, object, refresh: false };
    installation.aws.queue().send(vec![job.outgoing()]).await.remove(0).unwrap();

    let killed = downloader(&installation, &slack).await;
    installation.wait_for_upload(DRAIN_DEADLINE).await;
    killed.sigkill().await;
    let files = installation.aws.files();
    assert!(files.open(&key).await.unwrap().is_none());

    let _finishes = downloader(&installation, &slack).await;
    installation.wait_until_drained(DRAIN_DEADLINE).await;
    let row = installation.aws.archive().get(&ItemKey::file(&team, &file)).await.unwrap().unwrap();
    let row = project::file(&row).unwrap();
    assert_eq!((&row["state"], &row["size_bytes"]), (&json!("held"), &json!(SIZE_BYTES)));
    let mut reader = files.open(&key).await.unwrap().unwrap();
    let mut content = Vec::new();
    while let Some(chunk) = reader.next().await.unwrap() {
        content.extend_from_slice(&chunk);
    }
    assert!(content == vec![7; SIZE_BYTES], "{} bytes are stored", content.len());
}
