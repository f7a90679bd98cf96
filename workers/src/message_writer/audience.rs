//! Public channels only, except that a channel once public keeps being stored.
//!
//! The mark `meta#{team}#public` / `{channel}` is set by any public event and by a conversion to private. Only a person
//! takes it back, and a later public event sets it again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, Query, key};
use ports::queue::route::Audience;
use rules::Event;
use rules::public_mark::MarkState;
use slack::ids::{ChannelId, TeamId};

use tokio::time::Instant;

use crate::existence::Sight;
use crate::failure::Failure;
use crate::marks::Marks;

/// Channels that are remembered to have been private when they were last seen. Beyond it all are forgotten.
const MAX_SEEN: usize = 10_000;

/// How long that is remembered.
const SEEN_FOR: Duration = Duration::from_secs(600);

/// A channel of a workspace.
pub(super) type Place = (TeamId, ChannelId);

/// What Slack says of channels whose events do not say who may read them; `None` where nobody asks it.
pub(super) type Sights = Option<HashMap<Place, Sight>>;

/// Whether an event is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Store,
    /// Not stored; the reason is a metric's label.
    Drop(&'static str),
    /// Nobody knows yet who may read its channel.
    Wait,
}

/// Judges events, remembering what it has seen in the archive.
#[derive(Default)]
pub(super) struct Audiences {
    marks: Marks,
    /// Unmarked channels of which a private event came lately.
    seen_as_private: Mutex<HashMap<Place, Instant>>,
}

impl Audiences {
    /// Whether Slack has to be asked who may read the channel of a message or reaction: neither the event nor the archive
    /// says it.
    pub(super) async fn is_unseen(&self, archive: &dyn Archive, event: &Event<'_>) -> Result<bool, Failure> {
        let place = (event.team.clone(), event.channel()?);
        match Audience::of(&event.header) {
            Audience::Public | Audience::Direct => Ok(false),
            Audience::Private => {
                if !says_public(event) && !self.marks.is_public(archive, &place.0, &place.1).await? {
                    self.saw_as_private(place);
                }
                Ok(false)
            }
            Audience::Untyped => {
                Ok(!self.is_kept_as_public(archive, &place).await? && !self.is_seen_as_private(&place))
            }
        }
    }

    /// Whether an event might be stored, as far as can be said before those around it are: `opened` holds the channels that
    /// events in front of it show to be public, `opens` those that any event of its batch does. What is stored for certain,
    /// [`Audiences::judge`] says.
    pub(super) async fn foresees(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
        sights: &Sights,
        opened: &mut HashSet<Place>,
        opens: &HashSet<Place>,
    ) -> Result<bool, Failure> {
        let place = (event.team.clone(), event.channel()?);
        if says_public(event) {
            opened.insert(place);
            return Ok(true);
        }
        Ok(match Audience::of(&event.header) {
            Audience::Direct => false,
            Audience::Public => true,
            Audience::Private => {
                opened.contains(&place) || self.marks.is_public(archive, &place.0, &place.1).await?
            }
            Audience::Untyped => {
                opens.contains(&place)
                    || matches!(sights.as_ref().and_then(|sights| sights.get(&place)), Some(Sight::Public))
                    || self.is_kept_as_public(archive, &place).await?
            }
        })
    }

    async fn is_kept_as_public(&self, archive: &dyn Archive, place: &Place) -> Result<bool, ArchiveError> {
        let (team, channel) = place;
        match self.marks.state(archive, team, channel).await? {
            MarkState::Public => Ok(true),
            MarkState::Unmarked => is_shown_as_public(archive, team, channel).await,
            MarkState::Forgotten => Ok(false),
        }
    }

    /// Whether a message or reaction is stored. Jobs of a channel are judged in their order: a public event lets the
    /// private ones after it in.
    pub(super) async fn judge(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
        sights: &Sights,
    ) -> Result<Verdict, Failure> {
        let channel = event.channel()?;
        if says_public(event) {
            self.marks.open(archive, &event.team, &channel, &event.clock()).await?;
            return Ok(Verdict::Store);
        }
        match Audience::of(&event.header) {
            Audience::Direct => Ok(Verdict::Drop("direct_message")),
            Audience::Public => Ok(Verdict::Store),
            Audience::Private if self.marks.is_public(archive, &event.team, &channel).await? => {
                Ok(Verdict::Store)
            }
            Audience::Private => {
                self.saw_as_private((event.team.clone(), channel));
                Ok(Verdict::Drop("private_channel"))
            }
            Audience::Untyped => self.judge_untyped(archive, event, channel, sights).await,
        }
    }

    /// An event that does not say who sees it: what is known of the channel decides, or what Slack shows.
    async fn judge_untyped(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
        channel: ChannelId,
        sights: &Sights,
    ) -> Result<Verdict, Failure> {
        let place = (event.team.clone(), channel);
        let kept_as_public = self.is_kept_as_public(archive, &place).await?;
        if !kept_as_public && self.is_seen_as_private(&place) {
            return Ok(Verdict::Drop("private_channel"));
        }
        match sights.as_ref().and_then(|sights| sights.get(&place)) {
            _ if kept_as_public => {}
            Some(Sight::Public) => {}
            Some(Sight::Private) => return Ok(Verdict::Drop("private_channel")),
            Some(Sight::Unknown(reason)) => return Err(Failure::Permanent(reason.clone())),
            Some(Sight::Later) | None => return Ok(Verdict::Wait),
        }
        let (team, channel) = &place;
        self.marks.open(archive, team, channel, &event.clock()).await?;
        Ok(Verdict::Store)
    }

    fn saw_as_private(&self, place: Place) {
        let mut seen = self.seen_as_private.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        seen.insert(place, Instant::now());
    }

    fn is_seen_as_private(&self, place: &Place) -> bool {
        let seen = self.seen_as_private.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(place).is_some_and(|at| at.elapsed() < SEEN_FOR)
    }

    /// Whether an event that changes a channel's id opens the new one: what was public is stored under its new id too.
    pub(super) async fn is_carried_over(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
    ) -> Result<bool, Failure> {
        let (old, _) = event.changed_ids()?;
        Ok(self.marks.is_public(archive, &event.team, &old).await?)
    }

    /// Opens the new id of a channel. The existence check has said that it may be.
    pub(super) async fn carry_over(&self, archive: &dyn Archive, event: &Event<'_>) -> Result<(), Failure> {
        let (_, new) = event.changed_ids()?;
        Ok(self.marks.open(archive, &event.team, &new, &event.clock()).await?)
    }

    /// Lists the workspace, so that readers find it without scanning.
    pub(super) async fn note_team(&self, archive: &dyn Archive, team: &TeamId) -> Result<(), ArchiveError> {
        self.marks.note_team(archive, team).await
    }
}

/// Whether the event itself shows that its channel is public, or was until now: such an event sets the mark.
pub(super) fn says_public(event: &Event<'_>) -> bool {
    // The conversion arrives as a private event, and proves that the channel was public.
    let converted = event.header.subtype.as_deref() == Some("channel_convert_to_private");
    match Audience::of(&event.header) {
        Audience::Public => true,
        Audience::Private => converted,
        Audience::Direct | Audience::Untyped => false,
    }
}

async fn is_shown_as_public(
    archive: &dyn Archive,
    team: &TeamId,
    channel: &ChannelId,
) -> Result<bool, ArchiveError> {
    let newest = Query { limit: 1, descending: true, ..Query::partition(key::channels(team, channel)) };
    let rows = archive.query(&newest).await?.items;
    Ok(rows.iter().any(|row| row.text("visibility") == Some("public")))
}
