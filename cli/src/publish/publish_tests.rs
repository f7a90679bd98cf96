//! Sites of a small archive, which the real writers fill.

#[path = "copy_tests.rs"]
mod copy_tests;
#[path = "opt_out_tests.rs"]
mod opt_out_tests;
#[path = "page_tests.rs"]
mod page_tests;
#[path = "run_tests.rs"]
mod run_tests;
#[cfg(unix)]
#[path = "search_tests.rs"]
mod search_tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ports::archive::ArchiveExt;
use ports::archive::erasure::{OptOutFact, OptOutScope};
use ports::files::FileKey;
use rules::file::FileState;
use rules::file::image::{ImageJob, ImageOwner};
use rules::file::row::{self, Share};
use serde_json::{Value, json};
use slack::ids::{ChannelId, FileId, Ts, UserId};
use testkit::memory::watched::WatchedArchive;

use super::write::WriteCounts;
use super::*;
use crate::fixture::{CliFixture, output, parsed};

const URL: &str = "https://chat.example.org/archive/";

/// 2026-11-20 in UTC.
const DAY: i64 = 1_795_132_800;

/// A folder for a site.
struct PublishedSite {
    folder: tempfile::TempDir,
}

impl PublishedSite {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    async fn publish(&self, fixture: &CliFixture, more: &[&str]) -> Value {
        let out = self.run(fixture, more).await.unwrap();
        serde_json::from_str(&out).unwrap()
    }

    async fn run(&self, fixture: &CliFixture, more: &[&str]) -> anyhow::Result<String> {
        let path = self.path();
        let path = path.to_str().unwrap();
        // An installed Pagefind changes no test.
        let search: &[&str] = if more.iter().any(|more| ["--search", "--pagefind"].contains(more)) {
            &[]
        } else {
            &["--search", "off"]
        };
        let arguments = [&["--out", path, "--url", URL, "--json", "--data", "unused"], search, more].concat();
        let args: PublishArgs = parsed(&arguments).unwrap();
        output(async |out| run(&fixture.backend, &args, out).await).await
    }

    /// A run, with what it counts.
    async fn outcome(&self, fixture: &CliFixture) -> RunOutcome {
        let path = self.path();
        let arguments =
            ["--out", path.to_str().unwrap(), "--url", URL, "--data", "unused", "--search", "off"];
        let args: PublishArgs = parsed(&[&arguments[..], GENERAL].concat()).unwrap();
        let (url, going_on) = (SiteUrl::parse(URL).unwrap(), watch::channel(false).1);
        publish(&fixture.backend, &args, &path, &url, &going_on).await.unwrap()
    }

    /// A run, and the number of messages that it reads.
    async fn watched(&self, fixture: &CliFixture) -> (WriteCounts, usize) {
        let path = self.path();
        let arguments =
            ["--out", path.to_str().unwrap(), "--url", URL, "--data", "unused", "--search", "off"];
        let args: PublishArgs = parsed(&[&arguments[..], &["--channel", "C1"]].concat()).unwrap();
        let settings = SiteSettings::read(&args, &SiteUrl::parse(URL).unwrap()).unwrap();
        let archive = WatchedArchive::new(fixture.backend.archive());
        let files = fixture.backend.files();
        let state = SiteState::open(&path).unwrap();
        let run = PublishRun::begin((&archive, &*files), settings, None, state, Some(path)).await;
        let going_on = watch::channel(false).1;
        let outcome = run.unwrap().finish_site(&*fixture.changes(), &going_on).await.unwrap();
        let rows = archive.read().iter().filter(|partition| partition.starts_with("message#")).count();
        (outcome.counts, rows)
    }

    /// The paths of the copies of files and pictures.
    fn copies(&self) -> Vec<String> {
        let paths = self.files().into_keys();
        paths.filter(|path| ["files/", "pictures/"].iter().any(|folder| path.starts_with(folder))).collect()
    }

    /// Begins a run that is killed after this number of steps.
    async fn publish_until(&self, fixture: &CliFixture, more: &[&str], steps: u64) {
        let mut run = std::pin::pin!(self.run(fixture, more));
        let mut left = steps;
        std::future::poll_fn(|context| match (left.checked_sub(1), run.as_mut().poll(context)) {
            (Some(fewer), std::task::Poll::Pending) => {
                left = fewer;
                std::task::Poll::Pending
            }
            _ => std::task::Poll::Ready(()),
        })
        .await;
    }

    /// All files but the state, with their texts.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        read_folder(&self.path(), &self.path(), &mut files);
        files
    }

    fn file(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The paths of the files with this text.
    fn with(&self, text: &str) -> Vec<String> {
        self.files().into_iter().filter(|(_, content)| content.contains(text)).map(|(path, _)| path).collect()
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != state::STATE_FOLDER {
                read_folder(root, &path, files);
            }
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

fn ts(second: i64) -> String {
    format!("{}.000100", DAY + second)
}

/// The beginning of a picture.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n and pixels";

async fn archive() -> CliFixture {
    let fixture = CliFixture::open().await;
    fixture.channel("T1", "C1", "1.000000", "general").await;
    fixture.channel("T1", "C2", "2.000000", "secret-plans").await;
    fixture.person("T1", "U1", "ana").await;
    fixture.person("T1", "U2", "bob").await;
    fixture
}

async fn write_as(fixture: &CliFixture, user: &str, channel: &str, at: &str, text: &str) {
    fixture.change("T1", channel, at, at, json!({ "user": user, "text": text })).await;
}

/// Stores the bytes of a file.
async fn store(fixture: &CliFixture, key: &FileKey, bytes: &'static [u8]) {
    let mut writer = fixture.backend.files().create(key).await.unwrap();
    writer.write(Bytes::from_static(bytes)).await.unwrap();
    writer.publish().await.unwrap();
}

/// Shares a file whose bytes the archive has.
async fn share(
    fixture: &CliFixture,
    user: &str,
    channel: &str,
    at: &str,
    file: &Value,
    bytes: &'static [u8],
) {
    fixture.change("T1", channel, at, at, json!({ "user": user, "text": "look", "files": [file] })).await;
    let team = TeamId::parse("T1").unwrap();
    let share = Share { channel: ChannelId::parse(channel).unwrap(), ts: Ts::parse(at).unwrap() };
    let id = FileId::parse(file["id"].as_str().unwrap()).unwrap();
    let key = FileKey::shared(&team, &share.channel, &share.ts, &id);
    store(fixture, &key, bytes).await;
    let held = row::on_message(&team, &share, &id, &FileState::Stored(key));
    fixture.archive().write(&held).await.unwrap();
}

/// Stores the picture of a person or an emoji, and returns its name on a site.
async fn store_picture(fixture: &CliFixture, owner: ImageOwner, url: &str) -> String {
    let team = TeamId::parse("T1").unwrap();
    let key = FileKey::image(&team, url);
    store(fixture, &key, PICTURE).await;
    fixture.archive().write(&ImageJob { team, owner, url: url.to_owned() }.stored(&key)).await.unwrap();
    format!("pictures/{}.png", key.as_str().rsplit('/').next().unwrap())
}

/// Checks that each relative link leads to a file, and each fragment to an element.
fn assert_links_resolve(site: &PublishedSite) {
    let files = site.files();
    for (path, content) in files.iter().filter(|(path, _)| path.ends_with(".html") && *path != "404.html") {
        for link in content.split([' ', '<']).filter_map(|part| {
            let value = part.strip_prefix("href=\"").or_else(|| part.strip_prefix("src=\""))?;
            value.split('"').next()
        }) {
            if link.contains("://") {
                if let Some(own) = link.strip_prefix(URL) {
                    assert!(files.contains_key(own.split('#').next().unwrap()), "{path} leads to {link}");
                }
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let mut target: Vec<&str> = path.split('/').collect();
            target.pop();
            for part in file.split('/').filter(|part| !part.is_empty()) {
                match part {
                    ".." => target.truncate(target.len() - 1),
                    name => target.push(name),
                }
            }
            let target = if file.is_empty() { path.clone() } else { target.join("/") };
            let content = files.get(&target).unwrap_or_else(|| panic!("{path} leads to {link}"));
            assert!(fragment.is_empty() || content.contains(&format!("id=\"{fragment}\"")), "{path}: {link}");
        }
    }
}

const GENERAL: &[&str] = &["--channel", "general"];

async fn problems(site: &PublishedSite, fixture: &CliFixture, check: &[&str]) -> Vec<String> {
    let path = site.path();
    let arguments =
        [&["--out", path.to_str().unwrap(), "--url", URL, "--json", "--data", "unused"], check].concat();
    let args: PublishArgs = parsed(&arguments).unwrap();
    let mut out = Vec::new();
    run(&fixture.backend, &args, &mut out).await.unwrap_err();
    let found: Value = serde_json::from_slice(&out).unwrap();
    found["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["problem"].as_str().unwrap().to_owned())
        .collect()
}

async fn wish_of(fixture: &CliFixture, wish: &[&str]) {
    let command = clap::Command::new("annalist").no_binary_name(true);
    let command = <SiteOptOutCommand as clap::Subcommand>::augment_subcommands(command);
    let matches = command.try_get_matches_from([wish, &["--data", "unused"]].concat()).unwrap();
    let command = <SiteOptOutCommand as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    let mut out = Vec::new();
    opt_outs::run(fixture.archive(), fixture.clock(), &command, &mut out).await.unwrap();
}
