//! Pictures of people and custom emoji in the archive. Pictures are never requested from other servers.

use std::collections::HashMap;
use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::files::FileKey;
use rules::directory::emoji_value;
use rules::file::image;
use slack::ids::{TeamId, UserId};

/// Maximum length of a chain of emoji aliases. Slack allows one alias.
const MAX_ALIASES: usize = 4;

/// The pictures for messages.
#[derive(Debug, Default)]
pub struct PictureBook {
    /// Pictures of people, by id.
    pub people: HashMap<String, FileKey>,
    /// Custom emoji.
    pub emoji: Arc<EmojiBook>,
}

/// Custom emoji, by name.
pub type EmojiBook = HashMap<String, CustomEmoji>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustomEmoji {
    Picture(FileKey),
    /// An alias of a Unicode emoji.
    Alias(String),
}

/// Reads the pictures of these people.
pub async fn people(
    archive: &dyn Archive,
    teams: &[TeamId],
    mut ids: Vec<&str>,
) -> Result<HashMap<String, FileKey>, ArchiveError> {
    ids.sort_unstable();
    ids.dedup();
    let users: Vec<UserId> = ids.into_iter().filter_map(|id| UserId::parse(id).ok()).collect();
    let keys: Vec<ItemKey> =
        users.iter().flat_map(|user| teams.iter().map(|team| ItemKey::user(team, user))).collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let mut pictures = HashMap::new();
    for row in rows.into_iter().flatten() {
        if let Some(key) = image::picture(&row) {
            pictures.entry(row.key.timestamp).or_insert(key);
        }
    }
    Ok(pictures)
}

/// Reads the custom emoji of these workspaces. For a name in several workspaces, the first workspace wins.
pub async fn emoji(archive: &dyn Archive, teams: &[TeamId]) -> Result<EmojiBook, ArchiveError> {
    let mut book = EmojiBook::new();
    for team in teams {
        let mut pictures: HashMap<String, FileKey> = HashMap::new();
        let mut aliases: HashMap<String, String> = HashMap::new();
        for item in query_all(archive, Query::partition(key::emoji(team))).await? {
            let alias = emoji_value(&item).and_then(|value| value.strip_prefix("alias:"));
            if let Some(other) = alias.map(str::to_owned) {
                aliases.insert(item.key.timestamp, other);
            } else if let Some(key) = image::picture(&item) {
                pictures.insert(item.key.timestamp, key);
            }
        }
        for name in aliases.keys() {
            let mut target = name;
            for _ in 0..MAX_ALIASES {
                target = aliases.get(target).unwrap_or(target);
            }
            let emoji = pictures
                .get(target)
                .cloned()
                .map_or_else(|| CustomEmoji::Alias(target.clone()), CustomEmoji::Picture);
            book.entry(name.clone()).or_insert(emoji);
        }
        for (name, key) in pictures {
            book.entry(name).or_insert(CustomEmoji::Picture(key));
        }
    }
    Ok(book)
}
