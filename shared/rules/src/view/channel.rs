//! A state of a channel.

use serde_json::Value;

use super::{list, view};
use slack::envelope;
use slack::ids::ChannelId;

view! {
    /// A snapshot of a channel, as [`crate::project::channel`] returns it.
    ChannelView
}

impl ChannelView {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    /// The clock of the event of the snapshot, as text.
    pub fn ts(&self) -> Option<&str> {
        self.text_of("timestamp")
    }

    pub fn name(&self) -> Option<&str> {
        self.text_of("name")
    }

    /// The names that it had before, newest first.
    pub fn former_names(&self) -> impl Iterator<Item = &str> {
        list(&self.0["names_history"]).iter().skip(1).filter_map(Value::as_str)
    }

    /// Its topic, in Slack's markup.
    pub fn topic(&self) -> Option<&str> {
        self.text_of("topic")
    }

    /// Its purpose, in Slack's markup.
    pub fn purpose(&self) -> Option<&str> {
        self.text_of("purpose")
    }

    /// The id of its own canvas.
    pub fn canvas(&self) -> Option<&str> {
        self.text_of("canvas")
    }

    /// `public` or `private`, if it is known.
    pub fn visibility(&self) -> Option<&str> {
        self.text_of("visibility")
    }

    /// Whether it is known to be private now.
    pub fn is_private(&self) -> bool {
        self.visibility() == Some("private")
    }

    /// Shows whether it is private.
    pub fn set_private(&mut self, is_private: bool) {
        self.0["visibility"] = if is_private { "private" } else { "public" }.into();
    }

    pub fn is_archived(&self) -> bool {
        self.0["archived"] == true
    }

    pub fn is_deleted(&self) -> bool {
        self.0["deleted"] == true
    }

    /// Whether it is shared with another organisation.
    pub fn is_shared(&self) -> bool {
        self.0["ext_shared"] == true
    }

    /// The ids of the organisations with which it is shared.
    pub fn shared_with(&self) -> impl Iterator<Item = &str> {
        list(&self.0["shared_with"]).iter().filter_map(Value::as_str)
    }

    /// The words for a channel that is not simply public.
    pub fn marks(&self) -> impl Iterator<Item = &'static str> {
        let marks = [
            ("archived", self.is_archived()),
            ("deleted", self.is_deleted()),
            ("private", self.is_private()),
            ("shared", self.is_shared()),
        ];
        marks.into_iter().filter_map(|(mark, is_set)| is_set.then_some(mark))
    }

    /// The id that it had before this one.
    pub fn previous_id(&self) -> Option<ChannelId> {
        ChannelId::parse(self.text_of("prev_channel_id")?).ok()
    }

    /// The id under which it continues.
    pub fn next_id(&self) -> Option<ChannelId> {
        ChannelId::parse(self.text_of("next_channel_id")?).ok()
    }

    /// The last event that changed it, as Slack sent it; `None` if it is missing or unreadable.
    pub fn raw(&self) -> Option<Value> {
        envelope::parse_value(self.text_of("raw_event")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_channel_that_is_not_simply_public_has_marks() {
        let marks = |row: Value| ChannelView::from(row).marks().collect::<Vec<_>>();
        assert_eq!(marks(json!({ "visibility": "public", "archived": false })), [""; 0]);
        let all = json!({ "archived": true, "deleted": true, "visibility": "private", "ext_shared": true });
        assert_eq!(marks(all), ["archived", "deleted", "private", "shared"]);
    }

    #[test]
    fn odd_attributes_have_no_value_and_stay_in_the_row() {
        let names = [
            "archived",
            "canvas",
            "deleted",
            "ext_shared",
            "name",
            "names_history",
            "next_channel_id",
            "prev_channel_id",
            "purpose",
            "raw_event",
            "shared_with",
            "timestamp",
            "topic",
            "visibility",
        ];
        for odd in [json!(null), json!(7), json!([null, 7, [7]]), json!({ "a": [1] })] {
            let row: Value = names.into_iter().map(|name| (name.to_owned(), odd.clone())).collect();
            let view = ChannelView::from(row.clone());
            let texts =
                [view.ts(), view.name(), view.topic(), view.purpose(), view.canvas(), view.visibility()];
            assert_eq!((texts, view.raw()), ([None; 6], None));
            assert_eq!((view.previous_id(), view.next_id()), (None, None));
            assert_eq!(view.marks().count() + view.former_names().count() + view.shared_with().count(), 0);
            assert_eq!(serde_json::to_string(&view).unwrap(), row.to_string());
        }
    }
}
