//! What the commands of docs/keep.md refuse: in one line, with nothing stored.

use std::path::Path;

use embedded::DATABASE_FILE;
use testkit::corpus::event;
use tests::harness::client::deliver_through_up;
use tests::harness::command::{annalist_at, wait_until_idle};

const DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);

/// All rows of an archive.
fn rows(data: &Path) -> Vec<(String, String, String)> {
    let connection = rusqlite::Connection::open(data.join(DATABASE_FILE)).unwrap();
    let mut select =
        connection.prepare("SELECT item_id, timestamp, attributes FROM items ORDER BY 1, 2").unwrap();
    let rows = select.query_map([], |row| row.try_into()).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_input_is_one_line_and_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let data = folder.path().join("data");
    let message = event::posted("C1", &event::message("1700000000.000100", "U1", "hello"));
    deliver_through_up(&*data, "T1", &[message], async { drop(wait_until_idle(&*data, DEADLINE).await) })
        .await;
    let (copies, empty, foreign, within) = (at("copies"), at("empty"), at("foreign"), at("data/copies"));
    for folder in [&copies, &empty, &foreign] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(Path::new(&foreign).join("copy.json"), r#"{"format":1,"archive":"of another"}"#).unwrap();
    annalist_at(&*data, &["copy", "--to", &copies]).await.succeeded();
    let before = rows(&data);
    let (unmounted, out) = (at("unmounted"), at("out"));
    let refused: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["files", "--files", "s3://"], 2, "s3://BUCKET"),
        (vec!["files", "--files", "ftp://host/x"], 2, "s3://BUCKET"),
        (vec!["files", "move"], 2, "--files s3://BUCKET"),
        (vec!["files", "move", "--to", "elsewhere"], 2, "folder"),
        (vec!["copy", "--to", "s3://"], 2, "s3://BUCKET"),
        (vec!["copy", "--to", "ftp://host/x"], 2, "s3://BUCKET"),
        (vec!["copy", "--to", &within], 2, "another disk"),
        (vec!["copy", "--to", &copies, "--copy-keep", "7"], 2, "7d"),
        (vec!["copy"], 2, "--to"),
        (vec!["up", "--copy-to", &within], 2, "another disk"),
        (vec!["up", "--copy-to", &copies, "--copy-keep", "0d"], 2, "1d"),
        (vec!["up", "--nightly-at", "25:00"], 2, "03:00"),
        (vec!["verify", "--copy", &empty], 1, "1 problem"),
        (vec!["retain", "set", "C1", "0d"], 2, "90d"),
        (vec!["retain", "set", "C1", "90"], 2, "90d"),
        (vec!["retain", "set", "C1", "forever1"], 2, "90d"),
        (vec!["retain", "set", "C9", "90d", "--yes"], 1, "C9"),
        (vec!["retain", "unset", "C9", "--yes"], 1, "C9"),
        (vec!["hold", "set", "--user", "U1"], 2, "--reason"),
        (vec!["hold", "set", "--reason", "case 12"], 2, "--user"),
        (
            vec!["hold", "set", "--workspace", "--from", "2026-11-20", "--to", "2026-11-10", "--reason", "a"],
            2,
            "--from",
        ),
        (vec!["hold", "set", "--user", "@nemo", "--reason", "case 12"], 1, "nemo"),
        (vec!["hold", "release", "00000000", "--reason", "over"], 1, "00000000"),
        (vec!["optout", "add"], 2, "--user"),
        (vec!["optout", "add", "--channel", "C9"], 1, "C9"),
        (vec!["optout", "remove", "--user", "U1"], 1, "U1"),
        (vec!["export", "--format", "html", "--out", &out, "--user", "U1"], 2, "jsonl"),
        (vec!["reconcile", "--nightly"], 1, "SLACK_BOT_TOKEN"),
    ];
    let mut wrong = Vec::new();
    let mut check = async |data: &Path, arguments: &[&str], code: i32, expected: &str| {
        let output = annalist_at(data, arguments).await;
        let is_line = output.stderr.lines().count() == 1 && output.stderr.contains(expected);
        if output.code != Some(code) || !is_line {
            wrong.push(format!(
                "{arguments:?}: {:?}, not {code} with {expected:?}: {}",
                output.code, output.stderr
            ));
        }
    };
    for (arguments, code, expected) in &refused {
        check(&data, arguments, *code, expected).await;
    }
    assert_eq!(rows(&data), before, "a refused command stored something");
    // The attempts to copy are recorded.
    for (to, expected) in [(&unmounted, "does not exist"), (&foreign, "another archive")] {
        check(&data, &["copy", "--to", to], 1, expected).await;
    }
    let new = folder.path().join("new");
    for (arguments, code, expected) in [
        (vec!["restore", &*empty], 1, "it has no copy"),
        (vec!["restore", &copies, "--until", "2000-01-01"], 1, "its first copy is"),
        (vec!["restore", &copies, "--until", "yesterday"], 2, "2026-11-20"),
        (vec!["restore", "ftp://host/x"], 2, "s3://BUCKET"),
    ] {
        check(&new, &arguments, code, expected).await;
    }
    assert!(!new.exists());
    check(&data, &["restore", &copies], 1, "is not empty").await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
