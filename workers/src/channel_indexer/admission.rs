//! Public channels only, except that a channel once public is kept after its conversion.

use std::collections::HashSet;

use ports::archive::{Archive, ArchiveError, Query, key};
use ports::queue::route::Audience;
use rules::Event;
use rules::channel::ChannelEvent;
use rules::public_mark::MarkState;
use serde_json::Value;
use slack::catalogue::{Rule, Visibility};
use slack::ids::{ChannelId, TeamId};

use crate::marks::Marks;

/// Judges the events of one batch: one that lets its channel in lets in what follows it.
#[derive(Default)]
pub(super) struct Admission {
    admitted: HashSet<(TeamId, ChannelId)>,
}

impl Admission {
    /// Whether an event is kept. A channel that only says that it is private, or does not say, must have been public
    /// before: it has the mark that the message-writer and the directory sync set, or rows already, unless a person took
    /// the mark back. A channel lets in the id it goes on under: whether it does, the existence check asks.
    pub(super) async fn admits(
        &mut self,
        archive: &dyn Archive,
        marks: &Marks,
        event: &Event<'_>,
        told: &ChannelEvent,
    ) -> Result<bool, ArchiveError> {
        if Audience::of(&event.header) == Audience::Direct {
            return Ok(false);
        }
        let channel = (told.team().clone(), told.channel().clone());
        let admitted = says_public(event)
            || self.admitted.contains(&channel)
            || match marks.state(archive, told.team(), told.channel()).await? {
                MarkState::Public => true,
                MarkState::Forgotten => false,
                MarkState::Unmarked => has_rows(archive, told).await?,
            };
        if admitted {
            self.admitted.extend(told.channels().map(|channel| (told.team().clone(), channel.clone())));
        }
        Ok(admitted)
    }
}

/// Whether the event itself says that the channel is public. A message came through the message-writer, which judged it.
pub(super) fn says_public(event: &Event<'_>) -> bool {
    match event.visibility() {
        Visibility::PublicByType => true,
        Visibility::ChannelObject => {
            let event: Value = serde_json::from_str(event.raw.get()).unwrap_or_default();
            event.pointer("/channel/is_private") != Some(&Value::Bool(true))
        }
        Visibility::ChannelType => event.rule() == Some(Rule::Message),
        Visibility::Archive | Visibility::PublicMark | Visibility::ChannelLetter | Visibility::NoChannel => {
            false
        }
    }
}

async fn has_rows(archive: &dyn Archive, told: &ChannelEvent) -> Result<bool, ArchiveError> {
    let any = Query { limit: 1, ..Query::partition(key::channels(told.team(), told.channel())) };
    Ok(!archive.query(&any).await?.items.is_empty())
}
