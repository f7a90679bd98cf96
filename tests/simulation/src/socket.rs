//! Socket Mode without sockets: a connection is a channel of frames, which the code of ingest reads and acks.
//!
//! Slack sends an event over any connection that it takes for open. Connections are refreshed, break, or die without
//! a trace; what they sent before is read later. Two conditions hold for the runs of the accepted events: no
//! run has events from both sides of a time without a connection, since that time would be no gap; and refreshes
//! alone begin no run, since that would be a gap in which nothing is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU8;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::queue::job::Job;
use serde_json::Value;
use slack::ids::Ts;
use slack_api::socket::{SocketError, SocketMessage, SocketSource, SocketStream, SocketTicket};
use slack_api::transport::Url;
use slack_api::{ApiError, Method};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::ledger::event_id_in;
use super::mutation::{Mutants, Mutation};
use super::refusals;
use super::schedule::{Life, Steps};
use super::world::{FaultKind, Invariant, World, lock};

/// Slack delivers an event again that is not acked within this time.
/// <https://docs.slack.dev/apis/events-api/using-socket-mode>
const ACK_TIMEOUT: Duration = Duration::from_secs(3);

const HELLO: &str = r#"{"type":"hello","num_connections":1}"#;
const TOO_MANY: &str = r#"{"type":"disconnect","reason":"too_many_websockets"}"#;
const REFRESH: [&str; 2] =
    [r#"{"type":"disconnect","reason":"warning"}"#, r#"{"type":"disconnect","reason":"refresh_requested"}"#];

type Frame = Result<SocketMessage, SocketError>;

/// Slack's side of all connections.
pub(super) struct SocketHost {
    world: Arc<World>,
    /// The number of connections that each process keeps open.
    pub(super) connections: NonZeroU8,
    /// Whether Slack says when it gave a ticket.
    names_time: bool,
    state: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    last_id: u64,
    last_envelope: u64,
    /// The connections that Slack takes for open.
    ends: BTreeMap<u64, SlackEnd>,
    /// By the name of the life.
    processes: BTreeMap<String, ProcessConnections>,
    /// By event: the processes to which Slack sent it at its first attempt, each with its outages until then.
    first_attempts: BTreeMap<String, BTreeSet<(String, u32)>>,
}

/// Slack's end of a connection.
struct SlackEnd {
    process: String,
    frames: UnboundedSender<Frame>,
    /// Whether frames arrive.
    is_alive: bool,
    /// The newest connection when Slack asked for a replacement.
    asked_at: Option<u64>,
    /// The events that are not acked, by envelope.
    unacked: BTreeMap<String, oneshot::Sender<()>>,
}

impl SlackEnd {
    /// Sends a frame, which is lost if the connection is dead.
    fn send(&self, frame: Frame) {
        if self.is_alive {
            drop(self.frames.send(frame));
        }
    }
}

#[derive(Default)]
struct ProcessConnections {
    /// How often its last connection ended.
    outages: u32,
    last_ready: u64,
    /// Whether a connection ended otherwise than by being replaced.
    is_disturbed: bool,
}

impl HostState {
    fn process(&mut self, name: &str) -> &mut ProcessConnections {
        self.processes.entry(name.to_owned()).or_default()
    }

    fn die(&mut self, id: u64) {
        let Some(end) = self.ends.get_mut(&id).filter(|end| end.is_alive) else { return };
        end.is_alive = false;
        let process = end.process.clone();
        if !self.ends.values().any(|end| end.process == process && end.is_alive) {
            self.process(&process).outages += 1;
        }
    }

    fn remove(&mut self, id: u64) -> Option<SlackEnd> {
        self.die(id);
        self.ends.remove(&id)
    }
}

impl SocketHost {
    pub(super) fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            connections: if world.chance_percent(50) {
                NonZeroU8::MIN
            } else {
                NonZeroU8::MIN.saturating_add(1)
            },
            names_time: world.chance_percent(50),
            state: Mutex::default(),
        })
    }

    /// Sends an event over one connection. Returns the process if it acked the event in time, otherwise the reason of
    /// Slack's next attempt.
    pub(super) async fn deliver(
        &self,
        body: &str,
        retry: Option<(u32, &'static str)>,
    ) -> Result<String, &'static str> {
        let (process, acked) = self.send(body, retry).ok_or("no_connection")?;
        match timeout(ACK_TIMEOUT, acked).await {
            Ok(Ok(())) => Ok(process),
            Ok(Err(_)) => Err("connection_failed"),
            Err(_) => Err("timeout"),
        }
    }

    fn send(&self, body: &str, retry: Option<(u32, &str)>) -> Option<(String, oneshot::Receiver<()>)> {
        let mut state = lock(&self.state);
        let pick = usize::try_from(self.world.random_below(state.ends.len() as u64)).unwrap_or_default();
        state.last_envelope += 1;
        let envelope = format!("e{}", state.last_envelope);
        let (attempt, reason) = retry.unwrap_or_default();
        let text = format!(
            r#"{{"type":"events_api","envelope_id":"{envelope}","payload":{body},"accepts_response_payload":false,"retry_attempt":{attempt},"retry_reason":"{reason}"}}"#
        );
        let (ack, acked) = oneshot::channel();
        let end = state.ends.values_mut().nth(pick)?;
        let process = end.process.clone();
        end.unacked.insert(envelope, ack);
        end.send(Ok(SocketMessage::Text(text)));
        if retry.is_none() {
            let outages = state.process(&process).outages;
            let attempts = state.first_attempts.entry(event_id_in(body)).or_default();
            attempts.insert((process.clone(), outages));
        }
        Some((process, acked))
    }

    fn ack(&self, id: u64, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        let mut state = lock(&self.state);
        let end = state.ends.get_mut(&id).filter(|end| end.is_alive);
        let envelope = frame["envelope_id"].as_str().unwrap_or_default();
        if let Some(ack) = end.and_then(|end| end.unacked.remove(envelope)) {
            // Slack may have given up on it.
            let _is_waited_for = ack.send(()).is_ok();
        }
    }

    fn open(&self, process: &str, frames: UnboundedSender<Frame>) -> u64 {
        let mut state = lock(&self.state);
        state.last_id += 1;
        let id = state.last_id;
        self.world.note(process, || format!("connection {id} is ready"));
        drop(frames.send(Ok(SocketMessage::Text(HELLO.to_owned()))));
        let process = process.to_owned();
        state.process(&process).last_ready = id;
        let end = SlackEnd { process, frames, is_alive: true, asked_at: None, unacked: BTreeMap::new() };
        state.ends.insert(id, end);
        id
    }

    /// Slack ends a connection.
    fn cut(&self, id: u64) {
        let mut state = lock(&self.state);
        let Some(end) = state.remove(id) else { return };
        state.process(&end.process).is_disturbed = true;
        let is_closed = self.world.chance_percent(50);
        self.world.fault(FaultKind::Cut, "slack", || format!("connection {id} of {}", end.process));
        let frame = if is_closed { Ok(SocketMessage::Closed) } else { Err(SocketError("reset".to_owned())) };
        drop(end.frames.send(frame));
    }

    /// The process ends a connection.
    fn closed_by_process(&self, id: u64, is_stopping: bool) {
        let mut state = lock(&self.state);
        let Some(end) = state.remove(id) else { return };
        self.world.note(&end.process, || format!("closes connection {id}"));
        let is_early = |asked_at| state.process(&end.process).last_ready <= asked_at;
        if !is_stopping && end.asked_at.is_some_and(is_early) {
            let what = format!("connection {id} was closed before its replacement was ready");
            self.world.report_violation(Invariant::Gaps, what);
        }
    }

    /// Refreshes, breaks and kills connections until the faults are over.
    pub(super) async fn disturb(self: &Arc<Self>) {
        loop {
            tokio::select! {
                biased;
                () = self.world.wait_until_calm() => return,
                () = sleep(self.world.random_millis(2_000..40_000)) => self.disturb_one(),
            }
        }
    }

    fn disturb_one(self: &Arc<Self>) {
        let world = &self.world;
        let dice = world.random_below(5);
        let mut state = lock(&self.state);
        let pick = usize::try_from(world.random_below(state.ends.len() as u64)).unwrap_or_default();
        let last_id = state.last_id;
        let Some((&id, end)) = state.ends.iter_mut().nth(pick) else { return };
        match dice {
            0..3 if world.is_enabled(FaultKind::Refreshed) && end.asked_at.is_none() => {
                end.asked_at = Some(last_id);
                let frame = REFRESH[usize::try_from(dice % 2).unwrap_or_default()];
                end.send(Ok(SocketMessage::Text(frame.to_owned())));
                world.fault(FaultKind::Refreshed, "slack", || format!("connection {id}"));
                let (host, patience) = (Arc::clone(self), world.random_millis(5_000..60_000));
                tokio::spawn(async move {
                    sleep(patience).await;
                    host.cut(id);
                });
            }
            3 if world.is_enabled(FaultKind::WentDead) => {
                let process = end.process.clone();
                world.fault(FaultKind::WentDead, "slack", || format!("connection {id} of {process}"));
                state.process(&process).is_disturbed = true;
                state.die(id);
            }
            4 if world.is_enabled(FaultKind::Cut) => {
                drop(state);
                self.cut(id);
            }
            _ => {}
        }
    }

    /// Checks the runs of the events that were accepted.
    pub(super) fn check_runs(&self, accepted: &[String]) {
        let state = lock(&self.state);
        let mut times: BTreeMap<String, BTreeSet<(String, u32)>> = BTreeMap::new();
        for body in accepted {
            let Some(run) = Job::decode(body).ok().and_then(|job| job.run) else { continue };
            let Some(sent) = state.first_attempts.get(&event_id_in(body)) else { continue };
            let left = times.entry(run.to_string()).or_insert_with(|| sent.clone());
            left.retain(|time| sent.contains(time));
            if left.is_empty() {
                let what = format!("run {run} goes on after a time without a connection");
                return self.world.report_violation(Invariant::Gaps, what);
            }
        }
        let mut runs: BTreeMap<&str, u32> = BTreeMap::new();
        for times in times.values() {
            if let Some((process, _)) = times.first().filter(|_| times.len() == 1) {
                *runs.entry(process).or_default() += 1;
            }
        }
        for (process, runs) in runs {
            if runs > 1 && state.processes.get(process).is_some_and(|process| !process.is_disturbed) {
                let what = format!("{process} had {runs} runs, and connections that were only refreshed");
                self.world.report_violation(Invariant::Gaps, what);
            }
        }
    }
}

/// Slack, as a process sees it that opens connections.
pub(super) struct SimulatedSource {
    pub(super) host: Arc<SocketHost>,
    pub(super) steps: Steps,
    pub(super) mutants: Mutants,
    /// Whether the process stops.
    pub(super) stop: watch::Receiver<bool>,
}

impl fmt::Debug for SimulatedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedSource").finish_non_exhaustive()
    }
}

#[async_trait]
impl SocketSource for SimulatedSource {
    async fn open(&self) -> Result<SocketTicket, ApiError> {
        self.steps.step().await;
        let (world, method) = (&self.steps.world, Method::AppsConnectionsOpen);
        if world.should_inject(FaultKind::Unreachable) {
            world.fault(FaultKind::Unreachable, &self.steps.life.name, || method.name().to_owned());
            return Err(ApiError::Unreachable { method, why: "simulated".to_owned() });
        }
        if world.should_inject(FaultKind::RateLimited) {
            world.fault(FaultKind::RateLimited, &self.steps.life.name, || method.name().to_owned());
            return Err(ApiError::RateLimited { method, retry_after: world.random_millis(1_000..60_000) });
        }
        if world.should_inject(FaultKind::Refused) {
            let code = refusals::draw(world, method.name(), &[]);
            world.fault(FaultKind::Refused, &self.steps.life.name, || format!("{}: {code}", method.name()));
            return Err(ApiError::Refused { method, error: code.to_owned(), needed: None });
        }
        let second = format!("{}.000000", world.true_now().seconds());
        let given_at = Ts::parse(&second).ok().filter(|_| self.host.names_time);
        let url = Url::parse("wss://wss-primary.slack.com/link/?ticket=simulated");
        let url = url.map_err(|_| ApiError::Garbled { method, why: "it has no address" })?;
        Ok(SocketTicket::new(url, given_at))
    }

    async fn connect(&self, _: SocketTicket, _: usize) -> Result<Box<dyn SocketStream>, SocketError> {
        self.steps.step().await;
        let (world, life) = (&self.steps.world, &self.steps.life);
        let (sender, frames) = unbounded_channel();
        let id = if world.should_inject(FaultKind::Unreachable) {
            world.fault(FaultKind::Unreachable, &life.name, || "a connection without hello".to_owned());
            None
        } else if world.should_inject(FaultKind::Refused) {
            world.fault(FaultKind::Refused, &life.name, || "too many connections".to_owned());
            drop(sender.send(Ok(SocketMessage::Text(TOO_MANY.to_owned()))));
            None
        } else {
            Some(self.host.open(&life.name, sender.clone()))
        };
        Ok(Box::new(SimulatedConnection {
            host: Arc::clone(&self.host),
            life: Arc::clone(life),
            mutants: self.mutants.clone(),
            stop: self.stop.clone(),
            id: id.unwrap_or_default(),
            sender,
            frames,
        }))
    }
}

/// The end of a process.
struct SimulatedConnection {
    host: Arc<SocketHost>,
    life: Arc<Life>,
    mutants: Mutants,
    stop: watch::Receiver<bool>,
    /// 0 if Slack never said hello.
    id: u64,
    /// For the answers to pings.
    sender: UnboundedSender<Frame>,
    frames: UnboundedReceiver<Frame>,
}

impl fmt::Debug for SimulatedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedConnection").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SimulatedConnection {
    fn is_alive(&self) -> bool {
        lock(&self.host.state).ends.get(&self.id).is_some_and(|end| end.is_alive)
    }

    /// What a process with a planted bug does with a frame.
    fn mutate(&self, frame: Frame) -> Frame {
        let Ok(SocketMessage::Text(text)) = &frame else { return frame };
        match self.mutants.mutation {
            Some(Mutation::AckOnReceipt) => self.host.ack(self.id, text),
            Some(Mutation::CloseAtRefresh) if REFRESH.contains(&text.as_str()) => {
                self.host.closed_by_process(self.id, *self.stop.borrow());
                return Ok(SocketMessage::Closed);
            }
            Some(_) | None => {}
        }
        frame
    }
}

#[async_trait]
impl SocketStream for SimulatedConnection {
    async fn receive(&mut self) -> Frame {
        self.life.pend_if_dead().await;
        // What Slack sent before the connection died or ended can be read all the same.
        let frame = self.frames.recv().await.unwrap_or(Ok(SocketMessage::Closed));
        self.mutate(frame)
    }

    async fn send(&mut self, text: String) -> Result<(), SocketError> {
        self.life.pend_if_dead().await;
        self.host.ack(self.id, &text);
        Ok(())
    }

    async fn ping(&mut self, number: u64) -> Result<(), SocketError> {
        self.life.pend_if_dead().await;
        if self.is_alive() {
            drop(self.sender.send(Ok(SocketMessage::Pong(number))));
        }
        Ok(())
    }

    async fn close(self: Box<Self>) {
        self.life.pend_if_dead().await;
        self.host.closed_by_process(self.id, *self.stop.borrow());
    }
}

impl Drop for SimulatedConnection {
    fn drop(&mut self) {
        lock(&self.host.state).remove(self.id);
    }
}
