//! Rows of the workspace `T1` for the unit tests of this crate.

use ports::archive::{ArchiveExt, ItemKey, Update, key};
use rules::filled::{SpanSource, filled_update};
use rules::user_group::UserGroupObject;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::memory::archive::MemoryArchive;

pub(crate) fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

pub(crate) fn channel_id(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

pub(crate) fn at(second: i64) -> Ts {
    Ts::parse(&format!("{}.000000", 1_700_000_000 + second)).unwrap()
}

pub(crate) async fn set(archive: &MemoryArchive, key: ItemKey, row: Value) {
    let set = row.as_object().cloned().unwrap();
    archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
}

/// Writes a message of the channel `C1` whose content has this clock.
pub(crate) async fn message(archive: &MemoryArchive, second: i64, clock: &Ts) {
    let ts = at(second);
    let version = format!("{}/{}/hash", ts.padded(), clock.padded());
    let key = ItemKey::message(&team(), &channel_id("C1"), &ts);
    set(archive, key, json!({ "ts": ts, "content_version": version })).await;
}

/// Records that the history of a channel was read from one second to another.
pub(crate) async fn filled(archive: &MemoryArchive, id: &str, from: i64, to: i64) {
    let update = filled_update(&team(), &channel_id(id), &at(from), &at(to), SpanSource::History);
    archive.write(&update).await.unwrap();
}

pub(crate) async fn person(archive: &MemoryArchive, id: &str, row: Value) {
    set(archive, ItemKey::user(&team(), &UserId::parse(id).unwrap()), row).await;
}

/// Writes a user group from Slack's object.
pub(crate) async fn user_group(archive: &MemoryArchive, object: Value) {
    for update in UserGroupObject::read(&object).unwrap().updates(&team(), &at(0)) {
        archive.write(&update).await.unwrap();
    }
}

/// Writes the names of channels, by id.
pub(crate) async fn channel_names(archive: &MemoryArchive, names: Value) {
    let shard = ItemKey::new(key::channel_index(&team()), "0");
    set(archive, shard, json!({ "channels_map": names })).await;
}
