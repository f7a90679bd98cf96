//! The workers, built from an open backend and run.
//!
//! * [`args`] are the flags of the workers. [`environment`] holds the dependencies of all workers; the builder of each worker is listed below.
//! * [`standalone`] runs one worker as a process of its own; `lambda` runs it as a function.
//! * `archive_search` answers questions from the archive's own search, which only a backend on this machine has.

#[cfg(feature = "embedded")]
pub mod archive_search;
pub mod args;
pub mod environment;
#[cfg(feature = "aws")]
mod lambda;
pub mod standalone;
mod worker_args;

use std::sync::Arc;

use ports::workers::{Feature, WORKERS, WorkerSpec};
use workers::channel_indexer::ChannelIndexer;
use workers::directory::{DirectorySync, DirectoryWorker};
use workers::file_downloader::FileDownloader;
use workers::historian::Historian;
use workers::keeper::Keeper;
use workers::message_writer::MessageWriter;
use workers::poster::Poster;
use workers::responder::Responder;
use workers::runtime::{Ports, Worker};
use workers::statistician::Statistician;

use args::ResponderSettings;
use environment::Environment;

/// Builds a worker.
pub type Build = fn(&Environment) -> Arc<dyn Worker>;

/// One builder per row of the worker table, in its order: a missing one does not compile, and a test checks
/// the order.
const BUILDS: [Build; WORKERS.len()] = [
    |environment| {
        let Ports { queue, archive, clock } = environment.ports.clone();
        let writer = MessageWriter::new(archive, queue).checked_by(environment.check.clone()).timed_by(clock);
        let responder = &environment.responder;
        Arc::new(if responder.is_on() { writer.asking(responder.limits.max_age) } else { writer })
    },
    |environment| {
        let archive = Arc::clone(&environment.ports.archive);
        Arc::new(ChannelIndexer::new(archive, environment.joiner()).checked_by(environment.check.clone()))
    },
    |environment| {
        Arc::new(FileDownloader::new(
            Arc::clone(&environment.ports.archive),
            Arc::clone(&environment.files),
            Arc::clone(&environment.web),
            environment.claimant(),
            environment.downloads.clone(),
        ))
    },
    |environment| Arc::new(Statistician::new(environment.ports.clone(), Arc::clone(&environment.changes))),
    |environment| {
        let limits = environment.responder.limits;
        let processor = environment.processor();
        Arc::new(Responder::new(environment.ports.clone(), environment.claimant(), processor, limits))
    },
    |environment| {
        let (ports, web) = (environment.ports.clone(), Arc::clone(&environment.web));
        Arc::new(Poster::new(ports, environment.claimant(), web, environment.responder.limits))
    },
    |environment| {
        let (ports, web) = (environment.ports.clone(), Arc::clone(&environment.web));
        Arc::new(Historian::new(ports, web, environment.night.backfill))
    },
    |environment| {
        let (ports, web) = (environment.ports.clone(), Arc::clone(&environment.web));
        let (files, night) = (Arc::clone(&environment.files), environment.night.clone());
        Arc::new(Keeper::new(ports, files, web, environment.claimant(), night))
    },
    |environment| {
        let ports = environment.ports.clone();
        let (web, archive, queue) =
            (Arc::clone(&environment.web), Arc::clone(&ports.archive), Arc::clone(&ports.queue));
        let sync = DirectorySync::new(web, archive, queue)
            .with_known_entities(environment.check.known())
            .with_listed_members(environment.members);
        Arc::new(DirectoryWorker::new(ports, sync, environment.joiner()))
    },
];

/// Every row of the worker table with its builder, in the order of the flow.
pub fn all() -> impl Iterator<Item = (&'static WorkerSpec, Build)> {
    WORKERS.iter().zip(BUILDS)
}

/// The workers that have work to do, given whether questions are answered.
pub fn enabled(responder: &ResponderSettings) -> impl Iterator<Item = (&'static WorkerSpec, Build)> {
    let is_on = responder.is_on();
    all().filter(move |(spec, _)| match spec.requires {
        Some(Feature::Responder) => is_on,
        None => true,
    })
}
