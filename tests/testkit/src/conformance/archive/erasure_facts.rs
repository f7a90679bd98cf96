//! Data that an erasure fact covers is not written again.

use ports::archive::{ErasureFact, ErasureScope, Guard, Item, ItemKey, Query, Update, WriteOutcome};
use serde_json::json;
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::case::{ArchiveCase, attributes, greater, timestamps, update};

fn fact(scope: ErasureScope, until: &str) -> ErasureFact {
    ErasureFact { team: TeamId::parse("T1").unwrap(), scope, until: Ts::parse(until).unwrap() }
}

fn person(until: &str) -> ErasureFact {
    fact(ErasureScope::User(UserId::parse("U1").unwrap()), until)
}

fn channel(until: &str) -> ErasureFact {
    fact(ErasureScope::Channel(ChannelId::parse("C1").unwrap()), until)
}

fn one_message(ts: &str) -> ErasureFact {
    fact(ErasureScope::Message(ChannelId::parse("C1").unwrap(), Ts::parse(ts).unwrap()), "1.000000")
}

/// An update that stores a person's message in a channel.
fn message_update(channel: &str, ts: &str, user: &str) -> Update {
    let key = ItemKey::new(format!("message#T1#{channel}"), ts);
    let set_if_absent = attributes(json!({ "thread_ts": ts, "about_file#F1#1": { "name": "secret.txt" } }));
    Update { set_if_absent, ..update(key, greater("1"), json!({ "user": user, "text": "secret" })) }
}

fn revision(channel: &str, ts: &str, user: &str) -> Update {
    let key = ItemKey::new(format!("revision#T1#{channel}#{ts}"), "000000000500.000000#abc");
    update(key, greater("1"), json!({ "user": user, "text": "secret" }))
}

/// The same person and channel of another workspace.
fn message_in_other_workspace() -> Update {
    Update { key: ItemKey::new("message#T2#C1", "1.000000"), ..message_update("C1", "1.000000", "U1") }
}

fn named_row(item_id: &str, timestamp: &str) -> Update {
    update(ItemKey::new(item_id, timestamp), Guard::Always, json!({ "name": "secret" }))
}

async fn refuse_all(case: &ArchiveCase, covered: impl IntoIterator<Item = Update>) {
    for update in covered {
        let key = update.key.clone();
        assert_eq!(case.refuse(update).await, Item::erased(key.clone()));
        case.expect(&key, json!({ "erased": true })).await;
    }
}

async fn apply_all(case: &ArchiveCase, others: impl IntoIterator<Item = Update>) {
    for update in others {
        let key = update.key.clone();
        case.apply(update).await;
        assert!(!case.get(&key).await.unwrap().is_erased(), "{key:?}");
    }
}

pub(super) async fn covered_updates_are_not_written(case: ArchiveCase) {
    case.write_facts(&[person("300.000000"), channel("200.000000"), one_message("250.000000")]).await;
    let covered = [
        message_update("C2", "299.999999", "U1"),
        revision("C2", "299.999999", "U1"),
        named_row("user#T1", "U1"),
        named_row("userhistory#T1#U1", "abc"),
        message_update("C1", "199.999999", "U2"),
        revision("C1", "199.999999", "U2"),
        named_row("channel#T1#C1", "199.999999"),
        message_update("C1", "250.000000", "U2"),
        revision("C1", "250.000000", "U2"),
    ];
    refuse_all(&case, covered.clone()).await;
    refuse_all(&case, covered).await;
}

pub(super) async fn updates_that_no_fact_covers_are_written(case: ArchiveCase) {
    case.write_facts(&[person("300.000000"), channel("200.000000"), one_message("250.000000")]).await;
    let reaction = named_row("message#T1#C2", "100.000000");
    apply_all(
        &case,
        [
            message_update("C2", "300.000000", "U1"),
            message_update("C2", "299.999999", "U2"),
            message_update("C1", "200.000000", "U2"),
            revision("C1", "200.000000", "U2"),
            reaction,
            named_row("user#T1", "U2"),
            named_row("channel#T1#C1", "200.000000"),
            named_row("file#T1", "F1"),
            named_row("channelindex#T1", "0"),
            message_in_other_workspace(),
        ],
    )
    .await;
}

pub(super) async fn a_fact_that_grows_covers_more(case: ArchiveCase) {
    case.write_facts(&[person("100.000000")]).await;
    apply_all(&case, [message_update("C1", "150.000000", "U1")]).await;
    case.write_facts(&[person("200.000000")]).await;
    refuse_all(&case, [message_update("C1", "199.000000", "U1")]).await;
    assert!(matches!(case.write(person("100.000000").update()).await, WriteOutcome::Rejected(_)));
    refuse_all(&case, [message_update("C1", "198.000000", "U1")]).await;
}

pub(super) async fn a_covered_update_does_not_change_a_stored_item(case: ArchiveCase) {
    let before = message_update("C1", "150.000000", "U1");
    case.apply(before.clone()).await;
    case.write_facts(&[person("200.000000")]).await;
    let later = Update {
        guard: greater("2"),
        set: attributes(json!({ "user": "U1", "text": "edited" })),
        ..before.clone()
    };
    assert_eq!(case.refuse(later).await, Item::erased(before.key.clone()));
    let stored = case.get(&before.key).await.unwrap();
    assert_eq!(stored.text("text"), Some("secret"));
    assert!(case.fixture.archive.erase(&before.key).await.unwrap());
    refuse_all(&case, [before]).await;
}

pub(super) async fn an_item_without_content_is_erased_by_a_covered_update(case: ArchiveCase) {
    let update = message_update("C1", "150.000000", "U1");
    case.put(update.key.clone(), json!({ "reaction#eyes#U2": "1/added" })).await;
    case.write_facts(&[person("200.000000")]).await;
    refuse_all(&case, [update.clone(), update]).await;
}

pub(super) async fn other_updates_of_a_batch_with_a_covered_one_are_written(case: ArchiveCase) {
    case.write_facts(&[channel("200.000000")]).await;
    let updates = [
        message_update("C2", "1.000000", "U1"),
        message_update("C1", "1.000000", "U1"),
        message_update("C2", "2.000000", "U1"),
        message_update("C1", "1.000000", "U1"),
        message_update("C1", "200.000000", "U1"),
    ];
    let outcomes = case.fixture.archive.apply_once(&updates.each_ref()).await;
    let applied = outcomes.into_iter().map(|outcome| outcome.unwrap() == WriteOutcome::Applied);
    assert_eq!(applied.collect::<Vec<_>>(), [true, false, true, false, true]);
    let channel_query = |channel: &str| Query::partition(format!("message#T1#{channel}"));
    assert_eq!(timestamps(&case.query(channel_query("C2")).await), ["1.000000", "2.000000"]);
    assert_eq!(timestamps(&case.query(channel_query("C1")).await), ["1.000000", "200.000000"]);
}

pub(super) async fn a_fact_is_known_after_many_writes(case: ArchiveCase) {
    for second in 1..=20 {
        apply_all(&case, [message_update("C1", &format!("{second}.000000"), "U1")]).await;
    }
    case.write_facts(&[person("200.000000")]).await;
    for second in 21..=40 {
        refuse_all(&case, [message_update("C1", &format!("{second}.000000"), "U1")]).await;
    }
    // A second fact, as another writer would add it.
    case.write_facts(&[channel("300.000000")]).await;
    refuse_all(&case, [message_update("C1", "250.000000", "U2")]).await;
}
