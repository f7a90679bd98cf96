//! A downloader, the ports it writes to, and a mock Slack with scripted responses.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::claims::Claims;
use ports::clock::{ManualClock, SharedClock, TimestampMs};
use ports::files::Files;
use ports::queue::Delivery;
use rules::{Change, SlackEvent, file, project};
use serde_json::{Value, json};
use slack::envelope::Envelope;
use slack::ids::{ChannelId, FileId, TeamId, Ts};
use slack_api::download::DownloadTimeLimits;
use slack_api::{BotToken, Tokens, WebApi};
use testkit::corpus::{TEAM, event};
use testkit::deliveries::delivery_of;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::claims::MemoryClaims;
use testkit::memory::files::MemoryFiles;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};
use workers::claims::{self, Claimant};
use workers::file_downloader::{DownloadSettings, FileDownloader};
use workers::runtime::{JobOutcome, Worker};

pub(super) const TOKEN: &str = "xoxb-of-the-workspace";
pub(super) const TS: &str = "1700000000.000100";

/// A mock Slack that only knows the token.
pub(super) async fn slack() -> MockServer {
    let slack = MockServer::start().await;
    let identity = json!({ "ok": true, "team_id": TEAM });
    Mock::given(method("POST"))
        .and(path("/api/auth.test"))
        .respond_with(ResponseTemplate::new(200).set_body_json(identity))
        .mount(&slack)
        .await;
    slack
}

/// A mock Slack, and a downloader that calls it.
pub(super) async fn with_slack() -> (MockServer, DownloaderFixture) {
    let slack = slack().await;
    let fixture = DownloaderFixture::for_slack(&slack);
    (slack, fixture)
}

/// Settings under which a test never waits for a rate limit.
pub(super) fn settings() -> DownloadSettings {
    DownloadSettings {
        files_per_minute: NonZeroU32::new(600_000).unwrap(),
        max_file_bytes: 100_000,
        max_image_bytes: 10_000,
        file_tries: 3,
        image_tries: 2,
        ..DownloadSettings::default()
    }
}

/// Settings with timeouts that a test can wait for.
pub(super) fn short_timeouts() -> DownloadSettings {
    let time_limits = DownloadTimeLimits {
        answer: Duration::from_millis(300),
        stall: Duration::from_millis(300),
        whole: Duration::from_millis(900),
    };
    DownloadSettings { file_time_limits: time_limits, image_time_limits: time_limits, ..settings() }
}

/// The stores of rows and bytes.
pub(super) type Stores = (Arc<dyn Archive>, Arc<dyn Files>);

pub(super) struct DownloaderFixture {
    /// The address of the mock Slack.
    pub(super) url: String,
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) files: MemoryFiles,
    pub(super) claims: Arc<MemoryClaims>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) worker: Arc<FileDownloader>,
}

impl DownloaderFixture {
    pub(super) fn for_slack(slack: &MockServer) -> Self {
        Self::new(&slack.uri(), Tokens::one(BotToken::parse(TOKEN).unwrap()), settings())
    }

    /// A fixture for a Slack at this address.
    pub(super) fn new(url: &str, tokens: Tokens, settings: DownloadSettings) -> Self {
        let (archive, files) = (Arc::new(MemoryArchive::new()), MemoryFiles::new());
        let clock = ManualClock::starting_at(TimestampMs(1_700_000_000_000));
        let claims = Arc::new(MemoryClaims::new(clock.clone()));
        let claimant = claimant("one", claims.clone(), &clock);
        let stores: Stores = (archive.clone(), Arc::new(files.clone()));
        let worker = worker(url, stores, claimant, tokens, settings);
        Self { url: url.to_owned(), archive, files, claims, clock, worker }
    }

    /// Another claimant in the same table.
    pub(super) fn another_claimant(&self, name: &str) -> Claimant {
        claimant(name, self.claims.clone(), &self.clock)
    }

    /// Another downloader on the same stores.
    pub(super) fn another_worker(&self, claimant: Claimant) -> Arc<FileDownloader> {
        let stores: Stores = (self.archive.clone(), Arc::new(self.files.clone()));
        worker(&self.url, stores, claimant, Tokens::one(BotToken::parse(TOKEN).unwrap()), settings())
    }

    /// A file that Slack has at `/files/{id}`.
    pub(super) fn file(&self, id: &str, more: Value) -> Value {
        let mut file = json!({ "id": id, "name": format!("{id}.bin"), "mimetype": "application/octet-stream", "mode": "hosted",
            "url_private": format!("{}/files/{id}", self.url) });
        if let (Value::Object(file), Value::Object(more)) = (&mut file, more) {
            file.extend(more);
        }
        file
    }

    /// Stores a message with a file, as the message-writer does, and returns the job that follows.
    pub(super) async fn share(&self, channel: &str, file: &Value) -> Delivery {
        let mut sends = self.message(channel, std::slice::from_ref(file)).await.sends;
        assert_eq!(sends.len(), 1, "{file}");
        delivery_of(sends.remove(0))
    }

    /// The job with which a person requests a file again.
    pub(super) async fn retry_job(&self, file: &str) -> Delivery {
        let key = ItemKey::file(&team(), &FileId::parse(file).unwrap());
        let row = self.archive.get(&key).await.unwrap().unwrap();
        delivery_of(file::job::retry_job(&team(), &row, b"1").unwrap())
    }

    pub(super) async fn message(&self, channel: &str, files: &[Value]) -> file::Jobs {
        let message =
            event::with_fields(event::message(TS, "U01", "look"), [("files", files.to_vec().into())]);
        let body = event::envelope(TEAM, "Ev1", &event::posted(channel, &message));
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        let changes = SlackEvent::read(&envelope).unwrap().changes().unwrap();
        let [Change::Content(content)] = changes.as_slice() else { panic!("one message is one content") };
        self.archive.write(content.if_absent()).await.unwrap();
        file::jobs(content)
    }

    /// Shares a file in a channel, runs the job, and returns the row of the file.
    pub(super) async fn fetch(&self, file: &Value) -> Value {
        let job = self.share("C01", file).await;
        assert_eq!(self.handle(&job).await, JobOutcome::Done, "{file}");
        self.row(file["id"].as_str().unwrap()).await
    }

    /// Runs a job until it is done, each time after the pause that its outcome asks for.
    pub(super) async fn run_until_done(&self, job: &Delivery) {
        for receive_count in job.receive_count.. {
            match self.handle(&Delivery { receive_count, ..job.clone() }).await {
                JobOutcome::Done => return,
                JobOutcome::Retry(retry) => self.clock.advance(retry.after.unwrap_or_default()),
                other @ (JobOutcome::Quarantine(_) | JobOutcome::Wait(..)) => panic!("{other:?}"),
            }
        }
    }

    pub(super) async fn handle(&self, job: &Delivery) -> JobOutcome {
        self.worker.handle(std::slice::from_ref(job)).await.remove(0)
    }

    /// The row of a file as readers see it.
    pub(super) async fn row(&self, file: &str) -> Value {
        let key = ItemKey::file(&team(), &FileId::parse(file).unwrap());
        let row = self.archive.get(&key).await.unwrap();
        row.as_ref().and_then(project::file).unwrap_or_default().into_json()
    }

    /// The message with the file, as readers see it.
    pub(super) async fn in_channel(&self, channel: &str) -> Value {
        let key = ItemKey::message(&team(), &ChannelId::parse(channel).unwrap(), &Ts::parse(TS).unwrap());
        project::message(&self.archive.get(&key).await.unwrap().unwrap()).unwrap().into_json()
    }

    /// The bytes of all stored files.
    pub(super) fn stored_bytes(&self) -> Vec<Vec<u8>> {
        self.files.published().into_values().map(|bytes| bytes.to_vec()).collect()
    }
}

pub(super) fn worker(
    url: &str,
    (archive, files): Stores,
    claimant: Claimant,
    tokens: Tokens,
    settings: DownloadSettings,
) -> Arc<FileDownloader> {
    let web = WebApi::new(format!("{url}/api/").parse().unwrap(), tokens);
    Arc::new(FileDownloader::new(archive, files, Arc::new(web), claimant, settings))
}

pub(super) fn claimant(name: &str, claims: Arc<dyn Claims>, clock: &Arc<ManualClock>) -> Claimant {
    Claimant::new(claims, Arc::clone(clock) as SharedClock, name, claims::ClaimSettings::default())
}

pub(super) fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

/// Slack answers a GET of `/files/{id}` with this.
pub(super) async fn answer(slack: &MockServer, id: &str, response: ResponseTemplate) {
    Mock::given(method("GET")).and(path(format!("/files/{id}"))).respond_with(response).mount(slack).await;
}

/// Slack has these bytes at `/files/{id}`.
pub(super) async fn bytes(slack: &MockServer, id: &str, content: &[u8]) {
    answer(slack, id, ResponseTemplate::new(200).set_body_raw(content, "application/octet-stream")).await;
}

/// Slack answers `files.info` with this.
pub(super) async fn info(slack: &MockServer, reply: &Value) {
    Mock::given(method("POST"))
        .and(path("/api/files.info"))
        .respond_with(ResponseTemplate::new(200).set_body_json(reply))
        .mount(slack)
        .await;
}

/// The requests for files and pictures that the server has received.
pub(super) async fn downloads(server: &MockServer) -> Vec<Request> {
    let requests = server.received_requests().await.unwrap();
    requests.into_iter().filter(|request| request.method.as_str() == "GET").collect()
}

pub(super) fn authorization(request: &Request) -> Option<&str> {
    request.headers.get("authorization").map(|value| value.to_str().unwrap())
}
