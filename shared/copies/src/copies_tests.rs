use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::folder::FolderStore;
use crate::make::{Written, begin, finish};

const ARCHIVE: &str = "an archive";
const BEGINNING: &str = "2026-11-20T03:00:00Z";

fn head() -> BaseHead {
    BaseHead { format: FORMAT, archive: ARCHIVE.to_owned(), annalist: "0.1.0".to_owned(), schema: 1 }
}

fn days(days: i64) -> jiff::Timestamp {
    BEGINNING.parse::<jiff::Timestamp>().unwrap() + SignedDuration::from_hours(24 * days)
}

/// Makes a base of these rows: keys with their texts, in this order.
async fn copy(folder: &std::path::Path, rows: &[(u32, String)], day: i64) -> (BaseTime, Base, Written) {
    try_copy(Arc::new(FolderStore::new(folder)), rows, day).await.unwrap()
}

async fn try_copy(
    store: Arc<dyn CopyStore>,
    rows: &[(u32, String)],
    day: i64,
) -> Result<(BaseTime, Base, Written), CopyError> {
    claim(&*store, ARCHIVE).await?;
    let (mut writer, blocks) = begin(head(), list_blocks(&*store).await?);
    let rows = rows.to_vec();
    let reading = tokio::task::spawn_blocking(move || {
        writer.table("rows", &["key", "text"])?;
        for (key, text) in rows {
            let line = serde_json::to_vec(&(key, &text)).unwrap();
            writer.row(&key.to_be_bytes(), &line, text.len() > 3)?;
        }
        writer.table("none", &["key"])?;
        writer.end()
    });
    let written = blocks.run(Arc::clone(&store)).await?;
    let base = reading.await.unwrap().unwrap();
    let (at, _) = finish(&*store, &base, days(day)).await?;
    Ok((at, base, written))
}

async fn restored(folder: &std::path::Path, at: &BaseTime) -> Result<Vec<(u32, String)>, CopyError> {
    let store = FolderStore::new(folder);
    let base = Base::read(&store, at).await?;
    let mut rows = Vec::new();
    for block in base.blocks() {
        let lines = block::lines(&store, block).await?;
        rows.extend(lines.lines().map(|line| serde_json::from_str::<(u32, String)>(line).unwrap()));
    }
    Ok(rows)
}

/// The objects with their sizes.
fn objects(folder: &std::path::Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_base_has_its_own_rows_and_a_change_writes_its_own_block(
        texts in prop::collection::vec(".{0,8}", 0..400),
        changes in prop::collection::btree_map(0_usize..400, "changed.{0,4}", 0..6),
        added in prop::collection::vec("added", 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let first: Vec<(u32, String)> = (0..).zip(texts).collect();
            let (first_at, _, _) = copy(folder.path(), &first, 0).await;
            let mut second = first.clone();
            let in_place = changes.into_iter().filter(|(at, _)| *at < first.len()).collect::<Vec<_>>();
            for (at, text) in &in_place {
                second[*at].1.clone_from(text);
            }
            second.extend((first.len() as u32..).zip(added.clone()));
            let (second_at, base, written) = copy(folder.path(), &second, 1).await;
            // New rows complete the last block and begin others.
            let new_rows = if added.is_empty() { 0 } else { 1 + added.len() as u64 };
            prop_assert!(written.blocks <= in_place.len() as u64 + new_rows);
            prop_assert_eq!(base.counts.rows, second.len() as u64);
            prop_assert_eq!(restored(folder.path(), &first_at).await.unwrap(), first);
            prop_assert_eq!(restored(folder.path(), &second_at).await.unwrap(), second.clone());
            let (third_at, _, written) = copy(folder.path(), &second, 1).await;
            prop_assert_eq!(written, Written::default());
            prop_assert!(third_at > second_at, "the same second has another name");
            Ok(())
        })?;
    }
}

fn many() -> Vec<(u32, String)> {
    (0..500).map(|key| (key, format!("text {key}"))).collect()
}

#[tokio::test]
async fn no_changed_or_missing_object_is_read_as_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let (at, _, _) = copy(folder.path(), &many(), 0).await;
    let all = objects(folder.path());
    assert!(all.len() > 5, "{all:?}");
    for (path, bytes) in all.iter().filter(|(path, _)| !path.ends_with(IDENTITY)) {
        let middle = bytes.len() / 2;
        let mut flipped = bytes.clone();
        flipped[middle] ^= 0x10;
        for changed in [Some(flipped), Some(bytes[..middle].to_vec()), Some(Vec::new()), None] {
            std::fs::remove_file(path).unwrap();
            if let Some(changed) = &changed {
                std::fs::write(path, changed).unwrap();
            }
            let read = restored(folder.path(), &at).await;
            let is_refused = match &changed {
                Some(_) => matches!(read, Err(CopyError::Damaged(_))),
                None => matches!(read, Err(CopyError::Missing(_))),
            };
            assert!(is_refused, "{}: {read:?}", path.display());
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert_eq!(restored(folder.path(), &at).await.unwrap(), many());
}

#[tokio::test]
async fn cleaning_keeps_the_newest_base_and_every_block_of_those_that_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    let mut rows = many();
    let mut made = Vec::new();
    for day in 0..3 {
        rows[100].1 = format!("only on day {day}");
        made.push((copy(folder.path(), &rows, day).await.0, rows.clone()));
    }
    std::fs::create_dir_all(folder.path().join("block/mine")).unwrap();
    std::fs::write(folder.path().join("block/mine/notes"), "not ours").unwrap();
    for (keep_days, now, left) in [(7, 3, 3), (3, 3, 2), (0, 3, 1), (0, 30, 1)] {
        clean::clean(&store, SignedDuration::from_hours(24 * keep_days), days(now)).await.unwrap();
        let bases = list_bases(&store).await.unwrap();
        let expected: Vec<_> = made[3 - left..].iter().map(|(at, _)| at.clone()).collect();
        assert_eq!(bases, expected, "kept for {keep_days} days");
        for (at, rows) in &made[3 - left..] {
            assert_eq!(restored(folder.path(), at).await.unwrap(), *rows);
        }
    }
    let left = list_blocks(&store).await.unwrap();
    let base = Base::read(&store, &made[2].0).await.unwrap();
    assert_eq!(left, base.blocks().collect());
    assert!(folder.path().join("block/mine/notes").is_file());
}

#[tokio::test]
async fn a_damaged_base_keeps_every_block_until_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    let (damaged, _, _) = copy(folder.path(), &many(), 0).await;
    copy(folder.path(), &[(1, "other".to_owned())], 1).await;
    std::fs::write(folder.path().join(damaged.object()), "not gzip").unwrap();
    let blocks = list_blocks(&store).await.unwrap();
    let keep = SignedDuration::from_hours(48);
    let refused = clean::clean(&store, keep, days(1)).await;
    assert!(matches!(refused, Err(CopyError::Damaged(_))), "{refused:?}");
    assert_eq!(list_blocks(&store).await.unwrap(), blocks);
    clean::clean(&store, keep, days(2)).await.unwrap();
    assert_eq!(list_blocks(&store).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_target_belongs_to_one_archive_and_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    claim(&store, ARCHIVE).await.unwrap();
    claim(&store, ARCHIVE).await.unwrap();
    assert!(matches!(claim(&store, "another").await, Err(CopyError::Foreign)));
    std::fs::write(folder.path().join(IDENTITY), r#"{"format":2,"archive":"an archive"}"#).unwrap();
    assert!(matches!(claim(&store, ARCHIVE).await, Err(CopyError::Newer)));
    std::fs::write(folder.path().join(IDENTITY), "[1]").unwrap();
    assert!(matches!(claim(&store, ARCHIVE).await, Err(CopyError::Damaged(_))));
    let missing = folder.path().join("missing");
    assert!(matches!(claim(&FolderStore::new(&missing), ARCHIVE).await, Err(CopyError::Store(_))));
    assert!(!missing.exists());
}

#[tokio::test]
async fn an_object_is_never_replaced_and_an_unfinished_one_is_invisible() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    let name = "files/slack/T1/C1/1.000000/F1";
    let mut unfinished = store.create(name).await.unwrap();
    unfinished.write(Bytes::from_static(b"half")).await.unwrap();
    assert!(store.open(name).await.unwrap().is_none());
    assert_eq!(put(&store, name, Bytes::from_static(b"first")).await.unwrap(), Published::New);
    assert_eq!(unfinished.publish().await.unwrap(), Published::AlreadyThere);
    assert_eq!(read(&store, name, 5).await.unwrap().unwrap(), b"first");
    assert!(matches!(read(&store, name, 4).await, Err(CopyError::Damaged(_))));
    // A killed process drops nothing.
    std::mem::forget(store.create(name).await.unwrap());
    claim(&store, ARCHIVE).await.unwrap();
    claim(&store, ARCHIVE).await.unwrap();
    assert!(!folder.path().join(".unfinished").exists());
    let mut names = Vec::new();
    store.list(FILES, &mut |name, size_bytes| names.push((name.to_owned(), size_bytes))).await.unwrap();
    assert_eq!(names, [(name.to_owned(), 5)]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!((mode(name) & 0o777, mode("files/slack") & 0o777), (0o600, 0o700));
    }
    store.delete(name).await.unwrap();
    store.delete(name).await.unwrap();
    assert!(store.open(name).await.unwrap().is_none());
}

#[test]
fn only_whole_names_are_those_of_bases_and_blocks() {
    for (name, expected) in [
        ("base/20261126T030000Z", true),
        ("base/20261126T030000Z.tmp", false),
        ("base/20261326T030000Z", false),
        ("base/2026112T0300000Z", false),
        ("base/", false),
        ("block/20261126T030000Z", false),
    ] {
        assert_eq!(BaseTime::of_object(name).map(|at| at.object()).as_deref(), expected.then_some(name));
    }
    let block = BlockId::of(b"lines");
    assert_eq!(BlockId::of_object(&block.object()), Some(block));
    let hex = &block.object()[9..];
    for other in ["block/", "block/é", &format!("block/zz/{hex}"), &block.object().to_uppercase()] {
        assert_eq!(BlockId::of_object(other), None, "{other}");
    }
}

/// A folder that has room for this many more objects.
struct FullStore {
    folder: FolderStore,
    room: AtomicUsize,
}

#[async_trait]
impl CopyStore for FullStore {
    async fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, FilesError> {
        match self.room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(1)) {
            Ok(_) => self.folder.create(name).await,
            Err(_) => Err(FilesError::Unavailable("No space left on device (os error 28)".to_owned())),
        }
    }

    async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.folder.open(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError> {
        self.folder.list(prefix, each).await
    }

    async fn delete(&self, name: &str) -> Result<(), FilesError> {
        self.folder.delete(name).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.folder.ready().await
    }

    async fn remove_leftovers(&self) -> Result<(), FilesError> {
        self.folder.remove_leftovers().await
    }
}

#[tokio::test]
async fn a_target_that_becomes_full_keeps_its_copies_and_takes_the_next_one_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    let first = many();
    let (first_at, _, _) = copy(folder.path(), &first, 0).await;
    let before = list_blocks(&store).await.unwrap().len();
    let second: Vec<(u32, String)> = first.iter().map(|(key, text)| (*key, format!("{text} now"))).collect();
    for room in [Some(0), Some(1), Some(3), None] {
        let written = list_blocks(&store).await.unwrap().len() - before;
        // For all of the blocks, which are as many as before, but not for the list.
        let room = AtomicUsize::new(room.unwrap_or(before - written));
        let full = FullStore { folder: store.clone(), room };
        let failed = try_copy(Arc::new(full), &second, 1).await.unwrap_err();
        assert_eq!(failed.to_string(), "it cannot be used: No space left on device (os error 28)");
        assert_eq!(list_bases(&store).await.unwrap(), std::slice::from_ref(&first_at));
        assert_eq!(restored(folder.path(), &first_at).await.unwrap(), first);
    }
    let (second_at, _, written) = copy(folder.path(), &second, 1).await;
    assert_eq!(written.blocks, 0, "what fitted was found");
    assert_eq!(restored(folder.path(), &second_at).await.unwrap(), second);
}

#[tokio::test]
async fn a_percent_of_scattered_updates_rewrites_less_than_a_sixth_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows: Vec<(u32, String)> = (0..6_400).map(|key| (key, format!("text {key}"))).collect();
    let (_, first, _) = copy(folder.path(), &rows, 0).await;
    for (key, text) in rows.iter_mut().step_by(100) {
        *text = format!("changed {key}");
    }
    let (_, second, written) = copy(folder.path(), &rows, 1).await;
    let blocks = first.counts.blocks;
    assert!((350..500).contains(&blocks), "about 14 rows each: {blocks}");
    let known: BTreeSet<_> = first.blocks().collect();
    let (store, mut rewritten) = (FolderStore::new(folder.path()), 0);
    for block in second.blocks().filter(|block| !known.contains(block)) {
        rewritten += block::lines(&store, block).await.unwrap().lines().count();
    }
    assert!(
        written.blocks <= 64 && rewritten * 6 < rows.len(),
        "{rewritten} rows in {} blocks",
        written.blocks
    );
}

#[tokio::test]
async fn objects_that_are_written_together_leave_nothing_behind_if_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::new(folder.path());
    let objects = |names: &[&str]| -> Vec<(String, Bytes)> {
        names.iter().map(|name| ((*name).to_owned(), Bytes::from((*name).to_owned()))).collect()
    };
    store.put_all(objects(&["block/00/one", "block/01/two"])).await.unwrap();
    let content = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
    assert_eq!(content("block/01/two").as_deref(), Some("block/01/two"));
    // The folder of the second object cannot be made.
    let failed = store.put_all(objects(&["block/02/three", "block/01/two/four", "block/02/five"])).await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(content("block/02/five"), None);
    let unfinished = std::fs::read_dir(folder.path().join(".unfinished")).unwrap();
    assert_eq!(unfinished.count(), 0);
    store.put_all(objects(&["block/02/three", "block/02/five"])).await.unwrap();
    assert_eq!(content("block/02/five").as_deref(), Some("block/02/five"));
}
