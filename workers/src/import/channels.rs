//! Writes the rows of the public channels that an export lists, and marks them as public.

use reader::directory;
use rules::channel::{ChannelEvent, index};
use rules::history::without_tokens;
use rules::visibility::VisibilityEvidence;
use serde_json::value::{RawValue, to_raw_value};
use slack::envelope;
use slack::ids::Ts;

use super::people::read_lists;
use super::plan::ImportPlan;
use super::source::ExportEntries;
use super::{Import, ImportError, ImportNotice};
use crate::admission::marks::note_visibility;
use crate::channel_indexer;
use crate::directory::channels::{changed_channels, listed_as_public, mark_public};

impl Import<'_> {
    /// Writes the channels of all workspaces, dated by the newest message, so that an old export does not
    /// revert a channel's name.
    pub(super) async fn channels(
        &mut self,
        mut source: Box<dyn ExportEntries>,
        plan: &ImportPlan,
        newest: &Ts,
    ) -> Result<Box<dyn ExportEntries>, ImportError> {
        let archive = &*self.target.archive;
        let mut marked = 0;
        for section in &plan.sections {
            let known = directory::read(archive, &section.team).await?;
            source = read_lists(source, section.list.into_iter().collect(), public, async |channels| {
                let events =
                    channels.iter().filter_map(|raw| ChannelEvent::listed(&section.team, raw, newest).ok());
                let events: Vec<ChannelEvent> =
                    events.filter(|event| section.channels.contains_key(event.channel())).collect();
                marked += mark_public(archive, &events).await? as u64;
                let listed: Vec<VisibilityEvidence> = events.iter().map(listed_as_public).collect();
                note_visibility(archive, &listed).await?;
                let news = changed_channels(archive, events, &known).await?;
                for stored in channel_indexer::store(archive, &news, index::SHARD_BYTES).await {
                    stored?;
                }
                Ok(())
            })
            .await?;
        }
        (self.notices)(ImportNotice::Marked(marked));
        Ok(source)
    }
}

/// A channel as Slack lists it: public, because the export's list contains only public channels. Its members
/// change and are not stored.
fn public(raw: &RawValue) -> Option<Box<RawValue>> {
    let mut value = envelope::parse_value(raw.get()).ok()?;
    let object = value.as_object_mut()?;
    object.remove("members");
    object.insert("is_private".into(), false.into());
    without_tokens(&mut value);
    to_raw_value(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_with_half_a_character_in_its_text_is_accepted() {
        let raw =
            RawValue::from_string(r#"{"id":"C1","name":"plan","topic":{"value":"plan \ud83d"}}"#.to_owned())
                .unwrap();
        assert!(public(&raw).is_some_and(|channel| channel.get().contains('\u{fffd}')));
    }
}
