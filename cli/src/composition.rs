//! Ingest, every worker and the search index follower in one process. `up` runs it, and so does `demo`, with
//! a made-up Slack.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use fleet::environment::{Environment, WorkSettings, runtime_settings};
use ingest::{AppTokenRefused, Ingest, SocketMode, serve_with_socket};
use ports::clock::SharedClock;
use ports::queue::run::RunId;
use ports::requests::OpenRequests;
use ports::reread::Reread;
use process::config::ConfigError;
use process::config::backend::Backend;
use search::background;
use slack::signing_table::SigningTable;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use workers::runtime::{self, RuntimeSettings};

use crate::operate::copy::NightlyCopy;

/// The running tasks.
pub(crate) struct Composition {
    /// The address at which ingest accepts events.
    pub(crate) address: SocketAddr,
    accepting: watch::Sender<bool>,
    ingest: JoinHandle<Result<(), AppTokenRefused>>,
    working: watch::Sender<bool>,
    workers: JoinSet<()>,
}

impl Composition {
    /// Starts everything on an open backend. Without `secrets` no request is accepted, without `socket` no
    /// connection is opened. If `index` is a file, the search index in it follows the
    /// archive.
    pub(crate) fn start(
        backend: &Backend,
        listener: TcpListener,
        (secrets, socket): (Option<Arc<Reread<SigningTable>>>, Option<SocketMode>),
        clock: &SharedClock,
        mut work: WorkSettings,
        index: Option<PathBuf>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (accepting, no_more_requests) = watch::channel(false);
        let open_requests = OpenRequests::default();
        let ingest = Ingest {
            queue: backend.queue(),
            secrets,
            clock: Arc::clone(clock),
            limits: ingest::IngestLimits::default(),
            open_requests: open_requests.clone(),
            run: Some(RunId::begin()),
        };
        let ingest =
            tokio::spawn(serve_with_socket(listener, ingest, socket, wait_until_true(no_more_requests)));

        let (working, no_more_jobs) = watch::channel(false);
        work.search_index.clone_from(&index);
        let (responder, longest_wait) = (work.responder.clone(), work.waiting.longest_wait());
        let environment = Environment::from_backend(backend, clock, work);
        // The workers also learn about each other's backpressure through these shared settings.
        let settings = RuntimeSettings { open_requests, longest_wait, ..runtime_settings(backend) };
        let mut workers = JoinSet::new();
        for (_, build) in fleet::enabled(&responder) {
            let ports = environment.ports.clone();
            workers.spawn(runtime::run(build(&environment), ports, settings.clone(), no_more_jobs.clone()));
        }
        workers.spawn(environment.into_joining(no_more_jobs.clone()));
        if let Some(file) = index {
            let (changes, archive) = (backend.changes(), backend.archive());
            // Its batches of texts take long; in a thread of their own they never stand before an event.
            workers.spawn_blocking(move || {
                let following =
                    background::follow(&file, background::POLL_INTERVAL, changes, archive, no_more_jobs);
                Handle::current().block_on(following);
            });
        }
        Ok(Self { address, accepting, ingest, working, workers })
    }

    /// Also copies the database every night.
    pub(crate) fn copy(&mut self, copy: NightlyCopy) {
        self.workers.spawn(copy.run(self.working.subscribe()));
    }

    /// Resolves when a task ends that should have continued. The process must not run without it.
    pub(crate) async fn wait_for_failure(&mut self) -> anyhow::Error {
        let ended = tokio::select! {
            ended = &mut self.ingest => match ended {
                Ok(Err(refused)) => return ConfigError::AppTokenRefused(refused.reason).into(),
                Ok(Ok(())) => Ok(()),
                Err(error) => Err(error),
            },
            Some(ended) = self.workers.join_next() => ended,
        };
        let outcome = ended.err().filter(JoinError::is_panic).map_or("ended by itself", |_| "crashed");
        anyhow::anyhow!("a part of annalist {outcome}: the log says more; start it again")
    }

    /// Stops accepting requests, answers those that were accepted, then lets the workers finish their jobs.
    pub(crate) async fn drain(mut self) {
        self.accepting.send_replace(true);
        if !self.ingest.is_finished() {
            drop(self.ingest.await);
        }
        self.working.send_replace(true);
        while self.workers.join_next().await.is_some() {}
    }
}

/// Binds the address of `flag`. `advice` begins the next step if the address is in use.
pub(crate) async fn listen(address: SocketAddr, advice: &str, flag: &str) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            bail!("{address} is in use: {advice}choose another address with {flag}")
        }
        Err(error) => bail!("cannot listen on {address}: {error}; choose another address with {flag}"),
    }
}

/// Resolves when the value becomes true, or when its sender is dropped.
pub(crate) async fn wait_until_true(mut value: watch::Receiver<bool>) {
    // An error means that the sender was dropped, so the value can no longer change.
    drop(value.wait_for(|turned| *turned).await);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use jiff::tz::TimeZone;
    use ports::clock::{Clock, ManualClock, TimestampMs};
    use search::follower::BATCH_SIZE;
    use secrecy::SecretString;
    use slack::signature::SigningSecrets;
    use testkit::corpus::event;
    use tokio::sync::mpsc::{UnboundedSender, error::TryRecvError, unbounded_channel};
    use viewer::access::people::PeopleSettings;
    use viewer::access::{Access, CookieKey, ViewerAccess};
    use viewer::index::IndexSource;
    use viewer::{MAX_CONCURRENT_PAGES, Viewer};

    use super::*;
    use crate::fixture::CliFixture;

    const NOW_S: i64 = 1_700_000_000;

    /// A clock that blocks the thread of each page that asks for the time until it is released.
    struct StuckClock {
        asked: UnboundedSender<()>,
        release: Mutex<Receiver<()>>,
    }

    impl Clock for StuckClock {
        fn now(&self) -> TimestampMs {
            self.asked.send(()).unwrap();
            // Only a test that fails waits as long.
            let released = self.release.lock().unwrap().recv_timeout(Duration::from_secs(5));
            assert_eq!(released, Err(RecvTimeoutError::Disconnected), "the page is never released");
            TimestampMs(NOW_S * 1_000)
        }
    }

    #[tokio::test]
    async fn an_event_is_acknowledged_while_the_pages_take_very_long() {
        let fixture = CliFixture::open().await;
        let (asked, mut pages_asked) = unbounded_channel();
        let (release, released) = channel();
        let pages = viewer::router(Viewer {
            archive: fixture.backend.archive(),
            files: fixture.backend.files(),
            index: IndexSource {
                file: fixture.data().data.data.join("index.db"),
                changes: fixture.changes(),
                poll_interval: Duration::ZERO,
                batch_size: BATCH_SIZE,
            },
            clock: Arc::new(StuckClock { asked, release: Mutex::new(released) }),
            zone: TimeZone::UTC,
            access: Access::new(
                "127.0.0.1:1".parse().unwrap(),
                &[],
                ViewerAccess::All,
                PeopleSettings::default(),
                &CookieKey::new([7; 32]),
            ),
            is_private_for_all: false,
            has_live: true,
            logs_access: false,
            programs: Router::new(),
        });
        let request = || Request::get("/stats").header("host", "localhost").body(Body::empty()).unwrap();
        let mut made = JoinSet::new();
        for _ in 0..MAX_CONCURRENT_PAGES + 3 {
            made.spawn(TowerToHyperService::new(pages.clone()).call(request()));
        }
        for _ in 0..MAX_CONCURRENT_PAGES {
            pages_asked.recv().await.unwrap();
        }

        let secrets = SigningSecrets::parse(&SecretString::from("x".repeat(32))).unwrap();
        let ingest = TowerToHyperService::new(ingest::router(Ingest {
            queue: fixture.backend.queue(),
            secrets: Some(Arc::new(Reread::fixed(secrets.clone().into()))),
            clock: ManualClock::starting_at(TimestampMs(NOW_S * 1_000)),
            limits: ingest::IngestLimits::default(),
            open_requests: OpenRequests::default(),
            run: None,
        }));
        for number in 0..20 {
            let message = event::message(&format!("1700000000.{number:06}"), "U1", "while a page is made");
            let body =
                event::envelope("T1", &format!("Ev{number}"), &event::posted("C1", &message)).to_string();
            let event = Request::post(ingest::EVENTS_PATH)
                .header("content-type", "application/json")
                .header("x-slack-request-timestamp", NOW_S.to_string())
                .header("x-slack-signature", secrets.sign(NOW_S, body.as_bytes()))
                .body(Body::from(body))
                .unwrap();
            assert_eq!(ingest.call(event).await.unwrap().status(), 200);
        }
        assert_eq!(pages_asked.try_recv(), Err(TryRecvError::Empty), "the other pages wait");
        assert!(made.try_join_next().is_none(), "no page is made yet");
        drop(release);
        while let Some(page) = made.join_next().await {
            assert_eq!(page.unwrap().unwrap().status(), 200);
        }
    }
}
