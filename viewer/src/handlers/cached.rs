//! Cached data that every page needs: the channels and the emoji.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::ArchiveError;
use reader::find;
use reader::joined::ChannelOfTeam;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::answer::PageError;
use crate::gather::pictures::{self, EmojiBook};
use crate::pages::sidebar::ChannelMenu;
use crate::state::Visit;

/// Maximum age of the emoji.
const EMOJI_AGE: Duration = Duration::from_secs(60);

/// A cached value, and when it was read.
pub(crate) struct CachedValue<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for CachedValue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> CachedValue<T> {
    /// Returns the cached value, or reads it if it is older than `age`. Only one request reads concurrently.
    pub(crate) async fn or_read(
        &self,
        age: Duration,
        read: impl AsyncFnOnce() -> Result<T, ArchiveError>,
    ) -> Result<Arc<T>, PageError> {
        let mut known = self.0.lock().await;
        if let Some((at, value)) = &*known
            && at.elapsed() < age
        {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(read().await?);
        *known = Some((Instant::now(), Arc::clone(&value)));
        Ok(value)
    }
}

/// Returns the menu, with the current channel marked.
pub(super) async fn menu(state: &Visit, current: Option<&ChannelOfTeam>) -> Result<ChannelMenu, PageError> {
    let mut menu = (*state.whole_menu().await?).clone();
    if let Some(hidden) = state.reader.sight.hidden() {
        menu.channels.retain(|channel| {
            let ChannelOfTeam { team, channel } = &channel.location;
            !hidden.contains(team, channel)
        });
        // It counts all channels.
        menu.reading.clear();
    }
    let counted = state.index.counts().await;
    for channel in &mut menu.channels {
        channel.messages = channel.message_count(&counted.by_location);
    }
    menu.is_counting = counted.is_behind;
    menu.current = current.cloned();
    Ok(menu)
}

/// Returns the custom emoji.
pub(super) async fn emoji(state: &Visit) -> Result<Arc<EmojiBook>, PageError> {
    let read = async || {
        let teams = find::teams(&*state.archive).await?;
        pictures::emoji(&*state.archive, &teams).await
    };
    state.emoji.or_read(EMOJI_AGE, read).await
}
