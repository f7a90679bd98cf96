//! The archive without the channels that a reader does not see.

use std::sync::Arc;

use async_trait::async_trait;
use ports::archive::rows::{self, RowKind};
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query, Update, WriteOutcome};
use rules::channel::index;
use rules::figures::rollup;
use rules::file::row;
use slack::ids::{ChannelId, FileId, TeamId};

use super::{HiddenChannels, Sight};

/// The kinds of rows that a restricted reader gets, except for rows of hidden channels. A kind that is not
/// listed reads as empty.
const SHOWN: &[RowKind] = &[
    rows::ARCHIVE_IDENTITY,
    rows::BOOKMARK,
    rows::BOT,
    rows::CANVAS_TEXT,
    rows::CHANNEL,
    rows::CHANNEL_INDEX,
    rows::EMOJI,
    rows::FIGURES_STATE,
    rows::FILE,
    rows::FILLED,
    rows::FIRST_POST,
    rows::GAP,
    rows::JOINED,
    rows::MEMBERS,
    rows::MEMBERSHIP,
    rows::MESSAGE,
    rows::ORGANISATION,
    rows::PIN,
    rows::PIN_LIST,
    rows::PROFILE,
    rows::PUBLIC_MARK,
    rows::REVISION,
    rows::ROLLUP,
    rows::ROLLUP_DUE,
    rows::RUN,
    rows::TEAM,
    rows::UNREADABLE,
    rows::USER,
    rows::USER_GROUP,
    rows::USER_GROUP_MEMBER,
    rows::USER_GROUP_NAME,
    rows::VERIFIED,
    rows::WAITING_STATE,
    rows::WORKSPACE_ADDRESS,
    rows::WORKSPACE_NAME,
];

/// Rows that are read at least in one query of a partition of which some are hidden, so that a page of few rows
/// does not need many queries.
const MIN_READ: usize = 64;

/// An archive that does not have the channels that a [`Sight`] hides. A reader who sees everything gets every
/// row; no reader can write.
pub struct VisibleArchive {
    archive: Arc<dyn Archive>,
    sight: Sight,
}

impl VisibleArchive {
    /// Returns the archive that a reader with this sight gets.
    pub fn new(archive: Arc<dyn Archive>, sight: Sight) -> Self {
        Self { archive, sight }
    }

    /// The rows that the reader gets of these.
    async fn shown(
        &self,
        hidden: &HiddenChannels,
        items: Vec<Option<Item>>,
    ) -> Result<Vec<Option<Item>>, ArchiveError> {
        let mut items: Vec<Option<Item>> = items.into_iter().map(|item| shown_item(hidden, item?)).collect();
        // A canvas's text is shown to those who get its file.
        let files: Vec<(usize, ItemKey)> = items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((index, file_of_canvas_text(&item.as_ref()?.key)?)))
            .collect();
        if files.is_empty() {
            return Ok(items);
        }
        let rows = self.archive.get_all(&files.iter().map(|(_, key)| key).collect::<Vec<_>>()).await?;
        for ((index, _), row) in files.into_iter().zip(rows) {
            if row.and_then(|row| shown_item(hidden, row)).is_none() {
                items[index] = None;
            }
        }
        Ok(items)
    }
}

/// Whether a reader may get rows with this key, as far as the key tells. For a partition, the position is
/// empty.
fn is_shown(hidden: &HiddenChannels, key: &ItemKey) -> bool {
    let has_position =
        |kind: &&RowKind| key.timestamp.is_empty() || kind.sort.contains('{') || kind.sort == key.timestamp;
    let Some(ids) = SHOWN.iter().filter(has_position).find_map(|kind| kind.ids(key)) else { return false };
    !names_hidden(hidden, ids.team, ids.channel)
}

fn names_hidden(hidden: &HiddenChannels, team: &str, channel: &str) -> bool {
    let (Ok(team), Ok(channel)) = (TeamId::parse(team), ChannelId::parse(channel)) else { return false };
    hidden.contains(&team, &channel)
}

/// Whether some rows of a partition may be hidden, and others not.
fn is_mixed(partition: &str) -> bool {
    let key = ItemKey::new(partition, "");
    let kind = SHOWN.iter().find(|kind| kind.ids(&key).is_some());
    kind.is_some_and(|kind| !kind.partition.contains("{channel}"))
}

/// The row as the reader gets it; `None` if it is hidden.
fn shown_item(hidden: &HiddenChannels, item: Item) -> Option<Item> {
    if !is_shown(hidden, &item.key) {
        return None;
    }
    let is_of = |kind: &RowKind| kind.ids(&item.key);
    if let Some(ids) = is_of(&rows::CHANNEL_INDEX) {
        let team = ids.team.to_owned();
        return without_names(hidden, &team, item);
    }
    if let Some(ids) = is_of(&rows::FILE) {
        let team = ids.team.to_owned();
        return with_visible_shares(hidden, &team, item);
    }
    if let Some(ids) = is_of(&rows::GAP) {
        // A gap's position begins with its channel.
        let channel = item.key.timestamp.split('#').next().unwrap_or_default();
        return (!names_hidden(hidden, ids.team, channel)).then_some(item);
    }
    if let Some(ids) = is_of(&rows::FIRST_POST)
        && let Some((channel, _)) = rollup::first_post(&item)
    {
        return (!names_hidden(hidden, ids.team, channel.as_str())).then_some(item);
    }
    Some(item)
}

/// A shard of the ChannelIndex without the names of hidden channels, and without its version, which tells that
/// there are more.
fn without_names(hidden: &HiddenChannels, team: &str, mut item: Item) -> Option<Item> {
    item.attributes.remove(index::VERSION);
    let names = item.attributes.get_mut("channels_map")?.as_object_mut()?;
    names.retain(|channel, _| !names_hidden(hidden, team, channel));
    (!names.is_empty()).then_some(item)
}

/// The row of a file without its shares in hidden channels; `None` if no other message is known to share it.
fn with_visible_shares(hidden: &HiddenChannels, team: &str, mut item: Item) -> Option<Item> {
    let mut is_shared = false;
    item.attributes.retain(|name, _| {
        let Some(share) = row::share(name) else { return true };
        let is_visible = !names_hidden(hidden, team, share.channel.as_str());
        is_shared |= is_visible;
        is_visible
    });
    is_shared.then_some(item)
}

/// The key of the file whose text is in the row with this key.
fn file_of_canvas_text(key: &ItemKey) -> Option<ItemKey> {
    let team = TeamId::parse(rows::CANVAS_TEXT.ids(key)?.team).ok()?;
    Some(ItemKey::file(&team, &FileId::parse(&key.timestamp).ok()?))
}

fn refused<T>() -> Result<T, ArchiveError> {
    Err(ArchiveError::Unavailable("a reader does not write".to_owned()))
}

#[async_trait]
impl Archive for VisibleArchive {
    async fn apply_once(&self, updates: &[&Update]) -> Vec<Result<WriteOutcome, ArchiveError>> {
        updates.iter().map(|_| refused()).collect()
    }

    async fn get(&self, key: &ItemKey) -> Result<Option<Item>, ArchiveError> {
        match &self.sight {
            Sight::Everything => self.archive.get(key).await,
            Sight::Without(_) => Ok(self.get_all(&[key]).await?.pop().flatten()),
        }
    }

    async fn get_all(&self, keys: &[&ItemKey]) -> Result<Vec<Option<Item>>, ArchiveError> {
        match &self.sight {
            Sight::Everything => self.archive.get_all(keys).await,
            Sight::Without(hidden) => self.shown(hidden, self.archive.get_all(keys).await?).await,
        }
    }

    async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let Sight::Without(hidden) = &self.sight else { return self.archive.query(query).await };
        if let Partition::Item(partition) = &query.partition {
            if !is_shown(hidden, &ItemKey::new(partition.clone(), "")) {
                return Ok(Page::default());
            }
            if !is_mixed(partition) {
                return self.archive.query(query).await;
            }
        }
        // The page is full if the rows fill it, so that its size does not tell that some are hidden.
        let limit = query.limit.max(1);
        let mut read = Query { limit: limit.saturating_add(1).max(MIN_READ), ..query.clone() };
        let mut items = Vec::new();
        loop {
            let page = self.archive.query(&read).await?;
            let shown = self.shown(hidden, page.items.into_iter().map(Some).collect()).await?;
            items.extend(shown.into_iter().flatten());
            match page.next {
                Some(next) if items.len() <= limit => read.after = Some(next),
                Some(_) | None => break,
            }
        }
        let is_cut = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| is_cut).map(|item| item.key.clone());
        Ok(Page { items, next })
    }

    async fn delete_unchanged(&self, _: &Item) -> Result<bool, ArchiveError> {
        refused()
    }

    async fn erase(&self, _: &ItemKey) -> Result<bool, ArchiveError> {
        refused()
    }

    async fn expire(&self, _: &ItemKey) -> Result<bool, ArchiveError> {
        refused()
    }

    async fn ready(&self) -> Result<(), ArchiveError> {
        refused()
    }
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
