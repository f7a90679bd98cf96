//! `annalist view` shows the same pages on AWS as for a data folder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tests::harness::command::{annalist_at, wait_until_idle};
use tests::harness::environment::{AwsInstallation, ProgramEnvironment};
use tests::harness::process::{self, ServerProcess};
use tokio::time::timeout;

use crate::export::{fill, imported, ts};
use crate::import::export::TEAM;
use crate::view::get;

const DEADLINE: Duration = Duration::from_secs(60);

/// The same import and the same events, in a data folder and on AWS.
pub(super) struct FolderAndFleet {
    folder: TempDir,
    pub(super) installation: AwsInstallation,
}

impl FolderAndFleet {
    pub(super) async fn filled() -> Self {
        let both = Self { folder: tempfile::tempdir().unwrap(), installation: AwsInstallation::new().await };
        let (data, zip) = (both.data(), both.folder("older.zip"));
        imported().zip(&zip);
        tokio::join!(
            fill(&*data, &zip, async { drop(wait_until_idle(&*data, DEADLINE).await) }),
            fill(&both.installation, &zip, both.installation.wait_until_drained(DEADLINE)),
        );
        both
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder("data")
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Asserts that two texts are the same; shows the first lines that differ.
pub(super) fn assert_same(what: &str, here: &str, there: &str) {
    // Pages have few line breaks: split between tags.
    let lines = |text: &str| text.replace("><", ">\n<").lines().map(str::to_owned).collect::<Vec<_>>();
    let (here, there) = (lines(here), lines(there));
    let different = here.iter().zip(&there).find(|(here, there)| here != there);
    assert_eq!(different, None, "{what}");
    assert_eq!(here.len(), there.len(), "{what}");
}

/// Updates the index, and starts the viewer.
async fn viewer(environment: &(impl ProgramEnvironment + ?Sized), index: &str) -> ServerProcess {
    annalist_at(environment, &["index", "--index", index]).await.succeeded();
    let server = process::view(environment, &["--tz", "UTC", "--index", index]).await;
    // Messages are counted in the background, and pages do not wait for the counts.
    let counted = async { while !page(server.address, "/").await.contains("class=\"count\"") {} };
    timeout(DEADLINE, counted).await.unwrap();
    server
}

/// A note that only a search on AWS shows: there, nothing counts the rows that the index lacks.
const MAY_BE_BEHIND: &str = "The index may be behind: `annalist index` brings it up to date.";

/// A response without its date, and without that note.
async fn page(address: SocketAddr, path: &str) -> String {
    let answer =
        get(address, path, "localhost").await.replace(&format!("<p class=\"note\">{MAY_BE_BEHIND}</p>"), "");
    let is_kept = |line: &&str| !line.starts_with("date: ") && !line.starts_with("content-length: ");
    answer.split_inclusive('\n').filter(is_kept).collect()
}

/// A page without the times of this test run: its messages are from 2020.
fn timeless(page: &str) -> String {
    let cells = page.split("<td>").map(|cell| {
        let is_of_now = cell.split_once("</td>").is_some_and(|(text, _)| {
            text.ends_with(|last: char| last.is_ascii_digit()) && !text.contains("2020")
        });
        if is_of_now { cell.split_once("</td>").map_or(cell, |(_, rest)| rest) } else { cell }
    });
    cells.collect::<Vec<_>>().join("<td>")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleets_archive_is_shown_as_on_one_machine() {
    let both = FolderAndFleet::filled().await;
    let [here, there] = ["index-here", "index-there"].map(|name| both.folder(name));
    let data = both.data();
    let here = viewer(&*data, here.to_str().unwrap()).await;
    let there = viewer(&both.installation, there.to_str().unwrap()).await;
    let general = format!("/c/{TEAM}/C1");
    let permalink = format!("/archives/C1/p{}", ts(22).replace('.', ""));
    for (path, status, expected) in [
        ("/".to_owned(), 200, ">general<"),
        ("/?channels=rand".to_owned(), 200, "random"),
        (general.clone(), 200, "after the edit"),
        (format!("{general}?around={}", ts(3)), 200, "corrected"),
        (format!("{general}?before={}", ts(20)), 200, "Newer messages"),
        (format!("{general}?after={}", ts(20)), 200, "deployed"),
        (format!("{general}?day=2020-09-14"), 200, "download"),
        (format!("/c/{TEAM}/C6"), 200, "under the old id"),
        (format!("/c/{TEAM}/C7"), 200, "private"),
        (format!("/c/{TEAM}/C9"), 404, "not in the archive"),
        (format!("/t/{TEAM}/C1/{}", ts(1)), 200, "an answer"),
        (format!("/t/{TEAM}/C1/{}", ts(22)), 200, "a live reply"),
        (format!("/r/{TEAM}/C1/{}", ts(20)), 200, "before the edit"),
        (permalink, 303, "location: /t/"),
        ("/search?q=reply".to_owned(), 200, "<mark>"),
        ("/search?q=in:%23general+has:thread".to_owned(), 200, "class=\"hit\""),
        ("/search?q=from:%40nosuch".to_owned(), 400, "nosuch"),
        ("/files".to_owned(), 200, "a.txt"),
        (format!("/files/{TEAM}/F1"), 200, "\r\n\r\nhello"),
        (format!("/files/{TEAM}/F2"), 404, "not in the archive"),
        ("/stats?week=2020-W37".to_owned(), 200, "week"),
        ("/coverage".to_owned(), 200, "import"),
    ] {
        let of_folder = page(here.address, &path).await;
        let of_fleet = page(there.address, &path).await;
        assert!(of_folder.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {of_folder}");
        assert!(of_folder.contains(expected), "{path}: {expected:?} is not in {of_folder}");
        if path == "/coverage" {
            assert_same(&path, &timeless(&of_folder), &timeless(&of_fleet));
        } else {
            // Live messages are not offered on AWS.
            let without_live = match of_folder.split_once(" data-live=\"") {
                Some((before, rest)) => format!("{before}{}", rest.split_once('"').unwrap().1),
                None => of_folder,
            };
            assert_same(&path, &without_live, &of_fleet);
        }
    }
    here.process.stop().await;
    there.process.stop().await;
}
