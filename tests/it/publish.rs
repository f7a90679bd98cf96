//! Kills real runs of `annalist publish` at random moments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::harness::binaries::binaries;
use tests::harness::command::annalist_with;
use tokio::process::Command;
use tokio::time::sleep;

use crate::import::export::{Export, ImportFolder, exported_message};
use crate::import::import;

const KILLS: usize = 20;

/// The first of the months, in seconds since the Unix epoch: 2026-08-01.
const FIRST_MONTH_S: u32 = 1_785_542_400;
const MONTH_S: u32 = 31 * 86_400;

/// Three channels with threads in four months.
fn archive() -> Export {
    let channels = [("C1", "alpha"), ("C2", "beta"), ("C3", "gamma")];
    let mut export = Export::with_lists(&["U1", "U2"], &channels);
    for (_, name) in channels {
        for month in 0..4 {
            let messages: Vec<Value> = (0..30)
                .flat_map(|number| {
                    let ts = |second: u32| {
                        format!("{}.000100", FIRST_MONTH_S + month * MONTH_S + number * 60 + second)
                    };
                    let mut root = exported_message(&ts(0), "U1", &format!("question {number} of {name}"));
                    let mut reply = exported_message(&ts(1), "U2", "an answer");
                    for message in [&mut root, &mut reply] {
                        message["thread_ts"] = ts(0).into();
                    }
                    root["reply_count"] = 1.into();
                    [root, reply]
                })
                .collect();
            export = export.with(&format!("{name}/2026-{:02}-01.json", 8 + month), &json!(messages));
        }
    }
    export
}

/// The arguments of a run whose pages all differ from those of a run with another title.
fn publish<'a>(site: &'a Path, data: &'a Path, title: &'a str) -> Vec<&'a str> {
    let [out, data] = [site, data].map(|path| path.to_str().unwrap());
    let address = "https://chat.example.org/";
    vec![
        "publish",
        "--all-public",
        "--out",
        out,
        "--url",
        address,
        "--title",
        title,
        "--search",
        "off",
        "--data",
        data,
    ]
}

/// The files of a site, without its state.
fn files(site: &Path) -> BTreeMap<String, Vec<u8>> {
    fn read(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path != root.join(".annalist") {
                    read(root, &path, found);
                }
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    if site.exists() {
        read(site, site, &mut found);
    }
    found
}

#[tokio::test]
async fn a_run_that_is_killed_leaves_whole_files_and_the_next_one_completes_the_site() {
    let import_folder = ImportFolder::new();
    let data = import_folder.data();
    let zip = import_folder.zip("acme.zip", &archive());
    assert_eq!(import(&zip, &data).await.code, Some(0));
    let sites = tempfile::tempdir().unwrap();
    let (site, mut expected, mut longest) = (sites.path().join("site"), Vec::new(), Duration::ZERO);
    for title in ["one", "other"] {
        let fresh = sites.path().join(title);
        let began = Instant::now();
        annalist_with(&publish(&fresh, &data, title), &[]).await.succeeded();
        longest = longest.max(began.elapsed());
        expected.push((title, files(&fresh)));
    }
    assert!(
        expected[0].1.len() > 300 && expected[0].1.iter().all(|(path, _)| expected[1].1.contains_key(path))
    );
    let mut random = fastrand::Rng::with_seed(20_261_127);
    let mut ended_by_itself = 0;
    for kill in 0..KILLS {
        let (title, _) = &expected[kill % 2];
        let mut run = Command::new(&binaries().annalist);
        run.args(publish(&site, &data, title)).env_clear().stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.kill_on_drop(true).spawn().unwrap();
        // This tests the moment itself: there is no signal to wait for.
        sleep(longest.mul_f64(random.f64())).await;
        run.start_kill().unwrap();
        ended_by_itself += usize::from(run.wait().await.unwrap().success());
        for (path, content) in files(&site) {
            let is_whole = expected.iter().any(|(_, files)| files.get(&path) == Some(&content));
            assert!(is_whole, "after kill {kill}, {path} has {} bytes that no run wrote", content.len());
        }
    }
    assert!(ended_by_itself < KILLS, "every run ended before it was killed");
    let (title, complete) = &expected[0];
    annalist_with(&publish(&site, &data, title), &[]).await.succeeded();
    assert!(files(&site) == *complete, "the site is not that of a run into an empty folder");
    annalist_with(&[&publish(&site, &data, title)[..], &["--check"]].concat(), &[]).await.succeeded();
}
