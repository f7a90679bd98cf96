use std::collections::BTreeSet;

use super::*;
use crate::queue::{MessageId, QueueName, QueueRef};
use slack::ids::{UserGroupId, UserId};

fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

fn channel() -> ChannelId {
    ChannelId::parse("C1").unwrap()
}

fn ts(text: &str) -> Ts {
    Ts::parse(text).unwrap()
}

/// A key of this kind, with ids in the places of their names.
fn sample(kind: &RowKind) -> ItemKey {
    let [partition, sort] = [kind.partition, kind.sort].map(|pattern| {
        let ids = [
            ("team", "T1"),
            ("channel", "C1"),
            ("ts", "7.000100"),
            ("day", "2026-11-20"),
            ("user", "U1"),
            ("queue", "backfill"),
        ];
        let named =
            ids.iter().fold(pattern.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id));
        named.replace(['{', '}'], "")
    });
    ItemKey::new(partition, sort)
}

#[test]
fn a_constructor_makes_the_key_that_its_patterns_describe() {
    let (team, channel, at) = (team(), channel(), ts("7.000100"));
    let user = UserId::parse("U1").unwrap();
    let group = UserGroupId::parse("S1").unwrap();
    let queue = QueueRef::from(QueueName::Events);
    for (key, partition, sort) in [
        (ItemKey::team(&team), "meta#teams", "T1"),
        (ItemKey::message(&team, &channel, &at), "message#T1#C1", "7.000100"),
        (
            ItemKey::revision(&team, &channel, &at, &ts("9.000000"), "abc"),
            "revision#T1#C1#7.000100",
            "9.000000#abc",
        ),
        (ItemKey::joined(&team, &channel, &at), "meta#T1#joined#C1", "000000000007.000100"),
        (ItemKey::filled(&team, &channel, &at), "filled#T1", "C1#000000000007.000100"),
        (ItemKey::unreadable(&team, &channel, &at), "unreadable#T1", "C1#000000000007.000100"),
        (ItemKey::erasure_record(&team, &at, "user#U1"), "erasure#T1", "000000000007.000100#user#U1"),
        (ItemKey::user_group_member(&team, &group, &user), "usergroupmember#T1#S1", "U1"),
        (ItemKey::rollup_due(&team, &channel, "2026-11-20"), "rollupdue#T1", "2026-11-20#C1"),
        (ItemKey::channel_index_shard(&team, 3), "channelindex#T1", "3"),
        (ItemKey::bot_message(&team, &channel, &at), "botmessage#T1", "C1#7.000100"),
        (ItemKey::attempts(queue, &team, &MessageId("m1".to_owned())), "meta#attempts#events#T1", "m1"),
        (ItemKey::other_attempts(queue, &MessageId("m1".to_owned())), "meta#attempts#events", "m1"),
        (ItemKey::quarantine_size(&team), "meta#T1#quarantine", "kept"),
        (ItemKey::strangers_size(), "meta#quarantine", "kept"),
        (ItemKey::archive_identity(), "meta#archive", "identity"),
        (ItemKey::archive_version(), "meta#archive", "version"),
    ] {
        assert_eq!(key, ItemKey::new(partition, sort));
    }
}

#[test]
fn each_kind_has_keys_of_its_own_and_says_what_it_is() {
    let keys: BTreeSet<ItemKey> = ROWS.iter().map(sample).collect();
    assert_eq!(keys.len(), ROWS.len());
    for kind in ROWS {
        let key = sample(kind);
        assert!(kind.ids(&key).is_some(), "{kind:?}");
        assert!(kind.about.ends_with('.') && !kind.written_by.is_empty(), "{kind:?}");
        assert_eq!(is_transient(&key.item_id), kind.lifetime == Lifetime::Transient, "{kind:?}");
        let is_followed = key.item_id.starts_with(FOLLOWED);
        assert_eq!(is_followed, kind.is_followed, "{kind:?}");
    }
}

/// Nothing that a person or an installation could miss expires by itself.
#[test]
fn only_marks_of_changes_and_attempts_expire() {
    let expiring = ROWS.iter().filter(|kind| kind.expires_days.is_some()).map(|kind| kind.partition);
    let expected = ["changes#{team}", "meta#attempts#{queue}#{team}", "meta#attempts#{queue}"];
    assert_eq!(expiring.collect::<Vec<_>>(), expected);
    for kind in ROWS {
        let days = kind.expires_days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
        assert_eq!(expires_after(&sample(kind).item_id), days, "{kind:?}");
    }
}

#[test]
fn a_covered_kind_is_recognised_with_the_ids_that_its_facts_need() {
    for kind in ROWS {
        let key = sample(kind);
        let found = covered(&key);
        assert_eq!(found.map(|(kind, _)| *kind), kind.is_covered().then_some(*kind));
        let Some((_, ids)) = found else { continue };
        let needed = match kind.erased {
            ErasedWith::Message => vec![ids.channel, ids.ts],
            ErasedWith::ChannelBefore => vec![ids.channel, ids.ts],
            ErasedWith::ChannelDay => vec![ids.channel, ids.day],
            ErasedWith::Channel => vec![ids.channel],
            ErasedWith::User => vec![ids.user],
            ErasedWith::BotUser | ErasedWith::Eraser(_) | ErasedWith::Nothing => vec![],
        };
        assert!(ids.team == "T1" && needed.iter().all(|id| !id.is_empty()), "{kind:?}: {ids:?}");
        assert_eq!(message_of(&key).is_some(), kind.erased == ErasedWith::Message);
    }
}

#[test]
fn odd_keys_belong_to_no_covered_kind_or_have_no_ids() {
    for (item_id, sort) in [
        ("", ""),
        ("message", "1.000000"),
        ("message#T1", "1.000000"),
        ("message#T1#C1#C2", "1.000000"),
        ("revision#T1#C1", "1.000000"),
        ("revisions#T1#C1#1.000000", "1.000000"),
        ("meta#T1#message", "1.000000"),
    ] {
        assert_eq!(covered(&ItemKey::new(item_id, sort)), None, "{item_id}");
    }
    for sort in ["", "#", "C1", "c1#7.000100", "C1#soon", "C1#7.000100#7"] {
        assert_eq!(message_of(&ItemKey::new("question#T1", sort)), None, "{sort}");
    }
}

#[test]
fn a_partition_that_names_no_id_is_matched_as_a_whole() {
    assert!(
        is_transient("meta#existence") && !is_transient("meta#existence#T1") && !is_transient("meta#T1#sync")
    );
    assert!(is_transient("report#T1") && is_transient("report#T1#abc") && !is_transient("reports#T1"));
    let patterns = transient_partitions();
    assert_eq!(patterns.iter().collect::<BTreeSet<_>>().len(), patterns.len());
}
