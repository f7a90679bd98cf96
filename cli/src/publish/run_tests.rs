//! Runs: what one leaves to the next, what it refuses, and what it checks.

use ports::archive::{Guard, ItemKey, Update};

use super::*;
use crate::blocking::with_archive;

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
    let path = site.path();
    let words = ["--out", path.to_str().unwrap(), "--url", URL, "--data", "unused", "--search", "off"];
    let args: PublishArgs = parsed(&[&words[..], &check].concat()).unwrap();
    let said = output(async |out| run(&fixture.backend, &args, out).await).await.unwrap();
    assert_eq!(said, format!("{} files: nothing is wrong.\n", site.files().len()));
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
async fn an_archive_whose_files_are_in_a_bucket_asks_for_the_flag_of_a_run() {
    let fixture = CliFixture::open().await;
    let guard =
        Guard::Unchanged { register: "store".to_owned(), expected: None, version: "s3://b/x".to_owned() };
    fixture.archive().write(&Update { guard, ..Update::new(ItemKey::archive_files()) }).await.unwrap();
    let error = with_archive(&fixture.data(), async |_| Ok(())).await.unwrap_err();
    assert!(error.to_string().contains("set --files s3://b/x"), "as other commands say: {error}");
    let error = with_own_flag(error).to_string();
    assert!(error.contains("set --files-in s3://b/x (ANNALIST_FILES)"), "{error}");
    assert_eq!(with_own_flag(anyhow::anyhow!("another")).to_string(), "another");
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
async fn a_site_of_the_previous_version_is_brought_up_to_date() {
    const FORMER_USES: &str = "CREATE TABLE former (tag TEXT, channel TEXT, month TEXT, PRIMARY KEY (tag, channel, month)) WITHOUT ROWID;
        INSERT INTO former SELECT tag, channel, month FROM uses; DROP TABLE uses; ALTER TABLE former RENAME TO uses;
        CREATE INDEX uses_by_unit ON uses (channel, month)";
    let fixture = archive().await;
    fixture.post("T1", "C1", &ts(0), "a root").await;
    for (version, added) in
        [(1, &["tags", "messages", "older", "newer"][..]), (2, &["messages", "older", "newer"]), (3, &[])]
    {
        let site = PublishedSite::new();
        site.outcome(&fixture).await;
        let state = SiteState::open(&site.path()).unwrap();
        state.db().execute_batch(FORMER_USES).unwrap();
        for column in added {
            state.db().execute_batch(&format!("ALTER TABLE page DROP COLUMN {column}")).unwrap();
        }
        state.db().pragma_update(None, "user_version", version).unwrap();
        drop(state);
        // A name that only a page of an earlier run shows, and a message.
        fixture.profile("T1", "U1", &format!("ann{version}"), &ts(version)).await;
        assert!(!site.outcome(&fixture).await.counts.written.is_empty());
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
