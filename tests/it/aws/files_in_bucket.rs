//! The files of a data folder in a bucket: stored and read there, and moved there and back, whenever the move is killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_resources::names::Names;
use embedded::Database;
use ports::archive::ArchiveExt;
use ports::clock::SystemClock;
use ports::files::FileKey;
use rules::file::row::{StoredBytes, stored};
use serde_json::Value;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::{FileId, TeamId};
use testkit::corpus::{TEAM, event};
use testkit::fake_files;
use tests::harness::binaries::binaries;
use tests::harness::client::deliver;
use tests::harness::command::{CommandOutput, annalist_at, json_lines, wait_until_idle};
use tests::harness::environment::ProgramEnvironment;
use tests::harness::process::{self, Process};
use tests::harness::stack::Stack;
use tokio::process::Command;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::BUCKET_ONLY;
use crate::export::formats::files_below;
use crate::view::get;

const DEADLINE: Duration = Duration::from_secs(30);
const FILES: u32 = 400;
const CHANNEL: &str = "C01";
/// A picture as far as its first bytes show.
const PICTURE: &str = "GIF89a, which nobody decodes";

/// A data folder whose files are in a bucket, and a Slack.
#[derive(Clone)]
struct FolderAndBucket {
    data: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl FolderAndBucket {
    fn with(&self, name: &'static str, value: &str) -> Self {
        let mut variables = self.variables.clone();
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value.to_owned()));
        Self { variables, ..self.clone() }
    }

    /// A folder whose files are in the bucket of these resources.
    fn new(stack: &Stack, names: &Names, slack: &MockServer, data: &Path) -> Self {
        let mut variables = stack.environment(names);
        variables.retain(|(name, _)| name.starts_with("AWS_"));
        variables.push(("ANNALIST_FILES", place(names)));
        variables.push(("SLACK_API_URL", format!("{}/api/", slack.uri())));
        variables.push(("SLACK_BOT_TOKEN", "xoxb-1".to_owned()));
        Self { data: data.to_owned(), variables }
    }

    fn without_bucket(&self) -> Self {
        let variables = self.variables.iter().filter(|(name, _)| *name != "ANNALIST_FILES").cloned();
        Self { variables: variables.collect(), ..self.clone() }
    }

    fn at(&self, data: &Path) -> Self {
        Self { data: data.to_owned(), ..self.clone() }
    }
}

impl ProgramEnvironment for FolderAndBucket {
    fn configure(&self, command: &mut Command) {
        command.arg("--data").arg(&self.data);
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
    }
}

fn place(names: &Names) -> String {
    format!("s3://{}/kept", names.bucket())
}

fn key(number: u32) -> FileKey {
    FileKey::parse(&format!("slack/{TEAM}/{CHANNEL}/17000{number:05}.000100/F{number:04}")).unwrap()
}

fn content_of(number: u32) -> Vec<u8> {
    // One is longer than a part of an upload.
    let size_bytes = if number == 7 { 9 * 1024 * 1024 } else { 5_000 + number as usize };
    vec![number as u8; size_bytes]
}

/// Stores files with their rows.
async fn fill(data: &Path) {
    let database = Database::open(data, SystemClock::shared()).unwrap();
    let (team, files) = (TeamId::parse(TEAM).unwrap(), database.files());
    for number in 0..FILES {
        let (key, content) = (key(number), content_of(number));
        let file = FileId::parse(&format!("F{number:04}")).unwrap();
        let bytes = StoredBytes {
            key: key.clone(),
            source: "own".into(),
            size_bytes: content.len() as u64,
            sha256: to_hex(&Sha256::digest(&content)),
        };
        let mut writer = files.create(&key).await.unwrap();
        writer.write(content.into()).await.unwrap();
        writer.publish().await.unwrap();
        database.archive().write(&stored(&team, &file, &bytes)).await.unwrap();
    }
    database.close().await;
}

/// The keys and sizes of the published files of a folder.
fn in_folder(data: &Path) -> BTreeMap<String, u64> {
    let files = embedded::backup::Inventory::new(data);
    files.map(|file| file.map(|file| (file.key, file.bytes)).unwrap()).collect()
}

/// The keys and sizes of the files in a bucket.
async fn in_bucket(client: &aws_sdk_s3::Client, bucket: &str) -> BTreeMap<String, u64> {
    let mut pages = client.list_objects_v2().bucket(bucket).prefix("kept/").into_paginator().send();
    let mut files = BTreeMap::new();
    while let Some(page) = pages.next().await {
        for object in page.unwrap().contents() {
            let key = object.key().unwrap().strip_prefix("kept/").unwrap();
            if FileKey::parse(key).is_some() {
                files.insert(key.to_owned(), u64::try_from(object.size().unwrap()).unwrap());
            }
        }
    }
    files
}

/// Begins a move, and kills it once fewer files than this are left in the old place.
async fn kill_in_the_middle(
    environment: &FolderAndBucket,
    args: &[&str],
    left: usize,
    count: impl AsyncFn() -> usize,
) {
    let mut command = Command::new(&binaries().annalist);
    command.args(["files", "move"]).args(args);
    environment.configure(&mut command);
    let process = Process::start(&mut command);
    let begun = async {
        while count().await > left {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("files move");
    process.sigkill().await;
    assert!(count().await > 0, "the move was killed too late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_pictures_are_stored_shown_exported_and_erased_in_the_bucket_alone() {
    let stack = Stack::shared();
    let aws = stack.provisioned(BUCKET_ONLY).await;
    let (client, bucket) = (stack.s3().await, aws.names().bucket());
    let slack = fake_files::slack().await;
    let picture = ResponseTemplate::new(200).set_body_raw(PICTURE, "image/gif");
    Mock::given(path("/pictures/ana.gif")).respond_with(picture).mount(&slack).await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let here = FolderAndBucket::new(stack, aws.names(), &slack, &data);
    let up = process::up_with(&here, &["--viewer-listen", "127.0.0.1:0"]).await;
    let url = format!("{}/pictures/ana.gif", slack.uri());
    let mut person = event::user_change("U01", "ana", "1700009001.000000");
    person["user"]["profile"]["image_192"] = url.clone().into();
    let share = fake_files::message_with_file(&slack, "F9000", "1700009000.000100");
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &share), person]).await;
    wait_until_idle(&here, DEADLINE).await;

    let shared = format!("slack/{TEAM}/{CHANNEL}/1700009000.000100/F9000");
    let picture = FileKey::image(&TeamId::parse(TEAM).unwrap(), &url).to_string();
    let content = fake_files::content("F9000");
    let expected = [(shared.clone(), content.len() as u64), (picture.clone(), PICTURE.len() as u64)];
    assert_eq!(in_bucket(&client, bucket).await, BTreeMap::from(expected));
    assert_eq!(in_folder(&data), BTreeMap::new());
    let listed = json_lines(&here, &["files"]).await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["uri"], format!("{}/{shared}", place(aws.names())), "{listed:?}");

    let pages = up.process.logged_address("pages listening").await;
    let (_, hash) = picture.rsplit_once('/').unwrap();
    let (file_link, picture_link) = (format!("/files/{TEAM}/F9000"), format!("/pictures/{TEAM}/{hash}"));
    let page = get(pages, &format!("/c/{TEAM}/{CHANNEL}"), "localhost").await;
    assert!(page.contains(&file_link) && page.contains(&picture_link), "{page}");
    let shown = get(pages, &file_link, "localhost").await;
    assert!(shown.ends_with(std::str::from_utf8(&content).unwrap()), "{shown}");
    let shown = get(pages, &picture_link, "localhost").await;
    assert!(shown.contains("content-type: image/gif") && shown.ends_with(PICTURE), "{shown}");

    for (format, more, exported) in [("jsonl", &["--user", "U01"][..], 1), ("html", &[], 2)] {
        let out = folder.path().join(format);
        let args = [&["export", "--format", format, "--out", out.to_str().unwrap()], more].concat();
        annalist_at(&here, &args).await.succeeded();
        let written = files_below(&out);
        let found = [&content[..], PICTURE.as_bytes()]
            .iter()
            .filter(|bytes| written.values().any(|written| written == *bytes))
            .count();
        assert_eq!(found, exported, "{format}: {:?}", written.keys());
    }

    let erased = annalist_at(&here, &["erase", "--user", "U01", "--yes"]).await.succeeded();
    assert_eq!(in_bucket(&client, bucket).await, BTreeMap::new(), "{}", erased.stdout);
    let gone = get(pages, &file_link, "localhost").await;
    assert!(gone.starts_with("HTTP/1.1 404"), "{gone}");
    up.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_move_to_a_bucket_and_back_whenever_the_move_is_killed() {
    let stack = Stack::shared();
    let aws = stack.provisioned(BUCKET_ONLY).await;
    let (client, bucket) = (stack.s3().await, aws.names().bucket());
    let slack = fake_files::slack().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let place = place(aws.names());
    let here = FolderAndBucket::new(stack, aws.names(), &slack, &data);
    let run = async |environment: &FolderAndBucket, args: &[&str]| -> CommandOutput {
        annalist_at(environment, args).await
    };

    // A bucket that is not there leaves nothing behind.
    let missing = run(&here.with("ANNALIST_FILES", "s3://there-is-no-such-bucket"), &["sync"]).await;
    missing.assert_refused(1, "there-is-no-such-bucket");
    assert!(!data.exists());

    fill(&data).await;
    // A flipped bit.
    std::fs::write(data.join("files").join(key(3).as_str()), vec![4; content_of(3).len()]).unwrap();

    // `up` keeps new files in the bucket, and serves those of the folder, while they move.
    let up = process::up(&here).await;
    let share = fake_files::message_with_file(&slack, "F9000", "1700009000.000100");
    deliver(up.address, TEAM, &[event::posted(CHANNEL, &share)]).await;
    wait_until_idle(&here, DEADLINE).await;
    let shared = format!("slack/{TEAM}/{CHANNEL}/1700009000.000100/F9000");
    assert_eq!(in_bucket(&client, bucket).await.keys().collect::<Vec<_>>(), [&shared]);
    let listed = json_lines(&here, &["files"]).await;
    let uri = |row: &Value| row["uri"].as_str().is_some_and(|uri| uri == format!("{place}/{shared}"));
    assert!(listed.iter().any(uri), "{listed:?}");

    let total = in_folder(&data).len();
    for part in 1..=3 {
        kill_in_the_middle(&here, &[], total - part * total / 4, async || in_folder(&data).len()).await;
        let verified = run(&here, &["verify"]).await;
        assert_eq!(verified.stdout.lines().count(), 2, "only the damaged file: {}", verified.stdout);
    }
    let moved = run(&here, &["files", "move", "--json"]).await;
    assert!(moved.code == Some(1) && moved.stderr.starts_with("annalist: 1 file stays"), "{moved:?}");
    assert_eq!(serde_json::from_str::<Value>(&moved.stdout).unwrap()["damaged"], 1);
    assert_eq!(in_folder(&data).into_keys().collect::<Vec<_>>(), [key(3).to_string()]);
    std::fs::write(data.join("files").join(key(3).as_str()), content_of(3)).unwrap();
    let moved = run(&here, &["files", "move"]).await.succeeded();
    assert!(moved.stdout.starts_with("Moved 1 file "), "{}", moved.stdout);
    up.process.stop().await;

    assert!(in_folder(&data).is_empty());
    let expected: BTreeMap<String, u64> = (0..FILES)
        .map(|number| (key(number).to_string(), content_of(number).len() as u64))
        .chain([(shared.clone(), fake_files::content("F9000").len() as u64)])
        .collect();
    assert_eq!(in_bucket(&client, bucket).await, expected);
    run(&here, &["verify"]).await.succeeded();

    // Who does not name the bucket, or another one, is refused.
    let others = [here.without_bucket(), here.with("ANNALIST_FILES", &format!("s3://{bucket}/other"))];
    for other in &others {
        for command in [&["sync"][..], &["files"], &["files", "move"]] {
            run(other, command).await.assert_refused(1, &place);
        }
    }

    // A backup and a copy say where the files are, and a restored folder goes on with them.
    let (packed, copies) = (folder.path().join("backup.tar"), folder.path().join("copies"));
    std::fs::create_dir(&copies).unwrap();
    let backup = run(&here, &["backup", packed.to_str().unwrap()]).await.succeeded();
    assert!(backup.stdout.contains(&place) && backup.stdout.contains("401 files"), "{}", backup.stdout);
    run(&here, &["copy", "--to", copies.to_str().unwrap()]).await.succeeded();
    run(&here, &["verify", "--copy", copies.to_str().unwrap()]).await.succeeded();
    for (from, name) in [(&packed, "of-backup"), (&copies, "of-copy")] {
        let restored = here.at(&folder.path().join(name));
        let output = run(&restored, &["restore", from.to_str().unwrap()]).await.succeeded();
        assert!(output.stdout.contains(&place), "{}", output.stdout);
        run(&restored, &["verify"]).await.succeeded();
        run(&restored.without_bucket(), &["verify"]).await.assert_refused(1, &place);
    }

    // An erasure removes from the bucket.
    let erased = ["erase", "--message", CHANNEL, "1700009000.000100", "--yes"];
    let erased = run(&here, &erased).await.succeeded();
    assert!(erased.stdout.contains("annalist copy --to"), "{}", erased.stdout);
    assert!(!in_bucket(&client, bucket).await.contains_key(&shared));

    // The way back.
    let count = async || in_bucket(&client, bucket).await.len();
    kill_in_the_middle(&here, &["--to", "folder"], 200, count).await;
    run(&here, &["verify"]).await.succeeded();
    let up = process::up(&here).await;
    run(&here, &["files", "move", "--to", "folder"]).await.assert_refused(1, "is in use");
    up.process.stop().await;
    run(&here, &["files", "move", "--to", "folder"]).await.succeeded();
    assert_eq!((in_bucket(&client, bucket).await.len(), in_folder(&data).len()), (0, FILES as usize));
    run(&here.without_bucket(), &["verify"]).await.succeeded();
}
