//! Compares this commit with the binary of another one: the same export, imported, indexed, searched and read as
//! pages, and the same events, acknowledged and stored, by both in turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::binaries::binaries;
use ::tests::harness::environment::ProgramEnvironment;
use ::tests::harness::process;
use anyhow::{Context, ensure};
use ports::queue::QueueName;
use tokio::process::Command;

use crate::driver::{DrivenLoad, drive};
use crate::import::export::{self, USUAL_SPREAD};
use crate::observer::Observer;
use crate::pages::{self, CHANNEL};
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, figure, median, ms};
use crate::watched::run;
use crate::{Settings, machine, progress};

/// The number of requests for each page, and of processes that search.
const REQUESTS: usize = 50;
const SEARCHES: usize = 20;

/// What is measured, and the greatest ratio of the times.
const MEASURED: [(&str, f64); 7] = [
    ("import, until all is found", 1.05),
    ("index", 1.05),
    ("search as a process", 1.05),
    ("search", 1.05),
    ("pages", 1.05),
    ("acks", 1.05),
    ("acks, until all are stored", 1.05),
];

/// The times of one binary in one round, in milliseconds, as in [`MEASURED`].
type RoundTimes = [f64; MEASURED.len()];

/// Measures both binaries in each round, the other one first in every second round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let before = settings.before.as_deref().context("name the other binary with --before PATH")?;
    let programs = [before, &binaries().annalist];
    let folder = machine::data_folder()?;
    let zip = folder.path().join("export.zip");
    progress(&format!("compare: making an export of {} messages", settings.rows));
    export::write(&zip, settings.rows, USUAL_SPREAD)?;
    let mut pool = Pool::generate(&mut Workload::new(Shape::default()), settings.backlog)?;
    let mut rounds: Vec<[RoundTimes; 2]> = Vec::new();
    for round in 1..=settings.rounds {
        let mut times = [RoundTimes::default(); 2];
        for turn in 0..2 {
            let which = if round % 2 == 0 { 1 - turn } else { turn };
            progress(&format!("compare: round {round}, {}", ["before", "after"][which]));
            let [import, index, process, search, pages] = read(programs[which], &zip).await?;
            Pool::sign_again(&mut pool);
            let [acks, stored] = write(programs[which], &pool, settings).await?;
            times[which] = [import, index, process, search, pages, acks, stored];
        }
        rounds.push(times);
    }
    Ok(section(settings, &rounds))
}

/// The times until the events are acknowledged, and until they are stored, in milliseconds.
async fn write(program: &Path, pool: &Arc<Pool>, settings: &Settings) -> anyhow::Result<[f64; 2]> {
    let data = machine::data_folder()?;
    let mut command = Command::new(program);
    command.args(["up", "--listen", "127.0.0.1:0"]);
    data.path().configure(&mut command);
    let server = process::serve(&mut command).await;
    let observer = Observer::open(data.path())?;
    let started = Instant::now();
    let driven = drive(server.address, pool, DrivenLoad::whole(pool, settings.connections()), None).await?;
    let acked = started.elapsed();
    ensure!(driven.acked == pool.len(), "only {} of {} were acked", driven.acked, pool.len());
    observer.wait_until_drained(QueueName::Events).await?;
    let stored = started.elapsed();
    server.process.sigkill().await;
    Ok([ms(acked), ms(stored)])
}

/// The times of the import, the index, the searches and the pages, in milliseconds.
async fn read(program: &Path, zip: &Path) -> anyhow::Result<[f64; 5]> {
    let data = machine::data_folder()?;
    let zip = zip.display().to_string();
    // One of the binaries may make the index in the import, and the other one in the command after it.
    let mut import = run(program, data.path(), &["import", &zip, "--no-files"]).await?.time;
    import += run(program, data.path(), &["index"]).await?.time;
    let index = run(program, data.path(), &["index", "--rebuild"]).await?.time;
    let words: Vec<String> = (1..=SEARCHES).map(export::word_of_rank).collect();
    let mut process = Vec::with_capacity(SEARCHES);
    for word in &words {
        process.push(ms(run(program, data.path(), &["search", word]).await?.time));
    }
    let server = pages::serve_with(program, data.path()).await;
    let channel = format!("/c/{}/{CHANNEL}", export::TEAM);
    let (mut searches, mut read) = (Vec::new(), Vec::new());
    // The first request reads what is read once at the start.
    pages::request_page(server.address, "/", 1).await?;
    for word in &words {
        let page = format!("/search?q={word}");
        searches.push(pages::request_page(server.address, &page, REQUESTS / 10).await?.times.percentile(50));
    }
    for page in [channel.clone(), format!("{channel}?around=1500000000.000000"), "/".to_owned()] {
        read.push(pages::request_page(server.address, &page, REQUESTS).await?.times.percentile(50));
    }
    server.process.sigkill().await;
    Ok([ms(import), ms(index), median(process), median(searches), read.iter().sum()])
}

/// The median of the ratios of the rounds, so that a slower machine for a while does not matter.
fn section(settings: &Settings, rounds: &[[RoundTimes; 2]]) -> BenchSection {
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for (number, (what, limit)) in MEASURED.into_iter().enumerate() {
        let of = |which: usize| median(rounds.iter().map(|round| round[which][number]).collect());
        let ratio = median(rounds.iter().map(|[before, after]| after[number] / before[number]).collect());
        rows.push([what.to_owned()].into_iter().chain([of(0), of(1), ratio].map(figure)).collect());
        goals.push(Goal::at_most(what, ratio, limit, " × the time of the other binary"));
    }
    BenchSection {
        title: "Compared with another binary",
        method: format!(
            "An export of {} messages in {} channels, by both binaries in turn, {} rounds, medians; the ratio is the median of those of the \
             rounds. {SEARCHES} frequent words, as processes and as pages; the pages are the newest messages of a channel, those of one \
             time, and the list of channels. Acks: {} events, by {} connections, to `annalist up`.",
            settings.rows, USUAL_SPREAD.channels, settings.rounds, settings.backlog, settings.connections,
        ),
        columns: &["", "before ms", "after ms", "ratio"],
        rows,
        goals,
    }
}
