//! Files: their rows, and their bytes.
//!
//! A file belongs to every message that shares it, and goes with the last of them. Which these are stands in its own row, so it
//! is found even if the messages are erased already.

use std::collections::{BTreeSet, HashMap};

use ports::archive::{Item, ItemKey, Query, key};
use ports::files::FileKey;
use rules::file::row;
use slack::ids::{FileId, TeamId};

use super::{Eraser, EraserCounts, EraserError, PAGE};

impl Eraser<'_> {
    /// Erases each file of a workspace that no message shares any more.
    pub(super) async fn files(&self, team: &TeamId) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        let mut query = Query { limit: PAGE, ..Query::partition(key::files(team)) };
        loop {
            let page = self.archive.query(&query).await?;
            self.read(&mut counts, &page.items);
            counts += self.files_of(team, &page.items).await?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(counts),
            }
        }
    }

    /// Erases those of these files that no message shares any more.
    pub(super) async fn files_of(&self, team: &TeamId, files: &[Item]) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        let shared_with = |file: &Item| -> Vec<ItemKey> {
            row::shares(file).map(|share| ItemKey::message(team, &share.channel, &share.ts)).collect()
        };
        let files: Vec<(&Item, Vec<ItemKey>)> = files
            .iter()
            .filter(|file| !file.is_erased())
            .map(|file| (file, shared_with(file)))
            .filter(|(_, messages)| !messages.is_empty())
            .collect();
        let keys: BTreeSet<&ItemKey> = files.iter().flat_map(|(_, messages)| messages).collect();
        let keys: Vec<&ItemKey> = keys.into_iter().collect();
        let mut goes = HashMap::new();
        for some in keys.chunks(PAGE) {
            let messages = self.archive.get_all(some).await?;
            let is_gone = |message: &Item| message.is_erased() || self.covered.covers_row(message);
            // One that is missing may come yet.
            goes.extend(
                some.iter()
                    .zip(&messages)
                    .map(|(key, message)| (*key, message.as_ref().is_some_and(is_gone))),
            );
        }
        for (file, messages) in &files {
            if messages.iter().all(|message| goes.get(message) == Some(&true)) {
                counts += self.file(team, file).await?;
            }
        }
        Ok(counts)
    }

    /// Erases a file. Its row goes last: it says where the bytes are.
    async fn file(&self, team: &TeamId, file: &Item) -> Result<EraserCounts, EraserError> {
        let mut counts = EraserCounts::default();
        let Ok(id) = FileId::parse(&file.key.timestamp) else { return Ok(counts) };
        let mut keys = row::keys(file, &id);
        // Bytes that were stored before the row could say so.
        keys.extend(row::shares(file).map(|share| FileKey::shared(team, &share.channel, &share.ts, &id)));
        for key in &keys {
            counts.bytes += self.delete_bytes(key).await?;
        }
        counts.files += 1;
        counts.erased(file);
        self.erase(&file.key).await?;
        // What was stored meanwhile; who stores it from now on finds the row erased, and deletes it.
        if self.acts() {
            for key in &keys {
                self.files.delete(key).await?;
            }
        }
        Ok(counts)
    }
}
