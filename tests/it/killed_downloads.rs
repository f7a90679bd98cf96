//! Kills real processes while they download a file.

use std::path::Path;
use std::time::Duration;

use embedded::{DATABASE_FILE, Database};
use ports::archive::ItemKey;
use ports::clock::SystemClock;
use ports::files::FileKey;
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use rules::project;
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::TEAM;
use testkit::fake_files;
use testkit::scripted_http::{AfterAnswer, serve_script};
use tests::harness::binaries::binaries;
use tests::harness::command::wait_until_idle;
use tests::harness::process::{self, Process};
use tests::harness::scrape;
use tokio::process::Command;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const TOKEN: &str = "xoxb-of-the-workspace";
const TS: &str = "1700000000.000100";

const SIZE_BYTES: usize = 2 * 1024 * 1024;
const DEADLINE: Duration = Duration::from_secs(20);

async fn downloader(data: &Path, slack: &str) -> Process {
    let mut command = Command::new(binaries().worker("file-downloader"));
    command.arg("--data").arg(data);
    command.env("SLACK_API_URL", format!("{slack}/api/")).env("SLACK_BOT_TOKEN", TOKEN);
    process::worker(&mut command).await
}

/// A job to download the file that Slack serves at `/files/F01`.
pub(crate) fn job(slack: &str, size_bytes: usize) -> FileJob {
    let object = json!({ "id": "F01", "size": size_bytes, "url_private": format!("{slack}/files/F01") });
    FileJob {
        team: TeamId::parse(TEAM).unwrap(),
        share: Share { channel: ChannelId::parse("C01").unwrap(), ts: Ts::parse(TS).unwrap() },
        user: None,
        object: FileObject::read(&object).unwrap(),
        refresh: false,
        version: None,
    }
}

/// A Slack that stops in the middle of a file of this size, and serves all of it to the next request.
pub(crate) async fn stalling_slack(size_bytes: usize) -> String {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size_bytes}\r\n\r\n");
    let whole: &'static [u8] = [head.as_bytes(), &vec![7; size_bytes]].concat().leak();
    serve_script(vec![(&whole[..size_bytes / 2], AfterAnswer::Stall), (whole, AfterAnswer::Close)]).await
}

/// The sizes of the files that are not published yet.
fn incoming_sizes(data: &Path) -> Vec<u64> {
    let entries = |folder: &Path| {
        std::fs::read_dir(folder)
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default()
    };
    let folders: Vec<_> = entries(&data.join("files/.incoming"));
    let files = folders.iter().flat_map(|folder| -> Vec<_> { entries(folder) });
    files.filter_map(|file| Some(file.metadata().ok()?.len())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_download_publishes_no_partial_file_and_is_restarted() {
    let data = tempfile::tempdir().unwrap();
    let slack = stalling_slack(SIZE_BYTES).await;
    let job = job(&slack, SIZE_BYTES);
    let key = FileKey::shared(&job.team, &job.share.channel, &job.share.ts, &job.object.id);
    let row_key = ItemKey::file(&job.team, &job.object.id);
    let database = Database::open(data.path(), SystemClock::shared()).unwrap();
    database.queue().send(vec![job.outgoing()]).await.remove(0).unwrap();

    let killed = downloader(data.path(), &slack).await;
    let begun = async {
        while !incoming_sizes(data.path()).iter().any(|size| *size > 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("bytes arrive");
    killed.sigkill().await;
    assert_eq!(incoming_sizes(data.path()).len(), 1, "the temporary file is still there");
    assert!(database.files().open(&key).await.unwrap().is_none());

    let _finishes = downloader(data.path(), &slack).await;
    wait_until_idle(data.path(), DEADLINE).await;
    let row = database.archive().get(&row_key).await.unwrap().unwrap();
    let row = project::file(&row).unwrap().into_json();
    assert_eq!((&row["state"], &row["size_bytes"]), (&json!("held"), &json!(SIZE_BYTES)));
    let content = std::fs::read(data.path().join("files").join(row["uri"].as_str().unwrap())).unwrap();
    assert!(content == [7; SIZE_BYTES], "{} bytes are stored", content.len());
    assert_eq!(incoming_sizes(data.path()), [] as [u64; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_downloader_is_killed_is_requested_exactly_once_more() {
    let data = tempfile::tempdir().unwrap();
    let slack = fake_files::slack().await;
    // The first answer never comes.
    Mock::given(method("GET"))
        .and(path("/files/F01"))
        .respond_with(ResponseTemplate::new(200).set_delay(Duration::from_secs(3_600)))
        .up_to_n_times(1)
        .with_priority(1)
        .mount(&slack)
        .await;
    let job = job(&slack.uri(), fake_files::content("F01").len());
    let database = Database::open(data.path(), SystemClock::shared()).unwrap();
    database.queue().send(vec![job.outgoing()]).await.remove(0).unwrap();

    let killed = downloader(data.path(), &slack.uri()).await;
    let requested = async {
        while downloads(&slack).await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, requested).await.expect("it is requested");
    let successor = downloader(data.path(), &slack.uri()).await;
    killed.sigkill().await;
    wait_until_idle(data.path(), DEADLINE).await;
    let row = database.archive().get(&ItemKey::file(&job.team, &job.object.id)).await.unwrap();
    assert_eq!(project::file(&row.unwrap()).unwrap().state(), Some("held"));
    assert_eq!(downloads(&slack).await, 2);

    let connection = rusqlite::Connection::open(data.path().join(DATABASE_FILE)).unwrap();
    let sql = "SELECT event_key, status, file_id, channel_id FROM claims";
    let row = connection.query_row(sql, [], |row| <(String, String, String, String)>::try_from(row)).unwrap();
    assert_eq!(row, (format!("F01_{TS}"), "completed".into(), "F01".into(), "C01".into()));
    // The metrics of this claim.
    let metrics = scrape::metrics(successor.metrics_address().await).await;
    for line in ["annalist_claims_total{result=\"new\"} 1", "annalist_claim_seconds_count 1"] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

/// The number of requested downloads.
async fn downloads(slack: &MockServer) -> usize {
    let requests = slack.received_requests().await.unwrap();
    requests.iter().filter(|request| request.method.as_str() == "GET").count()
}
