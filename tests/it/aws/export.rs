//! `annalist export` on AWS writes what it writes of a data folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::harness::command::wait_until_idle;
use tests::harness::place::{Installation, Place};

use crate::export::{events, export, play};
use crate::import::export::entries;

const DEADLINE: Duration = Duration::from_secs(60);

/// The files of an export by their names.
async fn exported(place: &(impl Place + ?Sized), format: &str, folder: &Path) -> BTreeMap<String, String> {
    let out = folder.join(format);
    let outcome = export(place, format, &out, &["--tz", "UTC", "--include-deleted"]).await;
    assert_eq!(outcome.code, Some(0), "{format}: {outcome:?}");
    if format == "slack" {
        let entries = entries(&out).into_iter();
        return entries.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect();
    }
    let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap());
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fleet_wrote_is_exported_as_on_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (data, here, there) =
        (folder.path().join("data"), folder.path().join("here"), folder.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    let installation = Installation::new().await;
    let events = events();
    tokio::join!(
        play(data.as_path(), &events, async || drop(wait_until_idle(data.as_path(), DEADLINE).await)),
        play(&installation, &events, async || installation.drained(DEADLINE).await),
    );
    for format in ["slack", "jsonl", "markdown", "text"] {
        let mut of_folder = exported(data.as_path(), format, &here).await;
        let mut of_fleet = exported(&installation, format, &there).await;
        assert_eq!(of_folder.len(), of_fleet.len(), "{format}");
        // Where the bytes of files are is another place.
        for files in [&mut of_folder, &mut of_fleet] {
            files.remove("files.jsonl");
        }
        assert_eq!(of_folder, of_fleet, "{format}");
    }
}
