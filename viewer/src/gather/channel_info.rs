//! What is known about a channel, and its threads.

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};
use reader::joined::JoinedChannel;
use reader::names::DisplayNames;
use reader::{history, memberships};
use rules::project;
use search::counts::{RecentThreads, ThreadSize};
use slack::ids::{FileId, Ts};

use super::timeline::page_message;
use crate::pages::channel_info::{ChannelInfo, ListedThread, MAX_MEMBERS, NamedMembers};
use crate::pages::message::PageMessage;

/// Maximum number of members whose names are read, to show the first by name.
const MAX_NAMED: usize = 1_000;

/// Reads the facts about a channel.
pub async fn read(
    archive: &dyn Archive,
    channel: &JoinedChannel<'_>,
    names: &mut DisplayNames<'_>,
) -> Result<ChannelInfo, ArchiveError> {
    let location = channel.current_location();
    let snapshot = location.newest(archive).await?.unwrap_or_default();
    let purpose = match snapshot.purpose() {
        Some(purpose) => names.description_text(purpose).await?,
        None => String::new(),
    };
    // A list is empty if Slack does not show the members to the app.
    let members = match memberships::read(archive, location).await?.filter(|list| !list.members.is_empty()) {
        Some(list) => {
            let ids: Vec<&str> = list.members.iter().take(MAX_NAMED).map(|user| user.as_str()).collect();
            names.learn_people(ids.iter().copied()).await?;
            let mut named: Vec<(String, String)> =
                ids.iter().map(|id| (names.person_name(id).to_owned(), (*id).to_owned())).collect();
            named.sort_by_cached_key(|(name, id)| (name.to_lowercase(), id.clone()));
            named.truncate(MAX_MEMBERS);
            Some(NamedMembers { count: list.members.len(), named, as_of: list.as_of })
        }
        None => None,
    };
    Ok(ChannelInfo {
        purpose,
        former_names: snapshot.former_names().map(str::to_owned).collect(),
        created: history::created(archive, &location.team, &location.channel).await?,
        members,
        canvas: snapshot.canvas().and_then(|canvas| FileId::parse(canvas).ok()),
    })
}

/// Reads the first message of each thread, or its newest reply if the archive does not have the first one.
pub async fn threads(
    channel: &JoinedChannel<'_>,
    found: RecentThreads,
    zone: &TimeZone,
) -> Result<Vec<ListedThread>, ArchiveError> {
    let read = async |all: Vec<&Ts>| -> Result<Vec<Option<PageMessage>>, ArchiveError> {
        let rows = channel.messages(&all).await?;
        Ok(rows.into_iter().map(|row| page_message(project::message(row.as_ref()?)?, zone)).collect())
    };
    let roots = read(found.threads.iter().map(|(root_ts, _)| root_ts).collect()).await?;
    let newest = read(found.threads.iter().map(|(_, size)| &size.last).collect()).await?;
    let each = found.threads.into_iter().zip(roots.into_iter().zip(newest));
    let listed = |((root_ts, size), (root, newest)): ((Ts, ThreadSize), _)| {
        let has_root = Option::is_some(&root);
        ListedThread { root_ts, size, has_root, first: root.or(newest) }
    };
    Ok(each.map(listed).collect())
}
