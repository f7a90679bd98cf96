//! A message or a revision.

use serde_json::Value;

use super::{list, view};
use slack::envelope;
use slack::ids::{FileId, Ts};

view! {
    /// A message or a revision, as [`crate::project::message`] returns it.
    MessageView
}

impl MessageView {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    /// When it was written, as text.
    pub fn ts(&self) -> Option<&str> {
        self.text_of("ts").or(self.text_of("timestamp"))
    }

    pub fn written_at(&self) -> Option<Ts> {
        Ts::parse(self.ts()?).ok()
    }

    /// The root of its thread, as text. The root of a thread with replies has it too.
    pub fn thread_ts(&self) -> Option<&str> {
        self.text_of("thread_ts")
    }

    /// The root of its thread. The root of a thread with replies has it too.
    pub fn root_ts(&self) -> Option<Ts> {
        Ts::parse(self.thread_ts()?).ok()
    }

    /// The root of its thread, if it is a reply.
    pub fn replies_to(&self) -> Option<Ts> {
        self.root_ts().filter(|root_ts| self.ts() != Some(root_ts.as_str()))
    }

    /// The id of its author: a person or an app's user.
    pub fn user(&self) -> Option<&str> {
        self.text_of("user")
    }

    /// The id of the app's bot that wrote it.
    pub fn bot(&self) -> Option<&str> {
        self.text_of("bot_id")
    }

    /// The author's name in the message itself.
    pub fn username(&self) -> Option<&str> {
        self.text_of("username")
    }

    /// Its text, in Slack's markup.
    pub fn text(&self) -> Option<&str> {
        self.text_of("text")
    }

    /// Slack's subtype.
    pub fn subtype(&self) -> Option<&str> {
        self.text_of("subtype")
    }

    pub fn is_deleted(&self) -> bool {
        self.0["deleted"] == true
    }

    /// The time of its last edit.
    pub fn updated_ts(&self) -> Option<&str> {
        self.text_of("updated_ts")
    }

    pub fn is_edited(&self) -> bool {
        self.updated_ts().is_some()
    }

    /// Whether it is a reply that was also sent to the channel.
    pub fn is_broadcast(&self) -> bool {
        self.subtype() == Some("thread_broadcast")
    }

    /// Whether it is pinned now.
    pub fn is_pinned(&self) -> bool {
        self.pin().is_some()
    }

    /// Its pin, with when (`ts`) and by whom (`user`).
    pub fn pin(&self) -> Option<&Value> {
        Some(&self.0["pinned"]).filter(|pin| pin.is_object())
    }

    /// The channel that its row names.
    pub fn channel(&self) -> Option<&str> {
        self.text_of("channel_id")
    }

    /// Whether it has a list of files, which may be empty.
    pub fn has_files(&self) -> bool {
        self.0["files"].is_array()
    }

    /// The files that it shares, as Slack describes them.
    pub fn files(&self) -> &[Value] {
        list(&self.0["files"])
    }

    /// The keys of the stored bytes of its files, or their addresses.
    pub fn stored_files(&self) -> impl Iterator<Item = &str> {
        list(&self.0["files_s3"]).iter().filter_map(Value::as_str)
    }

    /// Why a file of this id is not stored, if the answer is final.
    pub fn file_verdict(&self, id: &str) -> Option<&str> {
        self.0["files_verdict"][id].as_str()
    }

    /// The number of files that are not stored, with a final answer.
    pub fn file_verdict_count(&self) -> usize {
        self.0["files_verdict"].as_object().map_or(0, serde_json::Map::len)
    }

    /// Whether a file could not be fetched.
    pub fn has_failed_files(&self) -> bool {
        self.0["files_fetch_failed"] == true
    }

    /// The reactions, each with its `name`, `users` and `count`.
    pub fn reactions(&self) -> &[Value] {
        list(&self.0["reactions"])
    }

    /// The message as Slack sent it, as text.
    pub fn raw_event(&self) -> Option<&str> {
        self.text_of("raw_event")
    }

    /// The message as Slack sent it; `None` if it is missing or unreadable.
    pub fn raw(&self) -> Option<Value> {
        envelope::parse_value(self.raw_event()?).ok()
    }

    /// Replaces the message as Slack sent it.
    pub fn set_raw(&mut self, raw: &Value) {
        self.0["raw_event"] = raw.to_string().into();
    }
}

/// The id of a message's file, as Slack gives it.
pub fn file_id_text(file: &Value) -> Option<&str> {
    file["id"].as_str()
}

/// The id of the person or the app's user who uploaded a message's file.
pub fn file_owner(file: &Value) -> Option<&str> {
    file["user"].as_str()
}

/// The content type of a message's file, as Slack reports it.
pub fn file_mimetype(file: &Value) -> Option<&str> {
    file["mimetype"].as_str()
}

/// Whether a message's file was deleted in Slack. Its bytes stay if they were stored before.
pub fn is_file_deleted(file: &Value) -> bool {
    file["deleted"] == true
}

/// The size of a message's file in bytes, if Slack gives one.
pub fn file_size(file: &Value) -> Option<u64> {
    file["size"].as_u64().filter(|bytes| *bytes > 0)
}

/// The id of a message's file.
pub fn file_id(file: &Value) -> Option<FileId> {
    FileId::parse(file_id_text(file)?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_reply_has_a_root_that_it_replies_to() {
        let root = |row: Value| MessageView::from(row).replies_to().map(|ts| ts.as_str().to_owned());
        for (row, expected) in [
            (json!({ "ts": "2.000000", "thread_ts": "1.000000" }), Some("1.000000")),
            (json!({ "timestamp": "2.000000", "thread_ts": "1.000000" }), Some("1.000000")),
            (json!({ "ts": "1.000000", "thread_ts": "1.000000" }), None),
            (json!({ "ts": "1.000000" }), None),
            (json!({ "ts": "1.000000", "thread_ts": "soon" }), None),
        ] {
            assert_eq!(root(row.clone()).as_deref(), expected, "{row}");
        }
    }

    #[test]
    fn odd_attributes_have_no_value_and_stay_in_the_row() {
        for odd in [json!(null), json!(7), json!([7, null]), json!({ "a": [1] })] {
            let names = ["ts", "thread_ts", "user", "text", "deleted", "updated_ts", "files_s3", "raw_event"];
            let row: Value = names.into_iter().map(|name| (name.to_owned(), odd.clone())).collect();
            let view = MessageView::from(row.clone());
            assert_eq!(
                (view.ts(), view.root_ts(), view.user(), view.text(), view.raw()),
                (None, None, None, None, None)
            );
            assert!(!view.is_deleted() && !view.is_edited() && !view.is_pinned() && view.files().is_empty());
            assert_eq!((view.stored_files().count(), view.file_verdict("F1")), (0, None));
            assert_eq!(serde_json::to_string(&view).unwrap(), row.to_string());
        }
    }
}
