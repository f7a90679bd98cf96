//! What every page has, the channels and the emoji, as it was a moment ago.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::ArchiveError;
use reader::find;
use reader::joined::ChannelOfTeam;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::answer::PageError;
use crate::gather;
use crate::gather::pictures::{self, EmojiBook};
use crate::pages::sidebar::ChannelMenu;
use crate::router::ViewerState;

/// A new channel is in the menu after this time. Reading the menu is a query for each channel: where the archive is far away, and
/// looked at less often, the longer time holds.
const MENU_AGE: Duration = Duration::from_secs(2);
const LONG_MENU_AGE: Duration = Duration::from_secs(60);

/// A new emoji is shown after this time.
const EMOJI_AGE: Duration = Duration::from_secs(60);

/// A value, and when it was read.
pub(crate) struct Remembered<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Remembered<T> {
    /// What was read a moment ago, or else reads it; one request at a time.
    async fn or_read(
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

/// The menu, with the channel that is shown.
pub(super) async fn menu(
    state: &ViewerState,
    current: Option<&ChannelOfTeam>,
) -> Result<ChannelMenu, PageError> {
    let read = async || gather::menu::read(&*state.archive).await;
    let age = state.index.every().clamp(MENU_AGE, LONG_MENU_AGE);
    let mut menu = (*state.menu.or_read(age, read).await?).clone();
    let counts = state.index.counts().await;
    for channel in &mut menu.channels {
        channel.messages = channel.counted(&counts);
    }
    menu.current = current.cloned();
    Ok(menu)
}

/// The custom emoji.
pub(super) async fn emoji(state: &ViewerState) -> Result<Arc<EmojiBook>, PageError> {
    let read = async || {
        let teams = find::teams(&*state.archive).await?;
        pictures::emoji(&*state.archive, &teams).await
    };
    state.emoji.or_read(EMOJI_AGE, read).await
}
