//! `annalist erase`: removes a person, a channel or a message for good.
//!
//! * [`request`] resolves the arguments. [`unnamed`] finds bytes that no row names. [`recorded`] is the list of erasures next to the database, for
//!   backups from before them. [`report`] prints the result.

mod recorded;
mod report;
mod request;
mod unnamed;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::ArgGroup;
use embedded::QueuedJob;
use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope};
use ports::archive::{Archive, ArchiveExt};
use ports::clock::Clock;
use process::config::IndexArgs;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use reader::range::ts_from_micros;
use search::index::SearchIndex;
use slack::ids::{TeamId, Ts};
use workers::eraser::{
    ErasedAhead, Eraser, EraserCounts, EraserMode, ErasureRecord, JobCover, cover_of, read_facts,
};

use super::copy::state as copy_state;
use super::hold;
use crate::failure::say;
use crate::plain;
use crate::progress::ProgressLine;
use crate::read::{channel_name, team, unknown_person};

pub(crate) use recorded::FILE;
use recorded::RecordedErasures;
use report::EraseReport;
use request::EraseRequest;

/// `annalist erase`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["user", "channel", "message", "replay"])))]
pub(crate) struct EraseArgs {
    /// What this person wrote and shared, and their profiles: by id or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// What was written in this channel, and what is known of it: by id or name
    #[arg(long, value_name = "CHANNEL", value_parser = channel_name)]
    channel: Option<String>,
    /// One message, by its channel and timestamp, or by its Slack link alone
    #[arg(long, num_args = 1..=2, value_names = ["CHANNEL", "TS"])]
    message: Option<Vec<String>>,
    /// Everything that was erased before, for an archive that was restored from an older backup; FILE is the list of another
    /// data folder
    #[arg(long, num_args = 0..=1, value_name = "FILE")]
    replay: Option<Option<PathBuf>>,
    /// Erase it; otherwise it is only counted
    #[arg(long)]
    yes: bool,
    /// Write the database anew, so that nothing of it is left in its file, and delete the search index, which is made again
    #[arg(long)]
    compact: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Counts the rows that would be erased, or erases them.
pub(crate) async fn run(
    backend: &Backend,
    clock: &dyn Clock,
    args: &EraseArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = backend.archive();
    let recorded = RecordedErasures::for_backend(&args.backend);
    let until = ts_from_micros(clock.now().0 * 1_000);
    let mut request = request::read(&*archive, args, recorded.as_ref(), &until).await?;
    refuse_held(&*archive, args, &mut request).await?;
    let present = match args.replay {
        None => PresentContent::find(backend, &request.facts).await?,
        // It was found when it was erased first: the list contains its facts.
        Some(_) => PresentContent::default(),
    };
    request.facts.extend(present.ahead.message_facts(&request.facts));
    let before = read_facts(&*archive, request.teams()).await?;
    let was_erased = request.facts.iter().any(|fact| before.iter().any(|known| known.scope == fact.scope));
    let files = backend.files();
    let eraser_in = async |mode| -> anyhow::Result<Eraser<'_>> {
        let eraser = Eraser::begin(&*archive, &*files, request.facts.clone(), mode).await?;
        Ok(eraser.with_ahead(present.ahead.clone()))
    };
    // An id may belong to no person at all.
    if request.is_only_an_id && !was_erased {
        let found =
            run_eraser(backend, &eraser_in(EraserMode::Plan).await?, &request, &present, EraserMode::Plan)
                .await?;
        if found.is_nothing() {
            return Err(unknown_person(&*archive, &request.argument, &[]).await.into());
        }
    }
    let mode = match (args.yes, args.backend.backend) {
        (false, _) => EraserMode::Plan,
        // In a folder, an erasure is exact. On AWS, a write may have been in flight.
        (true, BackendKind::Aws) if was_erased => EraserMode::ActAgain,
        (true, BackendKind::Aws | BackendKind::Embedded) => EraserMode::Act,
    };
    let eraser = eraser_in(mode).await?;
    if args.yes {
        write_facts(&*archive, &request, recorded.as_ref()).await?;
        hold::wait_for_writers(backend).await;
    }
    let mut done = run_eraser(backend, &eraser, &request, &present, mode).await?;
    done.of_all += unnamed::erase(backend, &request, mode).await?;
    if args.yes {
        remove_claims(backend, &request.facts).await?;
        record(&*archive, &request, &done, &until).await?;
        if args.compact {
            compact(backend, args).await?;
        }
    }
    let report = EraseReport { request: &request, args, sum: done.sum(), jobs: done.jobs, until: &until };
    if request.problem.is_none() || !request.facts.is_empty() {
        report.print(out)?;
        if args.yes && !args.json {
            print_copy_advice(backend, clock, out).await?;
        }
    }
    request.problem.map_or(Ok(()), |problem| Err(anyhow::anyhow!(problem)))
}

/// Refuses what is on hold. A replay leaves it out.
async fn refuse_held(
    archive: &dyn Archive,
    args: &EraseArgs,
    request: &mut EraseRequest,
) -> anyhow::Result<()> {
    let mut free = Vec::with_capacity(request.facts.len());
    for fact in std::mem::take(&mut request.facts) {
        let what = match (&args.replay, &fact.scope) {
            (Some(_), scope) => recorded::label(scope),
            (None, ErasureScope::Message(channel, ts)) => format!("the message {ts} of {channel}"),
            (None, ErasureScope::User(_) | ErasureScope::Channel(_)) => request.argument.clone(),
        };
        match (hold::hold_on(archive, &fact, &what).await?, args.replay.is_some()) {
            (None, _) => free.push(fact),
            (Some(hold), true) => say(&format!("left out: {hold}")),
            (Some(hold), false) => return Err(hold.into()),
        }
    }
    request.facts = free;
    Ok(())
}

/// The counts of a run.
#[derive(Default)]
struct Done {
    by_team: BTreeMap<TeamId, EraserCounts>,
    of_all: EraserCounts,
    jobs: u64,
}

impl Done {
    fn sum(&self) -> EraserCounts {
        let mut sum = self.of_all;
        self.by_team.values().for_each(|counts| sum += *counts);
        sum
    }

    fn is_nothing(&self) -> bool {
        let EraserCounts { messages, files, users, quarantined, .. } = self.sum();
        messages + files + users + quarantined + self.jobs == 0
    }
}

/// What is there when an erasure begins, whatever its time.
#[derive(Default)]
struct PresentContent {
    ahead: ErasedAhead,
    /// The last job on the queues of this machine.
    last_job: i64,
}

impl PresentContent {
    async fn find(backend: &Backend, facts: &[ErasureFact]) -> anyhow::Result<Self> {
        let mut ahead = ErasedAhead::find(&*backend.archive(), facts).await?;
        let mut last_job = i64::MIN;
        if let Some(database) = backend.database() {
            loop {
                let jobs = database.queued_jobs(last_job).await?;
                let Some(last) = jobs.last() else { break };
                last_job = last.seq;
                for job in &jobs {
                    ahead.job(&job.body, facts)?;
                }
            }
        }
        Ok(Self { ahead, last_job })
    }
}

/// Writes the facts. This happens before the erasure, so that no writer stores erased content again.
async fn write_facts(
    archive: &dyn Archive,
    request: &EraseRequest,
    recorded: Option<&RecordedErasures>,
) -> anyhow::Result<()> {
    for fact in &request.facts {
        archive.write(&fact.update()).await?;
    }
    if let Some(recorded) = recorded {
        recorded.add(&request.facts)?;
    }
    Ok(())
}

/// Searches all parts of the archive, and erases or counts what the facts cover.
async fn run_eraser(
    backend: &Backend,
    eraser: &Eraser<'_>,
    request: &EraseRequest,
    present: &PresentContent,
    mode: EraserMode,
) -> anyhow::Result<Done> {
    let mut done =
        Done { jobs: queued_jobs(backend, &request.facts, present, mode).await?, ..Done::default() };
    let parts = eraser.parts().await?;
    let mut progress = ProgressLine::begin();
    for (number, part) in parts.iter().enumerate() {
        let progress_text = || format!("{} rows read", plain::grouped(eraser.rows_read()));
        let position = (number as u64, parts.len() as u64);
        let counts = progress.watch(eraser.run_part(part), position, progress_text).await?;
        let sum = match part.team() {
            Some(team) => done.by_team.entry(team.clone()).or_default(),
            None => &mut done.of_all,
        };
        *sum += counts;
    }
    Ok(done)
}

/// Counts or removes jobs on the queues of this machine that contain only erased content. The archive refuses
/// erased content of other jobs, which are overwritten once the queue is drained. On SQS, jobs cannot be
/// searched.
async fn queued_jobs(
    backend: &Backend,
    facts: &[ErasureFact],
    present: &PresentContent,
    mode: EraserMode,
) -> anyhow::Result<u64> {
    let Some(database) = backend.database() else { return Ok(0) };
    let of_present = [facts, present.ahead.job_facts()].concat();
    let [covered, covered_of_present] =
        [facts, &of_present].map(|facts| facts.iter().collect::<ErasureFacts>());
    let (mut after, mut found) = (0, 0);
    loop {
        let jobs = database.queued_jobs(after).await?;
        let Some(last) = jobs.last() else { return Ok(found) };
        after = last.seq;
        let is_covered = |job: &&QueuedJob| {
            let cover = match job.seq <= present.last_job {
                true => cover_of(&job.body, &of_present, &covered_of_present),
                false => cover_of(&job.body, facts, &covered),
            };
            cover == JobCover::All
        };
        let due: Vec<i64> = jobs.iter().filter(is_covered).map(|job| job.seq).collect();
        found += match mode {
            EraserMode::Plan => due.len() as u64,
            EraserMode::Act | EraserMode::ActAgain if due.is_empty() => 0,
            EraserMode::Act | EraserMode::ActAgain => database.remove_jobs(due).await?,
        };
    }
}

/// Removes claims, which contain for hours who shared a file and where. Claims on AWS expire by themselves.
async fn remove_claims(backend: &Backend, facts: &[ErasureFact]) -> anyhow::Result<()> {
    let Some(database) = backend.database() else { return Ok(()) };
    for fact in facts {
        database.remove_claims(fact.scope.clone()).await?;
    }
    Ok(())
}

/// Writes a record of the erasure to each workspace, without any content.
async fn record(
    archive: &dyn Archive,
    request: &EraseRequest,
    done: &Done,
    until: &Ts,
) -> anyhow::Result<()> {
    let by = process::config::system_user();
    let mut rest = (done.of_all, done.jobs);
    for team in request.teams() {
        let (mut counts, jobs) = std::mem::take(&mut rest);
        counts += done.by_team.get(team).copied().unwrap_or_default();
        let scope = request.label.clone();
        let record =
            ErasureRecord { team: team.clone(), at: until.clone(), scope, by: by.clone(), counts, jobs };
        archive.write(&record.update()).await?;
    }
    Ok(())
}

/// Says that copies still have what was erased.
async fn print_copy_advice(backend: &Backend, clock: &dyn Clock, out: &mut dyn Write) -> anyhow::Result<()> {
    let copy = copy_state::read(&*backend.archive(), clock.now()).await?;
    let Some(to) = copy.and_then(|copy| copy.to) else { return Ok(()) };
    let to = plain::line(&to);
    Ok(writeln!(
        out,
        "Its copies still have it, and a restored one would bring it back: annalist copy --to {to} makes one without \
         it; with --copy-keep 0d, no other stays."
    )?)
}

/// Rewrites the database file without free pages, and deletes the search index.
async fn compact(backend: &Backend, args: &EraseArgs) -> anyhow::Result<()> {
    if let Some(database) = backend.database() {
        say("writing the database anew; other processes wait meanwhile");
        database.compact().await?;
    }
    Ok(SearchIndex::delete(&crate::search::index_file(&args.index, &args.backend)?)?)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
