//! The files of messages whose bytes are held.

use ports::files::FileKey;
use serde_json::Value;
use slack::ids::FileId;

/// Of a file's name at most this is kept: file systems end names at 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// A file that a message shares, and where its bytes are.
pub(super) struct SharedUpload {
    pub(super) file: FileId,
    /// Its own name, as far as it can be that of a file.
    pub(super) name: String,
    pub(super) key: FileKey,
}

/// The files of a message whose bytes are held.
pub(super) fn uploads_of(row: &Value) -> Vec<SharedUpload> {
    let held = row["files_s3"].as_array().map(Vec::as_slice).unwrap_or_default();
    let keys: Vec<FileKey> = held.iter().filter_map(|key| FileKey::stored(key.as_str()?)).collect();
    let files = row["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let upload = |object: &Value| {
        let file = FileId::parse(object["id"].as_str()?).ok()?;
        // The last part of a key is the file's id, with a name behind it if it is another version.
        let id_of = |key: &FileKey| key.as_str().rsplit('/').next()?.split('.').next().map(str::to_owned);
        let key = keys.iter().find(|key| id_of(key).as_deref() == Some(file.as_str()))?.clone();
        let name = ["name", "title"].into_iter().find_map(|name| object[name].as_str()).map(file_name);
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| file.to_string());
        Some(SharedUpload { file, name, key })
    };
    files.iter().filter_map(upload).collect()
}

/// A name that leads nowhere else.
fn file_name(name: &str) -> String {
    let plain = |c: char| if "/\\:*?\"<>|".contains(c) || reader::plain::acts(c) { '_' } else { c };
    let name: String = name.trim_matches(['.', ' ']).chars().map(plain).collect();
    name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bytes_of_a_file_are_those_under_its_own_key_and_its_name_leads_nowhere() {
        let row = json!({
            "files_s3": ["slack/T1/C1/1.000000/F2.abc", "slack/T1/C1/1.000000/F1"],
            "files": [{ "id": "F1", "name": "../../etc/passwd" }, { "id": "F2", "title": "a\u{202e}b\\c\n" },
                { "id": "F3", "name": "not held" }, { "id": "../F1" }, null],
        });
        let uploads = uploads_of(&row);
        let seen: Vec<(&str, &str, &str)> = uploads
            .iter()
            .map(|upload| (upload.file.as_str(), upload.name.as_str(), upload.key.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("F1", "_.._etc_passwd", "slack/T1/C1/1.000000/F1"),
                ("F2", "a_b_c_", "slack/T1/C1/1.000000/F2.abc")
            ]
        );
        assert_eq!(file_name(".."), "");
        assert!(file_name(&"会".repeat(1000)).len() <= MAX_NAME_BYTES);
    }
}
