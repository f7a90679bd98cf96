//! Reads an export in the format `slack` with slack-export-viewer,
//! <https://github.com/hfaran/slack-export-viewer>.

use std::fs;

use serde_json::Value;
use tests::harness::command::json_lines;
use tests::harness::python;
use tokio::process::Command;

use super::{archive, export};
use crate::import::export::entries;

/// Characters that slack-export-viewer turns into markup.
const MARKUP: [char; 6] = ['<', '>', '|', '*', '`', '\n'];

/// The beginning of a token; exports contain none.
const TOKEN: &str = "xox";

#[tokio::test]
async fn every_text_is_shown_by_another_program() {
    let program = python::slack_export_viewer().unwrap_or_else(|why| {
        panic!("slack-export-viewer cannot be installed: {why}\nInstall Python 3.11 or newer with venv and pip (Debian: apt install python3-venv)")
    });
    let (_import_folder, data) = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let (zip, pages) = (folder.path().join("out.zip"), folder.path().join("pages"));
    export(data.as_path(), "slack", &zip, &[]).await.succeeded();

    // The viewer unpacks the export into the folder for temporary files and leaves it there.
    let mut command = Command::new(program);
    command.args(["--no-browser", "--html-only", "--output-dir"]).arg(&pages).arg("--archive").arg(&zip);
    let output = command.env_clear().env("TMPDIR", folder.path()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let channels: Value = serde_json::from_slice(&entries(&zip)["channels.json"]).unwrap();
    let mut shown = 0;
    for channel in channels.as_array().unwrap() {
        let (id, name) = (channel["id"].as_str().unwrap(), channel["name"].as_str().unwrap());
        let mut messages = json_lines(data.as_path(), &["messages", id]).await;
        messages.retain(|message| message["deleted"] != true);
        if messages.is_empty() {
            continue;
        }
        let page = fs::read_to_string(pages.join("channel").join(name).join("index.html")).unwrap();
        assert!(!page.contains(TOKEN), "{page}");
        for message in &messages {
            let text = message["text"].as_str().unwrap();
            let words = text.split(MARKUP).map(str::trim).filter(|words| !words.contains(TOKEN));
            for words in words {
                assert!(page.contains(words), "{words:?} of {id} is not in {page}");
            }
            shown += 1;
        }
    }
    assert_eq!(shown, 17, "every message that is not deleted");
}
