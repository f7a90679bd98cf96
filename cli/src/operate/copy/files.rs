//! The bytes of files in a copy: written once under their keys, and removed when the archive has them no more.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use bytes::Bytes;
use copies::{BlockId, CopyStore, FILES};
use embedded::DATABASE_FILE;
use embedded::backup::{CopiedRows, Inventory};
use ports::files::{FileKey, Published};
use tokio::io::AsyncReadExt;

use super::super::named_files::NamedFiles;

/// Size of the chunks of a copy.
const CHUNK_BYTES: usize = 256 * 1024;

/// Keys, 32 bytes in memory for each.
#[derive(Debug, Default)]
pub(super) struct KeySet(HashSet<BlockId>);

impl KeySet {
    fn insert(&mut self, key: &str) {
        self.0.insert(BlockId::of(key.as_bytes()));
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.contains(&BlockId::of(key.as_bytes()))
    }
}

/// The files that a copy has.
pub(super) async fn list(store: &dyn CopyStore) -> anyhow::Result<KeySet> {
    let mut keys = KeySet::default();
    store
        .list(FILES, &mut |name, _| name.strip_prefix(FILES).into_iter().for_each(|key| keys.insert(key)))
        .await?;
    Ok(keys)
}

/// Copies the files of a data folder that the copy does not have. Returns their number, and the files of the folder.
pub(super) async fn copy(data: &Path, store: &dyn CopyStore) -> anyhow::Result<(u64, KeySet)> {
    let there = list(store).await?;
    let (mut copied, mut folder) = (0, KeySet::default());
    for file in Inventory::new(data) {
        let file = file.with_context(|| format!("cannot list the files in {}", data.display()))?;
        folder.insert(&file.key);
        if there.contains(&file.key) {
            continue;
        }
        let mut from = match tokio::fs::File::open(&file.path).await {
            Ok(from) => from,
            // It was erased meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.path.display())),
        };
        let mut to = store.create(&format!("{FILES}{}", file.key)).await?;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = (&mut from).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await;
            if read.with_context(|| format!("cannot read {}", file.path.display()))? == 0 {
                break;
            }
            to.write(Bytes::from(chunk)).await?;
        }
        copied += u64::from(to.publish().await? == Published::New);
    }
    Ok((copied, folder))
}

/// Removes the files that the folder does not have and that no row names: both, so that a lost folder of files does not
/// empty the copy.
pub(super) async fn clean(data: &Path, store: &dyn CopyStore, folder: &KeySet) -> anyhow::Result<()> {
    let mut gone = Vec::new();
    let mut see = |name: &str, _| {
        let key = name.strip_prefix(FILES).and_then(FileKey::parse);
        gone.extend(key.filter(|key| !folder.contains(key.as_str())));
    };
    store.list(FILES, &mut see).await?;
    let mut names = NamedFiles::of(CopiedRows::open(&data.join(DATABASE_FILE))?);
    for key in gone {
        if !names.contain(key.as_str())? {
            store.delete(&format!("{FILES}{key}")).await?;
        }
    }
    Ok(())
}
