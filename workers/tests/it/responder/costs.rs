//! What a question costs, row by row. Rows that are written in one call are one transaction on one machine; each is a request on
//! AWS.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ports::archive::Archive;
use ports::claims::Claims;
use ports::queue::Queue;
use testkit::faults::{Fault, FaultSchedule, FaultyArchive, FaultyClaims, FaultyQueue, Method};
use workers::poster::Poster;
use workers::responder::Responder;
use workers::runtime::{Outcome, Ports, Worker};

use super::fixture::Fixture;

/// What changes something: calls, and each row that is written.
#[derive(Default)]
struct Counted(Mutex<Vec<Method>>);

impl Counted {
    fn taken(&self) -> Vec<Method> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[async_trait]
impl FaultSchedule for Counted {
    async fn before(&self, method: Method, _: usize) -> Option<Fault> {
        if !matches!(method, Method::Get | Method::Query) {
            self.0.lock().unwrap().push(method);
        }
        None
    }

    async fn after(&self, _: Method) {}
}

#[tokio::test(start_paused = true)]
async fn a_question_writes_five_rows_and_its_reply_six() {
    let fixture = Fixture::new().await;
    let counted = Arc::<Counted>::default();
    let schedule = || Arc::clone(&counted) as Arc<dyn FaultSchedule>;
    let archive = FaultyArchive::on(Arc::clone(&fixture.archive) as Arc<dyn Archive>, schedule());
    let queue = FaultyQueue::on(Arc::clone(&fixture.queue) as Arc<dyn Queue>, schedule());
    let claims = FaultyClaims::on(Arc::clone(&fixture.claims) as Arc<dyn Claims>, schedule());
    let ports =
        Ports { queue: Arc::new(queue), archive: Arc::new(archive), clock: Arc::clone(&fixture.clock) };
    let claims: Arc<dyn Claims> = Arc::new(claims);
    let responder = Responder::new(
        ports.clone(),
        fixture.claimant(Arc::clone(&claims), "one"),
        Arc::clone(&fixture.processor) as _,
        fixture.limits,
    );
    let poster = Poster::new(ports, fixture.claimant(claims, "one"), fixture.client(), fixture.limits);
    let id = fixture.ask("C01", 100, "why?").await;
    let (claim, row, send, complete) = (Method::Claim, Method::Write, Method::Send, Method::Complete);
    let workers: [(&dyn Worker, Vec<Method>); 2] = [
        (&responder, vec![claim, row, row, row, row, send, row, complete]),
        (&poster, vec![claim, row, row, row, row, row, row, complete]),
    ];
    for (worker, expected) in workers {
        let jobs = fixture.receive(worker.queue()).await;
        assert_eq!(worker.handle(&jobs).await, [Outcome::Done]);
        assert_eq!(counted.taken(), expected, "{}", worker.name());
    }
    assert_eq!(fixture.states(&id).await, ("processed", "sent"));
    assert_eq!(fixture.posted("C01"), ["an answer"]);
}
