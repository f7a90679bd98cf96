//! One connection, from its ticket to its end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use metrics::counter;
use ports::metrics::SOCKET_ENVELOPES;
use ports::queue::job::MAX_EVENT_BYTES;
use ports::queue::run::RunId;
use slack::ids::Ts;
use slack_api::ApiError;
use slack_api::socket::{SocketMessage, SocketSource, SocketStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};

use super::SocketShared;
use super::frame::{self, DisconnectReason, SocketFrame, SocketHello};
use crate::events::SocketEvent;

/// How long Slack may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a ping asks whether the connection is alive.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// A connection that has received nothing for this long is dead: two pongs are missing.
const SILENCE: Duration = Duration::from_secs(30);

/// The maximum number of envelopes of one connection that are not acked. Then the connection is not read: TCP slows
/// Slack down. Each may have a body of 1 MiB.
const MAX_IN_FLIGHT: usize = 64;

/// The largest message: the largest event with its envelope. A larger one ends the connection.
const MAX_SOCKET_MESSAGE_BYTES: usize = MAX_EVENT_BYTES + 1024 * 1024;

/// How long the queue may take for what is in flight when a connection is closed: longer than its own timeout.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The label of frames that wait for an ack and are no event.
const IGNORED: &str = "ignored";

/// Slack's clock, as of its answer to the request for a ticket.
#[derive(Debug, Clone)]
pub(super) struct SlackClock {
    given_at: Ts,
    answered: Instant,
}

impl SlackClock {
    /// The current second, rounded up: an event that Slack may have dropped before is not later.
    pub(super) fn now(&self) -> Option<Ts> {
        let elapsed_s = i64::try_from(self.answered.elapsed().as_secs()).ok()?.saturating_add(1);
        let second = (self.given_at.micros() / 1_000_000).saturating_add(elapsed_s);
        Ts::parse(&format!("{second}.000000")).ok()
    }
}

/// Why a connection could not be opened, or ended.
#[derive(Debug, Clone)]
pub struct ConnectionFailure {
    /// What a person reads in the log and at `/readyz`.
    pub reason: String,
    /// A label for metrics.
    pub(super) label: &'static str,
    /// What the next attempt depends on.
    pub cause: FailureCause,
}

/// What the next attempt depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureCause {
    /// Slack refuses the token.
    Refused,
    /// Slack wants a pause.
    Pause(Duration),
    /// Socket Mode is turned off for the app.
    LinkDisabled,
    /// The app has as many connections as Slack allows.
    TooManyWebsockets,
    /// Anything else, which may pass.
    Other,
}

impl ConnectionFailure {
    pub(super) fn new(label: &'static str, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), label, cause: FailureCause::Other }
    }

    fn of_open(error: &ApiError) -> Self {
        let is_refused = error.is_token_error()
            || matches!(
                error.refusal_code(),
                Some("not_allowed_token_type" | "missing_scope" | "no_permission" | "invalid_token")
            );
        let cause = match error {
            ApiError::RateLimited { retry_after, .. } => FailureCause::Pause(*retry_after),
            ApiError::Refused { .. } if is_refused => FailureCause::Refused,
            ApiError::NoToken(_)
            | ApiError::WrongToken { .. }
            | ApiError::Refused { .. }
            | ApiError::Unreachable { .. }
            | ApiError::Garbled { .. } => FailureCause::Other,
        };
        Self { reason: error.to_string(), label: "not_opened", cause }
    }

    fn of_disconnect(reason: DisconnectReason) -> Self {
        let (text, cause) = match reason {
            DisconnectReason::LinkDisabled => (super::TURNED_OFF, FailureCause::LinkDisabled),
            DisconnectReason::TooManyWebsockets => (
                "the app has too many connections already: Slack allows ten",
                FailureCause::TooManyWebsockets,
            ),
            DisconnectReason::Refresh(_) => ("Slack refreshes the connection", FailureCause::Other),
        };
        Self { reason: text.to_owned(), label: reason.label(), cause }
    }
}

/// How a connection leaves its slot.
#[derive(Debug)]
pub(super) enum Leaving {
    /// It goes on until a replacement is ready.
    Replace,
    Failed(ConnectionFailure),
}

#[derive(Debug)]
pub(super) struct ReadyConnection {
    id: u64,
    socket: Box<dyn SocketStream>,
    clock: Option<SlackClock>,
}

/// Opens a connection and waits for its hello.
pub(super) async fn open(shared: &SocketShared) -> Result<ReadyConnection, ConnectionFailure> {
    let (socket, clock, hello) = connect(&*shared.mode.api).await?;
    let id = shared.next_id();
    let num_connections = hello.num_connections;
    tracing::info!(connection = id, num_connections, "a connection to Slack is ready");
    shared.note_ready(id, clock.as_ref());
    Ok(ReadyConnection { id, socket, clock })
}

/// Opens a connection, returns what Slack says about it, and closes it. Slack delivers again what it sends to this
/// connection.
///
/// # Errors
/// [`ConnectionFailure`] if it does not become ready.
pub async fn check_socket(api: &dyn SocketSource) -> Result<SocketHello, ConnectionFailure> {
    let (socket, _, hello) = connect(api).await?;
    socket.close().await;
    Ok(hello)
}

async fn connect(
    api: &dyn SocketSource,
) -> Result<(Box<dyn SocketStream>, Option<SlackClock>, SocketHello), ConnectionFailure> {
    let ticket = api.open().await.map_err(|error| ConnectionFailure::of_open(&error))?;
    let answered = Instant::now();
    let clock = ticket.given_at.clone().map(|given_at| SlackClock { given_at, answered });
    let connected = api.connect(ticket, MAX_SOCKET_MESSAGE_BYTES).await;
    let mut socket = connected.map_err(|error| ConnectionFailure::new("not_opened", error.to_string()))?;
    let hello = timeout(HELLO_TIMEOUT, hello(&mut *socket)).await;
    let hello =
        hello.map_err(|_| ConnectionFailure::new("not_opened", "Slack did not say hello in time"))??;
    Ok((socket, clock, hello))
}

async fn hello(socket: &mut dyn SocketStream) -> Result<SocketHello, ConnectionFailure> {
    loop {
        match socket.receive().await {
            Ok(SocketMessage::Text(text)) => match frame::read(&text) {
                SocketFrame::Hello(hello) => return Ok(hello),
                SocketFrame::Disconnect(reason) => return Err(ConnectionFailure::of_disconnect(reason)),
                // Slack delivers it again, since it is not acked.
                SocketFrame::Event { .. } | SocketFrame::Ignored { .. } | SocketFrame::Unreadable => {}
            },
            Ok(SocketMessage::Binary | SocketMessage::Heartbeat | SocketMessage::Pong(_)) => {}
            Ok(SocketMessage::Closed) => {
                return Err(ConnectionFailure::new("closed", "Slack closed the connection"));
            }
            Err(error) => return Err(ConnectionFailure::new("broken", error.to_string())),
        }
    }
}

/// Reads and acks until the connection ends, is replaced (`close`), or the process stops.
pub(super) async fn serve(
    shared: Arc<SocketShared>,
    mut connection: ReadyConnection,
    mut close: oneshot::Receiver<()>,
    leave: oneshot::Sender<Leaving>,
) {
    let mut leave = Some(leave);
    let mut in_flight: JoinSet<Option<String>> = JoinSet::new();
    let mut pings = interval(PING_INTERVAL);
    // Slack has just said hello.
    pings.reset();
    let mut silent_since = Instant::now();
    // The newest connection that had said hello when the last ping was sent, and when this one was last known to be
    // alive.
    let (mut pinged, mut alive_after) = (connection.id, connection.id);
    // The newest connection when the replacement was ready.
    let mut replaced_by: Option<u64> = None;
    let failure = loop {
        // Then no time without a connection lies between this one and its replacement.
        if replaced_by.is_some_and(|replacement| replacement <= alive_after) {
            break None;
        }
        let newest = shared.newest_id();
        if newest > pinged {
            pinged = newest;
            if let Err(error) = connection.socket.ping(pinged).await {
                break Some(ConnectionFailure::new("broken", error.to_string()));
            }
        }
        let has_room = in_flight.len() < MAX_IN_FLIGHT;
        tokio::select! {
            biased;
            // Also if its sender is dropped: then the slot has ended.
            _ = &mut close, if replaced_by.is_none() => replaced_by = Some(shared.newest_id()),
            // If a hello is missed here, the next ping has the newer number.
            () = shared.hellos.notified() => {}
            () = shared.stopped() => break None,
            Some(stored) = in_flight.join_next(), if !in_flight.is_empty() => {
                if !has_room {
                    // Nothing was read meanwhile, which is not silence.
                    silent_since = Instant::now();
                }
                if let Ok(Some(ack)) = stored
                    && let Err(error) = connection.socket.send(ack).await
                {
                    break Some(ConnectionFailure::new("broken", error.to_string()));
                }
            }
            _ = pings.tick() => {
                pinged = shared.newest_id();
                if let Err(error) = connection.socket.ping(pinged).await {
                    break Some(ConnectionFailure::new("broken", error.to_string()));
                }
            }
            message = connection.socket.receive(), if has_room => {
                if message.is_ok() {
                    silent_since = Instant::now();
                }
                match message {
                    Ok(SocketMessage::Text(text)) => {
                        match handle(&shared, &connection, &mut in_flight, &text) {
                            None => {}
                            Some(DisconnectReason::Refresh(label)) => {
                                if let Some(leave) = leave.take() {
                                    tracing::info!(connection = connection.id, reason = label, "Slack refreshes a connection");
                                    super::count_disconnect(label);
                                    // If no slot receives it, the slot has ended and closes this connection.
                                    drop(leave.send(Leaving::Replace));
                                }
                            }
                            Some(reason) => break Some(ConnectionFailure::of_disconnect(reason)),
                        }
                    }
                    Ok(SocketMessage::Binary) => shared.note_unreadable(),
                    Ok(SocketMessage::Heartbeat) => {}
                    Ok(SocketMessage::Pong(newest)) => {
                        alive_after = newest;
                        shared.presence().note_pong(connection.id, newest);
                    }
                    Ok(SocketMessage::Closed) => {
                        break Some(ConnectionFailure::new("closed", "Slack closed the connection"));
                    }
                    Err(error) => break Some(ConnectionFailure::new("broken", error.to_string())),
                }
            }
            () = sleep_until(silent_since + SILENCE), if has_room => {
                break Some(ConnectionFailure::new("silent", "the connection to Slack was silent for 30 s"));
            }
        }
    };
    let ReadyConnection { id, socket, clock } = connection;
    shared.note_ended(id, clock.as_ref(), failure.as_ref());
    match failure {
        None => finish(socket, in_flight).await,
        Some(failure) => {
            // What is stored without an ack is delivered again, and recognised.
            in_flight.detach_all();
            let is_open =
                matches!(failure.cause, FailureCause::LinkDisabled | FailureCause::TooManyWebsockets);
            if let Some(leave) = leave.take() {
                drop(leave.send(Leaving::Failed(failure)));
            }
            if is_open {
                socket.close().await;
            }
        }
    }
}

/// Acks what is in flight, and closes the connection.
async fn finish(mut socket: Box<dyn SocketStream>, mut in_flight: JoinSet<Option<String>>) {
    let acking = async {
        while let Some(stored) = in_flight.join_next().await {
            if let Ok(Some(ack)) = stored
                && socket.send(ack).await.is_err()
            {
                break;
            }
        }
    };
    // Slack delivers again what is not acked by then.
    let _: Result<(), _> = timeout(FINISH_TIMEOUT, acking).await;
    in_flight.detach_all();
    socket.close().await;
}

/// Starts to store an event, or acks anything else. Returns Slack's wish to disconnect.
fn handle(
    shared: &Arc<SocketShared>,
    connection: &ReadyConnection,
    in_flight: &mut JoinSet<Option<String>>,
    text: &str,
) -> Option<DisconnectReason> {
    match frame::read(text) {
        SocketFrame::Hello(_) => {}
        SocketFrame::Disconnect(reason) => return Some(reason),
        SocketFrame::Ignored { envelope_id } => {
            counter!(SOCKET_ENVELOPES, "outcome" => IGNORED).increment(1);
            in_flight.spawn(async move { Some(frame::ack(&envelope_id)) });
        }
        SocketFrame::Unreadable => shared.note_unreadable(),
        SocketFrame::Event { envelope_id, payload, retry_attempt, retry_reason } => {
            let run: Option<RunId> = shared.presence().run(connection.id).cloned();
            let event = SocketEvent {
                body: Bytes::copy_from_slice(payload.as_bytes()),
                run,
                retry_attempt,
                retry_reason,
                received_at: connection.clock.as_ref().and_then(SlackClock::now),
            };
            let endpoint = Arc::clone(&shared.endpoint);
            in_flight.spawn(async move {
                let outcome = endpoint.accept_from_socket(event).await;
                counter!(SOCKET_ENVELOPES, "outcome" => outcome.label()).increment(1);
                outcome.is_final().then(|| frame::ack(&envelope_id))
            });
        }
    }
    None
}
