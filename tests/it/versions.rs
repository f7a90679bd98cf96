//! Two versions of Annalist on one data folder.

use embedded::{Database, OpenError, VERSION};
use ports::clock::SystemClock;
use tests::harness::command::annalist_at;
use tests::harness::process;

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
