//! Commands that root runs in the folder of a service, which has a user of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;
use tests::harness::command::annalist_at;

use super::export::{Export, ImportFolder, exported_message, file};
use super::import;

const SERVICE: u32 = 10_001;

/// Each path below a folder that the service does not own.
fn of_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        if metadata.uid() != SERVICE {
            found.push(entry.path().display().to_string());
        }
        if metadata.is_dir() {
            found.extend(of_others(&entry.path()));
        }
    }
    found
}

#[tokio::test]
async fn what_root_creates_in_a_data_folder_belongs_to_the_owner_of_the_folder() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files to another user");
        return;
    }
    let import_folder = ImportFolder::new();
    let data = import_folder.data();
    fs::create_dir_all(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(SERVICE), Some(SERVICE)).unwrap();
    let mut shared = exported_message("1600000001.000100", "U1", "a file");
    shared["files"] = json!([file("F1", 5)]);
    let export = Export::with_lists(&["U1"], &[("C1", "general")])
        .with("general/2020-09-13.json", &json!([shared]))
        .with_bytes("__uploads/F1/a.txt", "hello");
    let zip = import_folder.zip("slackdump.zip", &export);
    let imported = import(&zip, &data).await;
    assert_eq!((imported.code, imported.count("messages")), (Some(0), 1), "{}", imported.stderr);
    annalist_at(data.as_path(), &["search", "anything"]).await.succeeded();
    assert!(data.join("files/slack").is_dir() && data.join("index.db").is_file());
    assert_eq!(of_others(&data), Vec::<String>::new());
}
