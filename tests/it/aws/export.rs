//! `annalist export` writes the same files on AWS as from a data folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tests::harness::environment::ProgramEnvironment;

use super::view::{FolderAndFleet, assert_same};
use crate::export::export;
use crate::export::formats::files_below;
use crate::import::export::entries;

/// The files of an export by their names.
async fn exported(
    environment: &(impl ProgramEnvironment + ?Sized),
    format: &str,
    folder: &Path,
) -> BTreeMap<PathBuf, Vec<u8>> {
    let out = folder.join(format);
    let outcome = export(environment, format, &out, &["--tz", "UTC", "--include-deleted"]).await;
    assert_eq!(outcome.code, Some(0), "{format}: {outcome:?}");
    if format == "slack" {
        return entries(&out).into_iter().map(|(name, bytes)| (name.into(), bytes)).collect();
    }
    files_below(&out)
}

/// The text without the locations of stored files, which differ between backends.
fn without_locations(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split('"').map(|word| match word.split_once("/slack/") {
        Some((location, key)) if location.contains("://") => key,
        Some(_) | None => word,
    });
    words.collect::<Vec<_>>().join("\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_from_a_fleet_is_the_same_as_from_one_machine() {
    let both = FolderAndFleet::filled().await;
    let (here, there) = (both.folder("here"), both.folder("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        let of_folder = exported(both.data().as_path(), format, &here).await;
        let of_fleet = exported(&both.installation, format, &there).await;
        assert_eq!(
            of_folder.keys().collect::<Vec<_>>(),
            of_fleet.keys().collect::<Vec<_>>(),
            "{format} has different files"
        );
        // The sums are of files that name their location.
        let compared = of_folder.iter().filter(|(name, _)| !name.ends_with("SHA256SUMS"));
        for (name, bytes) in compared {
            let [here, there] = [bytes, &of_fleet[name]].map(|bytes| without_locations(bytes));
            assert_same(&format!("{format}: {}", name.display()), &here, &there);
        }
    }
}
