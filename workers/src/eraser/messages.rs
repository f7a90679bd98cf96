//! Messages and their earlier versions.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::archive::{ArchiveExt, ErasureScope, Item, ItemKey, Query, Update, key, query_all};
use rules::file::row;
use rules::{pin, project};
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::{AT_ONCE, Eraser, EraserCounts, EraserMode, PAGE};
use crate::failure::PortError;

impl Eraser<'_> {
    /// Erases the covered messages of a channel, page by page.
    pub(super) async fn messages(
        &self,
        team: &TeamId,
        channel: &ChannelId,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let mut query = Query { limit: PAGE, ..Query::partition(key::messages(team, channel)) };
        let mut page = self.archive.query(&query).await?;
        loop {
            self.read(&mut counts, &page.items);
            let next = page.next.take();
            query.after.clone_from(&next);
            // The next page is read while this one is erased.
            let (erased, following) = tokio::join!(self.rows(team, channel, &page.items), async {
                match next {
                    Some(_) => Some(self.archive.query(&query).await),
                    None => None,
                }
            });
            counts += erased?;
            match following {
                Some(following) => page = following?,
                None => return Ok(counts),
            }
        }
    }

    /// Erases one message, with the files that only it shares.
    pub(super) async fn one_message(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        ts: &Ts,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let key = ItemKey::message(team, channel, ts);
        let row = self.archive.get(&key).await?;
        match &row {
            // An erased row no longer lists its files.
            Some(row) if row.is_erased() => counts += self.files(team).await?,
            Some(row) => {
                let files: BTreeSet<FileId> = row::files_of_message(row);
                let keys: Vec<ItemKey> = files.iter().map(|file| ItemKey::file(team, file)).collect();
                let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
                counts += self.erase_unshared(team, rows.into_iter().flatten().collect()).await?;
                for file in &files {
                    counts += self.erase_remains(team, file).await?;
                }
            }
            None => self.erase(&key).await?,
        }
        let rows: Vec<Item> = row.into_iter().collect();
        self.read(&mut counts, &rows);
        counts += self.rows(team, channel, &rows).await?;
        Ok(counts)
    }

    async fn rows(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        rows: &[Item],
    ) -> Result<EraserCounts, PortError> {
        self.people_of_pins(rows).await?;
        // A writer that knew the facts erased the row, but left its earlier versions.
        let is_due = |row: &&Item| self.covered.covers_row(row) || (row.is_erased() && self.acts());
        let due = rows.iter().filter(is_due).map(|row| self.message(team, channel, row));
        let add = |mut sum: EraserCounts, counts: EraserCounts| {
            sum += counts;
            async move { Ok(sum) }
        };
        stream::iter(due).buffer_unordered(AT_ONCE).try_fold(EraserCounts::default(), add).await
    }

    /// Erases people from the pins of these messages, which others may have written.
    async fn people_of_pins(&self, rows: &[Item]) -> Result<(), PortError> {
        let people = self.facts.iter().filter_map(|fact| match &fact.scope {
            ErasureScope::User(user) => Some((user, &fact.until)),
            ErasureScope::Channel(_) | ErasureScope::Message(..) => None,
        });
        let pins: Vec<Update> = people
            .flat_map(|(user, until)| {
                rows.iter().filter_map(move |row| pin::without_person(row, user, until))
            })
            .collect();
        if self.acts() {
            for written in self.archive.write_all(&pins.iter().collect::<Vec<_>>()).await {
                written?;
            }
        }
        Ok(())
    }

    /// Erases a message. Its row is erased last, so that a killed run finds it again.
    pub(super) async fn message(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        message: &Item,
    ) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        let Ok(ts) = Ts::parse(&message.key.timestamp) else { return Ok(counts) };
        let revisions = query_all(self.archive, Query::partition(key::revisions(team, channel, &ts))).await?;
        self.read(&mut counts, &revisions);
        for revision in &revisions {
            if self.may_remain(revision) {
                counts.revisions += u64::from(!revision.is_erased());
                counts.erased(revision);
                self.erase(&revision.key).await?;
            }
        }
        // Of a withheld message, its place is left.
        if self.may_remain(message) || self.is_expiry {
            counts.messages += u64::from(!message.is_erased() && project::message(message).is_some());
            counts.erased(message);
            self.erase(&message.key).await?;
        }
        Ok(counts)
    }

    /// Whether a row that must be erased may have remains.
    fn may_remain(&self, row: &Item) -> bool {
        !row.is_erased() || self.mode == EraserMode::ActAgain
    }
}
