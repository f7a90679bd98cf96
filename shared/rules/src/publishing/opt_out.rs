//! Whether a person may be named on a public site: `optout#{team}` / `{user}`. The latest wish wins. The row holds
//! an id and no name, and stays when the person is erased.

use ports::archive::{Guard, Item, ItemKey, Update, text_attributes};
use ports::clock::TimestampMs;
use slack::ids::{TeamId, UserId};

/// The register: the time of the wish, then the wish.
const STANCE: &str = "stance";

/// The attribute of the key of pseudonyms.
pub const KEY: &str = "key";

/// The wish of a person about a public site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PublicStance {
    /// To be shown like others.
    #[default]
    In,
    /// Neither to be named nor to have messages on it.
    Out,
    /// Not to be named, with the messages.
    KeepText,
}

impl PublicStance {
    fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::KeepText => "keep",
        }
    }

    /// Reads the wish from its row.
    pub fn from_row(row: &Item) -> Self {
        let stance = row.text(STANCE).and_then(|stance| stance.split_once('/'));
        let known = [Self::In, Self::Out, Self::KeepText];
        let found = stance.and_then(|(_, stance)| known.into_iter().find(|known| known.as_str() == stance));
        found.unwrap_or_default()
    }

    /// Whether the texts are shown, if the person is hidden; `None` if the person is not.
    pub fn hides(self) -> Option<bool> {
        match self {
            Self::In => None,
            Self::Out => Some(false),
            Self::KeepText => Some(true),
        }
    }
}

/// The time of the wish in a row.
pub fn since(row: &Item) -> Option<TimestampMs> {
    row.text(STANCE)?.split_once('/')?.0.parse().ok().map(TimestampMs)
}

/// The update that stores a wish.
pub fn update(team: &TeamId, user: &UserId, stance: PublicStance, at: TimestampMs) -> Update {
    let version = format!("{:013}/{}", at.0, stance.as_str());
    let guard = Guard::Greater { register: STANCE.into(), version };
    let set_if_absent =
        text_attributes([("type", "optout"), ("team_id", team.as_str()), ("user_id", user.as_str())]);
    Update { guard, set_if_absent, ..Update::new(ItemKey::public_stance(team, user)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_wish_wins_in_any_order() {
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let wish = |stance, at| update(&team, &user, stance, TimestampMs(at));
        let wishes = [
            wish(PublicStance::Out, 999),
            wish(PublicStance::In, 1_000),
            wish(PublicStance::KeepText, 2_000),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut stored = None;
            for index in order {
                stored = wishes[index].apply(stored.as_ref()).or(stored);
            }
            let row = Item { key: wishes[0].key.clone(), attributes: stored.unwrap() };
            assert_eq!(PublicStance::from_row(&row), PublicStance::KeepText);
            assert_eq!(
                (since(&row), PublicStance::from_row(&row).hides()),
                (Some(TimestampMs(2_000)), Some(true))
            );
        }
    }

    #[test]
    fn an_unreadable_wish_hides_no_person() {
        for stance in ["", "out", "x/maybe"] {
            let attributes = [(STANCE.to_owned(), stance.into())].into_iter().collect();
            let row = Item { key: ItemKey::new("optout#T1", "U1"), attributes };
            assert_eq!(PublicStance::from_row(&row), PublicStance::In);
        }
    }
}
