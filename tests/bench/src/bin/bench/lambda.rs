//! The parts as Lambda functions, built as they are deployed, with a simulated Runtime API and an emulated
//! AWS.

use std::time::Instant;

use ::testkit::corpus::{TEAM, channel_id, event, ts};
use ::tests::harness::binaries::{Binaries, lambda_binaries};
use ::tests::harness::client::PATH;
use ::tests::harness::environment::AwsInstallation;
use ::tests::harness::lambda::RunningFunction;
use ::tests::harness::lambda::payloads::FunctionUrlRequest;
use ::tests::harness::lambda::poller::Poller;
use ::tests::harness::process::SIGNING_SECRET;
use anyhow::ensure;
use ports::clock::{Clock, SystemClock};
use ports::queue::QueueName;
use slack::signature::SigningSecrets;

use crate::progress;
use crate::report::{BenchSection, Goal, figure, median, mib, ms};

const STARTS: usize = 20;
const BATCHES: usize = 100;
/// Maximum batch size of Lambda's poller for a FIFO queue.
const BATCH: usize = 10;
const MIB: f64 = 1024.0 * 1024.0;
const CHALLENGE: &str =
    r#"{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}"#;

/// Measures starts and batches.
pub(crate) async fn measure() -> anyhow::Result<Vec<BenchSection>> {
    progress("lambda: building without SQLite");
    let binaries = lambda_binaries();
    let installation = AwsInstallation::new().await;
    Ok(vec![starts(binaries, &installation).await?, batches(binaries, &installation).await?])
}

fn signed(body: &str) -> anyhow::Result<FunctionUrlRequest> {
    let secrets = SigningSecrets::parse(&SIGNING_SECRET.to_owned().into())?;
    let timestamp_s = SystemClock.now().seconds();
    Ok(FunctionUrlRequest::post(PATH, body)
        .header("x-slack-request-timestamp", &timestamp_s.to_string())
        .header("x-slack-signature", &secrets.sign(timestamp_s, body.as_bytes())))
}

fn posted(number: usize) -> String {
    let ts = ts(1_700_000_000_000_000 + i64::try_from(number).unwrap_or_default());
    let message = event::message(&ts, "U0001", "Ten of these make a batch.");
    // Every second channel has two of a batch, so that groups matter.
    event::envelope(TEAM, &format!("Ev{number}"), &event::posted(&channel_id(number % 8), &message))
}

/// Measures the time from starting `ingest` to its first answer, and its memory afterwards.
async fn starts(binaries: &Binaries, installation: &AwsInstallation) -> anyhow::Result<BenchSection> {
    let (mut first_ms, mut peak_mib) = (Vec::new(), Vec::new());
    for n in 1..=STARTS {
        progress(&format!("lambda: start {n} of {STARTS}"));
        let payload = signed(CHALLENGE)?.payload();
        let began = Instant::now();
        let ingest = RunningFunction::start(&binaries.ingest, installation).await;
        let echoed = ingest.request(&payload).await;
        first_ms.push(ms(began.elapsed()));
        ensure!(echoed.status == 200, "the challenge was not echoed: {echoed:?}");
        for number in 0..100 {
            let stored = ingest.request(&signed(&posted(n * 1_000 + number))?.payload()).await;
            ensure!(stored.status == 200, "an event was not stored: {stored:?}");
        }
        peak_mib.push(mib(ingest.process.usage().peak_rss_kib));
    }
    let size_mib = std::fs::metadata(&binaries.ingest)?.len() as f64 / MIB;
    let slowest_ms = first_ms.iter().copied().fold(0.0, f64::max);
    let (first_ms, peak_mib) = (median(first_ms), median(peak_mib));
    Ok(BenchSection {
        title: "Lambda: ingest",
        method: format!(
            "Built with `--no-default-features --features aws`, for this machine's processor. From starting the process to \
             its answer to a signed `url_verification`, over a Runtime API that is played; median of {STARTS}. Memory at \
             its highest, after 100 events on an emulated queue."
        ),
        columns: &["binary MiB", "first answer ms", "slowest ms", "peak RSS MiB"],
        rows: vec![[size_mib, first_ms, slowest_ms, peak_mib].map(figure).to_vec()],
        goals: vec![
            Goal::at_most("`ingest` for Lambda, stripped", size_mib, 12.0, " MiB"),
            Goal::at_most("`ingest` on Lambda, first answer", first_ms, 60.0, " ms"),
            Goal::at_most("`ingest` on Lambda, peak RSS", peak_mib, 40.0, " MiB"),
        ],
    })
}

/// Measures the CPU time of `message-writer` for a full batch, without the time that it waits for the
/// emulator.
async fn batches(binaries: &Binaries, installation: &AwsInstallation) -> anyhow::Result<BenchSection> {
    progress("lambda: batches");
    let poller = Poller::for_queue(installation, QueueName::Events).await;
    let writer = RunningFunction::start(&binaries.worker("message-writer"), installation).await;
    // Drains the messages left from the start measurements.
    poller.poll_until_empty(&writer).await;
    let ingest = RunningFunction::start(&binaries.ingest, installation).await;
    for number in 0..BATCHES * BATCH {
        ingest.request(&signed(&posted(1_000_000 + number))?.payload()).await;
    }
    let before = writer.process.usage().cpu;
    let (mut batch_ms, mut messages, mut batches) = (Vec::new(), 0, 0_u32);
    while messages < BATCHES * BATCH {
        let began = Instant::now();
        let handled = poller.poll_once(&writer).await;
        ensure!(handled.received > 0 && handled.failed.is_empty(), "{handled:?}");
        if handled.received == BATCH {
            batch_ms.push(ms(began.elapsed()));
        }
        messages += handled.received;
        batches += 1;
    }
    let own_ms = ms((writer.process.usage().cpu - before) / batches.max(1));
    let peak_mib = mib(writer.process.usage().peak_rss_kib);
    let size_mib = std::fs::metadata(binaries.worker("message-writer"))?.len() as f64 / MIB;
    Ok(BenchSection {
        title: "Lambda: message-writer",
        method: format!(
            "{messages} messages in {batches} batches of at most {BATCH}, handed over as Lambda's poller does. Own time is the \
             processor time of the process per batch; the whole time includes receiving from and deleting at the emulator."
        ),
        columns: &["binary MiB", "own time per batch ms", "whole time per batch ms", "peak RSS MiB"],
        rows: vec![[size_mib, own_ms, median(batch_ms), peak_mib].map(figure).to_vec()],
        goals: vec![Goal::at_most("a batch of 10 on Lambda, own time", own_ms, 30.0, " ms")],
    })
}
