//! User groups: handles such as `@oncall` that mention several people.
//!
//! Slack's clock of a group is `date_update`, in whole seconds; the event's clock orders changes of one second.
//! A group is several rows, each a function of the events and lists alone:
//! * the group's newest state, with the version of its newest list of members;
//! * a row for each name that it had;
//! * a row for each person, with the time at which they were last listed, added or removed. A person is a
//!   member if this is not older than the newest list. The rows belong to persons, so that an erasure of a
//!   person covers them.
//!
//! Slack's object is not stored as it came, because it lists the members.
//!
//! <https://docs.slack.dev/reference/objects/usergroup-object>,
//! <https://docs.slack.dev/reference/events/subteam_members_changed>

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::version::{ContentVersion, VERSION, hash};
use super::{Change, MAX_AHEAD_S, MAX_NAME_BYTES, Malformed, SlackEvent};
use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::catalogue::UserGroupChange;
use slack::envelope;
use slack::ids::{TeamId, Ts, UserGroupId, UserId};

/// The register of the newest list of members.
const MEMBERS_VERSION: &str = "members_version";

/// The number of members in the newest list, if it is greater than the number of stored ones.
const MEMBER_COUNT: &str = "member_count";

/// Set on the row of a person who was removed from the group.
const REMOVED: &str = "removed";

/// The attributes of a group's register.
const STATE: [&str; 4] = ["handle", "name", "description", "deleted"];

/// Maximum number of members of a group that are stored, the first by id; the others are only counted. A
/// group that mentions more people than this is the whole workspace.
pub const MAX_MEMBERS: usize = 500;

/// Maximum number of names in a group's history, the current one included.
const MAX_NAMES: usize = 20;

/// Maximum length of a description; Slack accepts 140 characters.
const MAX_DESCRIPTION_BYTES: usize = 4_096;

/// A group object, from an event or from Slack's list.
#[derive(Debug, Clone, PartialEq)]
pub struct UserGroupObject {
    id: UserGroupId,
    changed_at: Option<Ts>,
    state: Attributes,
    /// `None` if the object does not list its members.
    members: Option<MemberList>,
}

#[derive(Debug, Clone, PartialEq)]
struct MemberList {
    users: BTreeSet<UserId>,
    count: u64,
}

/// A group as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserGroup {
    pub id: String,
    /// The name after the `@` in a mention.
    pub handle: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    /// Whether it is disabled.
    pub is_deleted: bool,
    /// The number of members, if it is greater than the number of stored ones.
    pub member_count: Option<u64>,
    members_version: String,
}

/// The changes that an event about a group makes.
pub(super) fn changes(event: &SlackEvent<'_>, change: UserGroupChange) -> Result<Vec<Change>, Malformed> {
    let body = envelope::parse_value(event.raw.get())?;
    let (team, clock) = (&event.team, event.clock());
    let updates = match change {
        UserGroupChange::State => UserGroupObject::read(&body["subteam"])?.updates(team, &clock),
        UserGroupChange::Members => {
            let group = group_id(&body["subteam_id"])?;
            let changed_at = date(&body["date_update"]).unwrap_or_else(|| clock.clone());
            let version = ContentVersion::new(&changed_at, &clock, event.raw.get());
            let added = stored_users(&body["added_users"]);
            let removed = stored_users(&body["removed_users"]);
            let member = |user, is_removed| member_update(team, &group, user, is_removed, &version);
            let added_updates = added.iter().map(|user| member(user, false));
            let removed_updates = removed.difference(&added).map(|user| member(user, true));
            std::iter::once(known(team, &group)).chain(added_updates).chain(removed_updates).collect()
        }
    };
    Ok(updates.into_iter().map(Change::Register).collect())
}

/// The time of the change according to Slack, if the event has one: it decides what wins.
pub(super) fn changed_at(event: &SlackEvent<'_>) -> Option<Ts> {
    let body = envelope::parse_value(event.raw.get()).ok()?;
    date(&body["subteam"]["date_update"]).max(date(&body["date_update"]))
}

impl UserGroupObject {
    /// Reads a group. Texts are cut to their maximum lengths.
    ///
    /// # Errors
    /// [`Malformed`] if its id is missing or malformed.
    pub fn read(object: &Value) -> Result<Self, Malformed> {
        let id = group_id(&object["id"])?;
        let mut state = Attributes::new();
        for (name, max_bytes) in
            [("handle", MAX_NAME_BYTES), ("name", MAX_NAME_BYTES), ("description", MAX_DESCRIPTION_BYTES)]
        {
            let text = match &object[name] {
                Value::String(text) => text[..text.floor_char_boundary(max_bytes)].to_owned(),
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => continue,
            };
            if !text.is_empty() {
                state.insert(name.to_owned(), text.into());
            }
        }
        let is_deleted = date(&object["date_delete"]).is_some();
        if is_deleted {
            state.insert("deleted".into(), true.into());
        }
        let members = object["users"].as_array().and_then(|listed| {
            let users: BTreeSet<UserId> = listed.iter().filter_map(user_id).collect();
            let count = object["user_count"].as_u64().unwrap_or_default();
            // Slack lists no members of a disabled group, and none if it was not asked for them.
            let lists_nobody = users.is_empty() && (is_deleted || count > 0);
            let count = count.max(users.len() as u64);
            (!lists_nobody).then(|| MemberList { users: first(users), count })
        });
        Ok(Self { id, changed_at: date(&object["date_update"]), state, members })
    }

    pub fn id(&self) -> &UserGroupId {
        &self.id
    }

    /// Compares the group's time of change, which decides what wins, with Slack's clock.
    ///
    /// # Errors
    /// [`Malformed::FromTheFuture`] if it is more than [`MAX_AHEAD_S`] ahead.
    pub fn check_clock(&self, slack_now: &Ts) -> Result<(), Malformed> {
        let Some(found) = self.changed_at.clone() else { return Ok(()) };
        let ahead_s = (found.micros() - slack_now.micros()).div_euclid(1_000_000);
        if ahead_s > MAX_AHEAD_S {
            return Err(Malformed::FromTheFuture { field: "date_update", found, ahead_s });
        }
        Ok(())
    }

    /// Whether the group differs from its row. A listing that repeats itself every hour is not written every
    /// hour.
    pub fn is_changed(&self, row: Option<&Item>) -> bool {
        let Some(row) = row else { return true };
        let is_stored = |register: &str| {
            row.text(register).map(ContentVersion::stored).is_some_and(|stored| {
                let same_time = self.changed_at.as_ref().is_none_or(|time| stored.edit_time() == *time);
                same_time && stored.as_str().ends_with(&hash(&self.content()))
            })
        };
        !is_stored(VERSION) || (self.members.is_some() && !is_stored(MEMBERS_VERSION))
    }

    /// The updates of the group's rows at a clock of Slack. The first one lists the group, and is written before the
    /// others; the group's state comes last: until it is written, [`Self::is_changed`] holds.
    pub fn updates(&self, team: &TeamId, clock: &Ts) -> Vec<Update> {
        let changed_at = self.changed_at.as_ref().unwrap_or(clock);
        let version = ContentVersion::new(changed_at, clock, &self.content());
        let key = ItemKey::user_group(team, &self.id);
        let greater = |register: &str| Guard::Greater {
            register: register.into(),
            version: version.as_str().to_owned(),
        };
        let mut updates = vec![known(team, &self.id)];
        if let Some(name) = self.state.get("name").and_then(Value::as_str) {
            updates.push(Update {
                guard: greater(VERSION),
                set: text_attributes([("name", name)]),
                set_if_absent: identity("usergroup_name", team, &self.id),
                ..Update::new(ItemKey::user_group_name(team, &self.id, &hash(name)))
            });
        }
        if let Some(MemberList { users, count }) = &self.members {
            updates.extend(users.iter().map(|user| member_update(team, &self.id, user, false, &version)));
            let is_cut = *count > users.len() as u64;
            let set = if is_cut { json_attribute(MEMBER_COUNT, *count) } else { Attributes::new() };
            updates.push(Update {
                guard: greater(MEMBERS_VERSION),
                remove: if is_cut { Vec::new() } else { vec![MEMBER_COUNT] },
                set,
                ..Update::new(key.clone())
            });
        }
        updates.push(Update {
            guard: greater(VERSION),
            remove: STATE.into_iter().filter(|name| !self.state.contains_key(*name)).collect(),
            set: self.state.clone(),
            ..Update::new(key)
        });
        updates
    }

    /// The content as text, independent of the order of fields and members in Slack's object.
    fn content(&self) -> String {
        let members = self.members.as_ref().map(|listed| {
            let users: Vec<&str> = listed.users.iter().map(UserId::as_str).collect();
            json!({ "users": users, "count": listed.count })
        });
        json!([self.state, members]).to_string()
    }
}

impl UserGroup {
    /// Reads a group's row; `None` if the group itself is not known yet.
    pub fn read(row: &Item) -> Option<Self> {
        row.text(VERSION)?;
        let owned = |name: &str| row.text(name).map(str::to_owned);
        Some(Self {
            id: row.key.timestamp.clone(),
            handle: owned("handle"),
            name: owned("name"),
            description: owned("description"),
            is_deleted: row.has_flag("deleted"),
            member_count: row.attributes.get(MEMBER_COUNT).and_then(Value::as_u64),
            members_version: owned(MEMBERS_VERSION).unwrap_or_default(),
        })
    }

    /// The ids of the members, sorted, from the rows of its people in the order of a query: at most
    /// [`MAX_MEMBERS`].
    pub fn members<'r>(&self, rows: &'r [Item]) -> Vec<&'r str> {
        let is_member = |row: &&Item| {
            !row.is_erased()
                && !row.has_flag(REMOVED)
                && row.text(VERSION).is_some_and(|version| version >= self.members_version.as_str())
        };
        rows.iter().filter(is_member).map(|row| row.key.timestamp.as_str()).take(MAX_MEMBERS).collect()
    }

    /// The names that the group had, the current one in front, from the rows of its names.
    pub fn names_history(&self, rows: &[Item]) -> Vec<String> {
        let mut names: Vec<(&str, &str)> =
            rows.iter().filter_map(|row| Some((row.text(VERSION)?, row.text("name")?))).collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        let current = self.name.as_deref();
        let earlier = names.into_iter().map(|(_, name)| name).filter(|name| Some(*name) != current);
        current.into_iter().chain(earlier).take(MAX_NAMES).map(str::to_owned).collect()
    }
}

fn identity(kind: &str, team: &TeamId, group: &UserGroupId) -> Attributes {
    text_attributes([("type", kind), ("team_id", team.as_str()), ("usergroup_id", group.as_str())])
}

/// The update that lists a group in its workspace, even if only its members are known. It is written before their
/// rows: an erasure of a person finds those by the groups.
fn known(team: &TeamId, group: &UserGroupId) -> Update {
    let set_if_absent = identity("usergroup", team, group);
    Update { set_if_absent, ..Update::new(ItemKey::user_group(team, group)) }
}

fn member_update(
    team: &TeamId,
    group: &UserGroupId,
    user: &UserId,
    is_removed: bool,
    version: &ContentVersion,
) -> Update {
    let set = if is_removed { json_attribute(REMOVED, true) } else { Attributes::new() };
    Update {
        guard: Guard::Greater { register: VERSION.into(), version: version.as_str().to_owned() },
        remove: if is_removed { Vec::new() } else { vec![REMOVED] },
        set,
        set_if_absent: text_attributes([
            ("type", "usergroup_member"),
            ("team_id", team.as_str()),
            ("usergroup_id", group.as_str()),
            ("user_id", user.as_str()),
        ]),
        ..Update::new(ItemKey::user_group_member(team, group, user))
    }
}

fn json_attribute(name: &str, value: impl Into<Value>) -> Attributes {
    [(name.to_owned(), value.into())].into_iter().collect()
}

fn group_id(id: &Value) -> Result<UserGroupId, Malformed> {
    let id = id.as_str().ok_or(Malformed::Missing { event: "user group", field: "id" })?;
    Ok(UserGroupId::parse(id)?)
}

fn user_id(id: &Value) -> Option<UserId> {
    UserId::parse(id.as_str()?).ok()
}

/// The first people of a list by id, at most [`MAX_MEMBERS`].
fn stored_users(listed: &Value) -> BTreeSet<UserId> {
    first(listed.as_array().into_iter().flatten().filter_map(user_id).collect())
}

fn first(users: BTreeSet<UserId>) -> BTreeSet<UserId> {
    users.into_iter().take(MAX_MEMBERS).collect()
}

/// A time in whole seconds, as a number or as text; `None` for 0, which Slack sends for "never".
fn date(value: &Value) -> Option<Ts> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok()).filter(|seconds| *seconds > 0)?;
    Ts::parse(&format!("{seconds}.000000")).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{team, ts, with_event};

    fn group(name: &str, users: &[&str], date_update: i64) -> Value {
        json!({ "id": "S1", "team_id": "T1", "handle": "oncall", "name": name, "description": "who to wake",
            "date_update": date_update, "date_delete": 0, "users": users, "user_count": users.len() })
    }

    fn state_event(group: &Value, event_ts: &str) -> Value {
        json!({ "type": "subteam_updated", "subteam": group, "event_ts": event_ts })
    }

    fn members_event(added: &[&str], removed: &[&str], date_update: i64, event_ts: &str) -> Value {
        json!({ "type": "subteam_members_changed", "subteam_id": "S1", "date_update": date_update,
            "added_users": added, "removed_users": removed, "event_ts": event_ts })
    }

    fn updates(event: &Value) -> Result<Vec<Update>, Malformed> {
        let changes = with_event(event, |event| event.changes())?;
        Ok(changes
            .into_iter()
            .map(|change| match change {
                Change::Register(update) => update,
                Change::Content(content) => panic!("{content:?}"),
            })
            .collect())
    }

    type Rows = BTreeMap<ItemKey, Attributes>;

    fn write(rows: &mut Rows, updates: Vec<Update>) {
        for update in updates {
            if let Some(applied) = update.apply(rows.get(&update.key)) {
                rows.insert(update.key, applied);
            }
        }
    }

    fn rows<'e>(events: impl IntoIterator<Item = &'e Value>) -> Rows {
        let mut rows = Rows::new();
        for event in events {
            write(&mut rows, updates(event).unwrap());
        }
        rows
    }

    fn partition(rows: &Rows, item_id: &str) -> Vec<Item> {
        let of_partition = rows.iter().filter(|(key, _)| key.item_id == item_id);
        of_partition
            .map(|(key, attributes)| Item { key: key.clone(), attributes: attributes.clone() })
            .collect()
    }

    fn read(rows: &Rows) -> (UserGroup, Vec<String>, Vec<String>) {
        let group = UserGroup::read(&partition(rows, "usergroup#T1")[0]).unwrap();
        let people = partition(rows, "usergroupmember#T1#S1");
        let members = group.members(&people).into_iter().map(str::to_owned).collect();
        let names = group.names_history(&partition(rows, "usergroupname#T1#S1"));
        (group, members, names)
    }

    #[test]
    fn a_group_has_its_newest_state_its_members_and_its_names_in_any_order() {
        let mut disabled = group("Primary", &[], 60);
        disabled["date_delete"] = 60.into();
        let events = [
            state_event(&group("On call", &["U1", "U2"], 10), "10.000100"),
            members_event(&["U3", "U9"], &["U1"], 20, "20.000100"),
            state_event(&group("On duty", &["U2", "U3", "U4"], 30), "30.000100"),
            // The same second as the list before it.
            members_event(&["U5"], &["U4"], 30, "30.000200"),
            members_event(&["U4"], &[], 25, "25.000100"),
            state_event(&group("On call", &["U2", "U3", "U5"], 40), "40.000100"),
            members_event(&["U7"], &["U2"], 50, "50.000100"),
            state_event(&disabled, "60.000100"),
        ];
        let forwards = rows(&events);
        let (group, members, names) = read(&forwards);
        assert_eq!(members, ["U3", "U5", "U7"]);
        assert_eq!(names, ["Primary", "On call", "On duty"]);
        assert_eq!(
            (group.handle.as_deref(), group.is_deleted, group.member_count),
            (Some("oncall"), true, None)
        );
        assert_eq!(rows(events.iter().rev()), forwards);
        assert_eq!(rows(events.iter().chain(&events)), forwards);
    }

    proptest! {
        #[test]
        fn every_order_of_events_gives_the_same_rows(
            script in proptest::collection::vec((0..3_i64, 1..6_i64, 0..8_u8, any::<prop::sample::Index>()), 1..12)
        ) {
            let people = |bits: u8| -> Vec<&str> {
                ["U1", "U2", "U3"].into_iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, id)| id).collect()
            };
            let events: Vec<Value> = script.iter().enumerate().map(|(n, (kind, second, bits, _))| {
                let clock = format!("{second}.{n:06}");
                match kind {
                    0 => state_event(&group(&format!("name {bits}"), &people(*bits), *second), &clock),
                    1 => members_event(&people(*bits), &people(!bits & 7), *second, &clock),
                    _ => members_event(&people(*bits), &[], *second, &clock),
                }
            }).collect();
            let mut shuffled = events.clone();
            for (n, (.., index)) in script.iter().enumerate() {
                shuffled.swap(n, index.index(events.len()));
            }
            prop_assert_eq!(rows(&shuffled), rows(&events));
        }
    }

    #[test]
    fn a_list_that_repeats_itself_is_not_written_again() {
        let listed = |value: &Value| UserGroupObject::read(value).unwrap();
        let mut stored = Rows::new();
        let first = listed(&group("On call", &["U1", "U2"], 10));
        assert!(first.is_changed(None));
        write(&mut stored, first.updates(&team(), &ts(100)));
        let row = |stored: &Rows| partition(stored, "usergroup#T1").remove(0);
        let mut reordered = group("On call", &["U2", "U1"], 10);
        reordered["prefs"] = json!({ "channels": ["C1"] });
        assert!(!listed(&reordered).is_changed(Some(&row(&stored))));
        for changed in [
            group("On duty", &["U1", "U2"], 10),
            group("On call", &["U1"], 10),
            group("On call", &["U1", "U2"], 11),
        ] {
            assert!(listed(&changed).is_changed(Some(&row(&stored))), "{changed}");
        }
        // A writer that died after the members writes the group again.
        let mut half = Rows::new();
        let mut half_written = first.updates(&team(), &ts(100));
        half_written.pop();
        write(&mut half, half_written);
        assert!(first.is_changed(Some(&row(&half))));
    }

    #[test]
    fn a_group_of_a_million_people_is_stored_up_to_the_limit_and_counted() {
        let users: Vec<String> = (0..10_000).map(|n| format!("U{n:05}")).collect();
        let mut huge = group("All", &users.iter().rev().map(String::as_str).collect::<Vec<_>>(), 10);
        huge["user_count"] = 1_000_000.into();
        let huge = UserGroupObject::read(&huge).unwrap();
        let updates = huge.updates(&team(), &ts(20));
        assert_eq!(updates.len(), MAX_MEMBERS + 4);
        let mut stored = Rows::new();
        write(&mut stored, updates);
        let (group, members, _) = read(&stored);
        assert_eq!((group.member_count, members.len()), (Some(1_000_000), MAX_MEMBERS));
        assert_eq!((members[0].as_str(), members[499].as_str()), ("U00000", "U00499"));
    }

    #[test]
    fn hostile_fields_are_left_out_and_only_a_bad_id_is_an_error() {
        for odd in [
            json!(null),
            json!([]),
            json!({}),
            json!("x"),
            json!(-1),
            json!({ "0": "U1" }),
            json!([null, 7, ["U1"]]),
        ] {
            let mut object = json!({ "id": "S1" });
            for name in ["handle", "description", "users", "user_count", "date_update", "date_delete"] {
                object[name] = odd.clone();
            }
            object["name"] = "Ops".into();
            let state = state_event(&object, "1.000000");
            assert_eq!(read(&rows([&state])).0.name.as_deref(), Some("Ops"), "{odd}");
            let body = json!({ "type": "subteam_members_changed", "subteam_id": "S1", "added_users": odd,
                "removed_users": odd, "date_update": odd, "event_ts": "1.000000" });
            updates(&body).unwrap();
            for id in ["id", "subteam"] {
                let mut bad = state.clone();
                *if id == "id" { &mut bad["subteam"]["id"] } else { &mut bad["subteam"] } = odd.clone();
                assert!(updates(&bad).is_err(), "{bad}");
            }
        }
        let long = "ä".repeat(100_000);
        let object = json!({ "id": "S1", "handle": 17, "name": long, "description": long });
        let (group, ..) = read(&rows([&state_event(&object, "1.000000")]));
        assert_eq!(group.handle.as_deref(), Some("17"));
        let lengths = [group.name.unwrap().len(), group.description.unwrap().len()];
        assert_eq!(lengths, [MAX_NAME_BYTES, MAX_DESCRIPTION_BYTES]);
    }

    #[test]
    fn a_time_of_change_from_the_future_is_rejected() {
        let object = UserGroupObject::read(&group("Ops", &[], 1_000)).unwrap();
        assert!(object.check_clock(&ts(1_000 - MAX_AHEAD_S)).is_ok());
        assert!(object.check_clock(&ts(999 - MAX_AHEAD_S)).is_err());
        let far = group("Ops", &[], 999_999_999_999);
        for event in [state_event(&far, "1.000000"), members_event(&["U1"], &[], 999_999_999_999, "1.000000")]
        {
            let checked = with_event(&event, |event| event.check_clocks(1_700_000_000_000));
            assert!(matches!(checked, Err(Malformed::FromTheFuture { field: "date_update", .. })), "{event}");
        }
    }
}
