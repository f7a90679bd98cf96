//! The public channels of a workspace. <https://docs.slack.dev/reference/methods/conversations.list>
//!
//! A channel that is kept and that the list lacks may be private by now: Slack is asked about it.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::archive::{
    Archive, ArchiveError, ErasureFacts, Item, ItemKey, Query, Update, key, newest, query_all,
};
use ports::queue::{Outgoing, QueueError};
use reader::directory::{self, WorkspaceChannels};
use rules::channel::fold::ChannelState;
use rules::channel::{ChannelEvent, is_channel_changed};
use rules::figures::members;
use rules::file::{FileJob, row};
use rules::public_mark::{self, MarkState};
use rules::visibility::{VisibilityEvidence, VisibilityRegister};
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope;
use slack::ids::{ChannelId, TeamId, Ts};
use slack_api::{ApiError, ApiReply, Method};

use super::listing::{Listing, ListingPage, call_with_retries};
use super::sync::{MISSING_SCOPE, write};
use super::{DirectorySync, SyncError, SyncReport};
use crate::admission::marks::note_visibility_if_kept;
use crate::admission::{ChannelReach, Entity};
use crate::channel_indexer;

/// Rows read concurrently: SQLite has four readers, DynamoDB answers in milliseconds.
const READS_AT_ONCE: usize = 16;

/// Channels that Slack is asked about in one sync because its list lacks them: of those calls, it answers 50
/// a minute.
const MAX_UNLISTED: usize = 50;

const PARAMETERS: [(&str, &str); 2] = [("types", "public_channel"), ("exclude_archived", "false")];

#[derive(Deserialize)]
struct ChannelEntry<'a> {
    #[serde(borrow)]
    channels: Vec<&'a RawValue>,
}

/// The flags of a channel that decide whether it can be joined. Each is parsed separately, so that a
/// malformed one does not affect the other.
#[derive(Default, Deserialize)]
struct ListedState<'a> {
    #[serde(borrow, default)]
    is_archived: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_member: Option<&'a RawValue>,
}

impl ListedState<'_> {
    fn is_joined(&self) -> bool {
        is(self.is_member, "true")
    }

    fn could_be_joined(&self) -> bool {
        is(self.is_member, "false") && !is(self.is_archived, "true")
    }
}

#[derive(Deserialize)]
struct ChannelAnswer<'a> {
    #[serde(borrow, default)]
    channel: Option<&'a RawValue>,
}

/// Whether a refusal means that the app may not see the channel. Slack answers so about private channels that
/// the app is not in; a channel that was deleted is not public either.
fn is_hidden(error: &str, needed: Option<&str>) -> bool {
    error == "channel_not_found" || (error == MISSING_SCOPE && needed == Some("groups:read"))
}

fn is(flag: Option<&RawValue>, value: &str) -> bool {
    flag.is_some_and(|flag| flag.get() == value)
}

impl DirectorySync {
    /// Syncs every public channel, one page at a time.
    pub(super) async fn sync_public_channels(
        &self,
        clock: &mut Ts,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        let team = report.team.clone();
        let index = directory::read(&*self.archive, &team).await?;
        let mut listing =
            Listing::new(&self.api, &team, Method::ConversationsList, &PARAMETERS, clock.clone());
        let mut listed = BTreeSet::new();
        while let Some(page) = listing.next().await? {
            self.sync_channel_page(&page, &index, &mut listed, report).await?;
        }
        *clock = listing.into_clock();
        self.ask_about_unlisted(&team, &listed, &index, clock).await
    }

    /// Asks Slack about the kept channels that its whole list of public channels lacks, unless they are known
    /// to be private. `clock` is Slack's after the list.
    async fn ask_about_unlisted(
        &self,
        team: &TeamId,
        listed: &BTreeSet<ChannelId>,
        index: &WorkspaceChannels,
        clock: &mut Ts,
    ) -> Result<(), SyncError> {
        let archive = &*self.archive;
        let marks = query_all(archive, Query::partition(key::public_marks(team))).await?;
        let may_be_public = |mark: &&Item| {
            MarkState::from_row(Some(mark)) == MarkState::Public
                && VisibilityRegister::from_row(Some(mark)).is_private() != Some(true)
        };
        let kept = marks.iter().filter(may_be_public);
        let kept = kept.filter_map(|mark| ChannelId::parse(&mark.key.timestamp).ok());
        let mut asked = 0;
        for channel in kept.filter(|channel| !listed.contains(channel)) {
            let newest = newest(archive, key::channels(team, &channel)).await?;
            if newest.is_some_and(|newest| ChannelState::from_row(&newest).is_over()) {
                continue;
            }
            if asked == MAX_UNLISTED {
                tracing::warn!(%team, asked, "Slack lists many kept channels no more; the others are asked about with the next sync");
                break;
            }
            asked += 1;
            let parameters = [("channel", channel.as_str())];
            match call_with_retries(&self.api, team, Method::ConversationsInfo, &parameters).await {
                Ok(reply) => self.note_unlisted(team, &channel, &reply, index, clock).await?,
                Err(ApiError::Refused { error, needed, .. }) if is_hidden(&error, needed.as_deref()) => {
                    let evidence = VisibilityEvidence::object(team, &channel, true, clock);
                    note_visibility_if_kept(archive, &[evidence]).await?;
                }
                Err(error @ (ApiError::Refused { .. } | ApiError::Garbled { .. })) => {
                    tracing::debug!(%team, %channel, %error, "Slack does not say whether a channel is public");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Stores what Slack returned for a channel that its list lacks.
    async fn note_unlisted(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        reply: &ApiReply,
        index: &WorkspaceChannels,
        clock: &mut Ts,
    ) -> Result<(), SyncError> {
        if let Some(date) = reply.date() {
            *clock = date.clone();
        }
        let Some(raw) = reply.read::<ChannelAnswer<'_>>()?.channel else { return Ok(()) };
        let is_private = ChannelReach::from_channel(raw).private;
        let Ok(event) = ChannelEvent::listed(team, raw, clock) else {
            let evidence = VisibilityEvidence::object(team, channel, is_private, clock);
            return Ok(note_visibility_if_kept(&*self.archive, &[evidence]).await?);
        };
        if event.channel() != channel {
            return Ok(());
        }
        let evidence = VisibilityEvidence::object(team, channel, is_private, clock);
        note_visibility_if_kept(&*self.archive, &[evidence]).await?;
        let news = changed_channels(&*self.archive, vec![event], index).await?;
        for stored in channel_indexer::store(&*self.archive, &news, self.shard_bytes).await {
            match stored {
                Ok(()) | Err(ArchiveError::TooLarge { .. }) => {}
                Err(error @ ArchiveError::Unavailable(_)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn sync_channel_page(
        &self,
        page: &ListingPage,
        index: &WorkspaceChannels,
        ids: &mut BTreeSet<ChannelId>,
        report: &mut SyncReport,
    ) -> Result<(), SyncError> {
        let listed: ChannelEntry<'_> = page.reply.read()?;
        let erasures = ErasureFacts::load(&*self.archive, &report.team).await?;
        let mut private = Vec::new();
        let mut events = Vec::with_capacity(listed.channels.len());
        let mut members = Vec::with_capacity(listed.channels.len());
        let mut joined = Vec::new();
        for raw in listed.channels {
            report.channels.listed += 1;
            let listed_state: ListedState<'_> = envelope::object_or_default(raw);
            let reach = ChannelReach::from_channel(raw);
            match ChannelEvent::listed(&report.team, raw, &page.asked) {
                // Not requested, and never stored.
                Ok(event) if reach.private => {
                    report.channels.skipped += 1;
                    ids.insert(event.channel().clone());
                    private.push(VisibilityEvidence::object(
                        &report.team,
                        event.channel(),
                        true,
                        &page.asked,
                    ));
                }
                Ok(event) => {
                    if let Some(known) = &self.known {
                        let channel = Entity::Channel(report.team.clone(), event.channel().clone());
                        known.found(channel, Some(reach));
                    }
                    if listed_state.is_joined() {
                        // The app joined at the latest when Slack answered: an earlier time may be one at which
                        // Slack still refused to show the channel, and delivered none of its messages.
                        let joined_by = page.reply.date().unwrap_or(&page.asked);
                        joined.push(Update::mark(ItemKey::joined(&report.team, event.channel(), joined_by)));
                        report.joined.push(event.channel().clone());
                    }
                    if listed_state.could_be_joined()
                        && !erasures.channel_is_out(&report.team, event.channel(), &page.asked)
                    {
                        report.to_join.push(event.channel().clone());
                    }
                    ids.insert(event.channel().clone());
                    members.extend(members::listed(&report.team, event.channel(), raw, &page.asked));
                    events.push(event);
                }
                Err(malformed) => {
                    report.channels.skipped += 1;
                    report.first_skipped.get_or_insert(malformed);
                }
            }
        }
        mark_public(&*self.archive, &events).await?;
        note_listed(&*self.archive, &events).await?;
        note_visibility_if_kept(&*self.archive, &private).await?;
        self.request_canvases(&events).await?;
        note_joined(&*self.archive, joined).await?;
        note_members(&*self.archive, members).await?;
        let news = changed_channels(&*self.archive, events, index).await?;
        for stored in channel_indexer::store(&*self.archive, &news, self.shard_bytes).await {
            match stored {
                Ok(()) => report.channels.changed += 1,
                Err(ArchiveError::TooLarge { .. }) => report.channels.skipped += 1,
                Err(error @ ArchiveError::Unavailable(_)) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl DirectorySync {
    /// Sends jobs for the canvases of these channels that the archive lacks. Their edits come as events.
    async fn request_canvases(&self, events: &[ChannelEvent]) -> Result<(), SyncError> {
        let jobs: Vec<(ItemKey, FileJob)> = events.iter().flat_map(ChannelEvent::canvas_jobs).collect();
        let rows = self.archive.get_all(&jobs.iter().map(|(key, _)| key).collect::<Vec<_>>()).await?;
        let is_requested = |job: &FileJob, row: &Option<Item>| {
            row.as_ref().is_some_and(|row| row::shares(row).any(|share| share == job.share))
        };
        let missing = jobs.iter().zip(&rows).filter(|((_, job), row)| !is_requested(job, row));
        let missing: Vec<Outgoing> = missing.map(|((_, job), _)| job.outgoing()).collect();
        if !missing.is_empty() {
            self.queue.send(missing).await.into_iter().collect::<Result<Vec<_>, QueueError>>()?;
        }
        Ok(())
    }
}

/// Stores the member counts of channels, once a day.
async fn note_members(archive: &dyn Archive, members: Vec<Update>) -> Result<(), ArchiveError> {
    let keys: Vec<&ItemKey> = members.iter().map(|members| &members.key).collect();
    let known = archive.get_all(&keys).await?;
    let is_missing = |(_, known): &(Update, Option<Item>)| known.is_none();
    let missing = members.into_iter().zip(known).filter(is_missing).map(|(members, _)| vec![members]);
    let missing: Vec<Vec<Update>> = missing.collect();
    write(archive, &missing).await.map(drop)
}

/// Writes the public marks of these channels, as their events do; returns how many marks changed. The marks
/// only grow, so they are written without the message-writer's queue.
pub(crate) async fn mark_public(
    archive: &dyn Archive,
    events: &[ChannelEvent],
) -> Result<usize, ArchiveError> {
    let keys: Vec<ItemKey> =
        events.iter().map(|event| ItemKey::public_mark(event.team(), event.channel())).collect();
    let marks = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let opened = |(event, mark): (&ChannelEvent, Option<Item>)| {
        public_mark::opened(event.team(), event.channel(), mark.as_ref(), event.clock())
    };
    let updates: Vec<Vec<Update>> =
        events.iter().zip(marks).filter_map(opened).map(|update| vec![update]).collect();
    Ok(write(archive, &updates).await?.changed)
}

/// What the list of public channels shows about one of them.
pub(crate) fn listed_as_public(event: &ChannelEvent) -> VisibilityEvidence {
    VisibilityEvidence::object(event.team(), event.channel(), false, event.clock())
}

/// Writes that these channels are public. A channel that is known to have been public since its newest message
/// is left out: a list that repeats itself every hour is not written every hour.
async fn note_listed(archive: &dyn Archive, events: &[ChannelEvent]) -> Result<(), ArchiveError> {
    let evidence = |event: &ChannelEvent| {
        VisibilityEvidence::object(event.team(), event.channel(), false, event.clock())
    };
    let listed: Vec<VisibilityEvidence> = events.iter().map(evidence).collect();
    let keys: Vec<ItemKey> = listed.iter().map(VisibilityEvidence::key).collect();
    let marks = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let mut updates = Vec::new();
    for ((event, evidence), mark) in events.iter().zip(&listed).zip(&marks) {
        let Some(update) = evidence.update(mark.as_ref()) else { continue };
        let register = VisibilityRegister::from_row(mark.as_ref());
        if register.is_private() == Some(false) {
            let newest = newest(archive, key::messages(event.team(), event.channel())).await?;
            let newest = newest.and_then(|newest| Ts::parse(&newest.key.timestamp).ok());
            if newest.is_none_or(|newest| register.is_public_since(&newest)) {
                continue;
            }
        }
        updates.push(vec![update]);
    }
    write(archive, &updates).await.map(drop)
}

/// Writes the marks of the channels that the app is in and that have no mark yet: the app may have joined such a
/// channel before events arrived.
async fn note_joined(archive: &dyn Archive, marks: Vec<Update>) -> Result<(), ArchiveError> {
    let looked_up = stream::iter(marks).map(|mark| async move {
        let known = Query { limit: 1, ..Query::partition(mark.key.item_id.clone()) };
        let is_marked = !archive.query(&known).await?.items.is_empty();
        Ok::<_, ArchiveError>((!is_marked).then(|| vec![mark]))
    });
    let looked_up = looked_up.buffered(READS_AT_ONCE);
    let missing: Vec<Vec<Update>> = looked_up.try_filter_map(|mark| async { Ok(mark) }).try_collect().await?;
    write(archive, &missing).await.map(drop)
}

/// The events that differ from the archive, or whose channel readers would not find by its name.
pub(crate) async fn changed_channels(
    archive: &dyn Archive,
    events: Vec<ChannelEvent>,
    index: &WorkspaceChannels,
) -> Result<Vec<ChannelEvent>, ArchiveError> {
    let looked_up = stream::iter(events).map(|event| async move {
        let newest = newest(archive, key::channels(event.team(), event.channel())).await?;
        let name = newest.as_ref().and_then(|newest| ChannelState::from_row(newest).index_name());
        let found = index.name(event.channel()) == name.as_deref();
        Ok::<_, ArchiveError>((!found || is_channel_changed(newest.as_ref(), &event)).then_some(event))
    });
    let looked_up = looked_up.buffered(READS_AT_ONCE);
    looked_up.try_filter_map(|event| async { Ok(event) }).try_collect().await
}
