//! Cached data that every page needs: the channels and the emoji.

use std::sync::Arc;
use std::time::Duration;

use reader::access::{Reader, Via};
use reader::find;
use reader::joined::ChannelOfTeam;
use reader::names::DisplayNames;

use super::LINKS;
use crate::answer::PageError;
use crate::gather::pictures::{self, EmojiBook};
use crate::index::ChannelActivities;
use crate::links::LinkScheme;
use crate::pages::sidebar::{ChannelMenu, SignedIn};
use crate::state::Visit;

/// Maximum age of the emoji.
const EMOJI_AGE: Duration = Duration::from_secs(60);

/// Maximum age of the activity of the channels, which needs two queries of the index for each.
const ACTIVITY_AGE: Duration = Duration::from_secs(10);

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
    menu.signed_in = signed_in(state).await?;
    Ok(menu)
}

/// Returns the reader's name, if they can sign out here.
async fn signed_in(state: &Visit) -> Result<Option<SignedIn>, PageError> {
    let Reader { via, label, person, .. } = &state.reader;
    match (via, person) {
        (Via::Session, Some((team, user))) => {
            let mut names = DisplayNames::new(&*state.archive, team.clone());
            names.learn_people([user.as_str()].into_iter()).await?;
            let name = Some(names.person_name(user.as_str()).to_owned());
            Ok(Some(SignedIn { name, address: LINKS.person(team, user.as_str()) }))
        }
        (Via::Session, None) => Ok(Some(SignedIn { name: Some(label.clone()), address: None })),
        (Via::Password, _) => Ok(Some(SignedIn { name: None, address: None })),
        (Via::Open | Via::Header | Via::Token, _) => Ok(None),
    }
}

/// Returns the first and the last message at each location, also of channels that the reader does not see; nothing if
/// the index cannot be used.
pub(super) async fn activity(state: &Visit) -> Result<Arc<ChannelActivities>, PageError> {
    let read = async || match state.index.get().await {
        Some(index) => Ok(index.activity().await.unwrap_or_default()),
        None => Ok(ChannelActivities::new()),
    };
    state.activity.or_read(ACTIVITY_AGE, read).await
}

/// Returns the custom emoji.
pub(super) async fn emoji(state: &Visit) -> Result<Arc<EmojiBook>, PageError> {
    let read = async || {
        let teams = find::teams(&*state.archive).await?;
        pictures::emoji(&*state.archive, &teams).await
    };
    state.emoji.or_read(EMOJI_AGE, read).await
}
