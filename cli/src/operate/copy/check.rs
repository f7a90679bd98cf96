//! Whether the copies are whole.

use std::collections::{HashMap, HashSet};

use copies::{Base, BlockId, CopyError, CopyStore, FILES, block, list_bases, list_blocks, owner};
use ports::archive::{Archive, Attributes, Item, ItemKey};

use super::super::named_files::named_bytes;

/// The columns of an item's line: its key, its parent, its attributes as JSON.
type ItemLine = (String, String, Option<String>, String);

/// Checks a target: each base, each block, and each file that a row of the newest base names.
pub(crate) struct CopyCheck<'c> {
    pub(crate) store: &'c dyn CopyStore,
    pub(crate) archive: &'c dyn Archive,
    pub(crate) archive_id: &'c str,
    /// Whether the bytes of files are checked.
    pub(crate) has_files: bool,
}

impl CopyCheck<'_> {
    /// Calls `problem` with the name of each object that is not as it should be, and why.
    pub(crate) async fn run(
        &self,
        problem: &mut dyn FnMut(&str, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.store.ready().await.map_err(CopyError::from)?;
        match owner(self.store).await? {
            None => return problem("copy.json", "there is no copy: make one with annalist copy"),
            Some(owner) if owner != self.archive_id => return Err(CopyError::Foreign.into()),
            Some(_) => {}
        }
        let times = list_bases(self.store).await?;
        let there = list_blocks(self.store).await?;
        let mut listed: HashSet<BlockId> = HashSet::new();
        let mut newest = None;
        for at in &times {
            match Base::read(self.store, at).await {
                Ok(base) => {
                    if let Some(missing) = base.blocks().find(|block| !there.contains(block)) {
                        problem(&at.object(), &format!("{} is missing", missing.object()))?;
                    }
                    listed.extend(base.blocks());
                    newest = Some(base);
                }
                Err(error @ (CopyError::Damaged(_) | CopyError::Missing(_))) => {
                    problem(&at.object(), &error.to_string())?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if times.is_empty() {
            problem("base/", "there is no copy: make one with annalist copy")?;
        }
        let items: HashSet<BlockId> = newest
            .iter()
            .flat_map(|base| &base.tables)
            .filter(|table| table.name == "items")
            .flat_map(|table| table.blocks.iter().copied())
            .collect();
        let files = self.files().await?;
        for id in listed.intersection(&there) {
            match block::lines(self.store, *id).await {
                Ok(lines) if items.contains(id) && self.has_files => {
                    self.check_files(&lines, &files, problem).await?
                }
                Ok(_) => {}
                Err(CopyError::Damaged(name)) => {
                    problem(
                        &name,
                        "its content is not that of its name: remove it, and the next copy writes it again",
                    )?;
                }
                Err(CopyError::Missing(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The sizes of the files, by a hash of their keys.
    async fn files(&self) -> anyhow::Result<HashMap<BlockId, u64>> {
        let mut files = HashMap::new();
        let mut see = |name: &str, size_bytes| {
            files.extend(name.strip_prefix(FILES).map(|key| (BlockId::of(key.as_bytes()), size_bytes)));
        };
        if self.has_files {
            self.store.list(FILES, &mut see).await?;
        }
        Ok(files)
    }

    async fn check_files(
        &self,
        lines: &str,
        files: &HashMap<BlockId, u64>,
        problem: &mut dyn FnMut(&str, &str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for line in lines.lines() {
            let Ok((item_id, timestamp, _, attributes)) = serde_json::from_str::<ItemLine>(line) else {
                continue;
            };
            let Ok(attributes) = serde_json::from_str::<Attributes>(&attributes) else { continue };
            let item = Item { key: ItemKey::new(item_id, timestamp), attributes };
            for named in named_bytes(&item) {
                let object = format!("{FILES}{}", named.key);
                let found = files.get(&BlockId::of(named.key.as_str().as_bytes()));
                let detail = match found {
                    None => "it is missing".to_owned(),
                    Some(size) if named.size_bytes.is_some_and(|expected| expected != *size) => {
                        format!("it has {size} bytes instead of {}", named.size_bytes.unwrap_or_default())
                    }
                    Some(_) => continue,
                };
                // It may have been erased since the copy.
                let now = self.archive.get(&item.key).await?;
                if now.is_some_and(|now| named_bytes(&now).iter().any(|still| still.key == named.key)) {
                    problem(&object, &detail)?;
                }
            }
        }
        Ok(())
    }
}
