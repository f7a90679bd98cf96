//! Sends SIGKILL at random moments, while the simulated Slack retries requests that were not answered 200.

use std::time::Duration;

use ::tests::harness::binaries::binaries;
use ::tests::harness::client::RetryDelays;
use ::tests::harness::command::{status, wait_until_idle};
use ::tests::harness::environment::{AwsInstallation, ProgramEnvironment};
use ::tests::harness::load::{AckedLoad, RunningLoad};
use ::tests::harness::process;
use anyhow::Context;
use embedded::Database;
use ports::clock::SystemClock;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::fleet::RealFleet;
use crate::ledger::{self, LedgerRow};
use crate::progress;

const SENDERS: usize = 8;
/// The scaled minute of Slack's retries: long enough for a restart between two retries, short enough for many
/// kills.
const MINUTE: Duration = Duration::from_millis(20);
/// Upper bound of the random delay until a recovering `annalist up` is killed: about its time to recover and
/// listen.
const STARTING_US: u64 = 60_000;
const WRITERS: usize = 3;
/// Much longer than any work that is not stuck.
const IDLE_DEADLINE: Duration = Duration::from_secs(600);

/// Kills `annalist up`, and in half of the cases also its successor while that recovers.
pub(crate) async fn kill_up(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let data = data_folder()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut server = process::up(data.path()).await;
    let mut load = RunningLoad::start(server.address, SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    let mut done = 0;
    while done < kills {
        wait_for_random_moment(&mut load, events / kills, &mut random).await;
        server.process.sigkill().await;
        done += 1;
        if done < kills && random.bool() {
            let recovering = process::starting_up(data.path());
            sleep(Duration::from_micros(random.u64(..STARTING_US))).await;
            recovering.sigkill().await;
            done += 1;
        }
        server = process::up(data.path()).await;
        load.set_server(server.address);
        report_progress(done, kills, &load);
    }
    let sent = top_up(load, events).await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    let quarantined_count = quarantined(&status(data.path()).await);
    drop(server);
    let row = LedgerRow::new("SIGKILL of `annalist up`, also while it recovers", kills, &sent);
    compare_folder(row, data, &sent, quarantined_count).await
}

/// Kills ingest, message-writers and the channel-indexer, which run as separate processes on one folder.
pub(crate) async fn kill_fleet_on_folder(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let data = data_folder()?;
    let (fleet, sent) = kill_parts(data.path(), kills, events, seed).await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    let quarantined_count = quarantined(&status(data.path()).await);
    drop(fleet);
    let row = LedgerRow::new("SIGKILL of ingest or a worker, several processes on one folder", kills, &sent);
    compare_folder(row, data, &sent, quarantined_count).await
}

/// Kills ingest, message-writers and the channel-indexer on emulated SQS and DynamoDB.
pub(crate) async fn kill_fleet_on_aws(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let installation = AwsInstallation::new().await;
    let (fleet, sent) = kill_parts(&installation, kills, events, seed).await;
    // The messages of a killed writer are redelivered once their leases end.
    installation.wait_until_drained(IDLE_DEADLINE).await;
    let quarantined_count = quarantined(&status(&installation).await);
    drop(fleet);
    let row = LedgerRow::new("SIGKILL of ingest or a worker, on an emulator of AWS", kills, &sent);
    ledger::compare(row, &*installation.aws.archive(), &sent.model, quarantined_count).await
}

/// Loads a fleet and kills its processes one after the other. Returns the fleet, which is still draining, and
/// the load.
async fn kill_parts<P: ProgramEnvironment + ?Sized>(
    installation: &P,
    kills: u64,
    events: u64,
    seed: u64,
) -> (RealFleet<'_, P>, AckedLoad) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut fleet = RealFleet::start(installation, WRITERS).await;
    let mut load = RunningLoad::start(fleet.address(), SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    for done in 0..kills {
        wait_for_random_moment(&mut load, events / kills, &mut random).await;
        fleet.kill_one(&mut random).await;
        load.set_server(fleet.address());
        report_progress(done + 1, kills, &load);
    }
    let sent = top_up(load, events).await;
    (fleet, sent)
}

/// Waits until a random moment after a random number of acks.
async fn wait_for_random_moment(load: &mut RunningLoad, events: u64, random: &mut fastrand::Rng) {
    let events = usize::try_from(events).unwrap_or(usize::MAX).max(1);
    load.wait_for_acks(1 + random.usize(..2 * events)).await;
    sleep(Duration::from_micros(random.u64(..5_000))).await;
}

/// Continues the load up to the given number of events, then stops it.
async fn top_up(mut load: RunningLoad, events: u64) -> AckedLoad {
    let target = usize::try_from(events).unwrap_or(usize::MAX);
    load.wait_for_acks(target.saturating_sub(load.acked_events()).max(1)).await;
    load.stop().await
}

fn report_progress(done: u64, kills: u64, load: &RunningLoad) {
    if done.is_multiple_of(10) {
        progress(&format!("{done} of {kills} kills, {} events acknowledged", load.acked_events()));
    }
}

/// Returns the number of quarantined jobs and dead letters. These events should have none.
fn quarantined(status: &serde_json::Value) -> u64 {
    let dead = status["queues"].as_array().into_iter().flatten().map(|queue| queue["dead"].as_u64());
    dead.chain([status["quarantined"].as_u64()]).map(Option::unwrap_or_default).sum()
}

/// Compares the archive in a folder with the load. The folder stays if anything differs.
async fn compare_folder(
    row: LedgerRow,
    data: TempDir,
    sent: &AckedLoad,
    quarantined_count: u64,
) -> anyhow::Result<LedgerRow> {
    let database = Database::open_existing(data.path(), SystemClock::shared())?;
    let archive = database.archive();
    let row = ledger::compare(row, &*archive, &sent.model, quarantined_count).await;
    database.close().await;
    if row.as_ref().is_ok_and(|row| !row.is_clean()) {
        progress(&format!("the archive stays in {}", data.keep().display()));
    }
    row
}

/// Creates a data folder on the disk of the target directory. The default temporary folder may be in memory,
/// which is not durable.
fn data_folder() -> anyhow::Result<TempDir> {
    let target = binaries().annalist.parent().context("a program lies in a folder")?;
    tempfile::tempdir_in(target).context("cannot make a folder for data")
}
