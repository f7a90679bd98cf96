//! The writes of a question, row by row. Rows written in one call are one transaction on the embedded
//! backend, but one request each on AWS.

use std::sync::Arc;

use ports::claims::Claims;
use testkit::faults::{FaultSchedule, FaultyArchive, FaultyClaims, FaultyQueue, PortMethod, RecordedCalls};
use workers::poster::Poster;
use workers::responder::Responder;
use workers::runtime::{JobOutcome, Ports, Worker};

use super::fixture::ResponderFixture;

/// The recorded calls that change something, with one entry for each written row.
fn changes(calls: &RecordedCalls) -> Vec<PortMethod> {
    let mut methods = calls.take_calls();
    methods.retain(|method| !matches!(method, PortMethod::Get | PortMethod::Query));
    methods
}

#[tokio::test(start_paused = true)]
async fn a_question_writes_five_rows_and_its_reply_six() {
    let fixture = ResponderFixture::new().await;
    let counted = Arc::<RecordedCalls>::default();
    let schedule = || -> Arc<dyn FaultSchedule> { counted.clone() };
    let archive = FaultyArchive::with_schedule(fixture.archive.clone(), schedule());
    let queue = FaultyQueue::with_schedule(fixture.queue.clone(), schedule());
    let claims = FaultyClaims::with_schedule(fixture.claims.clone(), schedule());
    let ports = Ports { queue: Arc::new(queue), archive: Arc::new(archive), clock: fixture.clock.clone() };
    let claims: Arc<dyn Claims> = Arc::new(claims);
    let responder = Responder::new(
        ports.clone(),
        fixture.claimant(Arc::clone(&claims), "one"),
        Arc::clone(&fixture.processor) as _,
        fixture.limits,
    );
    let poster = Poster::new(ports, fixture.claimant(claims, "one"), fixture.client(), fixture.limits);
    let id = fixture.ask("C01", 100, "why?").await;
    let (claim, row, send, complete) =
        (PortMethod::Claim, PortMethod::Write, PortMethod::Send, PortMethod::Complete);
    let workers: [(&dyn Worker, Vec<PortMethod>); 2] = [
        (&responder, vec![claim, row, row, row, row, send, row, complete]),
        (&poster, vec![claim, row, row, row, row, row, row, complete]),
    ];
    for (worker, expected) in workers {
        let jobs = fixture.receive(worker.queue()).await;
        assert_eq!(worker.handle(&jobs).await, [JobOutcome::Done]);
        assert_eq!(changes(&counted), expected, "{}", worker.name());
    }
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
    assert_eq!(fixture.posted("C01"), ["an answer"]);
}
