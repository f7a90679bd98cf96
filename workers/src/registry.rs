//! How each worker of the table is built.

use std::sync::Arc;

use ports::queue::QueueName;
use ports::workers::{WORKERS, WorkerSpec};
use process::config::responder::ResponderSettings;

use crate::channel_indexer::ChannelIndexer;
use crate::environment::Environment;
use crate::file_downloader::FileDownloader;
use crate::historian::Historian;
use crate::message_writer::MessageWriter;
use crate::poster::Poster;
use crate::responder::Responder;
use crate::runtime::{Ports, Worker};
use crate::statistician::Statistician;

/// Builds a worker.
pub type Build = fn(&Environment) -> Arc<dyn Worker>;

/// A build for each row of the table, in its order: a row without one does not compile, and a test holds the order.
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
        Arc::new(Historian::new(ports, web, environment.backfill))
    },
    |environment| Arc::new(Statistician::new(environment.ports.clone(), Arc::clone(&environment.changes))),
];

/// Every row of the table with its build, in the order of the flow.
pub fn workers() -> impl Iterator<Item = (&'static WorkerSpec, Build)> {
    WORKERS.iter().zip(BUILDS)
}

/// Those that have something to do, given whether questions are answered.
pub fn working(responder: &ResponderSettings) -> impl Iterator<Item = (&'static WorkerSpec, Build)> {
    let is_on = responder.is_on();
    workers().filter(move |(spec, _)| is_on || !is_of_responder(spec))
}

/// Whether a worker does nothing unless questions are answered.
pub fn is_of_responder(spec: &WorkerSpec) -> bool {
    matches!(spec.queue, QueueName::Questions | QueueName::Replies)
}
