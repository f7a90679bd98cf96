//! What pages show, read from the archive: get and query only.
//!
//! * [`channel`]: which channel is meant, and what it is called; [`menu`]: all of them.
//! * [`timeline`], [`thread`], [`versions`]: messages; [`pictures`]: of people, and custom emoji.
//! * [`files`], [`coverage`]: the other pages.

pub mod channel;
pub mod coverage;
pub mod files;
pub mod menu;
pub mod pictures;
pub mod thread;
pub mod timeline;
pub mod versions;

use ports::archive::ArchiveError;
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::text::MessageText;

use crate::pages::message::PageMessage;

/// Learns everyone who is named in these messages: authors, mentions, and who reacted.
///
/// # Errors
/// As [`ports::archive::Archive::get`] and [`ports::archive::Archive::query`].
pub async fn learn(names: &mut DisplayNames<'_>, messages: &[&PageMessage]) -> Result<(), ArchiveError> {
    let texts: Vec<&MessageText> = messages.iter().map(|message| &message.said).collect();
    names.learn(texts).await?;
    let reactors: Vec<&str> = messages.iter().flat_map(|message| message.reactors()).collect();
    names.learn_people(reactors.into_iter()).await
}

/// The names of a channel's workspaces, of which nothing is known yet.
#[must_use]
pub fn names_of<'a>(
    archive: &'a dyn ports::archive::Archive,
    channel: &JoinedChannel<'_>,
) -> DisplayNames<'a> {
    DisplayNames::in_teams(archive, channel.teams())
}
