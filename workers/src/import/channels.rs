//! Writes the rows of the public channels that an export lists, and marks them as public.

use reader::directory;
use rules::channel::{ChannelEvent, index};
use rules::history::without_tokens;
use serde_json::value::{RawValue, to_raw_value};
use slack::envelope;
use slack::ids::Ts;

use super::people::listed;
use super::plan::ImportPlan;
use super::source::ExportEntries;
use super::{Import, ImportError, ImportNotice};
use crate::channel_indexer;
use crate::directory::channels::{mark_public, news};

impl Import<'_> {
    /// Writes the channels of all workspaces, as they were when the newest message was written: an old export takes the name
    /// of no channel back.
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
            source = listed(source, section.list.into_iter().collect(), public, async |channels| {
                let events =
                    channels.iter().filter_map(|raw| ChannelEvent::listed(&section.team, raw, newest).ok());
                let events: Vec<ChannelEvent> =
                    events.filter(|event| section.channels.contains_key(event.channel())).collect();
                marked += mark_public(archive, &events).await? as u64;
                let news = news(archive, events, &known).await?;
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

/// A channel as the list of public channels shows it: that it is public is what being in the list says. Its members come and go
/// and are not kept.
fn public(raw: &RawValue) -> Option<Box<RawValue>> {
    let mut value = envelope::value(raw.get()).ok()?;
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
    fn a_channel_whose_text_has_half_a_character_is_taken() {
        let raw =
            RawValue::from_string(r#"{"id":"C1","name":"plan","topic":{"value":"plan \ud83d"}}"#.to_owned())
                .unwrap();
        assert!(public(&raw).is_some_and(|taken| taken.get().contains('\u{fffd}')));
    }
}
