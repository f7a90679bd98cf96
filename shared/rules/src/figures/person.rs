//! Which kind of author someone is: people, guests and people of other workspaces post; apps are counted apart.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use ports::archive::Item;
use slack::envelope::{is_true, text_or_none};

/// Slack itself, in every workspace.
const SLACKBOT: &str = "USLACKBOT";

/// A kind of author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthorKind {
    /// A person of the workspace.
    Member,
    /// A guest of the workspace, in one channel or in several.
    Guest,
    /// A person of another workspace, in a channel that both share, or one of whom nothing is known.
    Stranger,
    /// A person whose account was deactivated. What they wrote counts.
    Deleted,
    /// An app, or Slack itself.
    Bot,
}

impl AuthorKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Member, Self::Guest, Self::Stranger, Self::Deleted, Self::Bot];

    /// As scripts read it.
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
    pub fn listed(raw: &str, id: &str, team: &str) -> Self {
        let account = ListedAccount::read(raw);
        Self::of(&account, id, team, false, account.deleted)
    }

    fn of(account: &ListedAccount<'_>, id: &str, team: &str, is_bot: bool, is_deleted: bool) -> Self {
        let elsewhere = || account.team_id.as_deref().is_some_and(|of| of != team && of.starts_with('T'));
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

    /// Whether the account is of this workspace, whatever became of it. Guests are.
    #[must_use]
    pub fn is_of_workspace(self) -> bool {
        match self {
            Self::Member | Self::Guest | Self::Deleted | Self::Bot => true,
            Self::Stranger => false,
        }
    }

    /// Whether they could post today: people of this workspace, guests included.
    #[must_use]
    pub fn is_active(self) -> bool {
        match self {
            Self::Member | Self::Guest => true,
            Self::Stranger | Self::Deleted | Self::Bot => false,
        }
    }
}

/// What the kind of an author is read from: a report reads it of everyone in a workspace.
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
    /// What cannot be read says nothing.
    fn read(raw: &'a str) -> Self {
        // A derived reader would take an array for a struct, field by field.
        let is_object = raw.trim_ascii_start().starts_with('{');
        if is_object { serde_json::from_str(raw).unwrap_or_default() } else { Self::default() }
    }
}

/// What figures need of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonFacts {
    /// What kind of author they are.
    pub kind: AuthorKind,
    /// What they are called; `None` if nothing says it.
    pub name: Option<String>,
    /// Their time zone, such as `Europe/Berlin`.
    pub tz: Option<String>,
    /// What their clock is ahead of UTC, in minutes.
    pub offset_minutes: Option<i64>,
}

impl PersonFacts {
    /// Reads a row of the directory of a workspace; `None` if the person was erased.
    pub fn read(row: &Item, team: &str) -> Option<Self> {
        if row.is_erased() {
            return None;
        }
        let account = row.text("raw_event").map(ListedAccount::read).unwrap_or_default();
        let kind = AuthorKind::of(&account, &row.key.timestamp, team, row.is("is_bot"), row.is("deleted"));
        let named = ["display_name", "real_name", "name"].into_iter().find_map(|name| row.text(name));
        let seconds = row.attributes.get("tz_offset").and_then(Value::as_i64);
        Some(Self {
            kind,
            name: named.map(str::to_owned),
            tz: row.text("tz").map(str::to_owned),
            offset_minutes: seconds.filter(|seconds| seconds.abs() <= 86_400).map(|seconds| seconds / 60),
        })
    }

    /// Whether a message is an app's; `author` is what is known of the one it names.
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
    fn the_kinds_of_authors() {
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
            assert_eq!(AuthorKind::listed(&object.to_string(), "U1", "T1"), kind, "{object}");
        }
        assert_eq!(person(json!({ "erased": true })), None);
        // Half a character in a name says nothing of the account.
        let half = r#"{"name":"\ud800","is_bot":true}"#;
        assert_eq!(AuthorKind::listed(half, "U1", "T1"), AuthorKind::Bot);
    }

    #[test]
    fn a_clock_is_no_more_than_a_day_ahead_or_behind() {
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
