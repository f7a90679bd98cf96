//! Reads the data of pages from the archive, with get and query only.
//!
//! * [`channel`]: a channel and its title; [`channel_info`]: more about it, and its threads; [`calendar`]: its days; [`menu`]: all channels.
//! * [`timeline`], [`thread`], [`versions`]: messages; [`pictures`]: pictures of people, and custom emoji.
//! * [`files`], [`person`], [`coverage`]: the other pages.

pub(crate) mod calendar;
pub mod channel;
pub mod channel_info;
pub mod coverage;
pub mod files;
pub mod menu;
pub mod person;
pub mod pictures;
pub mod thread;
pub mod timeline;
pub mod versions;

use ports::archive::ArchiveError;
use reader::names::DisplayNames;
use reader::text::MessageText;

use crate::pages::message::PageMessage;

/// Reads the names of the authors, the mentioned people and the people who reacted in these messages.
pub async fn learn_names(
    names: &mut DisplayNames<'_>,
    messages: &[&PageMessage],
) -> Result<(), ArchiveError> {
    let texts: Vec<&MessageText> = messages.iter().map(|message| &message.content).collect();
    names.learn(texts).await?;
    let reactors: Vec<&str> = messages.iter().flat_map(|message| message.reactors()).collect();
    names.learn_people(reactors.into_iter()).await
}
