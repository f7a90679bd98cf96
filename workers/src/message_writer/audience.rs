//! Public channels only, except that a channel once public keeps being stored.
//!
//! The mark `meta#{team}#public` / `{channel}` is set by any public event and by a conversion to private. It is never
//! unset, so its presence may be remembered; its absence is asked for every time.

use std::collections::HashSet;

use shared::archive::{Archive, ArchiveError, ItemKey, Query, key};
use shared::queue::GroupId;
use shared::queue::route::Audience;
use shared::rules::Event;
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
        let marked = self.marks.is_set(archive, &ItemKey::public_mark(&event.team, &channel)).await?;
        let unmarked_and_untyped = !marked && audience == Audience::Untyped;
        Ok(marked || (unmarked_and_untyped && is_shown_as_public(archive, &event.team, &channel).await?))
    }

    /// Whether a message or reaction is stored. Jobs of a channel are judged in their order: a public event lets the
    /// private ones after it in.
    pub(super) async fn judge(&self, archive: &dyn Archive, event: &Event<'_>) -> Result<Verdict, Failure> {
        let channel = event.channel()?;
        let mark = ItemKey::public_mark(&event.team, &channel);
        if says_public(event) {
            return Ok(self.marks.ensure(archive, mark).await.map(|()| Verdict::Store)?);
        }
        match Audience::of(&event.header) {
            Audience::Direct => Ok(Verdict::Drop("direct_message")),
            Audience::Public => Ok(Verdict::Store),
            Audience::Private => Ok(self.if_marked(archive, mark, "private_channel").await?),
            Audience::Untyped => self.judge_untyped(archive, &event.team, &channel, mark).await,
        }
    }

    /// An event that does not say who sees it: where there is no mark, what is known of the channel decides.
    async fn judge_untyped(
        &self,
        archive: &dyn Archive,
        team: &TeamId,
        channel: &ChannelId,
        mark: ItemKey,
    ) -> Result<Verdict, Failure> {
        if self.marks.is_set(archive, &mark).await? {
            return Ok(Verdict::Store);
        }
        if is_shown_as_public(archive, team, channel).await? {
            self.marks.ensure(archive, mark).await?;
            return Ok(Verdict::Store);
        }
        Ok(Verdict::Drop("channel_unknown"))
    }

    /// A channel that was public is stored under its new id too.
    pub(super) async fn carry_over(&self, archive: &dyn Archive, event: &Event<'_>) -> Result<(), Failure> {
        let (old, new) = event.changed_ids()?;
        if self.marks.is_set(archive, &ItemKey::public_mark(&event.team, &old)).await? {
            self.marks.ensure(archive, ItemKey::public_mark(&event.team, &new)).await?;
        }
        Ok(())
    }

    /// Lists the workspace, so that readers find it without scanning.
    pub(super) async fn note_team(&self, archive: &dyn Archive, team: &TeamId) -> Result<(), ArchiveError> {
        self.marks.ensure(archive, ItemKey::team(team)).await
    }

    async fn if_marked(
        &self,
        archive: &dyn Archive,
        mark: ItemKey,
        reason: &'static str,
    ) -> Result<Verdict, ArchiveError> {
        Ok(if self.marks.is_set(archive, &mark).await? { Verdict::Store } else { Verdict::Drop(reason) })
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
