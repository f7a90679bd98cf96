use std::collections::{BTreeMap, BTreeSet};

use ports::archive::rows::ROWS;
use ports::archive::{ArchiveExt, key, query_all};
use ports::clock::{ManualClock, TimestampMs};
use proptest::prelude::*;
use rules::file::{FileState, FileVerdict};
use serde_json::{Value, json};
use testkit::conformance::archive::{self, ArchiveFixture, ArchiveTraits};
use testkit::memory::archive::MemoryArchive;
use tokio::runtime::Builder;

use super::*;
use crate::fixture::{channel_id, set, team};

/// The sight of a reader who does not see `C2`.
fn without_c2() -> Sight {
    Sight::Without(Arc::new([(team(), channel_id("C2"))].into_iter().collect()))
}

fn visible(archive: &Arc<MemoryArchive>, sight: Sight) -> VisibleArchive {
    VisibleArchive::new(Arc::<MemoryArchive>::clone(archive), sight)
}

/// A key of this kind with these ids.
fn sample(kind: &RowKind, channel: &str) -> ItemKey {
    let [partition, sort] = [kind.partition, kind.sort].map(|pattern| {
        let ids = [
            ("{team}", "T1"),
            ("{channel}", channel),
            ("{ts}", "7.000100"),
            ("{file}", "F1"),
            ("{user}", "U1"),
        ];
        let named = ids.iter().fold(pattern.to_owned(), |text, (name, id)| text.replace(name, id));
        named.replace(['{', '}'], "")
    });
    ItemKey::new(partition, sort)
}

#[tokio::test]
async fn a_row_that_names_a_hidden_channel_is_hidden_and_a_kind_that_is_not_listed_reads_as_empty() {
    for kind in ROWS {
        let keys = ["C1", "C2"].map(|channel| sample(kind, channel));
        let archive = Arc::new(MemoryArchive::new());
        for key in &keys {
            let row = json!({ "shared#C1#7.000100": true, "channels_map": { "C1": "one" } });
            set(&archive, key.clone(), row).await;
        }
        set(&archive, ItemKey::new("file#T1", "F1"), json!({ "shared#C1#7.000100": true })).await;
        let seen = visible(&archive, without_c2());
        let is_listed = SHOWN.contains(kind);
        let expected = [is_listed, is_listed && keys[0] == keys[1]];
        let all = seen.get_all(&[&keys[0], &keys[1]]).await.unwrap();
        assert_eq!(all.iter().map(Option::is_some).collect::<Vec<_>>(), expected, "{kind:?}");
        for (key, is_shown) in keys.iter().zip(expected) {
            assert_eq!(seen.get(key).await.unwrap().is_some(), is_shown, "{key:?}");
            let found = query_all(&seen, Query::partition(key.item_id.clone())).await.unwrap();
            assert_eq!(found.iter().any(|item| item.key == *key), is_shown, "{key:?}");
        }
        let everything = visible(&archive, Sight::Everything);
        assert!(everything.get(&keys[1]).await.unwrap().is_some(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_row_of_a_workspace_is_shown_without_what_is_of_a_hidden_channel() {
    for (item_id, timestamp, row, expected) in [
        (
            "channelindex#T1",
            "0",
            json!({ "channels_map": { "C1": "one", "C2": "two" }, "version": "a" }),
            Some(json!({ "channels_map": { "C1": "one" } })),
        ),
        ("channelindex#T1", "0", json!({ "channels_map": { "C2": "two" } }), None),
        ("channelindex#T1", "0", json!({ "channels_map": [null] }), None),
        // Another workspace's channel of this id is not hidden.
        (
            "channelindex#T2",
            "0",
            json!({ "channels_map": { "C2": "two" } }),
            Some(json!({ "channels_map": { "C2": "two" } })),
        ),
        (
            "file#T1",
            "F1",
            json!({ "name": "a", "shared#C1#1.000000": true, "shared#C2#1.000000": true }),
            Some(json!({ "name": "a", "shared#C1#1.000000": true })),
        ),
        ("file#T1", "F1", json!({ "name": "a", "shared#C2#1.000000": true }), None),
        ("file#T1", "F1", json!({ "name": "a" }), None),
        ("file#T2", "F1", json!({ "shared#C2#1.000000": true }), Some(json!({ "shared#C2#1.000000": true }))),
        ("canvastext#T1", "F1", json!({ "text": "its file is not known" }), None),
        ("gap#T1", "C2#1.000000#left", json!({ "reason": "left" }), None),
        ("gap#T1", "C1#1.000000#left", json!({ "reason": "left" }), Some(json!({ "reason": "left" }))),
        ("gap#T1", "all#1.000000#downtime", json!({}), Some(json!({}))),
        ("firstpost#T1", "U1", json!({ "first": "000000000001.000000#C2" }), None),
        (
            "firstpost#T1",
            "U1",
            json!({ "first": "000000000001.000000#C1" }),
            Some(json!({ "first": "000000000001.000000#C1" })),
        ),
        ("meta#waiting", "events#T1", json!({ "waits": true }), Some(json!({ "waits": true }))),
    ] {
        let archive = Arc::new(MemoryArchive::new());
        let key = ItemKey::new(item_id, timestamp);
        set(&archive, key.clone(), row.clone()).await;
        let found = visible(&archive, without_c2()).get(&key).await.unwrap();
        assert_eq!(found.map(|item| Value::Object(item.attributes)), expected, "{item_id} {row}");
    }
}

#[tokio::test]
async fn the_text_of_a_canvas_is_shown_to_those_who_get_its_file() {
    let archive = Arc::new(MemoryArchive::new());
    for (file, channel) in [("F1", "C1"), ("F2", "C2")] {
        set(&archive, ItemKey::new("canvastext#T1", file), json!({ "text": "plan" })).await;
        set(&archive, ItemKey::new("file#T1", file), json!({ (format!("shared#{channel}#1.000000")): true }))
            .await;
    }
    let seen = visible(&archive, without_c2());
    let keys = ["F1", "F2"].map(|file| ItemKey::new("canvastext#T1", file));
    let texts = seen.get_all(&[&keys[1], &keys[0]]).await.unwrap();
    assert_eq!(texts.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    let found = query_all(&seen, Query::partition("canvastext#T1")).await.unwrap();
    assert_eq!(found.into_iter().map(|item| item.key).collect::<Vec<_>>(), [keys[0].clone()]);
}

#[tokio::test]
async fn a_reader_does_not_write() {
    let archive = Arc::new(MemoryArchive::new());
    let key = ItemKey::new("user#T1", "U1");
    set(&archive, key.clone(), json!({ "name": "ana" })).await;
    let before = archive.items();
    for sight in [without_c2(), Sight::Everything] {
        let seen = visible(&archive, sight);
        assert!(seen.write(&Update::mark(key.clone())).await.is_err());
        assert!(seen.erase(&key).await.is_err());
        assert!(seen.delete_unchanged(&before[0]).await.is_err());
        assert!(seen.ready().await.is_err());
    }
    assert_eq!(archive.items(), before);
}

/// A row of a mixed partition: its partition, its position, and whether it is of the hidden channel.
fn row() -> impl Strategy<Value = (u8, u16, bool)> {
    (0..4_u8, 0..60_u16, any::<bool>())
}

fn stored(&(kind, number, is_hidden): &(u8, u16, bool)) -> (ItemKey, Value) {
    let (channel, number) = (if is_hidden { "C2" } else { "C1" }, format!("{number:03}"));
    match kind {
        0 => {
            let parent = key::thread_parent(&team(), &crate::fixture::at(0));
            (ItemKey::new(format!("message#T1#{channel}"), number), json!({ "parent": parent }))
        }
        1 => (ItemKey::new("file#T1", number), json!({ (format!("shared#{channel}#1.000000")): true })),
        2 => (ItemKey::new("filled#T1", format!("{channel}#{number}")), json!({})),
        _ => (ItemKey::new("meta#T1#public", format!("{channel}{number}")), json!({})),
    }
}

proptest! {
    /// The claim about pages: whatever is asked, the answer is that of an archive without the hidden channels.
    #[test]
    fn a_page_is_that_of_an_archive_without_the_hidden_channel(
        rows in prop::collection::vec(row(), 0..200),
        limit in 0..9_usize,
        descending in any::<bool>(),
        until in prop::option::of(0..60_u16),
    ) {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (whole, reduced) = (Arc::new(MemoryArchive::new()), Arc::new(MemoryArchive::new()));
            let hidden: BTreeSet<_> = std::iter::once((team(), channel_id("C2")))
                .chain((0..60).map(|number| (team(), channel_id(&format!("C2{number:03}")))))
                .collect();
            let hidden = Sight::Without(Arc::new(hidden.into_iter().collect()));
            // If a file is shared in both channels, the last row counts in both archives.
            let mut last = BTreeMap::new();
            for row in &rows {
                let (key, value) = stored(row);
                last.insert(key, (value, row.2));
            }
            for (key, (value, is_hidden)) in last {
                set(&whole, key.clone(), value.clone()).await;
                if !is_hidden {
                    set(&reduced, key, value).await;
                }
            }
            let parent = key::thread_parent(&team(), &crate::fixture::at(0));
            for first in [Query::parent(parent), Query::partition("file#T1"), Query::partition("filled#T1"), Query::partition("meta#T1#public")] {
                let until = until.map(|until| format!("{until:03}"));
                let mut query = Query { limit, descending, until, ..first };
                let (seen, expected) = (visible(&whole, hidden.clone()), visible(&reduced, Sight::Everything));
                loop {
                    let page = expected.query(&query).await.unwrap();
                    assert_eq!(seen.query(&query).await.unwrap(), page, "{query:?}");
                    let Some(next) = page.next else { break };
                    query.after = Some(next);
                }
            }
        });
    }
}

#[tokio::test]
async fn the_states_of_a_file_are_shown_with_its_visible_shares() {
    let archive = Arc::new(MemoryArchive::new());
    let file = FileId::parse("F1").unwrap();
    let state = FileState::Verdict(FileVerdict::Pending);
    archive.write(&row::settled(&team(), &file, &state)).await.unwrap();
    let seen = visible(&archive, without_c2());
    assert_eq!(seen.get(&ItemKey::file(&team(), &file)).await.unwrap(), None);
    set(&archive, ItemKey::file(&team(), &file), json!({ "shared#C1#1.000000": true })).await;
    let shown = seen.get(&ItemKey::file(&team(), &file)).await.unwrap().unwrap();
    assert_eq!(row::state(&shown, &file), Some(state));
}

/// Writes to an archive, and reads it as a reader who sees everything.
struct ReadWhole {
    archive: Arc<MemoryArchive>,
    seen: VisibleArchive,
}

#[async_trait]
impl Archive for ReadWhole {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        self.archive.apply_once(updates).await
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        self.seen.get(key).await
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        self.seen.get_all(keys).await
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        self.seen.query(query).await
    }

    async fn delete_unchanged(&self, expected: &Item) -> Result<bool, ArchiveError> {
        self.archive.delete_unchanged(expected).await
    }

    async fn erase(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.archive.erase(key).await
    }

    async fn expire(&self, key: &ItemKey) -> Result<bool, ArchiveError> {
        self.archive.expire(key).await
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        self.archive.ready().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_archive_of_a_reader_who_sees_everything_conforms() {
    archive::suite(ArchiveTraits::LOCAL, || {
        let archive = Arc::new(MemoryArchive::new());
        let seen = visible(&archive, Sight::Everything);
        let clock = ManualClock::starting_at(TimestampMs(0));
        ArchiveFixture { archive: Arc::new(ReadWhole { archive, seen }), clock, keep: Box::new(()) }
    })
    .await;
}
