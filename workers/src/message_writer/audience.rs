//! Public channels only, except that a channel once public keeps being stored.
//!
//! The mark `meta#{team}#public` / `{channel}` is set by any public event and by a conversion to private. Only a person
//! takes it back, and a later public event sets it again.

use std::collections::HashSet;

use shared::archive::{Archive, ArchiveError, Query, key};
use shared::queue::GroupId;
use shared::queue::route::Audience;
use shared::rules::Event;
use shared::rules::public_mark::MarkState;
use shared::slack::ids::{ChannelId, TeamId};

use crate::failure::Failure;
use crate::marks::Marks;

/// Whether an event is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Store,
    /// Not stored; the reason is a metric's label.
    Drop(&'static str),
}

/// Judges events, remembering what it has seen in the archive.
#[derive(Default)]
pub(super) struct Audiences {
    marks: Marks,
}

impl Audiences {
    /// Whether an event might be stored, as far as can be said before those in front of it are: `opened` holds the groups,
    /// each a channel's, that they show to be public. What is stored for certain, [`Audiences::judge`] says.
    pub(super) async fn foresees<'j>(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
        group: &'j GroupId,
        opened: &mut HashSet<&'j GroupId>,
    ) -> Result<bool, Failure> {
        if says_public(event) {
            opened.insert(group);
            return Ok(true);
        }
        let audience = Audience::of(&event.header);
        if audience == Audience::Direct || opened.contains(group) {
            return Ok(audience != Audience::Direct);
        }
        let channel = event.channel()?;
        Ok(match self.marks.state(archive, &event.team, &channel).await? {
            MarkState::Public => true,
            MarkState::Unmarked if audience == Audience::Untyped => {
                is_shown_as_public(archive, &event.team, &channel).await?
            }
            MarkState::Unmarked | MarkState::Forgotten => false,
        })
    }

    /// Whether a message or reaction is stored. Jobs of a channel are judged in their order: a public event lets the
    /// private ones after it in.
    pub(super) async fn judge(&self, archive: &dyn Archive, event: &Event<'_>) -> Result<Verdict, Failure> {
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
            Audience::Private => Ok(Verdict::Drop("private_channel")),
            Audience::Untyped => self.judge_untyped(archive, event, &channel).await,
        }
    }

    /// An event that does not say who sees it: where there is no mark, what is known of the channel decides.
    async fn judge_untyped(
        &self,
        archive: &dyn Archive,
        event: &Event<'_>,
        channel: &ChannelId,
    ) -> Result<Verdict, Failure> {
        match self.marks.state(archive, &event.team, channel).await? {
            MarkState::Public => Ok(Verdict::Store),
            MarkState::Unmarked if is_shown_as_public(archive, &event.team, channel).await? => {
                self.marks.open(archive, &event.team, channel, &event.clock()).await?;
                Ok(Verdict::Store)
            }
            MarkState::Unmarked | MarkState::Forgotten => Ok(Verdict::Drop("channel_unknown")),
        }
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
