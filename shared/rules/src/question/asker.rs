//! Whether a user may ask questions, determined from the user's row.

use ports::archive::Item;
use slack::ids::TeamId;

use crate::account::AccountStatus;

/// Whether the responder answers an author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskerStatus {
    /// A member of this workspace: the responder answers.
    Member,
    /// A guest, a user of another workspace, a bot, or a user who has left or was erased.
    Refused,
    /// The user is not in the directory yet.
    Unknown,
}

/// The status of a user according to their row.
pub fn asker_status(team: &TeamId, row: Option<&Item>) -> AskerStatus {
    match AccountStatus::from_row(team, row) {
        AccountStatus::Member => AskerStatus::Member,
        AccountStatus::Unknown => AskerStatus::Unknown,
        AccountStatus::MemberElsewhere
        | AccountStatus::Guest
        | AccountStatus::Stranger
        | AccountStatus::Bot
        | AccountStatus::Left
        | AccountStatus::Unreadable => AskerStatus::Refused,
    }
}

#[cfg(test)]
mod tests {
    use ports::archive::{Attributes, ItemKey};
    use serde_json::{Value, json};
    use slack::ids::UserId;

    use super::*;

    fn row(raw: &Value) -> Item {
        let key = ItemKey::user(&TeamId::parse("T1").unwrap(), &UserId::parse("U1").unwrap());
        let attributes: Attributes = [("raw_event".to_owned(), raw.to_string().into())].into_iter().collect();
        Item { key, attributes }
    }

    #[test]
    fn only_members_of_the_workspace_are_answered() {
        let team = TeamId::parse("T1").unwrap();
        let status = |raw: Value| asker_status(&team, Some(&row(&raw)));
        assert_eq!(status(json!({ "id": "U1", "team_id": "T1" })), AskerStatus::Member);
        assert_eq!(status(json!({ "id": "U1" })), AskerStatus::Member);
        for refused in [
            json!({ "is_restricted": true }),
            json!({ "is_ultra_restricted": true }),
            json!({ "is_bot": true }),
            json!({ "is_stranger": true }),
            json!({ "deleted": true }),
            json!({ "team_id": "T2" }),
            json!({ "is_restricted": "yes" }),
            json!([]),
        ] {
            assert_eq!(status(refused.clone()), AskerStatus::Refused, "{refused}");
        }
        assert_eq!(asker_status(&team, None), AskerStatus::Unknown);
        let erased = Item::erased(row(&json!({})).key);
        assert_eq!(asker_status(&team, Some(&erased)), AskerStatus::Refused);
        let only_a_picture = Item { attributes: Attributes::new(), ..row(&json!({})) };
        assert_eq!(asker_status(&team, Some(&only_a_picture)), AskerStatus::Unknown);
    }
}
