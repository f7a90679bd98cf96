//! Files: their rows, and their bytes.
//!
//! A file belongs to every message that shares it, and goes with the last of them. Which these are stands in its own row, so it
//! is found even if the messages are erased already. A row that names as many as it may hold stays, with its bytes.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{Item, ItemKey, Query, key, query_all};
use rules::file::row::{self, MAX_SHARES};
use slack::ids::{FileId, TeamId};

use super::{Eraser, EraserCounts, EraserError, PAGE};
use crate::file_downloader::unshared;

impl Eraser<'_> {
    /// Erases each file of a workspace that no message shares any more, and what killed runs have left of such files.
    pub(super) async fn files(&self, team: &TeamId) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        let mut query = Query { limit: PAGE, ..Query::partition(key::files(team)) };
        loop {
            let page = self.archive.query(&query).await?;
            self.read(&mut counts, &page.items);
            counts += self.files_of(team, page.items).await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let left = query_all(self.archive, Query::partition(key::unshared_files(team))).await?;
        for id in left.iter().filter_map(|left| FileId::parse(&left.key.timestamp).ok()) {
            counts += self.left_of(team, &id).await?;
        }
        Ok(counts)
    }

    /// Erases what a killed run has left of a file.
    pub(super) async fn left_of(&self, team: &TeamId, file: &FileId) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        if self.acts() {
            counts.bytes = unshared::finish(self.archive, self.files, team, file).await?;
        }
        Ok(counts)
    }

    /// Erases those of these files that no message shares any more.
    pub(super) async fn files_of(
        &self,
        team: &TeamId,
        mut files: Vec<Item>,
    ) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        while !files.is_empty() {
            let mut changed = Vec::new();
            for file in &self.unshared(team, &files).await? {
                match self.file(team, file).await? {
                    Some(erased) => counts += erased,
                    None => changed.push(&file.key),
                }
            }
            files = self.archive.get_all(&changed).await?.into_iter().flatten().collect();
        }
        Ok(counts)
    }

    /// Those of these files that no message shares any more.
    async fn unshared<'f>(&self, team: &TeamId, files: &'f [Item]) -> Result<Vec<&'f Item>, EraserError> {
        let shared_with = |file: &Item| -> Vec<ItemKey> {
            row::shares(file).map(|share| ItemKey::message(team, &share.channel, &share.ts)).collect()
        };
        let mut files: Vec<(&Item, Vec<ItemKey>)> = files
            .iter()
            .filter(|file| !file.is_erased())
            .map(|file| (file, shared_with(file)))
            // A row that is full may not name every message: the file may be another person's too.
            .filter(|(_, messages)| !messages.is_empty() && messages.len() < MAX_SHARES)
            .collect();
        let keys: BTreeSet<&ItemKey> = files.iter().flat_map(|(_, messages)| messages).collect();
        let keys: Vec<&ItemKey> = keys.into_iter().collect();
        let mut goes = BTreeMap::new();
        for some in keys.chunks(PAGE) {
            let messages = self.archive.get_all(some).await?;
            let is_gone = |message: &Item| message.is_erased() || self.covered.covers_row(message);
            // One that is missing may come yet.
            let gone = messages.iter().map(|message| message.as_ref().is_some_and(is_gone));
            goes.extend(some.iter().map(|key| (*key).clone()).zip(gone));
        }
        files.retain(|(_, messages)| messages.iter().all(|message| goes.get(message) == Some(&true)));
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }

    /// Erases a file; `None` if its row has changed since it was read.
    async fn file(&self, team: &TeamId, file: &Item) -> Result<Option<EraserCounts>, EraserError> {
        let mut counts = EraserCounts { files: 1, ..EraserCounts::default() };
        counts.erased(file);
        if self.acts() {
            let removed = unshared::remove(self.archive, self.files, team, file).await?;
            return Ok(removed.map(|bytes| EraserCounts { bytes, ..counts }));
        }
        let id = FileId::parse(&file.key.timestamp).ok();
        for key in id.iter().flat_map(|id| unshared::places(team, file, id)) {
            counts.bytes += self.files.open(&key).await?.map_or(0, |reader| reader.size_bytes());
        }
        Ok(Some(counts))
    }
}
