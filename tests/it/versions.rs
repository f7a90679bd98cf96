//! Two versions of Annalist on one data folder.

use std::path::Path;

use embedded::{Database, OpenError, VERSION};
use ports::archive::ArchiveExt;
use ports::clock::SystemClock;
use rules::archive_version::{ArchiveVersion, FORMAT};
use tests::harness::binaries::binaries;
use tests::harness::command::{annalist_at, run};
use tests::harness::process::{self, SIGNING_SECRET};

const OTHER: &str = "9.8.7";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_only_until_the_running_process_is_killed() {
    let data = tempfile::tempdir().unwrap();
    let up = process::up(data.path()).await;
    let refused = Database::open_as(OTHER, data.path(), SystemClock::shared()).err().unwrap();
    assert!(matches!(refused, OpenError::OtherVersion { .. }), "{refused}");
    let line = refused.to_string();
    assert!(
        line.contains(&format!("annalist {VERSION}")) && line.contains(&format!("annalist {OTHER}")),
        "{line}"
    );
    // A refused process blocks no other.
    assert_eq!(annalist_at(data.path(), &["status"]).await.code, Some(0));
    up.process.sigkill().await;
    Database::open_as(OTHER, data.path(), SystemClock::shared()).unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_is_refused_in_one_line_while_another_version_uses_the_folder() {
    let data = tempfile::tempdir().unwrap();
    let other = Database::open_as(OTHER, data.path(), SystemClock::shared()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.tar");
    for args in [
        &["status"][..],
        &["users"],
        &["quarantine", "list"],
        &["backup", file.to_str().unwrap()],
        &["files", "retry"],
    ] {
        let outcome = annalist_at(data.path(), args).await;
        for expected in [OTHER, VERSION, "stop that one first"] {
            outcome.assert_refused(1, expected);
        }
    }
    other.close().await;
    drop(other);
    let up = process::up(data.path()).await;
    up.process.stop().await;
    assert!(!file.exists());
}

/// Makes an archive that a version with another format has written to.
async fn written_by_a_newer_version(data: &Path) {
    let database = Database::open(data, SystemClock::shared()).unwrap();
    let newer = ArchiveVersion { format: FORMAT + 1, by: OTHER.to_owned() };
    database.archive().write(&newer.update()).await.unwrap();
    database.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_older_than_the_format_of_the_archive_ends_in_one_line_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    written_by_a_newer_version(data.path()).await;
    let folder = data.path().to_str().unwrap();
    let variables =
        [("SLACK_SIGNING_SECRET", SIGNING_SECRET), ("SLACK_BOT_TOKEN", "xoxb-1"), ("ANNALIST_DATA", folder)];
    let annalist = &binaries().annalist;
    let worker = |name| binaries().worker(name);
    for (program, args) in [
        (annalist, &["up", "--listen", "127.0.0.1:0"][..]),
        (&worker("message-writer"), &[]),
        (&worker("keeper"), &[]),
        (annalist, &["sync"]),
        (annalist, &["erase", "--user", "U01", "--yes"]),
    ] {
        let outcome = run(program, args, &variables).await;
        let last = outcome.stderr.lines().last().unwrap_or_default();
        assert_eq!(outcome.code, Some(1), "{args:?}: {outcome:?}");
        assert!(
            last.contains(&format!("Annalist {OTHER} has written this archive")),
            "{args:?}: {outcome:?}"
        );
    }
    // A command that only reads works.
    assert_eq!(annalist_at(data.path(), &["status"]).await.code, Some(0));
}
