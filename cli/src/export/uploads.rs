//! The files of messages whose bytes are stored.

use ports::files::FileKey;
use rules::view::MessageView;
use serde_json::Value;
use slack::ids::FileId;

/// Maximum length of a file's name. File systems limit names to 255 bytes.
const MAX_NAME_BYTES: usize = 200;

/// A file that a message shares, and the key of its bytes.
pub(crate) struct SharedUpload {
    pub(crate) file: FileId,
    /// Its own name, without characters that file systems reject.
    pub(crate) name: String,
    pub(crate) key: FileKey,
}

/// Returns the files of a message whose bytes are stored.
pub(crate) fn uploads_of(row: &MessageView) -> Vec<SharedUpload> {
    let keys: Vec<FileKey> = row.stored_files().filter_map(FileKey::from_stored).collect();
    let upload = |object: &Value| {
        let file = FileId::parse(object["id"].as_str()?).ok()?;
        // The last part of a key is the file's id, followed by a suffix for another version.
        let id_of = |key: &FileKey| key.as_str().rsplit('/').next()?.split('.').next().map(str::to_owned);
        let key = keys.iter().find(|key| id_of(key).as_deref() == Some(file.as_str()))?.clone();
        let name = ["name", "title"].into_iter().find_map(|name| object[name].as_str()).map(file_name);
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| file.to_string());
        Some(SharedUpload { file, name, key })
    };
    row.files().iter().filter_map(upload).collect()
}

/// Returns a name that is no path to another folder.
fn file_name(name: &str) -> String {
    let plain =
        |c: char| if "/\\:*?\"<>|".contains(c) || reader::plain::affects_terminal(c) { '_' } else { c };
    let name: String = name.trim_matches(['.', ' ']).chars().map(plain).collect();
    name[..name.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_upload_has_the_key_of_its_file_and_a_name_that_is_no_path() {
        let row = json!({
            "files_s3": ["slack/T1/C1/1.000000/F2.abc", "slack/T1/C1/1.000000/F1"],
            "files": [{ "id": "F1", "name": "../../etc/passwd" }, { "id": "F2", "title": "a\u{202e}b\\c\n" },
                { "id": "F3", "name": "not stored" }, { "id": "../F1" }, null],
        });
        let uploads = uploads_of(&row.into());
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
