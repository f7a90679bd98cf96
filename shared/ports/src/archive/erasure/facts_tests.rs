//! What the facts say equals a naive reading of all of them, in whatever order they are stored.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::super::{HoldRelease, HoldScope};
use super::*;
use crate::archive::{Attributes, Guard};
use serde_json::Value;
use slack::ids::UserId;

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

fn person(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn at(second: i64) -> Ts {
    Ts::parse(&format!("{second}.000000")).unwrap()
}

/// A fact of any kind, as a person would state it.
#[derive(Debug, Clone)]
enum Stated {
    Erased(ErasureScope, i64),
    Expired(Option<ChannelId>, i64),
    Held(usize, HoldScope),
    Released(usize),
    OptedOut(OptOutScope, i64, bool),
}

fn hold(number: usize, scope: HoldScope) -> HoldFact {
    let release = None;
    HoldFact {
        team: team(),
        id: format!("{number:08x}"),
        scope,
        reason: "case 12".into(),
        by: None,
        set_at: at(1),
        release,
        is_swept: false,
    }
}

impl Stated {
    fn update(&self) -> Update {
        match self {
            Self::Erased(scope, until) => {
                ErasureFact { team: team(), scope: scope.clone(), until: at(*until) }.update()
            }
            Self::Expired(channel, until) => ExpiryFact::expire(&team(), channel.as_ref(), &at(*until)),
            Self::Held(number, scope) => hold(*number, scope.clone()).update(),
            Self::Released(number) => {
                let release = HoldRelease { at: at(2), reason: "closed".into(), by: None };
                hold(*number, HoldScope::default()).release(&release)
            }
            Self::OptedOut(scope, since, is_out) => {
                let (scope, is_out) = (scope.clone(), *is_out);
                OptOutFact { team: team(), scope, at: at(*since), is_out, by: None }.update()
            }
        }
    }
}

/// Reads the whole list for each question.
fn naive(stated: &[Stated], channel: &str, second: i64, author: Option<&str>) -> FactCover {
    let of = |scope: &ErasureScope, until: i64| match scope {
        ErasureScope::User(user) => author == Some(user.as_str()) && second < until,
        ErasureScope::Channel(id) => id.as_str() == channel && second < until,
        ErasureScope::Message(id, ts) => id.as_str() == channel && *ts == at(second),
    };
    if stated.iter().any(|fact| matches!(fact, Stated::Erased(scope, until) if of(scope, *until))) {
        return FactCover::Erased;
    }
    let until = |scope: Option<&str>| {
        let of_scope = stated.iter().filter_map(|fact| {
            let Stated::Expired(id, until) = fact else { return None };
            (id.as_ref().map(ChannelId::as_str) == scope).then_some(*until)
        });
        of_scope.max()
    };
    let is_held = stated.iter().any(|fact| {
        let Stated::Held(number, scope) = fact else { return false };
        let is_released = stated.iter().any(|other| matches!(other, Stated::Released(id) if id == number));
        !is_released
            && scope.user.as_ref().is_none_or(|user| author == Some(user.as_str()))
            && scope.channel.as_ref().is_none_or(|id| id.as_str() == channel)
            && scope.from.as_ref().is_none_or(|from| *from <= at(second))
            && scope.to.as_ref().is_none_or(|to| at(second) < *to)
    });
    if until(Some(channel)).or(until(None)).is_some_and(|until| second < until) && !is_held {
        return FactCover::Expired;
    }
    let is_out = |id: &str| {
        let mut last = (i64::MIN, false);
        for fact in stated {
            if let Stated::OptedOut(scope, since, is_out) = fact
                && id
                    == match scope {
                        OptOutScope::User(user) => user.as_str(),
                        OptOutScope::Channel(channel) => channel.as_str(),
                    }
                && *since <= second
            {
                last = last.max((*since, *is_out));
            }
        }
        last.1
    };
    if is_out(channel) || author.is_some_and(is_out) { FactCover::Withheld } else { FactCover::None }
}

fn stated() -> impl Strategy<Value = Stated> {
    let channels = || select(vec!["C1", "C2"]).prop_map(channel);
    let people = || select(vec!["U1", "U2"]).prop_map(person);
    let seconds = || 10..18_i64;
    let times = || proptest::option::of(seconds().prop_map(at));
    let scopes = prop_oneof![
        people().prop_map(ErasureScope::User),
        channels().prop_map(ErasureScope::Channel),
        (channels(), seconds()).prop_map(|(id, second)| ErasureScope::Message(id, at(second))),
    ];
    let opt_outs =
        prop_oneof![people().prop_map(OptOutScope::User), channels().prop_map(OptOutScope::Channel)];
    let holds = (proptest::option::of(people()), proptest::option::of(channels()), times(), times());
    prop_oneof![
        1 => (scopes, seconds()).prop_map(|(scope, until)| Stated::Erased(scope, until)),
        3 => (proptest::option::of(channels()), seconds())
            .prop_map(|(id, until)| Stated::Expired(id, until)),
        2 => (0..3_usize, holds).prop_map(|(number, (user, channel, from, to))| {
            Stated::Held(number, HoldScope { user, channel, from, to })
        }),
        1 => (0..3_usize).prop_map(Stated::Released),
        2 => (opt_outs, seconds(), any::<bool>())
            .prop_map(|(scope, since, is_out)| Stated::OptedOut(scope, since, is_out)),
    ]
}

/// Applies the updates of facts, as a backend does, and reads the rows.
fn stored(stated: &[Stated]) -> ErasureFacts {
    let mut rows: BTreeMap<ItemKey, Attributes> = BTreeMap::new();
    for update in stated.iter().map(Stated::update) {
        let row = rows.get(&update.key);
        let complete = row.and_then(|row| {
            let item = Item { key: update.key.clone(), attributes: row.clone() };
            update.left_out(&item)?.apply(Some(row))
        });
        if let Some(attributes) = update.apply(row).or(complete) {
            rows.insert(update.key, attributes);
        }
    }
    let items: Vec<Item> = rows.into_iter().map(|(key, attributes)| Item { key, attributes }).collect();
    ErasureFacts::from_rows(&items)
}

proptest! {
    #[test]
    fn the_facts_say_what_a_naive_reading_says_in_any_order(
        mut all in proptest::collection::vec(stated(), 0..12),
        swaps in proptest::collection::vec((0..12_usize, 0..12_usize), 0..12),
    ) {
        // A hold is set once: another one has another id.
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|fact| if let Stated::Held(number, _) = fact { seen.insert(*number) } else { true });
        let mut shuffled = all.clone();
        for (a, b) in swaps {
            if a < shuffled.len() && b < shuffled.len() {
                shuffled.swap(a, b);
            }
        }
        let facts = [stored(&all), stored(&shuffled)];
        for id in ["C1", "C2"] {
            for second in 9..19 {
                for author in [None, Some("U1"), Some("U2")] {
                    let key = ItemKey::message(&team(), &channel(id), &at(second));
                    let expected = naive(&all, id, second, author);
                    for facts in &facts {
                        prop_assert_eq!(facts.cover(&key, author), expected, "{} {} {:?}", id, second, author);
                    }
                }
            }
        }
    }
}

#[test]
fn facts_of_retention_cover_only_what_is_erased_with_a_message() {
    let facts =
        stored(&[Stated::Expired(None, 100), Stated::OptedOut(OptOutScope::User(person("U1")), 200, true)]);
    for (item_id, timestamp, cover) in [
        ("message#T1#C1", "99.000000", FactCover::Expired),
        ("message#T1#C1", "100.000000", FactCover::None),
        ("message#T1#C1", "201.000000", FactCover::Withheld),
        ("message#T2#C1", "99.000000", FactCover::None),
        ("revision#T1#C1#99.000000", "000000000300.000000#abc", FactCover::Expired),
        ("revision#T1#C1#201.000000", "000000000300.000000#abc", FactCover::Withheld),
        ("question#T1", "C1#99.000000", FactCover::Expired),
        ("answer#T1", "C1#99.000000", FactCover::Expired),
        ("responded#T1", "C1#99.000000", FactCover::Expired),
        ("botmessage#T1", "C1#99.000000", FactCover::Expired),
        ("channel#T1#C1", "99.000000", FactCover::None),
        ("members#T1#C1", "1970-01-01", FactCover::None),
        ("user#T1", "U1", FactCover::None),
        ("file#T1", "F1", FactCover::None),
    ] {
        assert_eq!(
            facts.cover(&ItemKey::new(item_id, timestamp), Some("U1")),
            cover,
            "{item_id} {timestamp}"
        );
    }
}

#[test]
fn rows_with_hostile_content_are_no_facts_or_narrow_no_hold() {
    let mut facts = ErasureFacts::default();
    for value in
        [json!(null), json!([]), json!(7), json!({"a": [[[]]]}), json!("x".repeat(10_000)), json!("")]
    {
        for timestamp in
            ["expired#C1", "expired#", "hold#1", "hold#", "optout#user#U1#x", "optout##", "optout#"]
        {
            let names =
                ["until", "done", "at", "from", "to", "user_id", "channel_id", "reason", "out", "released"];
            let attributes = names.map(|name| (name.to_owned(), value.clone())).into_iter().collect();
            facts.insert_row(&Item { key: ItemKey::new("erased#T1", timestamp), attributes });
        }
    }
    let key = ItemKey::new("message#T1#C1", "1.000000");
    assert_eq!(facts.cover(&key, Some("U1")), FactCover::None);
    // Its bounds cannot be read, so that it keeps everything.
    let attributes =
        json!({ "at": at(5).padded(), "from": 7, "user_id": [], "channel_id": null, "released": 1 });
    let Value::Object(attributes) = attributes else { panic!("no object") };
    facts.insert_row(&Item { key: ItemKey::new("erased#T1", "hold#2"), attributes });
    facts.insert_expiry(&ExpiryFact { team: team(), channel: None, until: at(100), done: None });
    assert_eq!(facts.cover(&key, Some("U1")), FactCover::None);
}

#[test]
fn a_message_that_a_hold_keeps_accepts_the_updates_of_others() {
    let scope = HoldScope { user: Some(person("U1")), ..HoldScope::default() };
    let facts = stored(&[Stated::Expired(None, 100), Stated::Held(1, scope)]);
    let key = ItemKey::new("message#T1#C1", "99.000000");
    let reaction = Update { guard: Guard::Always, ..Update::new(key.clone()) };
    let row = |author: &str| Item {
        key: key.clone(),
        attributes: [("user".to_owned(), author.into())].into_iter().collect(),
    };
    assert_eq!(facts.admit(&reaction, Some(&row("U1"))), WriteAdmission::Write);
    let mark = Item::expired(key.clone());
    let refused = |is_stored| WriteAdmission::Refuse { mark: mark.clone(), is_stored };
    assert_eq!(facts.admit(&reaction, Some(&row("U2"))), refused(false));
    assert_eq!(facts.admit(&reaction, Some(&Item::erased(key.clone()))), refused(false));
    assert_eq!(facts.admit(&reaction, None), refused(true));
    assert!(facts.expires(&row("U2")) && !facts.expires(&row("U1")) && !facts.expires(&Item::erased(key)));
}
