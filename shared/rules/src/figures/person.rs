//! The kinds of authors: members, guests and people of other workspaces post; apps are counted separately.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use ports::archive::Item;
use slack::envelope::{is_true, text_or_none};
use slack::ids::SLACKBOT;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthorKind {
    /// A person of the workspace.
    Member,
    /// A guest of the workspace, in one channel or in several.
    Guest,
    /// A person of another workspace, in a shared channel, or an unknown person.
    Stranger,
    /// A person whose account was deactivated. What they wrote counts.
    Deleted,
    /// An app, or Slack itself.
    Bot,
}

impl AuthorKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Member, Self::Guest, Self::Stranger, Self::Deleted, Self::Bot];

    /// The name for scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Guest => "guest",
            Self::Stranger => "stranger",
            Self::Deleted => "deleted",
            Self::Bot => "bot",
        }
    }

    /// The kind of a person as Slack's directory lists them.
    pub fn from_listed(raw: &str, id: &str, team: &str) -> Self {
        let account = ListedAccount::read(raw);
        Self::from_account(&account, id, team, false, account.deleted)
    }

    fn from_account(
        account: &ListedAccount<'_>,
        id: &str,
        team: &str,
        is_bot: bool,
        is_deleted: bool,
    ) -> Self {
        let elsewhere =
            || account.team_id.as_deref().is_some_and(|home| home != team && home.starts_with('T'));
        if is_bot || account.is_bot || id == SLACKBOT {
            Self::Bot
        } else if account.is_stranger || elsewhere() {
            Self::Stranger
        } else if is_deleted {
            Self::Deleted
        } else if account.is_restricted || account.is_ultra_restricted {
            Self::Guest
        } else {
            Self::Member
        }
    }

    /// Whether the account belongs to this workspace, even if it was deactivated. Guests' accounts do.
    #[must_use]
    pub fn is_of_workspace(self) -> bool {
        match self {
            Self::Member | Self::Guest | Self::Deleted | Self::Bot => true,
            Self::Stranger => false,
        }
    }

    /// Whether they can post today: people of this workspace, guests included.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::Member | Self::Guest => true,
            Self::Stranger | Self::Deleted | Self::Bot => false,
        }
    }
}

/// The fields from which an author's kind is determined. A report reads them for everyone in a workspace.
#[derive(Default, Deserialize)]
struct ListedAccount<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    team_id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_true")]
    is_bot: bool,
    #[serde(default, deserialize_with = "is_true")]
    is_stranger: bool,
    #[serde(default, deserialize_with = "is_true")]
    is_restricted: bool,
    #[serde(default, deserialize_with = "is_true")]
    is_ultra_restricted: bool,
    #[serde(default, deserialize_with = "is_true")]
    deleted: bool,
}

impl<'a> ListedAccount<'a> {
    /// Reads an account; an unreadable one has the default values.
    fn read(raw: &'a str) -> Self {
        // A derived deserializer would accept an array as a struct, field by field.
        let is_object = raw.trim_ascii_start().starts_with('{');
        if is_object { serde_json::from_str(raw).unwrap_or_default() } else { Self::default() }
    }
}

/// The facts about a person that figures need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonFacts {
    pub kind: AuthorKind,
    /// Their display name; `None` if it is not known.
    pub name: Option<String>,
    /// Their time zone, such as `Europe/Berlin`.
    pub tz: Option<String>,
    /// The offset of their local time from UTC, in minutes.
    pub offset_minutes: Option<i64>,
}

impl PersonFacts {
    /// Reads a person's row in the directory of a workspace; `None` if the person was erased.
    pub fn read(row: &Item, team: &str) -> Option<Self> {
        if row.is_erased() {
            return None;
        }
        let account = row.text("raw_event").map(ListedAccount::read).unwrap_or_default();
        let kind = AuthorKind::from_account(
            &account,
            &row.key.timestamp,
            team,
            row.has_flag("is_bot"),
            row.has_flag("deleted"),
        );
        let name = ["display_name", "real_name", "name"].into_iter().find_map(|name| row.text(name));
        let seconds = row.attributes.get("tz_offset").and_then(Value::as_i64);
        Some(Self {
            kind,
            name: name.map(str::to_owned),
            tz: row.text("tz").map(str::to_owned),
            offset_minutes: seconds.filter(|seconds| seconds.abs() <= 86_400).map(|seconds| seconds / 60),
        })
    }

    /// Whether a message is an app's. `id` is the author that it names, and `author` are the known facts
    /// about them.
    pub fn is_bot(id: Option<&str>, author: Option<&Self>, is_by_app: bool) -> bool {
        match (id, author) {
            (None, _) | (Some(SLACKBOT), _) => true,
            // A person may post through an app.
            (Some(_), Some(person)) => person.kind == AuthorKind::Bot,
            (Some(_), None) => is_by_app,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ports::archive::ItemKey;

    fn person(object: Value) -> Option<PersonFacts> {
        let mut attributes = ports::archive::Attributes::new();
        for name in ["is_bot", "deleted", "erased"] {
            attributes.extend(object.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        for name in ["name", "real_name", "tz", "tz_offset"] {
            attributes.extend(object.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        attributes.insert("raw_event".into(), object.to_string().into());
        PersonFacts::read(&Item { key: ItemKey::new("user#T1", "U1"), attributes }, "T1")
    }

    #[test]
    fn the_kind_of_an_author_depends_on_the_account() {
        for (object, kind) in [
            (json!({}), AuthorKind::Member),
            (json!({ "team_id": "T1" }), AuthorKind::Member),
            (json!({ "team_id": "E1" }), AuthorKind::Member),
            (json!({ "team_id": "T2" }), AuthorKind::Stranger),
            (json!({ "is_stranger": true }), AuthorKind::Stranger),
            (json!({ "is_restricted": true }), AuthorKind::Guest),
            (json!({ "is_ultra_restricted": true, "is_restricted": true }), AuthorKind::Guest),
            (json!({ "is_ultra_restricted": true, "deleted": true }), AuthorKind::Deleted),
            (json!({ "is_bot": true, "deleted": true }), AuthorKind::Bot),
            (json!({ "is_restricted": "true" }), AuthorKind::Member),
            (
                json!({ "is_restricted": true, "team_id": 1, "profile": { "is_bot": true } }),
                AuthorKind::Guest,
            ),
            (json!([null, true]), AuthorKind::Member),
        ] {
            assert_eq!(person(object.clone()).unwrap().kind, kind, "{object}");
            assert_eq!(AuthorKind::from_listed(&object.to_string(), "U1", "T1"), kind, "{object}");
        }
        assert_eq!(person(json!({ "erased": true })), None);
        // Half a character in a name does not hide the account's flags.
        let half = r#"{"name":"\ud800","is_bot":true}"#;
        assert_eq!(AuthorKind::from_listed(half, "U1", "T1"), AuthorKind::Bot);
    }

    #[test]
    fn an_offset_from_utc_is_at_most_a_day() {
        let offset = |seconds: Value| person(json!({ "tz_offset": seconds })).unwrap().offset_minutes;
        assert_eq!(offset(json!(20_700)), Some(345));
        assert_eq!(offset(json!(-14_400)), Some(-240));
        for odd in [json!(1e300), json!(i64::MAX), json!("3600"), json!(100_000)] {
            assert_eq!(offset(odd.clone()), None, "{odd}");
        }
    }

    #[test]
    fn an_app_may_post_in_a_persons_name() {
        let (member, app) = (person(json!({})).unwrap(), person(json!({ "is_bot": true })).unwrap());
        assert!(!PersonFacts::is_bot(Some("U1"), Some(&member), true));
        assert!(PersonFacts::is_bot(Some("U1"), Some(&app), false));
        assert!(PersonFacts::is_bot(Some("U1"), None, true));
        assert!(!PersonFacts::is_bot(Some("U1"), None, false));
        assert!(PersonFacts::is_bot(None, None, false) && PersonFacts::is_bot(Some(SLACKBOT), None, false));
    }
}
