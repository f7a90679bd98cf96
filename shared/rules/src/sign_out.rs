//! The times before which sessions do not count: `signout#readers` / `{team}/{user}`, or `all`.

use std::collections::BTreeMap;

use ports::archive::{Guard, Item, ItemKey, Update};
use slack::ids::{TeamId, Ts, UserId};

/// The register: it only grows.
const SINCE: &str = "since";

/// The row of all sessions.
const ALL: &str = "all";

/// Ends the sessions that began up to this time: those of a person, or all.
pub fn update(person: Option<(&TeamId, &UserId)>, since: &Ts) -> Update {
    let who = person.map_or_else(|| ALL.to_owned(), |(team, user)| format!("{team}/{user}"));
    let guard = Guard::Greater { register: SINCE.into(), version: since.padded() };
    Update { guard, ..Update::new(ItemKey::sign_out(&who)) }
}

/// All sign-outs of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignOuts {
    by_row: BTreeMap<String, i64>,
}

impl SignOuts {
    pub fn add(&mut self, row: &Item) {
        let since = row.text(SINCE).and_then(Ts::unpadded);
        if let Some(since) = since.filter(|_| !row.is_erased()) {
            self.by_row.insert(row.key.timestamp.clone(), since.micros().div_euclid(1_000_000));
        }
    }

    /// Whether a session that began in this second has ended.
    pub fn has_ended(&self, person: Option<(&TeamId, &UserId)>, began_s: i64) -> bool {
        let is_since = |who: &str| self.by_row.get(who).is_some_and(|since_s| began_s <= *since_s);
        is_since(ALL) || person.is_some_and(|(team, user)| is_since(&format!("{team}/{user}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_out_ends_the_sessions_that_began_before_it() {
        let team = TeamId::parse("T1").unwrap();
        let [ana, bo] = ["U1", "U2"].map(|user| UserId::parse(user).unwrap());
        let ts = |text: &str| Ts::parse(text).unwrap();
        let mut rows: BTreeMap<ItemKey, Item> = BTreeMap::new();
        let mut write = |update: Update| {
            let stored = rows.get(&update.key).map(|item| &item.attributes);
            if let Some(attributes) = update.apply(stored) {
                rows.insert(update.key.clone(), Item { key: update.key, attributes });
            }
            let mut sign_outs = SignOuts::default();
            rows.values().for_each(|row| sign_outs.add(row));
            sign_outs
        };
        let one = write(update(Some((&team, &ana)), &ts("1700000100.500000")));
        // An earlier one that arrives later changes nothing.
        assert_eq!(write(update(Some((&team, &ana)), &ts("1700000000.000000"))), one);
        let all = write(update(None, &ts("1700000050.000000")));
        for (person, began_s, in_one, in_all) in [
            (Some((&team, &ana)), 1_700_000_100, true, true),
            (Some((&team, &ana)), 1_700_000_101, false, false),
            (Some((&team, &bo)), 1_700_000_050, false, true),
            (Some((&team, &bo)), 1_700_000_051, false, false),
            (None, 1_700_000_050, false, true),
            (None, 1_700_000_100, false, false),
        ] {
            assert_eq!((one.has_ended(person, began_s), all.has_ended(person, began_s)), (in_one, in_all));
        }
    }
}
