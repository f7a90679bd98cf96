//! A person.

use serde_json::Value;

use super::view;
use slack::envelope;

view! {
    /// A person, as [`crate::project::directory`] returns them, or one of their profiles, as
    /// [`crate::profile::projected`] does.
    PersonView
}

impl PersonView {
    fn text_of(&self, name: &str) -> Option<&str> {
        self.0[name].as_str()
    }

    pub fn id(&self) -> Option<&str> {
        self.text_of("user_id").or(self.text_of("timestamp"))
    }

    /// Their user name.
    pub fn name(&self) -> Option<&str> {
        self.text_of("name")
    }

    /// The name that they chose to be shown.
    pub fn display_name(&self) -> Option<&str> {
        self.text_of("display_name")
    }

    /// Their full name.
    pub fn real_name(&self) -> Option<&str> {
        self.text_of("real_name")
    }

    /// Whether it is an app's user.
    pub fn is_bot(&self) -> bool {
        self.0["is_bot"] == true
    }

    /// Whether their account was deactivated.
    pub fn is_deactivated(&self) -> bool {
        self.0["deleted"] == true
    }

    /// Their kind, if the reader added it.
    pub fn kind(&self) -> Option<&str> {
        self.text_of("kind")
    }

    pub fn set_kind(&mut self, kind: &str) {
        self.0["kind"] = kind.into();
    }

    /// The name of their organisation, if it is another one and the reader added it.
    pub fn organisation(&self) -> Option<&str> {
        self.text_of("team_name")
    }

    pub fn set_organisation(&mut self, name: &str) {
        self.0["team_name"] = name.into();
    }

    /// When a profile was first seen.
    pub fn first_ts(&self) -> Option<&str> {
        self.text_of("first_ts")
    }

    /// When a profile was last seen.
    pub fn last_ts(&self) -> Option<&str> {
        self.text_of("last_ts")
    }

    /// The person as Slack sent them; `None` if that is missing or unreadable.
    pub fn raw(&self) -> Option<Value> {
        envelope::parse_value(self.text_of("raw_event")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_id_of_a_person_is_in_the_key_of_a_row_that_does_not_name_it() {
        let id = |row: Value| PersonView::from(row).id().map(str::to_owned);
        assert_eq!(id(json!({ "timestamp": "U1" })).as_deref(), Some("U1"));
        assert_eq!(id(json!({ "user_id": "U1", "timestamp": "hash" })).as_deref(), Some("U1"));
        assert_eq!(id(json!({ "user_id": 7 })), None);
    }

    #[test]
    fn odd_attributes_have_no_value_and_stay_in_the_row() {
        let names = [
            "deleted",
            "display_name",
            "first_ts",
            "is_bot",
            "kind",
            "last_ts",
            "name",
            "raw_event",
            "real_name",
            "team_name",
            "timestamp",
            "user_id",
        ];
        for odd in [json!(null), json!(7), json!([null, 7]), json!({ "a": [1] })] {
            let row: Value = names.into_iter().map(|name| (name.to_owned(), odd.clone())).collect();
            let view = PersonView::from(row.clone());
            let texts = [view.id(), view.name(), view.display_name(), view.real_name(), view.kind()];
            assert_eq!((texts, view.raw()), ([None; 5], None));
            assert_eq!((view.organisation(), view.first_ts(), view.last_ts()), (None, None, None));
            assert!(!view.is_bot() && !view.is_deactivated());
            assert_eq!(serde_json::to_string(&view).unwrap(), row.to_string());
        }
    }
}
