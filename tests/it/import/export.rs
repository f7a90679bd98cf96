//! Exports as zips: as Slack and slackdump create them, and damaged ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// The workspace of every export here.
pub(crate) use testkit::corpus::TEAM;

/// The entries of a zip, in order.
#[derive(Clone, Default)]
pub(crate) struct Export {
    entries: Vec<(String, Vec<u8>)>,
}

impl Export {
    /// An export with these people and public channels, by id and name.
    pub(crate) fn with_lists(people: &[&str], channels: &[(&str, &str)]) -> Self {
        let people: Vec<Value> = people.iter().map(|user| person(user)).collect();
        let channels: Vec<Value> = channels.iter().map(|(id, name)| channel(id, name)).collect();
        Self::default().with("users.json", &json!(people)).with("channels.json", &json!(channels))
    }

    /// Adds an entry with this JSON.
    pub(crate) fn with(self, name: &str, value: &Value) -> Self {
        self.with_bytes(name, value.to_string())
    }

    /// Adds an entry with these bytes.
    pub(crate) fn with_bytes(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.entries.push((name.to_owned(), bytes.into()));
        self
    }

    /// Writes the zip.
    pub(crate) fn zip(&self, path: &Path) {
        let mut zip = ZipWriter::new(File::create(path).unwrap());
        for (name, bytes) in &self.entries {
            zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
    }
}

/// A person as an export lists them.
pub(crate) fn person(id: &str) -> Value {
    json!({
        "id": id, "team_id": TEAM, "name": id.to_lowercase(), "deleted": false, "tz": "Europe/Vienna",
        "profile": { "real_name": format!("Person {id}"), "display_name": "", "email": "ada@example.com", "image_72": "https://a.slack-edge.com/x.png?t=xoxe-9" },
    })
}

/// A channel as an export lists it.
pub(crate) fn channel(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "created": 1_500_000_000, "creator": "U1", "is_archived": false, "is_general": false,
        "members": ["U1", "U2"], "topic": { "value": "", "creator": "", "last_set": 0 },
        "purpose": { "value": "what it is for", "creator": "", "last_set": 0 },
    })
}

/// A message as an export lists it.
pub(crate) fn exported_message(ts: &str, user: &str, text: &str) -> Value {
    json!({
        "type": "message", "user": user, "text": text, "ts": ts, "team": TEAM, "client_msg_id": format!("m-{ts}"),
        "user_team": TEAM, "source_team": TEAM, "user_profile": { "name": user, "real_name": "volatile" },
    })
}

/// A file in a message, with the token that exports put into its addresses.
pub(crate) fn file(id: &str, size: usize) -> Value {
    let url = format!("https://files.slack.com/files-pri/{TEAM}-{id}/a.txt?t=xoxe-1-secret");
    json!({
        "id": id, "name": "a.txt", "mimetype": "text/plain", "filetype": "text", "mode": "hosted", "size": size,
        "url_private": url, "url_private_download": url, "thumb_64": url, "permalink": "https://acme.slack.com/files/U1/a.txt",
    })
}

pub(crate) fn entries(zip: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(File::open(zip).unwrap()).unwrap();
    let indexes = 0..zip.len();
    let read = |index: usize| {
        let mut entry = zip.by_index(index).unwrap();
        let mut bytes = Vec::new();
        Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (String::from_utf8_lossy(entry.name_raw()).into_owned(), bytes)
    };
    indexes.map(read).collect()
}

/// A folder for a test, with a zip and a data folder.
pub(crate) struct ImportFolder {
    folder: TempDir,
}

impl ImportFolder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// The path of the data folder, which is not created.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Writes an export as a zip of this name.
    pub(crate) fn zip(&self, name: &str, export: &Export) -> PathBuf {
        let path = self.folder.path().join(name);
        export.zip(&path);
        path
    }
}
