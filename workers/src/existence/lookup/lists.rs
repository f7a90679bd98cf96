//! If many people or channels of one workspace are unknown at once, its lists say more with one call than a call about
//! each: 999 people a page, against a hundred calls a minute.

use std::borrow::Cow;

use ports::clock::Clock;
use rules::version;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope::{self, text_or_none};
use slack::ids::{ChannelId, TeamId, UserId};
use slack_api::{Method, WebApi};

use crate::directory::{Listing, SyncError};
use crate::existence::cache::KnownEntities;
use crate::existence::entities::ChannelReach;

/// This number of unknown ones of a workspace makes its list worth reading.
pub(in crate::existence) const LIST_FROM: usize = 20;

/// Pages read: ten thousand people, which are more than write within five minutes. A person who is not among them is
/// asked about alone; in a flood, only if the archive knows them.
const MAX_PAGES: usize = 10;

/// A list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::existence) enum List {
    People,
    Channels,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    members: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    channels: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ListedIds<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    id: Option<Cow<'a, str>>,
}

/// Reads a list into what is known.
pub(in crate::existence) async fn read(
    api: &WebApi,
    known: &KnownEntities,
    clock: &dyn Clock,
    team: &TeamId,
    list: List,
) {
    let began = clock.now();
    match pages(api, known, team, list).await {
        Ok(is_whole) if list == List::People => known.listed_people(team, began, is_whole),
        Ok(_) => {}
        // Nothing is lost: each is asked about alone.
        Err(error) => tracing::debug!(%team, ?list, %error, "a list was not read to its end"),
    }
}

/// Reads the pages, and says whether that was all of them.
async fn pages(api: &WebApi, known: &KnownEntities, team: &TeamId, list: List) -> Result<bool, SyncError> {
    let (method, parameters): (Method, &[(&str, &str)]) = match list {
        List::People => (Method::UsersList, &[]),
        // Private ones need a scope more, and are few: each is asked about alone.
        List::Channels => {
            (Method::ConversationsList, &[("types", "public_channel"), ("exclude_archived", "false")])
        }
    };
    let mut listing = Listing::new(api, team, method, parameters, version::zero());
    for _ in 0..MAX_PAGES {
        let Some(page) = listing.next().await? else { return Ok(true) };
        let page: Page<'_> = page.reply.read()?;
        for raw in page.members.iter().chain(&page.channels) {
            let Some(id) = envelope::object::<ListedIds<'_>>(raw).id else { continue };
            match list {
                List::People => {
                    if let Ok(user) = UserId::parse(&id) {
                        known.found_user(team, &user);
                    }
                }
                List::Channels => {
                    if let Ok(channel) = ChannelId::parse(&id) {
                        known.found_channel(team, &channel, ChannelReach::of(raw));
                    }
                }
            }
        }
    }
    Ok(false)
}
