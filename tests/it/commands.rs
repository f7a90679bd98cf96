//! Bad input for every command, on the real binaries: one line of advice, the right exit code, and no partial
//! output.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use embedded::DATABASE_FILE;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::corpus::{TEAM, event};
use tests::harness::binaries::binaries;
use tests::harness::client::deliver;
use tests::harness::command::{annalist, annalist_at, annalist_with, json_lines, run, wait_until_idle};
use tests::harness::process::{self, SIGNING_SECRET};

const CHANNEL: &str = "C0GENERAL";
const ROOT: &str = "1700000000.000100";
/// Every command that reads an archive.
const READERS: [&[&str]; 14] = [
    &["channels"],
    &["channel", CHANNEL],
    &["channel", "#general", "--history"],
    &["files"],
    &["gaps"],
    &["messages", CHANNEL],
    &["messages", "#general"],
    &["thread", CHANNEL, ROOT],
    &["revisions", CHANNEL, ROOT],
    &["users"],
    &["status"],
    &["quarantine", "list"],
    &["quarantine", "show", "x"],
    &["quarantine", "drop", "x"],
];

/// A folder with a thread of two messages in a channel with a known name.
async fn archive() -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let up = process::up(data.path()).await;
    let root = event::reply(ROOT, ROOT, "U0FIRST", "root");
    let reply = event::reply("1700000001.000100", ROOT, "U0SECOND", "reply");
    let created = event::channel_created(CHANNEL, "general", "1699999999.000100");
    let posted = [root, reply].map(|message| event::posted(CHANNEL, &message));
    deliver(up.address, TEAM, &[&posted[..], &[created]].concat()).await;
    wait_until_idle(data.path(), Duration::from_secs(30)).await;
    up.process.stop().await;
    data
}

fn path(data: &Path) -> &str {
    data.to_str().unwrap()
}

#[tokio::test]
async fn a_missing_entity_is_one_line_and_exit_2() {
    let data = archive().await;
    let long_name = "x".repeat(10_000);
    for (args, expected) in [
        (&["messages", "C0UNKNOWN"][..], "no channel C0UNKNOWN"),
        (&["messages", "#genral"], "did you mean #general?"),
        (&["messages", "nothing"], "annalist channels"),
        (&["messages", ""], "no channel"),
        (&["messages", "#"], "no channel #"),
        (&["messages", "#general", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["channel", "C0UNKNOWN"], "no channel C0UNKNOWN"),
        (&["channel", "#unknown", "--history"], "no channel #unknown"),
        (&["channel", &long_name], "no channel xxx"),
        (&["channel", "a\nb\u{1b}[2J"], "no channel a"),
        (&["channels", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["files", "#unknown"], "no channel #unknown"),
        (&["files", "C0UNKNOWN"], "no channel C0UNKNOWN"),
        (&["files", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["gaps", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["messages", "../../etc/passwd"], "no channel ../../etc/passwd"),
        (&["messages", "a\nb\u{1b}[2J"], "no channel a"),
        (&["messages", &long_name], "no channel xxx"),
        (&["messages", CHANNEL, "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["thread", "C0UNKNOWN", ROOT], "no channel C0UNKNOWN"),
        (&["thread", CHANNEL, "9.000000"], "no message 9.000000"),
        (&["revisions", "C0UNKNOWN", ROOT], "no channel C0UNKNOWN"),
        (&["revisions", CHANNEL, "9.000000"], "no message 9.000000"),
        (&["users", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["report", "--channel", "#unknown"], "no channel #unknown"),
        (&["report", "--user", "stranger"], "no person is called stranger"),
        (&["report", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&["search", "from:@nobody"], "no person is called @nobody"),
        (&["search", "--team", "T0UNKNOWN", "word"], "T0UNKNOWN"),
    ] {
        for json in [&[][..], &["--json"]] {
            let args = [args, json, &["--data", path(data.path())]].concat();
            annalist(&args).await.assert_refused(2, expected);
        }
    }
    let target = tempfile::tempdir().unwrap();
    let (folder, site) = (target.path().join("out"), ["--url", "https://example.org/", "--search", "off"]);
    let (export, publish) = (["export", "--format", "jsonl"], [&["publish"][..], &site].concat());
    for (command, arguments, expected) in [
        (&export[..], &["--channel", "#unknown"][..], "no channel #unknown"),
        (&export, &["--team", "T0UNKNOWN"], "T0UNKNOWN"),
        (&export, &["--user", "@nobody"], "no person is called @nobody"),
        (&publish, &["--channel", "#unknown"], "no channel #unknown"),
        (&publish, &["--all-public", "--team", "T0UNKNOWN"], "T0UNKNOWN"),
    ] {
        let args = [command, arguments, &["--out", path(&folder), "--data", path(data.path())]].concat();
        annalist(&args).await.assert_refused(2, expected);
    }
    for unknown in [["--channel", "#unknown"], ["--user", "@nobody"]] {
        let args = [&["erase"][..], &unknown, &["--data", path(data.path())]].concat();
        annalist(&args).await.assert_refused(2, unknown[1]);
    }
    let empty = ["report", "--from", "2026-11-20", "--to", "2026-11-20", "--data", path(data.path())];
    annalist(&empty).await.assert_refused(2, "--to is exclusive");
    for command in ["show", "drop", "replay"] {
        for id in ["nothing", "", "x#y", "a\nb"] {
            let outcome = annalist(&["quarantine", command, id, "--data", path(data.path())]).await;
            outcome.assert_refused(1, "quarantine list");
        }
    }
}

#[tokio::test]
async fn an_archived_entity_is_printed_and_exit_0() {
    let data = archive().await;
    let texts = |rows: Vec<Value>| rows.iter().map(|row| row["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(json_lines(data.path(), &["messages", CHANNEL]).await), ["root", "reply"]);
    assert_eq!(texts(json_lines(data.path(), &["thread", CHANNEL, ROOT]).await), ["root", "reply"]);
    assert_eq!(texts(json_lines(data.path(), &["messages", CHANNEL, "--limit", "1"]).await), ["reply"]);
    for channel in ["#general", "general", "#General", CHANNEL] {
        assert_eq!(
            texts(json_lines(data.path(), &["messages", channel]).await),
            ["root", "reply"],
            "{channel}"
        );
        assert_eq!(
            texts(json_lines(data.path(), &["thread", channel, ROOT]).await),
            ["root", "reply"],
            "{channel}"
        );
        let history = json_lines(data.path(), &["channel", channel, "--history"]).await;
        assert!(history.len() == 1 && history[0]["name"] == "general", "{history:?}");
        assert_eq!(json_lines(data.path(), &["channel", channel]).await, history);
    }
    let index = json_lines(data.path(), &["channels"]).await;
    let general =
        json!({ "channel_id": CHANNEL, "name": "general", "team_id": TEAM, "visibility": "public" });
    assert_eq!(index, [general]);
    assert!(json_lines(data.path(), &["revisions", CHANNEL, ROOT]).await.is_empty());
    assert!(json_lines(data.path(), &["quarantine", "list"]).await.is_empty());
    let text = annalist(&["messages", CHANNEL, "--data", path(data.path())]).await;
    assert!(text.code == Some(0) && text.stdout.contains("root") && text.stderr.is_empty(), "{text:?}");
}

#[tokio::test]
async fn output_has_local_times_and_arguments_may_be_links() {
    let data = archive().await;
    let with = async |args: &[&str], tz: &str| {
        let args = [args, &["--data", path(data.path())]].concat();
        let outcome = annalist_with(&args, &[("TZ", tz)]).await;
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:?}");
        outcome.stdout
    };
    let text = "Times are in America/New_York.\n2023-11-14 17:13:20  1700000000.000100  U0FIRST (1 reply)\n    root\n    \
        2023-11-14 17:13:21  1700000001.000100  U0SECOND\n        reply\n";
    assert_eq!(with(&["messages", "general"], "America/New_York").await, text);
    assert_eq!(with(&["messages", "general", "--tz", "America/New_York"], "Asia/Tokyo").await, text);
    let utc = with(&["messages", "general", "--flat"], "").await;
    assert!(utc.contains("Times are in UTC.") && utc.contains("2023-11-14 22:13:20"), "{utc}");
    assert!(utc.contains("(in thread 1700000000.000100)"), "{utc}");
    let link = "https://example.slack.com/archives/C0GENERAL/p1700000001000100?thread_ts=1700000000.000100&cid=C0GENERAL";
    let thread = with(&["thread", "general", ROOT], "UTC").await;
    assert!(thread.contains("root") && thread.contains("reply"), "{thread}");
    assert_eq!(with(&["thread", link], "UTC").await, thread);
    assert_eq!(with(&["thread", CHANNEL, "p1700000000000100"], "UTC").await, thread);
    assert_eq!(with(&["messages", link], "UTC").await, with(&["messages", CHANNEL], "UTC").await);
    let reply = with(
        &["messages", CHANNEL, "--since", "2023-11-14T22:13:21", "--until", "2023-11-15", "--json"],
        "UTC",
    );
    assert!(reply.await.lines().all(|line| line.contains("1700000001.000100")));
    let nothing = with(&["messages", CHANNEL, "--since", "2023-11-15"], "UTC").await;
    assert_eq!(nothing, "No messages in that range.\n");
    for (arguments, expected) in [
        (
            &["messages", CHANNEL, "--since", "2023-11-15", "--until", "2023-11-14"][..],
            "must be later than --since",
        ),
        (&["search", link], "`annalist thread https://example.slack.com/archives/"),
    ] {
        annalist_at(data.path(), arguments).await.assert_refused(2, expected);
    }
    let channels = with(&["channels"], "Asia/Tokyo").await;
    let channels: Vec<Vec<&str>> = channels.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(channels[0], ["id", "name", "messages", "last", "(Asia/Tokyo)", "topic"]);
    assert_eq!(channels[1], [CHANNEL, "#general", "2", "2023-11-15"]);
}

#[tokio::test]
async fn wrong_usage_is_one_line_and_exit_2() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("untouched");
    for (args, expected) in [
        (&["mesages", CHANNEL][..], "messages"),
        (&["messages"], "<CHANNEL>"),
        (&["messages", CHANNEL, "surplus"], "surplus"),
        (&["messages", CHANNEL, "--limit", "0"], "--limit"),
        (&["messages", CHANNEL, "--limit", "-1"], "-1"),
        (&["messages", CHANNEL, "--team", "t#1"], "--team"),
        (&["messages", CHANNEL, "--colour"], "--colour"),
        (&["thread", CHANNEL], "<TS>"),
        (&["thread", CHANNEL, "yesterday"], "<TS>"),
        (&["revisions", CHANNEL, "1700000000"], "<TS>"),
        (&["thread", "https://example.slack.com/archives/C0GENERAL"], "<TS>"),
        (&["thread", "https://example.slack.com/archives/C0GENERAL/p1700000000000100", ROOT], "<TS>"),
        (&["messages", CHANNEL, "--since", "tomorrow"], "2026-11-01"),
        (&["messages", CHANNEL, "--until", "2026-13-01"], "--until"),
        (&["messages", CHANNEL, "--tz", "Europe/Nowhere"], "Europe/Berlin"),
        (&["users", "U0FIRST"], "U0FIRST"),
        (&["channels", "#general"], "#general"),
        (&["channel"], "<CHANNEL>"),
        (&["channel", CHANNEL, "--histroy"], "--history"),
        (&["channel", CHANNEL, "--limit", "0"], "--limit"),
        (&["status", "--jsn"], "--json"),
        (&["report", "--week", "2025-W53"], "a year has 52 or 53"),
        (&["report", "--week", "last"], "2026-W46"),
        (&["report", "--from", "2026-11-20"], "--to"),
        (&["report", "--to", "2026-11-20"], "--from"),
        (&["report", "--channel", "#general", "--user", "U0FIRST"], "--user"),
        (&["report", "--json", "--html"], "--html"),
        (&["quarantine", "replay"], "--all"),
        (&["quarantine", "show"], "<ID>"),
        (&["quarantine", "purge"], "purge"),
        (&["manifest", "--url", "ftp://example.com"], "https://"),
        (&["up", "--listen", "3000"], "--listen"),
        (&["up", "--listen", "127.0.0.1:99999"], "--listen"),
        (&["demo", "--colour"], "--colour"),
    ] {
        let outcome = annalist_with(args, &[("ANNALIST_DATA", path(&folder))]).await;
        outcome.assert_refused(2, expected);
    }
    for args in [&[][..], &["quarantine"]] {
        let outcome = annalist(args).await;
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stdout.is_empty() && outcome.stderr.contains("Usage"), "{outcome:?}");
    }
    assert!(!folder.exists());
}

#[tokio::test]
async fn without_a_usable_signing_secret_no_program_starts_and_setup_is_named() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("untouched");
    let common = [("ANNALIST_DATA", path(&folder)), ("ANNALIST_METRICS_LISTEN", "127.0.0.1:0")];
    for program in [&binaries().annalist, &binaries().ingest] {
        let up: &[&str] = if *program == binaries().annalist { &["up"] } else { &[] };
        let args = [up, &["--listen", "127.0.0.1:0"]].concat();
        for (secret, expected) in [
            (None, "annalist setup"),
            (Some(""), "annalist setup"),
            (Some(" "), "annalist manifest"),
            (Some(","), "SLACK_SIGNING_SECRET"),
            (Some("a,b,hunter2"), "SLACK_SIGNING_SECRET"),
        ] {
            let secret = secret.map(|secret| ("SLACK_SIGNING_SECRET", secret));
            let variables: Vec<_> = common.into_iter().chain(secret).collect();
            let outcome = run(program, &args, &variables).await;
            outcome.assert_refused(2, expected);
            assert!(!outcome.stderr.contains("hunter2"), "a secret was printed: {outcome:?}");
        }
    }
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_folder_without_an_archive_is_an_error_for_readers_and_stays_as_it_is() {
    let data = tempfile::tempdir().unwrap();
    let missing = data.path().join("missing");
    for folder in [&missing, data.path()] {
        for args in READERS {
            let outcome = annalist(&[args, &["--data", path(folder)]].concat()).await;
            outcome.assert_refused(1, "--data");
        }
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_folder_that_is_a_file_is_an_error_for_every_program() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for args in READERS {
        let outcome = annalist(&[args, &["--data", path(&file)]].concat()).await;
        outcome.assert_refused(1, path(&file));
    }
    for (code, stderr) in start_everything(&file, &[]).await {
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(path(&file)) && !stderr.contains("panicked"), "{stderr}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test]
async fn blank_variables_count_as_unset_in_every_program() {
    let blank = ["BACKEND", "LISTEN", "INDEX", "TZ", "FILES_PER_MINUTE", "EXISTENCE_CHECK", "BACKFILL"];
    let names = blank.map(|name| format!("ANNALIST_{name}"));
    let variables = names.each_ref().map(|name| (name.as_str(), ""));
    let data = archive().await;
    let read = annalist_with(&["messages", CHANNEL, "--data", path(data.path())], &variables).await;
    assert!(read.code == Some(0) && read.stdout.contains("root"), "{read:?}");
    // Without these, the pages would be open to everyone.
    for guard in ["ANNALIST_VIEWER_PASSWORD_FILE", "ANNALIST_VIEWER_USER_HEADER", "ANNALIST_OIDC_ISSUER"] {
        let view = ["view", "--viewer-listen", "127.0.0.1:0", "--data", path(data.path())];
        let named = if guard.contains("OIDC") { "--oidc-issuer" } else { "--viewer-" };
        annalist_with(&view, &[(guard, "")]).await.assert_refused(2, named);
    }
    let file = data.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for (code, stderr) in start_everything(&file, &variables).await {
        assert!(code == Some(1) && stderr.contains(path(&file)), "{stderr}");
    }
}

#[tokio::test]
async fn an_archive_of_a_newer_version_or_a_damaged_one_is_refused_and_stays_as_it_is() {
    let newer = archive().await;
    let database = Connection::open(newer.path().join(DATABASE_FILE)).unwrap();
    database.pragma_update(None, "user_version", 9999).unwrap();
    database.close().unwrap();

    let damaged = tempfile::tempdir().unwrap();
    std::fs::write(
        damaged.path().join(DATABASE_FILE),
        "no database at all, and long enough to see it".repeat(99),
    )
    .unwrap();

    for (data, expected) in [(&newer, "newer version"), (&damaged, DATABASE_FILE)] {
        let before = std::fs::read(data.path().join(DATABASE_FILE)).unwrap();
        for args in READERS {
            let outcome = annalist(&[args, &["--data", path(data.path())]].concat()).await;
            outcome.assert_refused(1, expected);
        }
        for (code, stderr) in start_everything(data.path(), &[]).await {
            assert_eq!(code, Some(1), "{stderr}");
            assert!(stderr.contains(expected) && !stderr.contains("panicked"), "{stderr}");
        }
        assert_eq!(std::fs::read(data.path().join(DATABASE_FILE)).unwrap(), before);
    }
}

/// Starts each long-running program on a folder that it cannot use.
async fn start_everything(data: &Path, more: &[(&str, &str)]) -> Vec<(Option<i32>, String)> {
    let variables = [
        ("SLACK_SIGNING_SECRET", SIGNING_SECRET),
        ("ANNALIST_METRICS_LISTEN", "127.0.0.1:0"),
        ("ANNALIST_DATA", path(data)),
    ];
    let variables = [&variables, more].concat();
    let mut ended = Vec::new();
    for (program, args) in [
        (&binaries().annalist, &["up", "--listen", "127.0.0.1:0"][..]),
        (&binaries().ingest, &["--listen", "127.0.0.1:0"]),
        (&binaries().worker("message-writer"), &[]),
    ] {
        let outcome = run(program, args, &variables).await;
        ended.push((outcome.code, outcome.stderr));
    }
    ended
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_the_flag() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("untouched");
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let secret = ("SLACK_SIGNING_SECRET", SIGNING_SECRET);
    for (listen, metrics, flag) in
        [(address.as_str(), "127.0.0.1:0", "--listen"), ("127.0.0.1:0", &address, "--metrics-listen")]
    {
        let variables = [secret, ("ANNALIST_DATA", path(&folder)), ("ANNALIST_METRICS_LISTEN", metrics)];
        for (program, up) in [(&binaries().annalist, &["up"][..]), (&binaries().ingest, &[])] {
            let outcome = run(program, &[up, &["--listen", listen]].concat(), &variables).await;
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            assert!(outcome.stderr.contains(&address) && outcome.stderr.contains(flag), "{outcome:?}");
        }
    }
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_closed_output_pipe_is_not_a_failure() {
    let data = archive().await;
    let (gone, output) = std::io::pipe().unwrap();
    drop(gone);
    let mut command = tokio::process::Command::new(&binaries().annalist);
    command.args(["messages", CHANNEL, "--json", "--data", path(data.path())]).env_clear().stdout(output);
    let ended = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().await.unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}
