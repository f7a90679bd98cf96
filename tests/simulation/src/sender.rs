//! Sends events as Slack does: signed, with a timeout of 3 s, and with three retries if the response is not
//! 200.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::service::Service;
use hyper::{HeaderMap, Request};
use hyper_util::service::TowerToHyperService;
use secrecy::SecretString;
use slack::EVENTS_PATH;
use slack::signature::{SigningSecrets, WINDOW_S};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::checked_archive::SIGNING_SECRET;
use super::fleet::SimulationState;
use super::ledger::event_id_in;
use super::schedule::Life;
use super::workload::{ExpectedOutcome, PlannedRequest};
use super::world::{FaultKind, Invariant, World, lock};

/// Slack treats a delivery as failed after this timeout. <https://docs.slack.dev/apis/events-api/#responding>
const TIMEOUT: Duration = Duration::from_secs(3);

/// Slack retries immediately, after one minute and after five minutes.
/// <https://docs.slack.dev/apis/events-api/#retries>
const RETRIES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(60), Duration::from_secs(300)];

/// A running process and its router.
type Door = (Arc<Life>, Router);

/// The processes that accept requests now, by their index.
#[derive(Default)]
pub(super) struct OpenRouters(Mutex<Vec<Option<Door>>>);

impl OpenRouters {
    pub(super) fn for_processes(processes: usize) -> Self {
        Self(Mutex::new((0..processes).map(|_| None).collect()))
    }

    pub(super) fn open(&self, index: usize, life: &Arc<Life>, router: Router) {
        lock(&self.0)[index] = Some((Arc::clone(life), router));
    }

    pub(super) fn close(&self, index: usize) {
        lock(&self.0)[index] = None;
    }

    fn any(&self, world: &World) -> Option<Door> {
        let doors = lock(&self.0);
        let open: Vec<_> = doors.iter().flatten().collect();
        let pick = usize::try_from(world.random_below(open.len() as u64)).unwrap_or_default();
        open.get(pick).map(|(life, router)| (Arc::clone(life), router.clone()))
    }
}

/// The sender of the simulated Slack.
pub(super) struct SlackSender {
    all: Arc<SimulationState>,
    doors: Arc<OpenRouters>,
    secrets: SigningSecrets,
    forger: SigningSecrets,
}

enum SenderAnswer {
    Ok,
    NoRetry,
    Retry(&'static str),
}

impl SlackSender {
    /// # Panics
    /// Never: the secrets are valid.
    pub(super) fn new(all: &Arc<SimulationState>, doors: &Arc<OpenRouters>) -> Arc<Self> {
        let secrets = |text: &str| SigningSecrets::parse(&SecretString::from(text)).expect("one secret");
        Arc::new(Self {
            all: Arc::clone(all),
            doors: Arc::clone(doors),
            secrets: secrets(SIGNING_SECRET),
            forger: secrets("fedcba9876543210fedcba9876543210"),
        })
    }

    /// Sends each request at its planned time, with retries.
    pub(super) async fn send_all(self: &Arc<Self>, planned: Vec<PlannedRequest>) {
        let began = Instant::now();
        let mut sending = JoinSet::new();
        for planned in planned {
            sleep_until(began + Duration::from_millis(planned.at_ms)).await;
            self.apply(&planned);
            let sender = Arc::clone(self);
            sending.spawn(async move { sender.deliver(&planned).await });
            // The set keeps what has ended.
            while sending.try_join_next().is_some() {}
        }
        while sending.join_next().await.is_some() {}
    }

    /// Applies the event to Slack's state before it is sent.
    fn apply(&self, planned: &PlannedRequest) {
        if planned.fate != ExpectedOutcome::Accepted {
            return;
        }
        match &self.all.workspaces {
            Some(workspaces) => workspaces.note_sent(&planned.body),
            None => self.all.truth.apply_event(&planned.body),
        }
    }

    /// Sends one event until it is answered 200.
    pub(super) async fn deliver_until_accepted(&self, body: &str) {
        let planned = PlannedRequest { at_ms: 0, body: body.to_owned(), fate: ExpectedOutcome::Accepted };
        self.apply(&planned);
        while !self.deliver(&planned).await {
            sleep(Duration::from_secs(10)).await;
        }
    }

    /// Sends a request with retries. Returns whether it was answered 200.
    async fn deliver(&self, planned: &PlannedRequest) -> bool {
        self.all.world.count(|tally| tally.events += 1);
        let mut answered = self.attempt(planned, None).await;
        for (number, delay) in (1..).zip(RETRIES) {
            match answered {
                SenderAnswer::Ok => return true,
                SenderAnswer::NoRetry => return false,
                SenderAnswer::Retry(reason) => {
                    sleep(delay).await;
                    answered = self.attempt(planned, Some((number, reason))).await;
                }
            }
        }
        matches!(answered, SenderAnswer::Ok)
    }

    async fn attempt(&self, planned: &PlannedRequest, retry: Option<(u32, &'static str)>) -> SenderAnswer {
        let world = &self.all.world;
        let name = event_id_in(&planned.body);
        let is_genuine = matches!(planned.fate, ExpectedOutcome::Accepted | ExpectedOutcome::Hostile);
        if let Some(host) = self.all.socket.as_ref().filter(|_| is_genuine) {
            return match host.deliver(&planned.body, retry).await {
                Ok(process) => {
                    world.note("slack", || format!("{name}: {process} acks"));
                    self.accepted(&planned.body)
                }
                Err(reason) => SenderAnswer::Retry(reason),
            };
        }
        let Some((life, router)) = self.doors.any(world) else {
            world.note("slack", || format!("{name}: no process listens"));
            return SenderAnswer::Retry("connection_failed");
        };
        let cut = world.should_inject(FaultKind::Cut);
        if cut {
            world.fault(FaultKind::Cut, "slack", || name.clone());
            if world.chance_percent(50) {
                return SenderAnswer::Retry("connection_failed");
            }
        }
        let request = self.request(planned, retry);
        let was_skewed = self.is_skewed();
        let call = timeout(TIMEOUT, TowerToHyperService::new(router).call(request));
        let answer = tokio::select! {
            biased;
            () = life.died() => return SenderAnswer::Retry("connection_failed"),
            answer = call => answer,
        };
        let (Ok(Ok(response)), false) = (answer, cut) else { return SenderAnswer::Retry("http_timeout") };
        let status = response.status().as_u16();
        world.note("slack", || format!("{name}: {} answers {status}", life.name));
        // The clock may jump while the request is being answered.
        self.judge(planned, status, response.headers(), was_skewed || self.is_skewed())
    }

    /// Whether the machines' clock is so wrong that a genuine request is treated as a replay.
    fn is_skewed(&self) -> bool {
        self.all.world.offset().as_secs() >= WINDOW_S - 5
    }

    fn request(&self, planned: &PlannedRequest, retry: Option<(u32, &'static str)>) -> Request<Body> {
        let now_s = self.all.world.true_now().seconds();
        let secrets = if planned.fate == ExpectedOutcome::Forged { &self.forger } else { &self.secrets };
        let signature = secrets.sign(now_s, planned.body.as_bytes());
        let mut request = Request::post(EVENTS_PATH)
            .header("x-slack-request-timestamp", now_s.to_string())
            .header("x-slack-signature", signature);
        if let Some((number, reason)) = retry {
            request = request.header("x-slack-retry-num", number).header("x-slack-retry-reason", reason);
        }
        request.body(Body::from(planned.body.clone())).expect("its headers are text")
    }

    fn accepted(&self, body: &str) -> SenderAnswer {
        self.all.world.count(|tally| tally.acked += 1);
        self.all.ledger.check_acked(body);
        SenderAnswer::Ok
    }

    fn judge(
        &self,
        planned: &PlannedRequest,
        status: u16,
        headers: &HeaderMap,
        skewed: bool,
    ) -> SenderAnswer {
        let expected = match planned.fate {
            ExpectedOutcome::Accepted | ExpectedOutcome::Hostile => 200,
            ExpectedOutcome::Forged => 401,
            ExpectedOutcome::Malformed => 400,
            ExpectedOutcome::TooLarge => 413,
        };
        let stale = status == 401 && skewed;
        if status != expected && status < 500 && !stale {
            let what = format!("{} was answered {status} instead of {expected}", event_id_in(&planned.body));
            self.all.world.report_violation(Invariant::Genuine, what);
        }
        match status {
            200 => self.accepted(&planned.body),
            _ if headers.contains_key("x-slack-no-retry") => SenderAnswer::NoRetry,
            _ => SenderAnswer::Retry("http_error"),
        }
    }
}
