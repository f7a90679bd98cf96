//! Sites of a small archive, which the real writers fill.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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

#[tokio::test]
async fn a_site_has_a_page_for_each_month_and_thread_with_links_that_lead_somewhere() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "hello <@U2|robert> in <#C2|secret-plans> and <#C1>").await;
    fixture.reply("T1", "C1", &ts(60), &ts(0), "a reply &amp; &lt;/script&gt;").await;
    fixture.post("T1", "C1", &ts(-40 * 86_400), "older").await;
    fixture.post("T1", "C2", &ts(1), "hidden words").await;
    let summary = site.publish(&fixture, &["--channel", "general"]).await;
    assert_eq!((&summary["channels"], &summary["deleted"]), (&json!(1), &json!(0)));
    let page = site.file("c/general/2026-11.html");
    assert!(page.contains("@bob") && !page.contains("robert") && page.contains("#another-channel"), "{page}");
    let thread = format!("c/general/2026-11/{}.html", ts(0).replace('.', ""));
    let thread = site.file(&thread);
    let canonical =
        format!("<link rel=\"canonical\" href=\"{URL}c/general/2026-11/{}.html\">", ts(0).replace('.', ""));
    assert!(thread.contains(&canonical) && thread.contains("a reply &amp; &lt;/script&gt;"), "{thread}");
    assert!(
        thread.contains("DiscussionForumPosting") && thread.contains("\\u003c/script\\u003e"),
        "{thread}"
    );
    for absent in ["hidden words", "secret-plans", "C2", "U1", "U2"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    assert_links_resolve(&site);
    let again = site.publish(&fixture, &["--channel", "general"]).await;
    assert_eq!((&again["written"], &again["unchanged"]), (&json!(0), &summary["files"]));
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

#[tokio::test]
async fn a_busy_month_has_a_page_for_each_day_and_a_busy_day_several() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post_all("T1", "C1", &(0..1_003).map(ts).collect::<Vec<_>>()).await;
    fixture.post("T1", "C1", &ts(86_400), "next day").await;
    fixture.post("T1", "C1", &ts(40 * 86_400), "next month").await;
    site.publish(&fixture, &["--all-public"]).await;
    let names: Vec<String> =
        site.files().into_keys().filter(|path| path.starts_with("c/general/2026-1")).collect();
    let expected =
        ["2026-11-20-2.html", "2026-11-20.html", "2026-11-21.html", "2026-11.html", "2026-12.html"];
    assert_eq!(names, expected.map(|name| format!("c/general/{name}")));
    assert!(site.file("c/general/2026-12.html").contains("href=\"2026-11.html\""));
    assert!(site.file("c/general/2026-11-21.html").contains("href=\"2026-12.html\""));
    assert_links_resolve(&site);
}

const GENERAL: &[&str] = &["--channel", "general"];

#[tokio::test]
async fn nothing_of_a_hidden_person_is_on_the_site_until_they_return() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    write_as(&fixture, "U2", "C1", &ts(0), "words of bob").await;
    write_as(&fixture, "U1", "C1", &ts(60), "ask <@U2|bob>").await;
    fixture.reply("T1", "C1", &ts(70), &ts(0), "a reply").await;
    fixture.react("T1", "C1", &ts(60), "U2", "tada", &ts(80)).await;
    let quote = json!([{ "is_share": true, "channel_id": "C1", "author_id": "U2", "author_name": "bob", "text": "quote of bob" }]);
    fixture.change("T1", "C1", &ts(90), &ts(90), json!({ "text": "look", "attachments": quote })).await;
    site.publish(&fixture, GENERAL).await;
    let before = site.files();
    assert!(!site.with("bob").is_empty());
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    let summary = site.publish(&fixture, GENERAL).await;
    assert_eq!(summary["people_hidden"], 1);
    assert_eq!(site.with("bob"), [""; 0]);
    let thread = site.file(&format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(
        thread.contains("<title>Thread of 2026-11-20") && thread.contains("This message is not shown."),
        "{thread}"
    );
    assert!(site.file("c/general/2026-11.html").contains("@a member"));
    fixture.advance();
    wish_of(&fixture, &["opt-out", "U2", "--keep-text"]).await;
    site.publish(&fixture, GENERAL).await;
    assert!(!site.with("words of bob").is_empty() && site.with(">bob<").is_empty());
    fixture.advance();
    wish_of(&fixture, &["opt-in", "U2"]).await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.files(), before);
}

#[tokio::test]
async fn what_leaves_the_archive_or_the_list_leaves_the_site() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let both = ["--channel", "C1", "--channel", "C2"];
    fixture.post("T1", "C1", &ts(0), "first words").await;
    fixture.post("T1", "C1", &ts(10), "erased words").await;
    fixture.reply("T1", "C1", &ts(20), &ts(0), "deleted words").await;
    fixture.post("T1", "C2", &ts(30), "other words").await;
    site.publish(&fixture, &both).await;
    for words in ["first words", "erased words", "deleted words", "other words"] {
        assert!(!site.with(words).is_empty(), "{words}");
    }
    fixture.edit("T1", "C1", &ts(0), &ts(40), "second words").await;
    fixture.erase("C1", &ts(10)).await;
    fixture.delete("T1", "C1", &ts(20), &ts(50)).await;
    fixture.channel_event("T1", "channel_convert_to_private", "C2", &ts(60)).await;
    fixture.channel_notice("T1", "C2", &ts(61), "channel_convert_to_private", ("x", "y")).await;
    let summary = site.publish(&fixture, &both).await;
    assert_eq!(summary["refused"], json!([{ "channel": "C2", "reason": "private" }]));
    for words in ["first words", "erased words", "deleted words", "other words", "secret-plans"] {
        assert_eq!(site.with(words), [""; 0], "{words}");
    }
    assert!(!site.with("second words").is_empty());
    let thread = site.path().join(format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(!thread.exists(), "a thread without replies has no page");
    let error = site.run(&fixture, &["--channel", "no-such-channel"]).await.unwrap_err();
    assert!(error.to_string().contains("no-such-channel"), "{error}");
    assert!(!site.with("second words").is_empty());
}

#[tokio::test]
async fn a_renamed_channel_keeps_its_addresses_and_its_new_name_leads_there() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    site.publish(&fixture, GENERAL).await;
    fixture.rename("T1", "C1", &ts(10), "lobby").await;
    site.publish(&fixture, &["--channel", "lobby"]).await;
    assert!(site.file("c/general/2026-11.html").contains("#lobby"));
    let redirect = site.file("c/lobby/index.html");
    assert!(redirect.contains("0; url=../general/index.html") && redirect.contains("noindex"), "{redirect}");
    let maps = [site.file("sitemap-site.xml"), site.file("c/general/sitemap-1.xml")].concat();
    assert!(maps.contains("/c/general/2026-11.html</loc>") && !maps.contains("lobby"), "{maps}");
    assert_links_resolve(&site);
}

#[tokio::test]
async fn pseudonyms_stay_and_no_name_or_id_is_left() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "hello <@U2> and <@U2|bob>").await;
    let pseudonyms = [GENERAL, &["--names", "pseudonym"]].concat();
    site.publish(&fixture, &pseudonyms).await;
    for name in ["ana", "bob", "U1", "U2"] {
        assert_eq!(site.with(name), [""; 0], "{name}");
    }
    let fresh = PublishedSite::new();
    fresh.publish(&fixture, &pseudonyms).await;
    assert_eq!(site.files(), fresh.files());
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_names_what_the_run_then_does() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    let planned = site.publish(&fixture, &[GENERAL, &["--dry-run"]].concat()).await;
    assert!(!site.path().exists());
    let done = site.publish(&fixture, GENERAL).await;
    let files: Vec<String> = site.files().into_keys().collect();
    assert_eq!((planned["would_write"].clone(), done["written"].clone()), (json!(files), json!(files.len())));
    fixture.delete("T1", "C1", &ts(0), &ts(10)).await;
    let before = site.files();
    let planned = site.publish(&fixture, &[GENERAL, &["--dry-run"]].concat()).await;
    assert_eq!(site.files(), before);
    assert_eq!(planned["would_delete"], json!(["c/general/2026-11.html"]));
    let done = site.publish(&fixture, GENERAL).await;
    assert_eq!((&done["written"], &done["deleted"]), (&planned["written"], &json!(1)));
}

#[tokio::test]
async fn a_check_finds_files_and_links_that_are_wrong() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    fixture.reply("T1", "C1", &ts(10), &ts(0), "a reply").await;
    site.publish(&fixture, GENERAL).await;
    let checked = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let check = [GENERAL, &["--check"]].concat();
    let well = checked(&site.run(&fixture, &check).await.unwrap());
    assert_eq!((&well["problems"], &well["checked"]), (&json!([]), &json!(site.files().len())));
    let page = site.path().join("c/general/2026-11.html");
    let content = fs::read_to_string(&page).unwrap();
    for (problem, break_it) in [
        (
            "unknown_file",
            Box::new(|| fs::write(site.path().join("added.html"), "x").unwrap()) as Box<dyn Fn()>,
        ),
        (
            "changed_file",
            Box::new(|| fs::write(&page, format!("{content}<a href=\"nowhere.html\">")).unwrap()),
        ),
        ("broken_link", Box::new(|| {})),
        (
            "hidden",
            Box::new(|| {
                fs::write(&page, format!("{content}<bdi class=\"mention\">#secret-plans</bdi>")).unwrap()
            }),
        ),
        ("missing_file", Box::new(|| fs::remove_file(&page).unwrap())),
    ] {
        break_it();
        let found = problems(&site, &fixture, &check).await;
        assert!(found.contains(&problem.to_owned()), "{problem} {found:?}");
    }
}

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

#[tokio::test]
async fn a_folder_of_something_else_and_a_second_run_are_refused() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fs::create_dir_all(site.path()).unwrap();
    fs::write(site.path().join("mine.txt"), "mine").unwrap();
    let error = site.run(&fixture, GENERAL).await.unwrap_err().to_string();
    assert!(error.contains("choose an empty folder"), "{error}");
    assert_eq!(site.files().into_keys().collect::<Vec<_>>(), ["mine.txt"]);
    assert!(!site.path().join(state::STATE_FOLDER).exists());
    fs::remove_file(site.path().join("mine.txt")).unwrap();
    let _state = SiteState::open(&site.path()).unwrap();
    let error = site.run(&fixture, GENERAL).await.unwrap_err().to_string();
    assert!(error.contains("another run"), "{error}");
}

#[tokio::test]
async fn a_run_that_is_ended_is_completed_by_the_next_one() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    fixture.reply("T1", "C1", &ts(10), &ts(0), "a reply").await;
    fixture.post("T1", "C1", &ts(-40 * 86_400), "older").await;
    let path = site.path();
    let arguments =
        ["--out", path.to_str().unwrap(), "--url", URL, "--json", "--data", "unused", "--channel", "C1"];
    let args: PublishArgs = parsed(&arguments).unwrap();
    let url = SiteUrl::parse(URL).unwrap();
    let ending = watch::channel(true).1;
    let ended = publish(&fixture.backend, &args, &path, &url, &ending).await.unwrap();
    assert!(ended.is_interrupted && site.files().is_empty());
    assert!(
        problems(&site, &fixture, &["--channel", "C1", "--check"]).await.contains(&"unfinished".to_owned())
    );
    site.publish(&fixture, GENERAL).await;
    // As a run leaves it that is killed while it writes: the path is stored, the page is still the old one.
    let state = SiteState::open(&path).unwrap();
    state
        .db()
        .execute_batch("UPDATE page SET hash = NULL WHERE month <> ''; UPDATE unit SET is_dirty = 1;")
        .unwrap();
    drop(state);
    fs::write(path.join("c/general/2026-11.html"), "old").unwrap();
    site.publish(&fixture, GENERAL).await;
    let fresh = PublishedSite::new();
    fresh.publish(&fixture, GENERAL).await;
    assert_eq!(site.files(), fresh.files());
}

#[test]
fn a_turn_is_a_number_with_a_unit() {
    for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3_600), ("1d", 86_400)] {
        assert_eq!(turn(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for refused in ["", "h", "1", "9s", "0h", "-1h", "1w", "1é", "99999999999h"] {
        assert!(turn(refused).is_err(), "{refused}");
    }
}

#[tokio::test]
async fn a_reply_moves_between_its_month_and_its_thread_when_the_root_comes_or_goes() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let month = 40 * 86_400;
    fixture.reply("T1", "C1", &ts(month), &ts(0), "a reply").await;
    for (step, is_in_thread) in [("without the root", false), ("with it", true), ("after its erasure", false)]
    {
        match step {
            "with it" => fixture.post("T1", "C1", &ts(0), "a root").await,
            "after its erasure" => fixture.erase("C1", &ts(0)).await,
            _ => {}
        }
        site.publish(&fixture, GENERAL).await;
        assert_eq!(site.path().join("c/general/2026-12.html").exists(), !is_in_thread, "{step}");
        let thread = format!("c/general/2026-11/{}.html", ts(0).replace('.', ""));
        assert_eq!(site.path().join(thread).exists(), is_in_thread, "{step}");
        let fresh = PublishedSite::new();
        fresh.publish(&fixture, GENERAL).await;
        assert_eq!(site.files(), fresh.files(), "{step}");
    }
}

/// A source of choices.
struct RandomChoices(u64);

impl RandomChoices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Makes a random change to the archive.
async fn change(fixture: &CliFixture, choices: &mut RandomChoices, clock: &mut i64) {
    *clock += 1;
    let now = format!("{}.000000", DAY + 90 * 86_400 + *clock);
    // A few times in three months, so that edits, replies and deletes meet.
    let at = |choices: &mut RandomChoices| ts(i64::try_from(choices.below(6)).unwrap() * 15 * 86_400);
    let channel = ["C1", "C1", "C1", "C2", "C3"][usize::try_from(choices.below(5)).unwrap()];
    let user = ["U1", "U2", "U3"][usize::try_from(choices.below(3)).unwrap()];
    let (one, other) = (at(choices), at(choices));
    match choices.below(17) {
        0..=2 => {
            write_as(fixture, user, channel, &one, &format!("words {clock} <@{user}> <#C3> :tada:")).await
        }
        3..=5 if one != other => {
            let subtype = if choices.below(3) == 0 { Some("thread_broadcast") } else { None };
            let reply = json!({ "user": user, "text": format!("reply {clock}"), "thread_ts": other, "subtype": subtype });
            fixture.change("T1", channel, &one, &now, reply).await;
        }
        6 => fixture.edit("T1", channel, &one, &now, &format!("edited {clock} <#C2>")).await,
        7 => fixture.delete("T1", channel, &one, &now).await,
        8 => {
            fixture
                .react(
                    "T1",
                    channel,
                    &one,
                    user,
                    ["tada", "no_entry"][usize::try_from(choices.below(2)).unwrap()],
                    &now,
                )
                .await
        }
        9 => fixture.profile("T1", user, &format!("name {}", choices.below(3)), &now).await,
        10 => fixture.rename("T1", channel, &now, &format!("name-{}", choices.below(4))).await,
        11 => fixture.erase(channel, &one).await,
        13 => {
            let at = Ts::parse(&now).unwrap();
            let scope = OptOutScope::User(UserId::parse(user).unwrap());
            let is_out = choices.below(2) == 0;
            let fact = OptOutFact { team: TeamId::parse("T1").unwrap(), scope, at, is_out, by: None };
            fixture.archive().write(&fact.update()).await.unwrap();
        }
        16 => {
            let id = ["F1", "F2"][usize::try_from(choices.below(2)).unwrap()];
            let file = json!({ "id": id, "name": "a.txt", "mimetype": "text/plain", "user": user });
            share(fixture, user, channel, &one, &file, b"bytes").await;
        }
        12 => {
            let wish = ["opt-out", "opt-in"][usize::try_from(choices.below(2)).unwrap()];
            fixture.advance();
            wish_of(fixture, &[wish, user]).await;
        }
        _ => {
            let quote = json!([{ "is_share": true, "channel_id": "C2", "author_id": "U2", "text": "quoted", "fallback": "quoted" }]);
            fixture
                .change(
                    "T1",
                    channel,
                    &one,
                    &now,
                    json!({ "user": user, "text": "look", "attachments": quote }),
                )
                .await;
        }
    }
}

async fn wish_of(fixture: &CliFixture, wish: &[&str]) {
    let command = clap::Command::new("annalist").no_binary_name(true);
    let command = <SiteOptOutCommand as clap::Subcommand>::augment_subcommands(command);
    let matches = command.try_get_matches_from([wish, &["--data", "unused"]].concat()).unwrap();
    let command = <SiteOptOutCommand as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
    let mut out = Vec::new();
    opt_outs::run(fixture.archive(), fixture.clock(), &command, &mut out).await.unwrap();
}

#[tokio::test]
async fn a_run_after_changes_gives_the_same_site_as_a_run_into_an_empty_folder() {
    for seed in 1..=3_u64 {
        let mut choices = RandomChoices(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let fixture = archive().await;
        fixture.channel("T1", "C3", "3.000000", "random").await;
        let (site, mut clock) = (PublishedSite::new(), 0);
        for round in 0..6 {
            for _ in 0..choices.below(8) {
                change(&fixture, &mut choices, &mut clock).await;
            }
            let lists: [&[&str]; 3] = [&["C1", "C3"], &["C1"], &["C1", "C2", "C3"]];
            let list = lists[usize::try_from(choices.below(8)).unwrap().min(2)];
            let mut more: Vec<&str> = list.iter().flat_map(|channel| ["--channel", channel]).collect();
            more.extend(["--opt-out-emoji", "no_entry", "--files", "all"]);
            if choices.below(2) == 0 {
                site.publish_until(&fixture, &more, choices.below(60)).await;
            }
            site.publish(&fixture, &more).await;
            let fresh = PublishedSite::new();
            fresh.publish(&fixture, &more).await;
            let (now, expected) = (site.files(), fresh.files());
            let differ: Vec<&String> = now
                .keys()
                .chain(expected.keys())
                .filter(|path| now.get(*path) != expected.get(*path))
                .collect();
            if let Some(path) = differ.first() {
                panic!(
                    "seed {seed}, round {round}: {differ:?}\n{:#?}\nis not\n{:#?}",
                    now.get(*path),
                    expected.get(*path)
                );
            }
            assert_links_resolve(&site);
        }
    }
}

#[tokio::test]
async fn files_are_on_the_site_while_a_page_shows_them() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let file = |id: &str, name: &str, mimetype: &str, user: &str| json!({ "id": id, "name": name, "mimetype": mimetype, "user": user });
    let hostile = file("F1", "../../../../etc/cron.d/x.html", "image/png", "U1");
    share(&fixture, "U1", "C1", &ts(0), &hostile, PICTURE).await;
    fixture.reply("T1", "C1", &ts(5), &ts(0), "a reply").await;
    share(&fixture, "U2", "C1", &ts(10), &file("F2", "notes.txt", "text/plain", "U2"), b"notes of bob").await;
    share(&fixture, "U1", "C2", &ts(20), &file("F3", "plans.txt", "text/plain", "U1"), b"secret plans").await;
    share(&fixture, "U1", "C1", &ts(30), &file("F4", "page.html", "text/html", "U1"), b"<script>").await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
    assert!(site.file("c/general/2026-11.html").contains("notes.txt"));
    let all = [GENERAL, &["--files", "all"]].concat();
    let planned = site.publish(&fixture, &[&all[..], &["--dry-run"]].concat()).await;
    assert!(planned["would_write"].as_array().unwrap().contains(&json!("files/F1.png")), "{planned}");
    assert_eq!(site.copies(), [""; 0]);
    let summary = site.publish(&fixture, &all).await;
    assert_eq!(site.copies(), ["files/F1.png", "files/F2.txt", "files/F4.bin"]);
    assert_eq!((&summary["written"], &summary["files"]), (&planned["written"], &json!(site.files().len())));
    assert_eq!(fs::read(site.path().join("files/F1.png")).unwrap(), PICTURE);
    let page = site.file("c/general/2026-11.html");
    assert!(
        page.contains("<img src=\"../../files/F1.png\"") && page.contains("\"../../files/F2.txt\""),
        "{page}"
    );
    let thread = site.file(&format!("c/general/2026-11/{}.html", ts(0).replace('.', "")));
    assert!(thread.contains("<img src=\"../../../files/F1.png\""), "{thread}");
    assert_links_resolve(&site);
    let check = [&all[..], &["--check"]].concat();
    site.run(&fixture, &check).await.unwrap();
    assert_eq!(site.publish(&fixture, &all).await["written"], 0);
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    site.publish(&fixture, &all).await;
    assert_eq!(site.copies(), ["files/F1.png", "files/F4.bin"]);
    fixture.delete("T1", "C1", &ts(0), &ts(40)).await;
    let summary = site.publish(&fixture, &all).await;
    assert_eq!((site.copies(), &summary["deleted"]), (vec!["files/F4.bin".to_owned()], &json!(1)));
    let fresh = PublishedSite::new();
    fresh.publish(&fixture, &all).await;
    assert_eq!(site.files(), fresh.files());
    fs::write(site.path().join("files/F4.bin"), "changed").unwrap();
    assert_eq!(problems(&site, &fixture, &check).await, ["changed_file"]);
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
}

#[tokio::test]
async fn pictures_are_on_the_site_only_if_they_are_wanted_and_not_of_a_hidden_person() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let user = UserId::parse("U1").unwrap();
    let pictured = async |url: &str, clock: &str| {
        let profile = json!({ "display_name": "ana", "image_192": url });
        let event = json!({ "type": "user_change", "event_ts": clock, "user": { "id": "U1", "name": "ana", "profile": profile } });
        fixture.write("T1", &event).await;
        store_picture(&fixture, ImageOwner::User(user.clone()), url).await
    };
    let first = pictured("https://a.test/1.png", &ts(0)).await;
    let parrot = "https://a.test/parrot.png";
    let event = json!({ "type": "emoji_changed", "subtype": "add", "name": "parrot", "value": parrot, "event_ts": ts(0) });
    fixture.write("T1", &event).await;
    let parrot = store_picture(&fixture, ImageOwner::Emoji("parrot".to_owned()), parrot).await;
    write_as(&fixture, "U1", "C1", &ts(10), "words :parrot:").await;
    site.publish(&fixture, GENERAL).await;
    assert_eq!(site.copies(), [""; 0]);
    site.publish(&fixture, &[GENERAL, &["--files", "all"]].concat()).await;
    assert_eq!(site.copies(), [parrot]);
    let avatars = [GENERAL, &["--avatars"]].concat();
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [first.as_str()]);
    assert!(site.file("c/general/2026-11.html").contains(&format!("class=\"avatar\" src=\"../../{first}\"")));
    assert_links_resolve(&site);
    let second = pictured("https://a.test/2.png", &ts(20)).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [second.as_str()]);
    fixture.advance();
    wish_of(&fixture, &["opt-out", "U1", "--keep-text"]).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [""; 0]);
    fixture.advance();
    wish_of(&fixture, &["opt-in", "U1"]).await;
    site.publish(&fixture, &avatars).await;
    assert_eq!(site.copies(), [second]);
    let error = site.run(&fixture, &[&avatars[..], &["--names", "pseudonym"]].concat()).await.unwrap_err();
    assert!(error.is::<UsageError>() && error.to_string().contains("--avatars"), "{error}");
}

#[tokio::test]
async fn a_thread_is_rendered_again_only_if_what_it_shows_has_changed() {
    const THREADS: u64 = 40;
    let (fixture, site) = (archive().await, PublishedSite::new());
    let root = |thread: u64| ts(i64::try_from(thread).unwrap() * 10);
    for thread in 0..THREADS {
        fixture.post("T1", "C1", &root(thread), "a root").await;
        let at = ts(i64::try_from(thread).unwrap() * 10 + 1);
        fixture.reply("T1", "C1", &at, &root(thread), "a reply to <@U2>").await;
    }
    let all = site.outcome(&fixture).await.counts.rendered;
    fixture.reply("T1", "C1", &ts(5_000), &root(7), "a late reply").await;
    fixture.edit("T1", "C1", &root(8), &ts(5_001), "another root").await;
    let changed = site.outcome(&fixture).await.counts;
    assert_eq!(changed.rendered, all - THREADS + 2);
    let threads = changed.written.iter().filter(|path| path.starts_with("c/general/2026-11/")).count();
    assert_eq!(threads, 2);
    fixture.profile("T1", "U2", "robert", &ts(5_002)).await;
    assert_eq!(site.outcome(&fixture).await.counts.rendered, all);
    let fresh = PublishedSite::new();
    fresh.outcome(&fixture).await;
    assert_eq!(site.files(), fresh.files());
}

#[tokio::test]
async fn a_site_of_the_previous_version_is_brought_up_to_date() {
    let fixture = archive().await;
    fixture.post("T1", "C1", &ts(0), "a root").await;
    for (version, added) in
        [(1, &["tags", "messages", "older", "newer"][..]), (2, &["messages", "older", "newer"])]
    {
        let site = PublishedSite::new();
        site.outcome(&fixture).await;
        let state = SiteState::open(&site.path()).unwrap();
        for column in added {
            state.db().execute_batch(&format!("ALTER TABLE page DROP COLUMN {column}")).unwrap();
        }
        state.db().pragma_update(None, "user_version", version).unwrap();
        drop(state);
        fixture.reply("T1", "C1", &ts(version), &ts(0), "a reply").await;
        assert!(!site.outcome(&fixture).await.counts.written.is_empty());
        let fresh = PublishedSite::new();
        fresh.outcome(&fixture).await;
        assert_eq!(site.files(), fresh.files());
    }
}

/// A channel with a page for each of five days.
async fn busy_month() -> CliFixture {
    let fixture = archive().await;
    for day in 0..5 {
        let times: Vec<String> = (0..400).map(|message| ts(day * 86_400 + message)).collect();
        fixture.post_all("T1", "C1", &times).await;
    }
    fixture
        .post_all("T1", "C1", &(0..200).map(|message| ts(20 * 86_400 + message)).collect::<Vec<_>>())
        .await;
    fixture
}

#[tokio::test]
async fn a_day_of_a_busy_month_is_read_again_only_if_its_page_may_have_changed() {
    let (fixture, site) = (busy_month().await, PublishedSite::new());
    site.watched(&fixture).await;
    let day = 86_400;
    let late = ts(2 * day + 5_000);
    let (early_root, orphan) = (ts(-10), ts(4 * day + 5_000));
    let months = ["2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24", "2026-12"];
    for (step, pages) in [
        ("a message", &["2026-11-22"][..]),
        ("an edit", &["2026-11-22"]),
        ("a reply on another day", &["2026-11-20"]),
        ("a new day", &["2026-11-24", "2026-11-26"]),
        ("the new day without its message", &["2026-11-24"]),
        ("a reply without its root", &["2026-11-24"]),
        ("its root", &["2026-11-19", "2026-11-20", "2026-11-24"]),
        ("its root is gone", &["2026-11-20", "2026-11-24"]),
        ("another name", &months),
    ] {
        match step {
            "a message" => fixture.post("T1", "C1", &late, "new words").await,
            "an edit" => fixture.edit("T1", "C1", &late, &ts(90 * day), "other words").await,
            "a reply on another day" => {
                fixture.reply("T1", "C1", &ts(3 * day + 5_000), &ts(5), "a late reply").await
            }
            "a new day" => fixture.post("T1", "C1", &ts(6 * day), "words").await,
            "the new day without its message" => {
                fixture.delete("T1", "C1", &ts(6 * day), &ts(91 * day)).await
            }
            "a reply without its root" => fixture.reply("T1", "C1", &orphan, &early_root, "a reply").await,
            "its root" => fixture.post("T1", "C1", &early_root, "a root").await,
            "its root is gone" => fixture.erase("C1", &early_root).await,
            _ => fixture.rename("T1", "C1", &ts(92 * day), "lobby").await,
        }
        let (counts, rows) = site.watched(&fixture).await;
        let written: Vec<&str> = counts
            .written
            .iter()
            .filter_map(|path| path.strip_prefix("c/general/")?.strip_suffix(".html"))
            .filter(|page| !page.contains('/') && !["index", "2026-11"].contains(page))
            .collect();
        assert_eq!(written, pages, "{step}");
        // A page has 400 messages, and a feed reads as many rows again. The month has more than 2,000.
        // The reply leaves its day unchanged, and comes back to a page that was read before.
        let again = ["a reply on another day", "its root is gone"].contains(&step);
        let changed = pages.len() + usize::from(again);
        assert!(pages == months || rows <= (changed + 1) * 420, "{step}: {rows} rows were read");
        let fresh = PublishedSite::new();
        fresh.watched(&fixture).await;
        assert!(site.files() == fresh.files(), "{step}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_run_syncs_batches_and_not_each_file() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    for thread in 0..40 {
        fixture.post("T1", "C1", &ts(thread * 10), "a root").await;
        fixture.reply("T1", "C1", &ts(thread * 10 + 1), &ts(thread * 10), "a reply").await;
    }
    let counts = site.outcome(&fixture).await.counts;
    // One before the files get their names and one after it, for the months, the channel and the site.
    assert_eq!((counts.syncs, counts.written.len() > 40), (6, true));
    assert_eq!(site.outcome(&fixture).await.counts.syncs, 0);
}

/// A program that is called as Pagefind is. Its fragments are the pages, and its index changes with each run.
#[cfg(unix)]
const FAKE_PAGEFIND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/publish/fake_pagefind.sh");

#[cfg(unix)]
#[tokio::test]
async fn a_part_of_the_search_is_made_again_only_if_one_of_its_pages_changed() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    let year = -365 * 86_400;
    fixture.post("T1", "C1", &ts(0), "new words").await;
    fixture.post("T1", "C1", &ts(1), "erased words").await;
    fixture.post("T1", "C1", &ts(year), "old words").await;
    write_as(&fixture, "U2", "C1", &ts(2), "words of bob").await;
    let search = ["--channel", "general", "--pagefind", FAKE_PAGEFIND];
    let planned = site.publish(&fixture, &[&search[..], &["--dry-run"]].concat()).await;
    assert!(planned["would_write"].as_array().unwrap().contains(&json!("search/2026/")), "{planned}");
    let summary = site.publish(&fixture, &search).await;
    assert_eq!((&summary["search"], &summary["files"]), (&json!("built"), &json!(site.files().len())));
    assert_eq!(site.file("search/parts.json"), r#"["2026","2025"]"#);
    assert!(site.file("c/general/2026-11.html").contains("action=\"../../search/index.html\""));
    assert!(site.file("sitemap-site.xml").contains("search/index.html</loc>"));
    assert!(!site.path().join("search/2026/pagefind-ui.js").exists(), "no page needs it");
    assert_links_resolve(&site);
    site.run(&fixture, &[&search[..], &["--check"]].concat()).await.unwrap();
    let again = site.publish(&fixture, &search).await;
    assert_eq!((&again["search"], &again["written"]), (&json!("unchanged"), &json!(0)));
    let run_of = |part: &str| site.file(&format!("search/{part}/index/run.pf_index"));
    let before = [run_of("2025"), run_of("2026")];
    fixture.erase("C1", &ts(1)).await;
    fixture.advance();
    wish_of(&fixture, &["opt-out", "bob"]).await;
    site.publish(&fixture, &search).await;
    assert_eq!(before[0], run_of("2025"));
    assert_ne!(before[1], run_of("2026"));
    for absent in ["erased words", "words of bob"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    fixture.delete("T1", "C1", &ts(year), &ts(10)).await;
    site.publish(&fixture, &search).await;
    assert!(!site.path().join("search/2025").exists());
    assert_eq!(site.file("search/parts.json"), r#"["2026"]"#);
    let without = site.publish(&fixture, &["--channel", "general", "--search", "off"]).await;
    assert_eq!(without["search"], "off");
    assert!(!site.path().join("search").exists());
    assert!(!site.file("c/general/2026-11.html").contains("role=\"search\""));
    assert!(!site.path().join(".annalist/stage").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_site_is_complete_without_a_search_that_fails_or_is_missing() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    fixture.post("T1", "C1", &ts(0), "words").await;
    let missing = ["--channel", "general", "--pagefind", "/no/such/program"];
    let error =
        site.run(&fixture, &[&missing[..], &["--search", "on"]].concat()).await.unwrap_err().to_string();
    assert!(error.contains("--search off") && !site.path().exists(), "{error}");
    assert_eq!(site.publish(&fixture, &missing).await["search"], "missing");
    let search = ["--channel", "general", "--pagefind", FAKE_PAGEFIND];
    site.publish(&fixture, &search).await;
    fixture.post("T1", "C1", &ts(1), "this fails Pagefind").await;
    for _ in 0..2 {
        let error = site.run(&fixture, &search).await.unwrap_err().to_string();
        assert!(error.contains("2026: too many words"), "{error}");
        assert!(site.file("c/general/2026-11.html").contains("this fails"));
        assert!(!site.path().join("search/2026").exists());
        assert_eq!(site.file("search/parts.json"), "[]");
    }
    fixture.erase("C1", &ts(1)).await;
    assert_eq!(site.publish(&fixture, &search).await["search"], "built");
    assert_eq!(site.file("search/parts.json"), r#"["2026"]"#);
}

#[tokio::test]
async fn who_is_out_of_the_archive_is_out_of_the_site_without_another_command() {
    let (fixture, site) = (archive().await, PublishedSite::new());
    write_as(&fixture, "U2", "C1", &ts(0), "words of bob").await;
    write_as(&fixture, "U1", "C1", &ts(60), "ask <@U2|bob>").await;
    write_as(&fixture, "U1", "C2", &ts(70), "words in secret-plans").await;
    let both = ["--channel", "C1", "--channel", "C2"];
    site.publish(&fixture, &both).await;
    let before = site.files();
    let team = TeamId::parse("T1").unwrap();
    let out = async |scope: OptOutScope, second: i64, is_out: bool| {
        let at = Ts::parse(&ts(second)).unwrap();
        let fact = OptOutFact { team: team.clone(), scope, at, is_out, by: None };
        fixture.archive().write(&fact.update()).await.unwrap();
    };
    let user = OptOutScope::User(UserId::parse("U2").unwrap());
    let channel = OptOutScope::Channel(ChannelId::parse("C2").unwrap());
    out(user.clone(), 100, true).await;
    out(channel.clone(), 100, true).await;
    let summary = site.publish(&fixture, &both).await;
    assert_eq!(summary["people_hidden"], 1);
    assert_eq!(summary["refused"], json!([{ "channel": "C2", "reason": "opted_out" }]));
    for absent in ["bob", "secret-plans"] {
        assert_eq!(site.with(absent), [""; 0], "{absent}");
    }
    out(user, 200, false).await;
    out(channel, 200, false).await;
    site.publish(&fixture, &both).await;
    assert_eq!(site.files(), before);
}
