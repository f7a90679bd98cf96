//! The account of a person, determined from their row in the directory.

use ports::archive::Item;
use serde::Deserialize;
use slack::ids::TeamId;

/// What a person is in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountStatus {
    Member,
    /// A member whose home is another workspace of the organisation.
    MemberElsewhere,
    /// A guest, in one channel or in several.
    Guest,
    /// A person of another organisation.
    Stranger,
    /// The user of an app.
    Bot,
    /// A person who has left, or who was erased.
    Left,
    /// The row cannot be read.
    Unreadable,
    /// The person is not in the directory yet.
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Account {
    team_id: Option<String>,
    is_restricted: Option<bool>,
    is_ultra_restricted: Option<bool>,
    is_bot: Option<bool>,
    is_stranger: Option<bool>,
    deleted: Option<bool>,
}

impl AccountStatus {
    /// The status of a person according to their row in this workspace.
    pub fn from_row(team: &TeamId, row: Option<&Item>) -> Self {
        let Some(row) = row else { return Self::Unknown };
        if row.is_erased() || row.has_flag("deleted") {
            return Self::Left;
        }
        if row.has_flag("is_bot") {
            return Self::Bot;
        }
        let Some(raw) = row.text("raw_event") else { return Self::Unknown };
        // A field of an unexpected type must not make anyone a member; `null` is that the field is absent.
        let account = serde_json::from_str::<Account>(raw).ok().filter(|_| raw.trim_start().starts_with('{'));
        match account {
            None => Self::Unreadable,
            Some(Account { deleted: Some(true), .. }) => Self::Left,
            Some(Account { is_bot: Some(true), .. }) => Self::Bot,
            Some(Account { is_stranger: Some(true), .. }) => Self::Stranger,
            Some(
                Account { is_restricted: Some(true), .. } | Account { is_ultra_restricted: Some(true), .. },
            ) => Self::Guest,
            Some(account) if account.team_id.as_deref().is_some_and(|home| home != team.as_str()) => {
                Self::MemberElsewhere
            }
            Some(_) => Self::Member,
        }
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{Attributes, ItemKey};
    use serde_json::{Value, json};
    use slack::ids::UserId;

    use super::*;

    fn status(row: &Value) -> AccountStatus {
        let team = TeamId::parse("T1").unwrap();
        let key = ItemKey::user(&team, &UserId::parse("U1").unwrap());
        let attributes: Attributes = row.as_object().unwrap().clone();
        AccountStatus::from_row(&team, Some(&Item { key, attributes }))
    }

    #[test]
    fn a_person_is_a_member_unless_their_row_says_otherwise_or_cannot_be_read() {
        let raw = |account: Value| json!({ "raw_event": account.to_string() });
        for (row, expected) in [
            (raw(json!({ "id": "U1" })), AccountStatus::Member),
            (raw(json!({ "team_id": "T1", "is_restricted": false })), AccountStatus::Member),
            (raw(json!({ "team_id": "T2" })), AccountStatus::MemberElsewhere),
            (raw(json!({ "is_restricted": true })), AccountStatus::Guest),
            (raw(json!({ "is_ultra_restricted": true, "team_id": "T2" })), AccountStatus::Guest),
            (raw(json!({ "is_stranger": true, "is_restricted": true })), AccountStatus::Stranger),
            (raw(json!({ "is_bot": true })), AccountStatus::Bot),
            (raw(json!({ "deleted": true })), AccountStatus::Left),
            (raw(json!({ "is_restricted": "yes" })), AccountStatus::Unreadable),
            (
                raw(json!({ "deleted": null, "is_bot": null, "is_restricted": null, "team_id": null })),
                AccountStatus::Member,
            ),
            (raw(json!({ "deleted": null, "is_ultra_restricted": true })), AccountStatus::Guest),
            (raw(json!([])), AccountStatus::Unreadable),
            (raw(json!(null)), AccountStatus::Unreadable),
            (json!({ "raw_event": "{" }), AccountStatus::Unreadable),
            (json!({ "raw_event": "{}", "deleted": true }), AccountStatus::Left),
            (json!({ "raw_event": "{}", "is_bot": true }), AccountStatus::Bot),
            (json!({ "erased": true }), AccountStatus::Left),
            (json!({ "name": "ana" }), AccountStatus::Unknown),
        ] {
            assert_eq!(status(&row), expected, "{row}");
        }
        assert_eq!(AccountStatus::from_row(&TeamId::parse("T1").unwrap(), None), AccountStatus::Unknown);
    }
}
