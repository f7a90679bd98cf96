use serde_json::json;
use testkit::memory::archive::MemoryArchive;

use super::*;
use crate::fixture::{at, channel_id, channel_names, set, team};
use ports::archive::{ArchiveExt, ItemKey};
use rules::membership::ChannelMembers;

/// A snapshot of a channel of `T1`.
async fn snapshot(archive: &MemoryArchive, id: &str, fields: serde_json::Value) {
    let mut row = json!({ "folded": "1", "channel_id": id });
    row.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    set(archive, ItemKey::channel(&team(), &channel_id(id), &at(0)), row).await;
}

/// What is known about whether a channel is public.
async fn known(archive: &MemoryArchive, team: &str, id: &str, fields: serde_json::Value) {
    let key = ItemKey::public_mark(&TeamId::parse(team).unwrap(), &channel_id(id));
    let mut row = json!({ "seen": true });
    row.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    set(archive, key, row).await;
}

/// An hour after the first second.
const NOW: TimestampMs = TimestampMs((1_700_000_000 + 3_600) * 1_000);

async fn hidden(archive: &MemoryArchive) -> Vec<String> {
    let private = PrivateChannels::read(archive, NOW).await.unwrap();
    private.hidden_from(None).iter().map(|(team, channel)| format!("{team}/{channel}")).collect()
}

/// Writes a list of members as of this second.
async fn members(archive: &MemoryArchive, id: &str, second: i64, members: &[&str]) {
    let members = members.iter().map(|id| UserId::parse(id).unwrap()).collect();
    for row in (ChannelMembers { as_of: at(second), members }).rows(&team(), &channel_id(id)).unwrap() {
        archive.write(&row).await.unwrap();
    }
}

async fn with_teams(teams: &[&str]) -> MemoryArchive {
    let archive = MemoryArchive::new();
    for team in teams {
        set(&archive, ItemKey::team(&TeamId::parse(team).unwrap()), json!({ "seen": true })).await;
    }
    archive
}

#[tokio::test]
async fn a_channel_is_hidden_as_long_as_the_latest_evidence_says_private() {
    let archive = with_teams(&["T1"]).await;
    channel_names(&archive, json!({ "C1": "a", "C2": "b", "C3": "c", "C4": "d", "C5": "e" })).await;
    known(&archive, "T1", "C1", json!({ "public_at": "1" })).await;
    known(&archive, "T1", "C2", json!({ "public_at": "1", "private_at": "2" })).await;
    known(&archive, "T1", "C3", json!({ "public_at": "3", "private_at": "2" })).await;
    // Without evidence, its snapshot counts.
    snapshot(&archive, "C4", json!({ "visibility": "private" })).await;
    // A channel without a name.
    known(&archive, "T1", "C6", json!({ "private_at": "2" })).await;
    assert_eq!(hidden(&archive).await, ["T1/C2", "T1/C4", "T1/C6"]);
}

#[tokio::test]
async fn a_channel_is_hidden_under_every_id_and_in_every_workspace_that_it_has() {
    let archive = with_teams(&["T1", "T2"]).await;
    channel_names(&archive, json!({ "C1": "a", "C2": "a", "C3": "b", "C4": "c" })).await;
    // `C2` continues `C1`, as only the snapshot of one of them says.
    snapshot(&archive, "C1", json!({ "next_channel_id": "C2" })).await;
    known(&archive, "T1", "C2", json!({ "private_at": "2" })).await;
    // It is public in one workspace and private in the other one.
    known(&archive, "T1", "C4", json!({ "public_at": "9" })).await;
    known(&archive, "T2", "C4", json!({ "private_at": "2" })).await;
    assert_eq!(hidden(&archive).await, ["T1/C1", "T1/C2", "T1/C4", "T2/C4"]);
}

#[tokio::test]
async fn a_channel_that_became_public_under_its_new_id_is_not_hidden_for_its_old_one() {
    let archive = with_teams(&["T1"]).await;
    channel_names(&archive, json!({ "C1": "a", "C2": "a" })).await;
    snapshot(&archive, "C2", json!({ "prev_channel_id": "C1" })).await;
    known(&archive, "T1", "C1", json!({ "public_at": "1", "private_at": "2" })).await;
    known(&archive, "T1", "C2", json!({ "public_at": "3" })).await;
    assert!(hidden(&archive).await.is_empty());
}

#[tokio::test]
async fn a_member_sees_a_private_channel_as_long_as_its_list_is_not_older_than_a_day() {
    let archive = with_teams(&["T1"]).await;
    channel_names(&archive, json!({ "C1": "a", "C2": "b", "C3": "c", "C4": "d", "C5": "a" })).await;
    for id in ["C1", "C2", "C3", "C4"] {
        known(&archive, "T1", id, json!({ "private_at": "2" })).await;
    }
    // The same channel under a new id: a list of one of them is enough.
    snapshot(&archive, "C5", json!({ "prev_channel_id": "C1" })).await;
    members(&archive, "C1", 0, &["U1", "U2"]).await;
    members(&archive, "C2", 3_600 - memberships::MAX_AGE_S, &["U1"]).await;
    members(&archive, "C3", 3_599 - memberships::MAX_AGE_S, &["U1"]).await;
    let private = PrivateChannels::read(&archive, NOW).await.unwrap();
    let hidden_from = |team: &str, user: &str| -> Vec<String> {
        let person = (TeamId::parse(team).unwrap(), UserId::parse(user).unwrap());
        private.hidden_from(Some(&person)).iter().map(|(_, channel)| channel.to_string()).collect()
    };
    let counts = MembershipCounts { private_channels: 4, listed: 2, stale: 1 };
    assert_eq!(private.counts(), counts);
    assert_eq!(hidden_from("T1", "U1"), ["C3", "C4"]);
    assert_eq!(hidden_from("T1", "U2"), ["C2", "C3", "C4"]);
    assert_eq!(hidden_from("T1", "U3"), ["C1", "C2", "C3", "C4", "C5"]);
    assert_eq!(hidden_from("T2", "U1"), ["C1", "C2", "C3", "C4", "C5"], "of another workspace");
}
