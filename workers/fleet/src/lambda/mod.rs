//! A worker as a Lambda function: one invocation is one batch that Lambda's poller received. The same
//! consumer handles it as in every other process. [`event`] is the input of an invocation.

mod event;

use std::sync::Arc;
use std::time::Duration;

use aws::{SqsBatchResponse, deliveries};
use aws_resources::DEAD_LETTERS;
use aws_resources::names::Names;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use ports::clock::{SharedClock, SystemClock, TimestampMs};
use ports::queue::{QueueRef, ReceiveRequest};
use ports::workers::WorkerSpec;
use process::config::backend::Backend;
use process::telemetry;
use slack_api::WebApi;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use workers::archive_version;
use workers::directory::JoinRequests;
use workers::directory::joins::{self, RetryLimit};
use workers::runtime::{
    Ports, RuntimeSettings, Worker, handle_messages, report_waiting, return_dead_letters,
};

use self::event::FunctionInput;
use crate::Build;
use crate::environment::{Environment, WorkSettings, runtime_settings};
use crate::worker_args::WorkerArgs;

/// Jobs that are not done this long before Lambda ends the function are stopped and returned with a backoff:
/// if Lambda ended the function, its messages would be invisible for their whole visibility timeout.
const BEFORE_THE_END: Duration = Duration::from_secs(3);

/// Attempts in a row before Slack counts as unreachable for an invocation.
const JOIN_TRIES: u32 = 3;

/// Dead letters received in one call.
const DEAD_LETTERS_AT_ONCE: usize = 10;

/// How long batches of settled jobs may take to end.
const DRAIN: Duration = Duration::from_secs(1);

/// Serves Lambda's Runtime API until the function ends.
///
/// # Errors
/// The reason why it cannot start, as one line that tells the user what to do.
pub(crate) async fn serve(
    args: &WorkerArgs,
    spec: &'static WorkerSpec,
    build: Build,
    settings: WorkSettings,
) -> anyhow::Result<()> {
    let names = args.backend.aws.names()?;
    let metrics = telemetry::emf::install(args.metrics.metrics, names.prefix())?;
    let clock: SharedClock = SystemClock::shared();
    let backend = Backend::open(&args.backend, Arc::clone(&clock)).await?;
    let longest_wait = settings.waiting.longest_wait();
    let environment = Environment::from_backend(&backend, &clock, settings);
    let (worker, ports) = (build(&environment), environment.ports.clone());
    let (web, requests) = (environment.web, environment.joining.map(|(_, requests)| requests));
    let settings = RuntimeSettings {
        visibility_timeout: spec.queue.visibility_timeout(),
        drain_deadline: DRAIN,
        longest_wait,
        ..runtime_settings(&backend)
    };
    let function =
        Arc::new(WorkerFunction { names, ports, worker, web, requests: Mutex::new(requests), settings });
    let answer = service_fn(move |invocation: LambdaEvent<FunctionInput>| {
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

struct WorkerFunction {
    names: Names,
    ports: Ports,
    worker: Arc<dyn Worker>,
    web: Arc<WebApi>,
    requests: Mutex<Option<JoinRequests>>,
    settings: RuntimeSettings,
}

impl WorkerFunction {
    /// Handles one invocation. An error makes Lambda deliver all of its messages again.
    async fn answer(&self, event: FunctionInput, deadline: TimestampMs) -> Result<SqsBatchResponse, Error> {
        let time_left = deadline.since(self.ports.clock.now()).saturating_sub(BEFORE_THE_END);
        let until = Instant::now() + time_left;
        if let Some(command) = event.annalist {
            self.run_command(&command, until).await?;
            return Ok(SqsBatchResponse::default());
        }
        let Some((queue, messages)) = deliveries(&self.names, event.records)? else {
            return Err(
                "the event contains no messages: this function is for the queue's event source mapping"
                    .into(),
            );
        };
        if queue.name != self.worker.queue() {
            let (worker, own) = (self.worker.name(), self.worker.queue());
            return Err(format!("{worker} received messages of {queue}: map {own} to it").into());
        }
        let settings = RuntimeSettings { seed: fastrand::u64(..), ..self.settings.clone() };
        let failed = handle_messages(&self.worker, &self.ports, settings, queue, messages, until).await;
        self.join_requested_channels(until).await;
        let mut response = SqsBatchResponse::default();
        response.set_failures(failed.into_iter().map(|message_id| message_id.0));
        Ok(response)
    }

    /// Runs a command of the schedule.
    async fn run_command(&self, command: &str, until: Instant) -> Result<(), Error> {
        if command != DEAD_LETTERS {
            return Err(format!("{} has no command {command:?}", self.worker.name()).into());
        }
        // Not when a function starts, which each message may make it do: all are deployed together.
        archive_version::check(&*self.ports.archive).await?;
        // Dead letters that do not fit into the time left wait for the next invocation.
        drop(timeout_at(until, self.drain_dead_letters()).await);
        drop(timeout_at(until, self.rouse_waiting()).await);
        if self.worker.poll_interval().is_some() {
            drop(timeout_at(until, self.worker.poll()).await);
        }
        Ok(())
    }

    /// Moves dead letters to quarantine until the queue is empty. Those that cannot be written stay invisible
    /// for their visibility timeout, so that none is received twice.
    async fn drain_dead_letters(&self) {
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
                Ok(deliveries) => {
                    return_dead_letters(&self.ports, queue, deliveries, self.settings.longest_wait).await
                }
                Err(error) => {
                    tracing::warn!(%queue, %error, "dead letters cannot be received");
                    return;
                }
            }
        }
    }

    /// Sends lost wakes of waiting jobs again.
    async fn rouse_waiting(&self) {
        if let Err(error) = report_waiting(&self.ports, self.worker.queue()).await {
            tracing::warn!(%error, "the states of waiting jobs cannot be read");
        }
    }

    /// Joins channels before Lambda freezes the function: Slack does not deliver messages written before the join.
    async fn join_requested_channels(&self, until: Instant) {
        let Some(requests) = self.requests.lock().await.as_mut().map(JoinRequests::take_waiting) else {
            return;
        };
        let joining = joins::run(&self.web, requests, RetryLimit::Failures(JOIN_TRIES));
        if timeout_at(until, joining).await.is_err() {
            tracing::warn!("there was no time left to join channels; the next sync of the directory does it");
        }
    }
}
