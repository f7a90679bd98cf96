//! Socket Mode: connections that this process opens to Slack, whose events go the same way as those of requests.
//! <https://docs.slack.dev/apis/events-api/using-socket-mode>
//!
//! * [`frame`], [`presence`] and [`backoff`] are functions of values: what a frame means, which run an event belongs
//!   to, when to try again.
//! * [`connection`] reads one connection and acks what the queue has stored. Each slot keeps one connection open, and
//!   opens a replacement before it closes one that Slack wants to refresh.

mod backoff;
mod connection;
mod frame;
mod presence;

use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};
use ports::metrics::{SOCKET_CONNECTIONS, SOCKET_DISCONNECTS, SOCKET_ENVELOPES};
use ports::queue::route::run_message;
use ports::queue::run::RunId;
use slack::ids::{TeamId, Ts};
use slack_api::WebApi;
use slack_api::socket::SocketSource;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::backoff::ConnectBackoff;
pub use self::connection::{ConnectionFailure, FailureCause, check_socket};
use self::connection::{Leaving, ReadyConnection, SlackClock};
pub use self::frame::SocketHello;
pub(crate) use self::presence::Presence;
use crate::events::Endpoint;
use crate::throttle::LogThrottle;

/// What to do if Socket Mode is turned off.
const TURNED_OFF: &str =
    "Socket Mode is turned off for this app: turn it on at api.slack.com/apps > your app > Socket Mode";

/// A connection that was ready for this long was a success: the next failure is the first in a row.
const SUCCESS: Duration = Duration::from_secs(10);

/// The wait while Socket Mode is turned off: only a person can change that.
const TURNED_OFF_WAIT: Duration = Duration::from_secs(60);

/// The minimum wait after Slack said that the app has too many connections.
const TOO_MANY_WAIT: Duration = Duration::from_secs(30);

/// The label of frames that Slack does not send.
const UNREADABLE: &str = "unreadable";

/// How long Slack may take to name the workspaces of the tokens.
const TEAMS_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of Socket Mode.
#[derive(Debug)]
pub struct SocketMode {
    /// Opens connections with the app-level token.
    pub api: Arc<dyn SocketSource>,
    /// The workspaces with a token: each learns when this process begins to receive events.
    pub web: Option<Arc<WebApi>>,
    pub connections: NonZeroU8,
}

/// What the connections of a process share.
pub(crate) struct SocketShared {
    pub(crate) mode: SocketMode,
    pub(crate) endpoint: Arc<Endpoint>,
    presence: Arc<Mutex<Presence>>,
    last_id: AtomicU64,
    /// Wakes the connections when another one has said hello, in their order.
    hellos: Notify,
    unreadable: LogThrottle,
    /// Has no permits and is closed when the process stops. It wakes its waiters in order; a `watch` would wake them
    /// at random.
    stopping: Semaphore,
}

impl SocketShared {
    /// Resolves when the process stops.
    async fn stopped(&self) {
        drop(self.stopping.acquire().await);
    }

    pub(crate) fn presence(&self) -> MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a connection that has said hello: the ids are in the order of the hellos.
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The id of the connection that said hello last.
    fn newest_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    fn note_unreadable(&self) {
        counter!(SOCKET_ENVELOPES, "outcome" => UNREADABLE).increment(1);
        if let Some(left_out) = self.unreadable.permit_line(self.endpoint.ingest.clock.now()) {
            tracing::warn!(left_out, "a frame of the socket cannot be read: it is not acked");
        }
    }

    fn note_ready(&self, id: u64, clock: Option<&SlackClock>) {
        let begun = self.with_presence(|presence| presence.hello(id));
        self.hellos.notify_waiters();
        self.announce(begun, clock);
    }

    fn note_ended(&self, id: u64, clock: Option<&SlackClock>, failure: Option<&ConnectionFailure>) {
        let begun = self.with_presence(|presence| presence.ended(id));
        self.announce(begun, clock);
        if let Some(failure) = failure {
            self.note_failure(failure);
        }
    }

    fn with_presence<T>(&self, change: impl FnOnce(&mut Presence) -> T) -> T {
        let mut presence = self.presence();
        let changed = change(&mut presence);
        gauge!(SOCKET_CONNECTIONS).set(u32::try_from(presence.count()).unwrap_or(u32::MAX));
        changed
    }

    /// Logs and counts a failure. Each is followed by a wait, so the log is bounded.
    fn note_failure(&self, failure: &ConnectionFailure) {
        count_disconnect(failure.label);
        self.presence().reason.clone_from(&failure.reason);
        if failure.cause == FailureCause::LinkDisabled {
            tracing::error!("{TURNED_OFF}");
        } else {
            tracing::warn!(reason = failure.reason, "no connection to Slack, or one less");
        }
    }

    /// Tells the archive when a run begins, for each workspace that is known: a quiet one need not wait for its next
    /// event.
    fn announce(&self, begun: Option<RunId>, clock: Option<&SlackClock>) {
        let (Some(run), Some(at)) = (begun, clock.and_then(SlackClock::now)) else { return };
        let (endpoint, web) = (Arc::clone(&self.endpoint), self.mode.web.clone());
        tokio::spawn(async move {
            let mut teams = endpoint.refused_times.accepted_teams();
            if let Some(web) = web.filter(|web| web.has_tokens()) {
                match timeout(TEAMS_TIMEOUT, web.teams()).await {
                    Ok(Ok(named)) => teams.extend(named),
                    Ok(Err(error)) => tracing::warn!(%error, "Slack does not name the workspace of a token"),
                    Err(_) => tracing::warn!("Slack does not name the workspaces of the tokens in time"),
                }
            }
            announce_run(&endpoint, &run, &at, teams).await;
        });
    }
}

async fn announce_run(endpoint: &Endpoint, run: &RunId, at: &Ts, teams: BTreeSet<TeamId>) {
    let messages: Vec<_> = teams.iter().map(|team| run_message(team, run, at)).collect();
    if messages.is_empty() {
        return;
    }
    // If it fails, the first event of the run says the same, later.
    let sent = timeout(endpoint.ingest.limits.enqueue, endpoint.ingest.queue.send(messages)).await;
    if !sent.is_ok_and(|results| results.iter().all(Result::is_ok)) {
        tracing::warn!("failed to queue the beginning of a run");
    }
}

/// Resolves when the process stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped: the process ends too.
    drop(stop.wait_for(|stops| *stops).await);
}

fn count_disconnect(label: &'static str) {
    counter!(SOCKET_DISCONNECTS, "reason" => label).increment(1);
}

/// Slack refused the app-level token before a connection was ever ready.
#[derive(Debug, thiserror::Error)]
#[error("Slack refuses the app-level token: {reason}")]
pub struct AppTokenRefused {
    /// Slack's reason.
    pub reason: String,
}

/// Keeps connections open until the process stops.
///
/// # Errors
/// If Slack refuses the token before a connection was ever ready.
pub(crate) async fn run(
    endpoint: Arc<Endpoint>,
    mode: SocketMode,
    presence: Arc<Mutex<Presence>>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), AppTokenRefused> {
    let connections = mode.connections.get();
    let shared = Arc::new(SocketShared {
        mode,
        endpoint,
        presence,
        last_id: AtomicU64::new(0),
        hellos: Notify::new(),
        unreadable: LogThrottle::once_a_minute(),
        stopping: Semaphore::new(0),
    });
    let mut slots = JoinSet::new();
    for _ in 0..connections {
        slots.spawn(keep_connected(Arc::clone(&shared)));
    }
    loop {
        let ended = tokio::select! {
            biased;
            () = stopped(&mut stop), if !shared.stopping.is_closed() => {
                shared.stopping.close();
                continue;
            }
            ended = slots.join_next() => ended,
        };
        match ended {
            None => return Ok(()),
            Some(Ok(ended)) => ended?,
            Some(Err(crashed)) if crashed.is_panic() => std::panic::resume_unwind(crashed.into_panic()),
            Some(Err(_)) => {}
        }
    }
}

/// Keeps one connection open.
async fn keep_connected(shared: Arc<SocketShared>) -> Result<(), AppTokenRefused> {
    let mut backoff = ConnectBackoff::default();
    let mut serving = JoinSet::new();
    // Dropping it closes the connection.
    let mut previous: Option<oneshot::Sender<()>> = None;
    loop {
        let opened = tokio::select! {
            biased;
            () = shared.stopped() => break,
            opened = connection::open(&shared) => opened,
        };
        let wait = match opened {
            Ok(connection) => {
                drop(previous.take());
                let ready_at = Instant::now();
                let (close, leaving) = start(&shared, connection, &mut serving);
                let left = leaving.await;
                if ready_at.elapsed() >= SUCCESS {
                    backoff.reset();
                }
                match left {
                    Ok(Leaving::Replace) => {
                        previous = Some(close);
                        if ready_at.elapsed() >= SUCCESS {
                            Duration::ZERO
                        } else {
                            wait_after(&mut backoff, None)
                        }
                    }
                    Ok(Leaving::Failed(failure)) => wait_after(&mut backoff, Some(&failure.cause)),
                    // It ended without a failure: the process stops.
                    Err(_) => break,
                }
            }
            Err(failure) => {
                shared.note_failure(&failure);
                if failure.cause == FailureCause::Refused && !shared.presence().was_ready {
                    return Err(AppTokenRefused { reason: failure.reason });
                }
                wait_after(&mut backoff, Some(&failure.cause))
            }
        };
        tokio::select! {
            biased;
            () = shared.stopped() => break,
            () = sleep(wait) => {}
        }
    }
    drop(previous);
    while serving.join_next().await.is_some() {}
    Ok(())
}

fn start(
    shared: &Arc<SocketShared>,
    connection: ReadyConnection,
    serving: &mut JoinSet<()>,
) -> (oneshot::Sender<()>, oneshot::Receiver<Leaving>) {
    while serving.try_join_next().is_some() {}
    let (close, closing) = oneshot::channel();
    let (leave, leaving) = oneshot::channel();
    serving.spawn(connection::serve(Arc::clone(shared), connection, closing, leave));
    (close, leaving)
}

fn wait_after(backoff: &mut ConnectBackoff, cause: Option<&FailureCause>) -> Duration {
    let at_least = match cause {
        Some(FailureCause::LinkDisabled) => return TURNED_OFF_WAIT,
        Some(FailureCause::Pause(pause)) => *pause,
        Some(FailureCause::TooManyWebsockets) => TOO_MANY_WAIT,
        Some(FailureCause::Refused | FailureCause::Other) | None => Duration::ZERO,
    };
    backoff.next(at_least, fastrand::f64())
}
