//! The versions of a canvas: each edit is one, named by the time of the edit. Slack only has the newest, so a
//! version is what Slack returned when the downloader learned of the edit, or of a later one in the same
//! seconds.
//!
//! A canvas is stored as any other file is, with its versions in its row. Before its bytes are stored, the
//! row names their key and the edit: a later attempt of a crashed process names the bytes by the edit that
//! they were requested for, and an erasure finds them.

use serde_json::{Value, json};

use super::object::{FileObject, edit_time};
use super::stored::{StoredBytes, file_identity, versions};
use ports::archive::{Guard, Item, ItemKey, Update};
use ports::files::FileKey;
use slack::ids::{FileId, TeamId};

/// The prefix of the sources of bytes that are about to be stored, one per key.
const EXPECTED: &str = "expected#";

/// The register of the newest edit that could not be stored: its time, the attempt, and the reason.
const MISSED: &str = "missed";

/// The prefix of the reason if the time of the edit is unknown. It sorts before the reasons, so that a known
/// time wins.
const AFTER: &str = "-";

/// The reason if there are too many versions. Other reasons are verdicts.
pub const TOO_MANY: &str = "too_many_versions";

/// The reason if the download failed.
pub const FAILED: &str = "failed";

/// What a later attempt records if the newest version is stored. It is greater than [`FAILED`].
pub const NOTHING_MISSED: &str = "held";

/// Up to this number of versions, each edit is one. Its marks take about 200 bytes of a row, whose maximum
/// size is 400 kB. Above it, one version is kept per day.
const MAX_EDITS: usize = 500;

/// The maximum number of versions: those above, and one a day for more than a year.
const MAX_VERSIONS: usize = 900;

const DAY_S: u64 = 86_400;

/// The time of the edit in the source of bytes.
pub(super) fn edited_at(source: &str) -> Option<u64> {
    source.split_once('.')?.1.parse().ok()
}

/// The source without the time of the edit.
pub(super) fn without_edit(source: &str) -> &str {
    source.split_once('.').map_or(source, |(place, _)| place)
}

/// The update that names the key of a canvas's bytes before they are stored.
pub fn expected(team: &TeamId, file: &FileId, key: &FileKey, source: &str) -> Update {
    let mut set_if_absent = file_identity(team, file);
    set_if_absent.insert(format!("{EXPECTED}{key}"), source.into());
    Update { set_if_absent, ..Update::new(ItemKey::file(team, file)) }
}

/// The source of bytes that were about to be stored under this key.
pub fn expected_source<'i>(item: &'i Item, key: &FileKey) -> Option<&'i str> {
    item.text(&format!("{EXPECTED}{key}"))
}

/// The keys of bytes that were about to be stored.
pub(super) fn expected_keys(item: &Item) -> impl Iterator<Item = FileKey> + '_ {
    item.attributes.keys().filter_map(|name| FileKey::from_stored(name.strip_prefix(EXPECTED)?))
}

/// Whether another version of a canvas fits.
pub fn has_room(item: &Item, object: &FileObject) -> bool {
    let Some(updated) = object.updated else { return true };
    let edits: Vec<u64> = versions(item).filter_map(|(source, _, _)| edited_at(source)).collect();
    let is_first_of_day = || edits.iter().all(|edit| edit / DAY_S != updated / DAY_S);
    edits.len() < MAX_EDITS || (edits.len() < MAX_VERSIONS && is_first_of_day())
}

/// The edit that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedEdit {
    /// The edit at this time.
    At(u64),
    /// An edit after the newest stored one, which has this time.
    After(u64),
}

/// The update that records why an edit is not stored, or that a later attempt found nothing new
/// ([`NOTHING_MISSED`]). `attempt` is the name of the job's version: a later one is greater.
pub fn missed(team: &TeamId, file: &FileId, edit: MissedEdit, attempt: &str, reason: &str) -> Update {
    let version = match edit {
        MissedEdit::At(updated) => format!("{}/{attempt}/{reason}", edit_time(updated)),
        MissedEdit::After(newest) => format!("{}/{attempt}/{AFTER}{reason}", edit_time(newest + 1)),
    };
    Update {
        guard: Guard::Greater { register: MISSED.into(), version },
        set_if_absent: file_identity(team, file),
        ..Update::new(ItemKey::file(team, file))
    }
}

/// The edit that is not stored although it is later than all stored ones, and the reason.
pub fn newest_missed(item: &Item) -> Option<(MissedEdit, &str)> {
    let mut parts = item.text(MISSED)?.splitn(3, '/');
    let (edit, _, reason) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let is_newest = newest(item).is_none_or(|newest| newest.updated < edit);
    let missed = match reason.strip_prefix(AFTER) {
        Some(reason) => (MissedEdit::After(edit.saturating_sub(1)), reason),
        None => (MissedEdit::At(edit), reason),
    };
    (is_newest && missed.1 != NOTHING_MISSED).then_some(missed)
}

/// The attempt that recorded the edit of [`newest_missed`].
pub fn missed_attempt(item: &Item) -> Option<&str> {
    newest_missed(item)?;
    item.text(MISSED)?.split('/').nth(1)
}

/// A stored version of a canvas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CanvasVersion {
    /// The time of the edit, in seconds since the Unix epoch.
    pub updated: u64,
    /// The key of its bytes.
    pub key: FileKey,
    pub size_bytes: u64,
}

/// The newest version; `None` if the file has no versions that an edit names.
pub fn newest(item: &Item) -> Option<CanvasVersion> {
    let edits = versions(item).filter_map(|(source, size_bytes, key)| {
        Some(CanvasVersion { updated: edited_at(source)?, key, size_bytes })
    });
    edits.max()
}

/// The version that these bytes are; `None` if they are no canvas.
pub fn version_of(held: &StoredBytes) -> Option<CanvasVersion> {
    let StoredBytes { key, source, size_bytes, .. } = held;
    Some(CanvasVersion { updated: edited_at(source)?, key: key.clone(), size_bytes: *size_bytes })
}

/// The versions as readers see them, oldest first.
pub(super) fn projected(item: &Item) -> Vec<Value> {
    let mut shown: Vec<(u64, Value)> = versions(item)
        .filter_map(|(source, size_bytes, key)| {
            let updated = edited_at(source)?;
            let version = json!({ "updated": updated, "size_bytes": size_bytes, "uri": key.as_str() });
            Some((updated, version))
        })
        .collect();
    shown.sort_by(|(one, first), (other, second)| {
        one.cmp(other).then_with(|| first["uri"].as_str().cmp(&second["uri"].as_str()))
    });
    let mut shown: Vec<Value> = shown.into_iter().map(|(_, version)| version).collect();
    shown.extend(newest_missed(item).map(|(edit, reason)| match edit {
        MissedEdit::At(updated) => json!({ "updated": updated, "verdict": reason }),
        MissedEdit::After(_) => json!({ "verdict": reason }),
    }));
    shown
}

#[cfg(test)]
mod tests {
    use super::super::row;
    use super::*;
    use crate::fixture::team;
    use crate::project;

    fn object(updated: u64) -> FileObject {
        let object = json!({ "id": "F1", "mode": "quip", "name": format!("Plan {updated}"), "updated": updated,
            "url_private": "https://files.slack.com/files-pri/T1-F1/plan" });
        FileObject::read(&object).unwrap()
    }

    fn id() -> FileId {
        FileId::parse("F1").unwrap()
    }

    fn key(name: &str) -> FileKey {
        FileKey::parse(&format!("slack/T1/C1/1.000000/F1.{name}")).unwrap()
    }

    fn edited(updated: u64, name: &str) -> Vec<Update> {
        let source = object(updated).source(&team()).unwrap();
        let held = StoredBytes { key: key(name), source, size_bytes: updated, sha256: name.into() };
        vec![
            row::seen(&team(), &object(updated), None),
            expected(&team(), &id(), &held.key, &held.source),
            row::stored(&team(), &id(), &held),
        ]
    }

    fn row<'u>(updates: impl IntoIterator<Item = &'u Update>) -> Item {
        let mut attributes = None;
        for update in updates {
            let absent =
                Update { set_if_absent: update.set_if_absent.clone(), ..Update::new(update.key.clone()) };
            for step in [update, &absent] {
                attributes = step.apply(attributes.as_ref()).or(attributes);
            }
        }
        Item { key: ItemKey::file(&team(), &id()), attributes: attributes.unwrap() }
    }

    #[test]
    fn every_order_of_the_edits_of_a_canvas_makes_the_same_row_with_the_newest_in_front() {
        let mut updates = [edited(100, "zz"), edited(300, "b"), edited(200, "c")].concat();
        updates.push(missed(&team(), &id(), MissedEdit::At(250), "", "too_big"));
        let expected = row(&updates);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..300 {
            let mut shuffled: Vec<&Update> = updates.iter().chain(&updates).collect();
            random.shuffle(&mut shuffled);
            assert_eq!(row(shuffled), expected);
        }
        let shown = project::file(&expected).unwrap().into_json();
        let version = |updated: u64, name: &str| json!({ "updated": updated, "size_bytes": updated, "uri": key(name).as_str() });
        assert_eq!(shown["versions"], json!([version(100, "zz"), version(200, "c"), version(300, "b")]));
        assert_eq!((&shown["uri"], &shown["size_bytes"]), (&json!(key("b").as_str()), &json!(300)));
        assert_eq!((&shown["name"], &shown["sha256"]), (&json!("Plan 300"), &Value::Null));
        let address = project::address(&shown, "file:///data").into_owned();
        assert_eq!(address["versions"][2]["uri"], format!("file:///data/{}", key("b")));
    }

    #[test]
    fn an_object_matches_the_version_of_its_edit_or_of_a_later_one() {
        let item = row(&[edited(100, "a"), edited(200, "b")].concat());
        let matching = |updated| row::matching_key(&item, &team(), &object(updated));
        assert_eq!(
            [50, 100, 150, 200, 201].map(matching),
            [Some(key("b")), Some(key("b")), Some(key("b")), Some(key("b")), None]
        );
        let elsewhere =
            json!({ "id": "F1", "mode": "quip", "updated": 100, "url_private": "https://files.slack.com/x" });
        assert_eq!(row::matching_key(&item, &team(), &FileObject::read(&elsewhere).unwrap()), None);
    }

    #[test]
    fn an_edit_that_is_not_stored_is_shown_until_a_later_one_is() {
        let missed = |edit, attempt: &str, reason| missed(&team(), &id(), edit, attempt, reason);
        let mut updates = edited(100, "a");
        let (at, after) = (MissedEdit::At, MissedEdit::After);
        for (update, expected) in [
            (missed(after(100), "1", FAILED), Some(json!({ "verdict": FAILED }))),
            (missed(after(100), "2", NOTHING_MISSED), None),
            (missed(after(100), "1", FAILED), None),
            (missed(after(100), "3", FAILED), Some(json!({ "verdict": FAILED }))),
            (missed(at(200), "4", "too_big"), Some(json!({ "updated": 200, "verdict": "too_big" }))),
            (missed(after(100), "5", NOTHING_MISSED), Some(json!({ "updated": 200, "verdict": "too_big" }))),
            (missed(at(300), "6", TOO_MANY), Some(json!({ "updated": 300, "verdict": TOO_MANY }))),
        ] {
            updates.push(update);
            let shown = project::file(&row(&updates)).unwrap().into_json();
            assert_eq!(shown["versions"].get(1), expected.as_ref(), "{:?}", updates.last());
        }
        updates.extend(edited(300, "b"));
        assert_eq!(newest_missed(&row(&updates)), None);
    }

    #[test]
    fn after_many_edits_one_version_is_kept_per_day_and_the_row_stays_small() {
        let mut kept = Vec::new();
        let mut item = row(&edited(1, "a"));
        // The longest ids, and more edits than fit.
        let long = "Z".repeat(30);
        let edits_of_day = |day| if day < 5 { 100 } else { 2 };
        for updated in (0..450).flat_map(|day| (1..=edits_of_day(day)).map(move |edit| day * DAY_S + edit)) {
            if !has_room(&item, &object(updated)) {
                continue;
            }
            kept.push(updated);
            let name = format!("slack/{long}/{long}/999999999999.999999/{long}.{updated:012}.00000000");
            let held = StoredBytes {
                key: FileKey::parse(&name).unwrap(),
                source: object(updated).source(&team()).unwrap(),
                size_bytes: 100_000_000,
                sha256: "0".repeat(64),
            };
            let updates =
                [expected(&team(), &id(), &held.key, &held.source), row::stored(&team(), &id(), &held)];
            for update in updates {
                item.attributes = update.apply(Some(&item.attributes)).unwrap();
            }
        }
        assert_eq!(kept.len(), MAX_VERSIONS - 1);
        let days =
            kept.iter().map(|updated| updated / DAY_S).collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(days, 5 + (MAX_VERSIONS - MAX_EDITS));
        let bytes = serde_json::to_string(&item.attributes).unwrap().len();
        assert!(bytes < 390_000, "{bytes} bytes");
    }
}
