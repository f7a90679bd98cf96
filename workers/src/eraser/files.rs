//! Files: their rows, and their bytes.
//!
//! A file belongs to every message that shares it, and is erased with the last of them. Its own row lists
//! these messages, so it is found even if they are already erased. A row that lists the maximum number of
//! messages stays, with its bytes.

use std::collections::{BTreeMap, BTreeSet};

use ports::archive::{FactCover, Item, ItemKey, Query, key, query_all};
use rules::file::row::{self, MAX_SHARES};
use slack::ids::{FileId, TeamId};

use super::{Eraser, EraserCounts, PAGE};
use crate::failure::PortError;
use crate::file_downloader::unshared;

impl Eraser<'_> {
    /// Erases each file of a workspace that no message shares any more, and the remains of such files from
    /// killed runs.
    pub(super) async fn files(&self, team: &TeamId) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let mut query = Query { limit: PAGE, ..Query::partition(key::files(team)) };
        loop {
            let page = self.archive.query(&query).await?;
            self.read(&mut counts, &page.items);
            counts += self.erase_unshared(team, page.items).await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        let left = query_all(self.archive, Query::partition(key::unshared_files(team))).await?;
        for id in left.iter().filter_map(|left| FileId::parse(&left.key.timestamp).ok()) {
            counts += self.erase_remains(team, &id).await?;
        }
        Ok(counts)
    }

    /// Erases the remains of a file from a killed run.
    pub(super) async fn erase_remains(
        &self,
        team: &TeamId,
        file: &FileId,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        if self.acts() {
            counts.bytes = unshared::finish_removal(self.archive, self.files, team, file).await?;
        }
        Ok(counts)
    }

    /// Erases those of these files that no message shares any more.
    pub(super) async fn erase_unshared(
        &self,
        team: &TeamId,
        mut files: Vec<Item>,
    ) -> Result<EraserCounts, PortError> {
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

    /// The files that no message shares any more.
    async fn unshared<'f>(&self, team: &TeamId, files: &'f [Item]) -> Result<Vec<&'f Item>, PortError> {
        let shared_with = |file: &Item| -> Vec<ItemKey> {
            row::shares(file).map(|share| ItemKey::message(team, &share.channel, &share.ts)).collect()
        };
        let mut files: Vec<(&Item, Vec<ItemKey>)> = files
            .iter()
            .filter(|file| !file.is_erased())
            .map(|file| (file, shared_with(file)))
            // A full row may not list every message: the file may also belong to another person.
            .filter(|(_, messages)| !messages.is_empty() && messages.len() < MAX_SHARES)
            .collect();
        let keys: BTreeSet<&ItemKey> = files.iter().flat_map(|(_, messages)| messages).collect();
        let keys: Vec<&ItemKey> = keys.into_iter().collect();
        let mut erased = BTreeMap::new();
        for keys_of_page in keys.chunks(PAGE) {
            let messages = self.archive.get_all(keys_of_page).await?;
            let is_gone = |message: &Item| {
                let cover = self.covered.cover_row(message);
                message.is_erased() || cover == FactCover::Erased || cover == FactCover::Expired
            };
            // A missing message may still arrive.
            let gone = messages.iter().map(|message| message.as_ref().is_some_and(is_gone));
            erased.extend(keys_of_page.iter().map(|key| (*key).clone()).zip(gone));
        }
        files.retain(|(_, messages)| messages.iter().all(|message| erased.get(message) == Some(&true)));
        Ok(files.into_iter().map(|(file, _)| file).collect())
    }

    /// Erases a file; `None` if its row has changed since it was read.
    async fn file(&self, team: &TeamId, file: &Item) -> Result<Option<EraserCounts>, PortError> {
        let mut counts = EraserCounts { files: 1, ..EraserCounts::default() };
        counts.erased(file);
        if self.acts() {
            let removed = unshared::remove(self.archive, self.files, team, file).await?;
            return Ok(removed.map(|bytes| EraserCounts { bytes, ..counts }));
        }
        let id = FileId::parse(&file.key.timestamp).ok();
        for key in id.iter().flat_map(|id| unshared::possible_keys(team, file, id)) {
            counts.bytes += self.files.open(&key).await?.map_or(0, |reader| reader.size_bytes());
        }
        Ok(Some(counts))
    }
}
