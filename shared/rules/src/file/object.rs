//! A file object, reduced to the fields that are needed to download the file and to show it. All of its data
//! is untrusted: a field of an unexpected type is absent, and texts are bounded.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cut;
use super::state::FileVerdict;
use crate::version::hash;
use slack::ids::{FileId, TeamId};

/// The maximum size of a stored name: four times the limit of file systems.
const MAX_NAME_BYTES: usize = 1024;

/// The maximum size of words such as a MIME type; a longer one is treated as missing.
const MAX_WORD_BYTES: usize = 255;

/// A longer URL is not one of Slack's.
const MAX_URL_BYTES: usize = 4096;

/// Kinds of documents that Slack itself creates. They have no bytes of their own: Slack renders them on
/// request, as HTML or JSON of an unannounced length.
const RENDERED: [&str; 6] = ["quip", "canvas", "space", "post", "list", "email"];

/// Those of which each edit is another version.
const CANVASES: [&str; 2] = ["quip", "canvas"];

/// The latest time of an edit: twelve digits, so that times compare as text. A later one is not Slack's.
const MAX_UPDATED_S: u64 = 999_999_999_999;

/// The source of a file whose address is the one that Slack makes for it.
pub const OWN: &str = "own";

/// The known facts about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct FileObject {
    pub id: FileId,
    /// Its name or title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its MIME type according to Slack, such as `image/png`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mimetype: Option<String>,
    /// Slack's own word for the type, such as `png`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filetype: Option<String>,
    #[serde(rename = "size", skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Where its content is stored: `hosted`, `snippet`, `external`, `tombstone`, `hidden_by_limit`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether it is stored outside Slack.
    #[serde(skip_serializing_if = "is_false")]
    pub is_external: bool,
    /// The external service, such as `gdrive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_type: Option<String>,
    /// Whether the app has access to it; `check_file_info` if only `files.info` can answer that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_access: Option<String>,
    /// The address at which Slack shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_private: Option<String>,
    /// The address from which it is downloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_private_download: Option<String>,
    /// The user who uploaded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it was created, in seconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    /// When it was last edited, in seconds since the Unix epoch; only for a canvas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u64>,
}

/// The path of an address, without its leading slash, query and fragment; `None` if a client might read a
/// different path.
fn path(url: &str) -> Option<&str> {
    let is_odd = |letter: char| letter == '\\' || letter.is_control() || letter.is_whitespace();
    let (host, path) = url.split_once("://")?.1.split_once('/')?;
    let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    if !is_host || path.contains(is_odd) {
        return None;
    }
    path.split(['?', '#']).next()
}

/// Whether a path segment is `.` or `..`, possibly percent-encoded.
fn is_dot_segment(part: &str) -> bool {
    matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The next step for a file, decided without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePrecheck {
    /// No request is needed.
    Settled(FileVerdict),
    /// The object is a stub: `files.info` has the rest.
    InfoNeeded,
    /// It can be downloaded.
    Download,
}

impl TryFrom<Value> for FileObject {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        Self::read(&value).ok_or("a file object without a valid id")
    }
}

impl FileObject {
    /// Reads a file object; `None` if it has no valid id.
    pub fn read(value: &Value) -> Option<Self> {
        let id = FileId::parse(value.get("id")?.as_str()?).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let bounded = |name: &str, max| text(name).filter(|text| text.len() <= max).map(str::to_owned);
        let word = |name: &str| bounded(name, MAX_WORD_BYTES);
        let url = |name: &str| bounded(name, MAX_URL_BYTES);
        let name = text("name").or_else(|| text("title"));
        let updated =
            value.get("updated").and_then(Value::as_u64).filter(|updated| *updated <= MAX_UPDATED_S);
        let mut object = Self {
            id,
            name: name.map(|name| cut(name, MAX_NAME_BYTES).to_owned()),
            mimetype: word("mimetype"),
            filetype: word("filetype"),
            size_bytes: value.get("size").and_then(Value::as_u64),
            mode: word("mode"),
            is_external: value.get("is_external") == Some(&Value::Bool(true)),
            external_type: word("external_type"),
            file_access: word("file_access"),
            url_private: url("url_private"),
            url_private_download: url("url_private_download"),
            user: word("user"),
            created: value.get("created").and_then(Value::as_i64),
            updated: None,
        };
        object.updated = updated.filter(|_| object.is_canvas());
        Some(object)
    }

    /// A file of which only the id is known: Slack has the rest.
    pub fn unknown(id: FileId) -> Self {
        Self {
            id,
            name: None,
            mimetype: None,
            filetype: None,
            size_bytes: None,
            mode: None,
            is_external: false,
            external_type: None,
            file_access: None,
            url_private: None,
            url_private_download: None,
            user: None,
            created: None,
            updated: None,
        }
    }

    /// Decides the next step without a request. Unknown words are ignored.
    pub fn precheck(&self) -> FilePrecheck {
        match self.mode.as_deref() {
            Some("external") => return FilePrecheck::Settled(FileVerdict::External),
            Some("tombstone") => return FilePrecheck::Settled(FileVerdict::Tombstone),
            Some("hidden_by_limit") => return FilePrecheck::Settled(FileVerdict::HiddenByLimit),
            Some(_) | None if self.is_external => return FilePrecheck::Settled(FileVerdict::External),
            Some("file_access") if self.file_access.is_none() => return FilePrecheck::InfoNeeded,
            Some(_) | None => {}
        }
        match self.file_access.as_deref() {
            Some("access_denied") => FilePrecheck::Settled(FileVerdict::AccessDenied),
            Some("file_not_found") => FilePrecheck::Settled(FileVerdict::NotFound),
            Some("check_file_info") => FilePrecheck::InfoNeeded,
            Some(_) | None if self.url().is_none() => FilePrecheck::InfoNeeded,
            Some(_) | None => FilePrecheck::Download,
        }
    }

    /// Whether Slack has only its tombstone.
    pub fn is_tombstone(&self) -> bool {
        self.mode.as_deref() == Some("tombstone")
    }

    /// Whether its address is the one that Slack makes for this file of this workspace:
    /// `/files-pri/{team}-{file}/…`. Any other address does not prove that its content is this file: only
    /// `files.info` does.
    pub fn has_own_address(&self, team: &TeamId) -> bool {
        let own = format!("{team}-{}", self.id);
        self.url().and_then(path).is_some_and(|path| {
            let mut parts = path.split('/');
            parts.next() == Some("files-pri")
                && parts.next() == Some(&own)
                && parts.all(|part| !is_dot_segment(part))
        })
    }

    /// The source of its bytes, which distinguishes it from other objects that claim the same id; `None` if
    /// there is no address. The source of a canvas includes the time of its last edit.
    pub fn source(&self, team: &TeamId) -> Option<String> {
        let url = self.url()?;
        // The name at the end of Slack's own addresses changes when a user renames the file.
        let source = if self.has_own_address(team) { OWN.to_owned() } else { hash(path(url).unwrap_or(url)) };
        Some(match self.updated {
            Some(updated) => format!("{source}.{}", edit_time(updated)),
            None => source,
        })
    }

    /// The address of its bytes.
    pub fn url(&self) -> Option<&str> {
        self.url_private_download.as_deref().or(self.url_private.as_deref())
    }

    /// Whether its content may be an HTML page; for any other file such a page is a login page.
    pub fn may_be_html(&self) -> bool {
        let mimetype = self.mimetype.as_deref().unwrap_or_default().to_ascii_lowercase();
        let filetype = self.filetype.as_deref().unwrap_or_default().to_ascii_lowercase();
        ["text/html", "application/xhtml"].iter().any(|html| mimetype.starts_with(html))
            || ["html", "htm", "xhtml"].contains(&filetype.as_str())
            || self.is_rendered()
    }

    /// The exact size of a download; `None` if it is not known in advance.
    pub fn exact_size_bytes(&self) -> Option<u64> {
        self.size_bytes.filter(|_| !self.is_rendered())
    }

    fn is_rendered(&self) -> bool {
        self.is_one_of(&RENDERED)
    }

    /// Whether it is a canvas: a document that Slack renders, and that users edit.
    pub fn is_canvas(&self) -> bool {
        self.is_one_of(&CANVASES) && !self.is_tombstone()
    }

    fn is_one_of(&self, kinds: &[&str]) -> bool {
        [&self.mode, &self.filetype]
            .into_iter()
            .any(|word| word.as_deref().is_some_and(|word| kinds.contains(&word)))
    }

    /// The object as JSON. Equal objects are equal text.
    pub fn to_json(&self) -> Value {
        // Text, numbers and a boolean can always be serialized.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// A hash that distinguishes objects of the same file.
    pub fn fingerprint(&self) -> String {
        hash(&self.to_json().to_string())
    }

    /// The version of an object, which orders objects of the same file: one with more fields is greater, and
    /// the object of a later edit of a canvas is greater than any before.
    pub(super) fn version(&self) -> String {
        let fields = self.to_json().as_object().map_or(0, serde_json::Map::len);
        let version = format!("{fields:02}/{}", self.fingerprint());
        match self.updated {
            Some(updated) => format!("edited/{}/{version}", edit_time(updated)),
            None => version,
        }
    }
}

/// The time of an edit as text: a later one is greater.
pub(super) fn edit_time(updated: u64) -> String {
    format!("{updated:012}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> FileObject {
        let mut whole = json!({ "id": "F1", "url_private": "https://files.slack.com/f" });
        if let (Value::Object(whole), Value::Object(more)) = (&mut whole, value) {
            whole.extend(more);
        }
        FileObject::read(&whole).unwrap()
    }

    #[test]
    fn the_object_decides_whether_a_file_needs_a_request() {
        for (fields, expected) in [
            (json!({}), FilePrecheck::Download),
            (json!({ "mode": "hosted", "file_access": "visible" }), FilePrecheck::Download),
            (json!({ "mode": "something_new", "file_access": "something_new" }), FilePrecheck::Download),
            (
                json!({ "mode": "external", "external_type": "gdrive" }),
                FilePrecheck::Settled(FileVerdict::External),
            ),
            (json!({ "is_external": true }), FilePrecheck::Settled(FileVerdict::External)),
            (json!({ "mode": "tombstone" }), FilePrecheck::Settled(FileVerdict::Tombstone)),
            (json!({ "mode": "hidden_by_limit" }), FilePrecheck::Settled(FileVerdict::HiddenByLimit)),
            (json!({ "file_access": "access_denied" }), FilePrecheck::Settled(FileVerdict::AccessDenied)),
            (json!({ "file_access": "file_not_found" }), FilePrecheck::Settled(FileVerdict::NotFound)),
            (json!({ "file_access": "check_file_info" }), FilePrecheck::InfoNeeded),
            (json!({ "mode": "file_access" }), FilePrecheck::InfoNeeded),
            (
                json!({ "mode": "file_access", "file_access": "access_denied" }),
                FilePrecheck::Settled(FileVerdict::AccessDenied),
            ),
            (json!({ "url_private": null }), FilePrecheck::InfoNeeded),
            (json!({ "url_private": "" }), FilePrecheck::InfoNeeded),
            (json!({ "url_private": "x".repeat(10_000) }), FilePrecheck::InfoNeeded),
            (
                json!({ "url_private": null, "url_private_download": "https://files.slack.com/d" }),
                FilePrecheck::Download,
            ),
        ] {
            assert_eq!(object(fields.clone()).precheck(), expected, "{fields}");
        }
    }

    #[test]
    fn odd_fields_are_absent_and_long_ones_are_cut() {
        let odd = object(
            json!({ "name": 7, "mimetype": ["x"], "size": "12", "created": {}, "user": null, "mode": false,
            "is_external": "true", "file_access": "y".repeat(999) }),
        );
        assert_eq!(odd, object(json!({})));
        let long = object(json!({ "name": "é".repeat(10_000) }));
        assert_eq!(long.name.unwrap(), "é".repeat(512));
        assert_eq!(object(json!({ "size": -1 })).size_bytes, None);
        for nothing in [
            json!({}),
            json!({ "id": "" }),
            json!({ "id": 7 }),
            json!({ "id": "../../etc" }),
            json!("F1"),
            json!(null),
        ] {
            assert_eq!(FileObject::read(&nothing), None, "{nothing}");
        }
    }

    #[test]
    fn only_an_address_with_the_ids_of_the_team_and_the_file_is_its_own() {
        let team = TeamId::parse("T1").unwrap();
        for (url, own) in [
            ("https://files.slack.com/files-pri/T1-F1/a.png", true),
            ("https://files.slack.com/files-pri/T1-F1/download/a.png?t=1", true),
            ("https://files.slack.com/files-pri/T1-F2/F1", false),
            ("https://files.slack.com/files-pri/T2-F1/a.png", false),
            ("https://files.slack.com/files-pri/T1-F1", true),
            ("https://files.slack.com/x/files-pri/T1-F1/a.png", false),
            ("https://files.slack.com/?/files-pri/T1-F1/a.png", false),
            ("https://files.slack.com/files-pri/../files-pri/T1-F1/a.png", false),
            ("https://files.slack.com/files-pri/T1-F1/../T1-F2/a.png", false),
            ("https://files.slack.com/files-pri/T1-F1/%2e%2E/T1-F2/a.png", false),
            ("https://files.slack.com/files-pri/T1-F1\\..\\T1-F2/a.png", false),
            ("https:files.slack.com", false),
            ("https://files.slack.com?/files-pri/T1-F1/a.png", false),
            ("https://files.slack.com\\files-pri\\T1-F2/files-pri/T1-F1/a.png", false),
            ("https://files.slack.com/files-pri/T1-F1/.\t./T1-F2/a.png", false),
        ] {
            let object = object(json!({ "url_private": url }));
            assert_eq!(object.has_own_address(&team), own, "{url}");
            assert_eq!(object.source(&team).as_deref() == Some(OWN), own, "{url}");
        }
        let source = |url: &str| object(json!({ "url_private": url })).source(&team);
        assert_eq!(source("https://files.slack.com/a?x=1"), source("https://files.slack.com/a?x=2"));
        assert_ne!(source("https://files.slack.com/a"), source("https://files.slack.com/b"));
    }

    #[test]
    fn a_file_object_survives_a_round_trip_through_json() {
        let whole = object(
            json!({ "name": "a.png", "mimetype": "image/png", "filetype": "png", "size": 12, "mode": "hosted",
            "is_external": true, "external_type": "gdrive", "file_access": "visible", "url_private_download": "https://x/",
            "user": "U1", "created": 1_700_000_000 }),
        );
        assert_eq!(FileObject::read(&whole.to_json()), Some(whole.clone()));
        assert!(whole.version() > object(json!({})).version(), "the one with more fields wins");
    }

    #[test]
    fn only_a_canvas_has_the_time_of_its_edit_and_the_later_one_wins() {
        let team = TeamId::parse("T1").unwrap();
        let edited = |updated: Value| object(json!({ "mode": "quip", "updated": updated }));
        let [early, late] = [edited(json!(1_700_000_000)), edited(json!(1_700_000_060))];
        assert_eq!(FileObject::read(&late.to_json()), Some(late.clone()));
        assert!(late.version() > early.version());
        assert!(
            early.version()
                > object(json!({ "mode": "quip", "name": "a", "size": 1, "user": "U1" })).version()
        );
        assert_ne!(early.source(&team), late.source(&team));
        assert!(late.source(&team).unwrap().ends_with(".001700000060"));
        for odd in [json!(-1), json!("1700000000"), json!(1.5), json!(null), json!([1]), json!(u64::MAX)] {
            assert_eq!(edited(odd.clone()).updated, None, "{odd}");
        }
        for other in [json!({ "mode": "hosted", "updated": 1 }), json!({ "mode": "post", "updated": 1 })] {
            assert_eq!(object(other.clone()).updated, None, "{other}");
        }
        assert!(object(json!({ "filetype": "canvas" })).is_canvas());
    }

    #[test]
    fn only_html_files_and_rendered_documents_may_be_html() {
        for (fields, expected) in [
            (json!({ "mimetype": "text/html" }), true),
            (json!({ "mimetype": "Text/HTML; charset=utf-8" }), true),
            (json!({ "filetype": "html" }), true),
            (json!({ "mode": "quip", "mimetype": "application/vnd.slack-docs" }), true),
            (json!({ "mimetype": "image/png", "filetype": "png" }), false),
            (json!({ "mimetype": "text/plain", "filetype": "text", "name": "page.html" }), false),
            (json!({}), false),
        ] {
            assert_eq!(object(fields.clone()).may_be_html(), expected, "{fields}");
        }
        assert_eq!(object(json!({ "size": 3 })).exact_size_bytes(), Some(3));
        for fields in [
            json!({ "filetype": "canvas" }),
            json!({ "mode": "list", "filetype": "list" }),
            json!({ "mode": "email" }),
        ] {
            let mut document = fields.clone();
            document["size"] = 3.into();
            assert_eq!(object(document).exact_size_bytes(), None, "{fields}");
        }
    }
}
