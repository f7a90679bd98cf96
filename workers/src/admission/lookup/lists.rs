//! If many people or channels of one workspace are unknown at once, one call for its list answers more than a
//! call for each: 999 people a page, against a hundred calls a minute.

use rules::version;
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::ids::{ChannelId, TeamId, UserId};
use slack_api::{Method, WebApi};

use super::ask::id_of;
use crate::admission::cache::KnownEntities;
use crate::admission::entities::{ChannelReach, Entity};
use crate::directory::{Listing, SyncError};

/// This number of unknown entities of a workspace makes its list worth reading.
pub(in crate::admission) const LIST_FROM: usize = 20;

/// Pages read: ten thousand people, more than write within five minutes. Slack is asked separately about a
/// person who is not among them.
const MAX_PAGES: usize = 10;

/// A list of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::admission) enum List {
    People,
    Channels,
}

#[derive(Deserialize)]
struct ListedPage<'a> {
    #[serde(borrow, default)]
    members: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    channels: Vec<&'a RawValue>,
}

/// Reads a list into the cache. If that fails, nothing is lost: Slack is asked about each entity separately.
pub(in crate::admission) async fn read(
    api: &WebApi,
    known: &KnownEntities,
    team: &TeamId,
    list: List,
) -> Result<(), SyncError> {
    let (method, parameters): (Method, &[(&str, &str)]) = match list {
        List::People => (Method::UsersList, &[]),
        // Private channels need another scope, and are few: Slack is asked about each separately.
        List::Channels => {
            (Method::ConversationsList, &[("types", "public_channel"), ("exclude_archived", "false")])
        }
    };
    let mut listing = Listing::new(api, team, method, parameters, version::zero());
    for _ in 0..MAX_PAGES {
        let Some(page) = listing.next().await? else { break };
        let page: ListedPage<'_> = page.reply.read()?;
        for raw in page.members.iter().chain(&page.channels) {
            let Some(id) = id_of(raw) else { continue };
            let listed = match list {
                List::People => UserId::parse(&id).map(|user| (Entity::User(team.clone(), user), None)),
                List::Channels => ChannelId::parse(&id).map(|channel| {
                    (Entity::Channel(team.clone(), channel), Some(ChannelReach::from_channel(raw)))
                }),
            };
            if let Ok((entity, reach)) = listed {
                known.found(entity, reach);
            }
        }
    }
    Ok(())
}
