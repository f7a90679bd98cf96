//! An archive that is exported as `slack` and imported again is the same, except for data that Slack's format
//! cannot represent.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::harness::command::{annalist, json_lines};

use super::{archive, comparable, export, ts};
use crate::import::export::entries;
use crate::import::{Imported, import, import_with};

/// Exports an archive and imports it into a new folder.
async fn copied(data: &Path, folder: &Path, args: &[&str]) -> (Imported, PathBuf) {
    let (zip, copy) = (folder.join("out.zip"), folder.join("copy"));
    export(data, "slack", &zip, args).await.succeeded();
    (import(&zip, &copy).await, copy)
}

#[tokio::test]
async fn an_archive_is_the_same_after_an_export_and_import() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (imported, copy) = copied(&data, folder.path(), &["--include-deleted"]).await;
    assert_eq!((imported.code, imported.kinds()), (Some(0), vec![]), "{}", imported.stderr);
    assert_eq!(
        imported.count("private_skipped"),
        1,
        "a channel that became private is in the export, but is not imported"
    );
    let (before, after) = (comparable(data.as_path()).await, comparable(copy.as_path()).await);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["C1", "C2", "C3", "C4", "C6"]);
    assert_eq!(before["C1"].len(), 14, "{:?}", before["C1"]);
    assert_eq!(before, after);

    // Threads, bytes and names.
    for root in [ts(1), ts(10), ts(20)] {
        let thread = async |data: &Path| json_lines(data, &["thread", "C1", &root]).await.len();
        assert_eq!(thread(&data).await, thread(&copy).await, "{root}");
    }
    let stored_file =
        copy.join(format!("files/slack/{}/C1/1600086400.000100/F1", crate::import::export::TEAM));
    assert_eq!(fs::read_to_string(stored_file).unwrap(), "hello");
    let names = async |data: &Path| -> Vec<String> {
        let channels = json_lines(data, &["channels"]).await;
        channels.iter().map(|channel| channel["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&copy).await, ["general", "random", "empty", "random-C4", "_partners-C6"]);

    // A second export of the copy is the same again.
    let again = tempfile::tempdir().unwrap();
    let (_, second) = copied(&copy, again.path(), &["--include-deleted"]).await;
    assert_eq!(comparable(second.as_path()).await, after);
}

#[tokio::test]
async fn deleted_messages_are_left_out_and_those_with_replies_are_placeholders() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (imported, copy) = copied(&data, folder.path(), &["--no-files"]).await;
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let (mut before, after) = (comparable(data.as_path()).await, comparable(copy.as_path()).await);
    before.get_mut("C1").unwrap().retain(|message| message["ts"] != ts(11));
    assert_eq!(before, after);
    let entries = entries(&folder.path().join("out.zip"));
    let everything: String = entries.values().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    for gone in ["that will go", "xox", "ada@example.com", "hello"] {
        assert!(!everything.contains(gone), "{gone}");
    }
    assert!(everything.contains("This message was deleted."));
}

#[tokio::test]
async fn the_demos_workspace_survives_an_export_and_import() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("demo");
    annalist(&["demo", "--data", data.to_str().unwrap()]).await.succeeded();
    let (imported, copy) = copied(&data, folder.path(), &["--include-deleted"]).await;
    assert_eq!((imported.code, imported.kinds()), (Some(0), vec![]), "{}", imported.stderr);
    let (before, after) = (comparable(data.as_path()).await, comparable(copy.as_path()).await);
    assert!(before.values().map(Vec::len).sum::<usize>() > 100);
    assert_eq!(before, after);
}

#[tokio::test]
async fn an_export_of_a_period_equals_the_output_of_messages() {
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (since, until) = (ts(2), ts(25));
    let args = [
        "--channel",
        "#general",
        "--channel",
        "C2",
        "--channel",
        "general",
        "--since",
        &since,
        "--until",
        &until,
    ];
    let (imported, copy) = copied(&data, folder.path(), &args).await;
    assert_eq!((imported.code, imported.count("channels")), (Some(0), 2), "{}", imported.stderr);
    let texts = |messages: Vec<Value>| -> Vec<String> {
        messages.iter().filter_map(|message| Some(message["text"].as_str()?.to_owned())).collect()
    };
    let of_time =
        json_lines(data.as_path(), &["messages", "general", "--since", &since, "--until", &until]).await;
    let kept = of_time.into_iter().filter(|message| message["deleted"] != true).collect();
    assert_eq!(texts(json_lines(copy.as_path(), &["messages", "general"]).await), texts(kept));
    assert_eq!(texts(json_lines(copy.as_path(), &["messages", "random"]).await), ["elsewhere"]);
}

#[tokio::test]
async fn several_workspaces_are_exported_as_an_organisation() {
    let (import_folder, data) = archive().await;
    let mut other = crate::import::export::person("U1");
    other["team_id"] = "T0OTHER".into();
    let general = crate::import::export::channel("C9", "general");
    let message = crate::import::export::exported_message(&ts(5), "U1", "in the other workspace");
    let other = crate::import::export::Export::default()
        .with("users.json", &serde_json::json!([other]))
        .with("channels.json", &serde_json::json!([general]))
        .with("general/2020-09-13.json", &serde_json::json!([message]));
    let zip = import_folder.zip("other.zip", &other);
    assert_eq!(import_with(&zip, &data, &["--team", "T0OTHER"], &[]).await.code, Some(0));
    let folder = tempfile::tempdir().unwrap();
    let (imported, copy) = copied(&data, folder.path(), &["--include-deleted"]).await;
    assert_eq!((imported.code, imported.kinds()), (Some(0), vec![]), "{}", imported.stderr);
    let (before, after) = (comparable(data.as_path()).await, comparable(copy.as_path()).await);
    assert_eq!(before["C9"].len(), 1);
    assert_eq!(before, after);
    let (imported, copy) = {
        let folder = folder.path().join("one");
        fs::create_dir(&folder).unwrap();
        copied(&data, &folder, &["--team", "T0OTHER"]).await
    };
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert_eq!(comparable(copy.as_path()).await.into_keys().collect::<Vec<_>>(), ["C9"]);
}
