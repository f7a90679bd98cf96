//! A real process that is killed while a file comes.

use std::path::Path;
use std::time::Duration;

use embedded::Database;
use ports::archive::ItemKey;
use ports::clock::SystemClock;
use ports::files::FileKey;
use rules::file::row::Share;
use rules::file::{FileJob, FileObject};
use rules::project;
use serde_json::json;
use slack::ids::{ChannelId, FileId, Ts};
use tests::harness::binaries::binaries;
use tests::harness::command::wait_until_idle;
use tests::harness::process::{self, Process};
use tokio::process::Command;

use super::fixture::{TOKEN, TS, team};
use super::raw::{Then, script};

const SIZE_BYTES: usize = 2 * 1024 * 1024;
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) async fn downloader(data: &Path, slack: &str) -> Process {
    let mut command = Command::new(&binaries().file_downloader);
    command.arg("--data").arg(data);
    command.env("SLACK_API_URL", format!("{slack}/api/")).env("SLACK_BOT_TOKEN", TOKEN);
    process::worker(&mut command).await
}

/// The sizes of the files that are not published yet.
fn coming(data: &Path) -> Vec<u64> {
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
async fn a_killed_download_leaves_no_part_of_a_file_and_is_begun_again() {
    let data = tempfile::tempdir().unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE_BYTES}\r\n\r\n");
    let whole: &'static [u8] = [head.as_bytes(), &[7; SIZE_BYTES]].concat().leak();
    let slack = script(vec![(&whole[..SIZE_BYTES / 2], Then::Stall), (whole, Then::Close)]).await;

    let share = Share { channel: ChannelId::parse("C01").unwrap(), ts: Ts::parse(TS).unwrap() };
    let object = json!({ "id": "F01", "size": SIZE_BYTES, "url_private": format!("{slack}/files/F01") });
    let file = FileId::parse("F01").unwrap();
    let key = FileKey::shared(&team(), &share.channel, &share.ts, &file);
    let job = FileJob {
        team: team(),
        share,
        user: None,
        object: FileObject::read(&object).unwrap(),
        refresh: false,
    };
    let database = Database::open(data.path(), SystemClock::shared()).unwrap();
    database.queue().send(vec![job.outgoing()]).await.remove(0).unwrap();

    let killed = downloader(data.path(), &slack).await;
    let begun = async {
        while !coming(data.path()).iter().any(|size| *size > 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("bytes come");
    killed.sigkill().await;
    assert_eq!(coming(data.path()).len(), 1, "the temporary file is still there");
    assert!(database.files().open(&key).await.unwrap().is_none());

    let _finishes = downloader(data.path(), &slack).await;
    wait_until_idle(data.path(), DEADLINE).await;
    let row = database.archive().get(&ItemKey::file(&team(), &file)).await.unwrap().unwrap();
    let row = project::file(&row).unwrap();
    assert_eq!((&row["state"], &row["size_bytes"]), (&json!("held"), &json!(SIZE_BYTES)));
    let held = std::fs::read(data.path().join("files").join(row["uri"].as_str().unwrap())).unwrap();
    assert!(held == [7; SIZE_BYTES], "{} bytes are held", held.len());
    assert_eq!(coming(data.path()), [] as [u64; 0]);
}
