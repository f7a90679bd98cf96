//! SIGKILL at random moments, while the played Slack repeats what was not answered 200.

use std::time::Duration;

use ::tests::harness::binaries::binaries;
use ::tests::harness::client::RetryDelays;
use ::tests::harness::command::{status, wait_until_idle};
use ::tests::harness::load::{AckedLoad, RunningLoad};
use ::tests::harness::place::{AwsInstallation, ProgramEnvironment};
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
/// Slack's minute: long enough that a restart falls between two retries, short enough for many kills.
const MINUTE: Duration = Duration::from_millis(20);
/// `annalist up` has recovered and listens after about this long.
const STARTING_US: u64 = 60_000;
const WRITERS: usize = 3;
/// Much longer than anything takes that is not stuck.
const IDLE_DEADLINE: Duration = Duration::from_secs(600);

/// `annalist up`, and every other time also the one that is still recovering.
pub(crate) async fn of_up(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let data = data_folder()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut server = process::up(data.path()).await;
    let mut load = RunningLoad::start(server.address, SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    let mut done = 0;
    while done < kills {
        a_random_moment(&mut load, events / kills, &mut random).await;
        server.process.sigkill().await;
        done += 1;
        if done < kills && random.bool() {
            let recovering = process::starting_up(data.path());
            sleep(Duration::from_micros(random.u64(..STARTING_US))).await;
            recovering.sigkill().await;
            done += 1;
        }
        server = process::up(data.path()).await;
        load.follow(server.address);
        tell(done, kills, &load);
    }
    let sent = top_up(load, events).await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    let aside = quarantined(&status(data.path()).await);
    drop(server);
    let row = LedgerRow::new("SIGKILL of `annalist up`, also while it recovers", kills, &sent);
    on_folder(row, &data, &sent, aside).await
}

/// Ingest and message-writers as processes of their own on one folder.
pub(crate) async fn of_a_fleet(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let data = data_folder()?;
    let (fleet, sent) = kill_parts(data.path(), kills, events, seed).await;
    wait_until_idle(data.path(), IDLE_DEADLINE).await;
    let aside = quarantined(&status(data.path()).await);
    drop(fleet);
    let row = LedgerRow::new(
        "SIGKILL of ingest or a message-writer, several processes on one folder",
        kills,
        &sent,
    );
    on_folder(row, &data, &sent, aside).await
}

/// The same on SQS and DynamoDB, as an emulator plays them.
pub(crate) async fn on_aws(kills: u64, events: u64, seed: u64) -> anyhow::Result<LedgerRow> {
    let installation = AwsInstallation::new().await;
    let (fleet, sent) = kill_parts(&installation, kills, events, seed).await;
    // What a killed writer held is free once its lease ends.
    installation.drained(IDLE_DEADLINE).await;
    let aside = quarantined(&status(&installation).await);
    drop(fleet);
    let row = LedgerRow::new("SIGKILL of ingest or a message-writer, on an emulator of AWS", kills, &sent);
    ledger::compare(row, &*installation.aws.archive(), &sent.model, aside).await
}

/// Loads a fleet and kills one part of it after the other; what was acked, and the fleet that still works it off.
async fn kill_parts<P: ProgramEnvironment + ?Sized>(
    place: &P,
    kills: u64,
    events: u64,
    seed: u64,
) -> (RealFleet<'_, P>, AckedLoad) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut fleet = RealFleet::start(place, WRITERS).await;
    let mut load = RunningLoad::start(fleet.address(), SENDERS, random.u64(..), &RetryDelays::slack(MINUTE));
    for done in 0..kills {
        a_random_moment(&mut load, events / kills, &mut random).await;
        fleet.kill_one(&mut random).await;
        load.follow(fleet.address());
        tell(done + 1, kills, &load);
    }
    let sent = top_up(load, events).await;
    (fleet, sent)
}

/// A moment in the life of a server that has just acked something: the moment itself is what is tested.
async fn a_random_moment(load: &mut RunningLoad, events: u64, random: &mut fastrand::Rng) {
    let events = usize::try_from(events).unwrap_or(usize::MAX).max(1);
    load.acked(1 + random.usize(..2 * events)).await;
    sleep(Duration::from_micros(random.u64(..5_000))).await;
}

/// Goes on to the wanted number of events.
async fn top_up(mut load: RunningLoad, events: u64) -> AckedLoad {
    let wanted = usize::try_from(events).unwrap_or(usize::MAX);
    load.acked(wanted.saturating_sub(load.count()).max(1)).await;
    load.stop().await
}

fn tell(done: u64, kills: u64, load: &RunningLoad) {
    if done.is_multiple_of(10) {
        progress(&format!("{done} of {kills} kills, {} events acknowledged", load.count()));
    }
}

/// What is in quarantine or among the dead letters: of these events, none should be.
fn quarantined(status: &serde_json::Value) -> u64 {
    let dead = status["queues"].as_array().into_iter().flatten().map(|queue| queue["dead"].as_u64());
    dead.chain([status["quarantined"].as_u64()]).map(Option::unwrap_or_default).sum()
}

async fn on_folder(
    row: LedgerRow,
    data: &TempDir,
    sent: &AckedLoad,
    aside: u64,
) -> anyhow::Result<LedgerRow> {
    let database = Database::open_existing(data.path(), SystemClock::shared())?;
    let archive = database.archive();
    let row = ledger::compare(row, &*archive, &sent.model, aside).await;
    database.close().await;
    row
}

/// On the disk that holds the target directory: a temporary folder may lie in memory, where nothing is durable.
fn data_folder() -> anyhow::Result<TempDir> {
    let target = binaries().annalist.parent().context("a program lies in a folder")?;
    tempfile::tempdir_in(target).context("cannot make a folder for data")
}
