//! Tokens with which programs read over HTTP: `token#readers` / id. A row has the hash of a token's secret; the
//! secret is printed once, when the token is made.

use std::fmt;

use ports::archive::{Item, ItemKey, Update, text_attributes};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::{TeamId, Ts, UserId};

/// The beginning of every token, by which scanners of secrets recognise it.
pub const PREFIX: &str = "annalist_";

/// The length of an id: 6 random bytes in hex.
const ID_CHARS: usize = 12;

/// The length of a secret: 32 random bytes in base64url.
const SECRET_CHARS: usize = 43;

const NAME: &str = "name";
const HASH: &str = "hash";
const CREATED: &str = "created";
const EXPIRES: &str = "expires";
const AS_TEAM: &str = "as_team";
const AS_USER: &str = "as_user";
const REVOKED: &str = "revoked";

/// A text that has the shape of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct PresentedToken {
    id: String,
    hash: String,
}

/// Without the hash.
impl fmt::Debug for PresentedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PresentedToken").field(&self.id).finish()
    }
}

impl PresentedToken {
    /// Reads a token; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_id =
            id.len() == ID_CHARS && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let is_base64url = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let is_secret = secret.len() == SECRET_CHARS && secret.bytes().all(is_base64url);
        (is_id && is_secret).then(|| Self { id: id.to_owned(), hash: to_hex(&Sha256::digest(secret)) })
    }

    /// The id of the token's row.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A token as its row has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderToken {
    pub id: String,
    /// The name that its maker gave it.
    pub name: String,
    /// The hash of its secret, in hex.
    pub hash: String,
    /// When it was made.
    pub created: Ts,
    /// When it stops being valid.
    pub expires: Option<Ts>,
    /// The person as whom it reads.
    pub person: Option<(TeamId, UserId)>,
    pub is_revoked: bool,
}

impl ReaderToken {
    /// A new token. `token` is the text that its owner gets.
    pub fn new(
        token: &PresentedToken,
        name: &str,
        created: Ts,
        expires: Option<Ts>,
        person: Option<(TeamId, UserId)>,
    ) -> Self {
        let PresentedToken { id, hash } = token.clone();
        Self { id, name: name.to_owned(), hash, created, expires, person, is_revoked: false }
    }

    /// The update that stores a new token.
    pub fn creation(&self) -> Update {
        let fixed = [(NAME, &*self.name), (HASH, &*self.hash), (CREATED, self.created.as_str())];
        let mut set_if_absent = text_attributes(fixed);
        let mut set = |name: &str, value: &str| drop(set_if_absent.insert(name.to_owned(), value.into()));
        if let Some(expires) = &self.expires {
            set(EXPIRES, expires.as_str());
        }
        if let Some((team, user)) = &self.person {
            set(AS_TEAM, team.as_str());
            set(AS_USER, user.as_str());
        }
        Update { set_if_absent, ..Update::new(ItemKey::reader_token(&self.id)) }
    }

    /// The update that revokes a token for good.
    pub fn revocation(id: &str) -> Update {
        let set_if_absent = [(REVOKED.to_owned(), true.into())].into_iter().collect();
        Update { set_if_absent, ..Update::new(ItemKey::reader_token(id)) }
    }

    /// Reads a row; `None` if it lacks what a token must have, or names a person that cannot be read.
    pub fn from_row(row: &Item) -> Option<Self> {
        if row.is_erased() {
            return None;
        }
        let ts = |name: &str| match row.attributes.get(name) {
            None => Some(None),
            // A time that cannot be read is not a missing one.
            Some(text) => Some(Some(Ts::parse(text.as_str()?).ok()?)),
        };
        let person = match (row.attributes.get(AS_TEAM), row.attributes.get(AS_USER)) {
            (None, None) => None,
            (Some(team), Some(user)) => {
                Some((TeamId::parse(team.as_str()?).ok()?, UserId::parse(user.as_str()?).ok()?))
            }
            (Some(_), None) | (None, Some(_)) => return None,
        };
        Some(Self {
            id: row.key.timestamp.clone(),
            name: row.text(NAME)?.to_owned(),
            hash: row.text(HASH)?.to_owned(),
            created: ts(CREATED)??,
            expires: ts(EXPIRES)?,
            person,
            is_revoked: row.attributes.contains_key(REVOKED),
        })
    }

    /// Whether this is the token of a request, and is valid in this second.
    pub fn admits(&self, presented: &PresentedToken, now_s: i64) -> bool {
        self.id == presented.id
            && are_equal(&self.hash, &presented.hash)
            && !self.is_revoked
            && !self.has_expired(now_s)
    }

    /// Whether it has expired in this second.
    pub fn has_expired(&self, now_s: i64) -> bool {
        self.expires.as_ref().is_some_and(|expires| expires.micros() <= now_s.saturating_mul(1_000_000))
    }
}

/// Compares all bytes, so that the time does not depend on the first difference.
fn are_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_S: i64 = 1_800_000_000;

    fn text(id: &str, letter: char) -> String {
        format!("{PREFIX}{id}_{}", letter.to_string().repeat(SECRET_CHARS))
    }

    fn ts(second: i64) -> Ts {
        Ts::parse(&format!("{second}.000000")).unwrap()
    }

    fn stored(updates: &[Update]) -> Item {
        let attributes = updates.iter().fold(None, |stored, update| update.apply(stored.as_ref()));
        Item { key: updates[0].key.clone(), attributes: attributes.unwrap() }
    }

    #[test]
    fn only_the_text_that_was_printed_is_a_token() {
        let good = text("0123456789ab", 'A');
        assert_eq!(PresentedToken::parse(&good).unwrap().id(), "0123456789ab");
        let with_underscores = format!("{PREFIX}0123456789ab_{}", "_-".repeat(22).split_at(43).0);
        assert!(PresentedToken::parse(&with_underscores).is_some());
        for bad in [
            String::new(),
            PREFIX.to_owned(),
            format!("{good}A"),
            good[..good.len() - 1].to_owned(),
            good.to_uppercase(),
            text("0123456789AB", 'A'),
            text("0123456789a", 'A'),
            text("0123456789ab", '='),
            text("0123456789ab", 'é'),
            good.replace("annalist_", "xoxb-"),
            format!(" {good}"),
        ] {
            assert!(PresentedToken::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_revoked_and_its_row_has_no_secret() {
        let printed = text("0123456789ab", 'A');
        let presented = PresentedToken::parse(&printed).unwrap();
        let person = (TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap());
        let token = ReaderToken::new(&presented, "ci", ts(NOW_S), Some(ts(NOW_S + 10)), Some(person));
        let row = stored(&[token.creation()]);
        assert!(!row.to_json().to_string().contains("AAAA"), "{row:?}");
        let read = ReaderToken::from_row(&row).unwrap();
        assert_eq!(read, token);
        assert_eq!(
            [NOW_S, NOW_S + 9, NOW_S + 10].map(|now_s| read.admits(&presented, now_s)),
            [true, true, false]
        );
        for other in [text("0123456789ab", 'B'), text("0123456789ac", 'A')] {
            assert!(!read.admits(&PresentedToken::parse(&other).unwrap(), NOW_S), "{other}");
        }
        let revocation = ReaderToken::revocation("0123456789ab");
        for updates in [[token.creation(), revocation.clone()], [revocation.clone(), token.creation()]] {
            let revoked = ReaderToken::from_row(&stored(&updates)).unwrap();
            assert!(revoked.is_revoked && !revoked.admits(&presented, NOW_S));
        }
        assert_eq!(ReaderToken::from_row(&stored(&[revocation])), None, "there was no such token");
        let again = ReaderToken { name: "other".to_owned(), hash: "0".repeat(64), ..token.clone() };
        assert_eq!(stored(&[token.creation(), again.creation()]), row, "a token is set once");
    }

    #[test]
    fn a_damaged_row_is_no_token() {
        let presented = PresentedToken::parse(&text("0123456789ab", 'A')).unwrap();
        let whole = stored(&[ReaderToken::new(&presented, "ci", ts(NOW_S), None, None).creation()]);
        assert!(ReaderToken::from_row(&whole).unwrap().admits(&presented, i64::MAX));
        for (name, value) in [
            ("hash", json!(null)),
            ("hash", json!(["0"])),
            ("name", json!(7)),
            ("created", json!("now")),
            ("expires", json!("never")),
            ("as_team", json!("T1")),
            ("as_user", json!("U1")),
            ("erased", json!(true)),
        ] {
            let mut row = whole.clone();
            row.attributes.insert(name.to_owned(), value.clone());
            assert_eq!(ReaderToken::from_row(&row), None, "{name} {value}");
        }
        let mut row = whole;
        row.attributes.insert("as_team".to_owned(), json!("T1"));
        row.attributes.insert("as_user".to_owned(), json!({}));
        assert_eq!(ReaderToken::from_row(&row), None, "a token for a person never reads without them");
        // A number in place of a text is no time: the token does not live on without its end.
        row.attributes.retain(|name, _| !name.starts_with("as_"));
        row.attributes.insert("expires".to_owned(), json!(1));
        assert_eq!(ReaderToken::from_row(&row), None);
    }
}
