//! `annalist export` on AWS writes what it writes of a data folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tests::harness::place::ProgramEnvironment;

use super::view::{Both, assert_same};
use crate::export::export;
use crate::export::formats::files_below;
use crate::import::export::entries;

/// The files of an export by their names.
async fn exported(
    place: &(impl ProgramEnvironment + ?Sized),
    format: &str,
    folder: &Path,
) -> BTreeMap<PathBuf, Vec<u8>> {
    let out = folder.join(format);
    let outcome = export(place, format, &out, &["--tz", "UTC", "--include-deleted"]).await;
    assert_eq!(outcome.code, Some(0), "{format}: {outcome:?}");
    if format == "slack" {
        return entries(&out).into_iter().map(|(name, bytes)| (name.into(), bytes)).collect();
    }
    files_below(&out)
}

/// Where the bytes of files are is another place.
fn without_place(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split('"').map(|word| match word.split_once("/slack/") {
        Some((place, key)) if place.contains("://") => key,
        Some(_) | None => word,
    });
    words.collect::<Vec<_>>().join("\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fleet_wrote_is_exported_as_on_one_machine() {
    let both = Both::filled().await;
    let (here, there) = (both.folder("here"), both.folder("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    for format in ["slack", "jsonl", "html", "markdown", "text"] {
        let of_folder = exported(both.data().as_path(), format, &here).await;
        let of_fleet = exported(&both.installation, format, &there).await;
        assert_eq!(
            of_folder.keys().collect::<Vec<_>>(),
            of_fleet.keys().collect::<Vec<_>>(),
            "{format} has other files"
        );
        for (name, bytes) in &of_folder {
            let [here, there] = [bytes, &of_fleet[name]].map(|bytes| without_place(bytes));
            assert_same(&format!("{format}: {}", name.display()), &here, &there);
        }
    }
}
