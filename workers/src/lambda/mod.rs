//! A worker as a Lambda function: one invocation is one batch that Lambda's poller received, handled by the same
//! consumer as everywhere else.
//!
//! * [`handed`] makes a queue of an invocation's messages, and remembers what became of each.
//! * [`event`] is what an invocation brings.

mod event;
mod handed;

use std::sync::Arc;
use std::time::Duration;

use aws::{SqsBatchResponse, deliveries};
use aws_template::names::Names;
use aws_template::{DEAD_LETTERS, SYNC};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use ports::clock::{SharedClock, SystemClock, TimestampMs};
use ports::queue::{Delivery, MessageId, QueueRef, ReceiveRequest};
use ports::workers::WorkerSpec;
use process::config::backend::Backend;
use process::telemetry;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use self::event::Event;
use self::handed::{Handed, WhileHanded};
use crate::directory::{Asked, DirectorySync};
use crate::environment::{Environment, WorkSettings};
use crate::registry::Build;
use crate::runtime::{Ports, Settings, Worker, consume, put_aside};
use crate::standalone::WorkerArgs;

/// What is not done so long before Lambda ends the function is stopped and given back with a backoff: a function that is
/// ended from outside holds its messages for their whole visibility timeout.
const BEFORE_THE_END: Duration = Duration::from_secs(3);

/// Dead letters that are received in one call.
const DEAD_LETTERS_AT_ONCE: usize = 10;

/// How long batches whose jobs are settled may take to end.
const DRAIN: Duration = Duration::from_secs(1);

/// Serves Lambda's Runtime API until the function ends.
///
/// # Errors
/// What kept it from starting, in one line that says what to do.
pub async fn serve(
    args: &WorkerArgs,
    spec: &'static WorkerSpec,
    build: Build,
    settings: WorkSettings,
) -> anyhow::Result<()> {
    let names = args.backend.aws.names()?;
    let metrics = telemetry::emf::install(args.metrics.metrics, names.prefix())?;
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    let environment = Environment::on(&backend, &clock, settings);
    let (worker, ports) = (build(&environment), environment.ports.clone());
    let directory = spec.hourly.map(|_| environment.into_directory());
    let directory = directory.map(|(sync, asked)| (sync, Mutex::new(asked)));
    let settings = Settings {
        visibility_timeout: spec.queue.spec().visibility_timeout,
        drain_deadline: DRAIN,
        ..Settings::on(&backend)
    };
    let function = Arc::new(Function { names, ports, worker, directory, settings });
    let answer = service_fn(move |invocation: LambdaEvent<Event>| {
        let (function, metrics) = (Arc::clone(&function), metrics.clone());
        async move {
            let deadline = TimestampMs(i64::try_from(invocation.context.deadline).unwrap_or(i64::MAX));
            let answer = function.answer(invocation.payload, deadline).await;
            metrics.flush();
            answer
        }
    });
    lambda_runtime::run(answer).await.map_err(|error| anyhow::anyhow!(error))
}

struct Function {
    names: Names,
    ports: Ports,
    worker: Arc<dyn Worker>,
    directory: Option<(DirectorySync, Mutex<Option<Asked>>)>,
    settings: Settings,
}

impl Function {
    /// One invocation. An error makes all of its messages come again.
    async fn answer(&self, event: Event, deadline: TimestampMs) -> Result<SqsBatchResponse, Error> {
        let time_left = deadline.since(self.ports.clock.now()).saturating_sub(BEFORE_THE_END);
        let until = Instant::now() + time_left;
        if let Some(word) = event.annalist {
            self.obey(&word, until).await?;
            return Ok(SqsBatchResponse::default());
        }
        let Some((queue, messages)) = deliveries(&self.names, event.records)? else {
            return Err(
                "the event brings no messages: this function is for the queue's event source mapping".into(),
            );
        };
        if queue.name != self.worker.queue() {
            let (worker, own) = (self.worker.name(), self.worker.queue());
            return Err(format!("{worker} was handed messages of {queue}: map {own} to it").into());
        }
        let settings = Settings { seed: fastrand::u64(..), ..self.settings.clone() };
        let failed = work_off(&self.worker, &self.ports, settings, queue, messages, until).await;
        self.join_what_was_asked_for(until).await;
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.into_iter().map(|message_id| message_id.0));
        Ok(response)
    }

    /// What the schedule says.
    async fn obey(&self, word: &str, until: Instant) -> Result<(), Error> {
        if word == DEAD_LETTERS {
            // What there is no time for stays a dead letter until the next hour.
            drop(timeout_at(until, self.quarantine_dead_letters()).await);
            return Ok(());
        }
        let (SYNC, Some((sync, asked))) = (word, &self.directory) else {
            return Err(format!("{} does not know what {word:?} is", self.worker.name()).into());
        };
        let join = asked.lock().await.is_some();
        match timeout_at(until, sync.run_once(join)).await {
            Ok(synced) => Ok(synced?),
            Err(_) => {
                tracing::warn!("the directory took longer than the function may; the next sync completes it");
                Ok(())
            }
        }
    }

    /// Until no dead letters are left. Those that cannot be written stay with this function for their visibility timeout, so that none
    /// comes twice.
    async fn quarantine_dead_letters(&self) {
        let queue = QueueRef::dead_letters(self.worker.queue());
        let request = ReceiveRequest {
            queue,
            max: DEAD_LETTERS_AT_ONCE,
            visibility_timeout: self.settings.visibility_timeout,
            wait: Duration::from_secs(1),
        };
        loop {
            match self.ports.queue.receive(request).await {
                Ok(deliveries) if deliveries.is_empty() => return,
                Ok(deliveries) => put_aside(&self.ports, queue, deliveries).await,
                Err(error) => {
                    tracing::warn!(%queue, %error, "dead letters cannot be received");
                    return;
                }
            }
        }
    }

    /// New channels are joined before the function is frozen: what is written there meanwhile does not arrive.
    async fn join_what_was_asked_for(&self, until: Instant) {
        let Some((sync, asked)) = &self.directory else { return };
        if let Some(asked) = &mut *asked.lock().await
            && timeout_at(until, sync.join(asked)).await.is_err()
        {
            tracing::warn!(
                "there was no time left to join new channels; the next sync of the directory does it"
            );
        }
    }
}

/// Works off the messages of one invocation, and answers which of them are to come again, in their order: in each group
/// the first that failed and all after it.
pub async fn work_off(
    worker: &Arc<dyn Worker>,
    ports: &Ports,
    settings: Settings,
    queue: QueueRef,
    messages: Vec<Delivery>,
    until: Instant,
) -> Vec<MessageId> {
    let handed = Arc::new(Handed::new(Arc::clone(&ports.queue), queue, messages));
    let ports = Ports { queue: handed.clone(), ..ports.clone() };
    if queue.dead_letters {
        // What there is no time for stays a dead letter and comes back.
        drop(timeout_at(until, put_aside(&ports, queue, handed.take_all())).await);
        return handed.failed();
    }
    let worker = Arc::new(WhileHanded { worker: Arc::clone(worker), handed: Arc::clone(&handed) });
    let (end, shutdown) = watch::channel(false);
    let ends = async {
        tokio::select! {
            () = handed.settled() => {}
            () = sleep_until(until) => {}
        }
        end.send_replace(true);
    };
    tokio::join!(consume(worker, ports, settings, shutdown), ends);
    handed.give_back_the_rest().await;
    handed.failed()
}
