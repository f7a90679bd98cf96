//! What the blocks and attachments of a message are read with: the reader's zone, and what other parts of the
//! message say about the ids in them.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::blocks;
use super::spans::TextSpan;

/// Maximum number of labels and titles that are remembered. A text of Slack's maximum length has fewer.
const MAX_LABELS: usize = 4_000;

/// What the parts of a message are read with.
#[derive(Debug)]
pub(super) struct MessageParts<'r> {
    /// The reader's zone, for dates.
    pub(super) zone: &'r TimeZone,
    /// The content of the message's `text`.
    pub(super) text: &'r [TextSpan],
    /// The labels that the text has for people, channels and groups, by id.
    labels: HashMap<&'r str, &'r str>,
    /// The titles of the message's files, by id.
    titles: HashMap<&'r str, &'r str>,
}

impl<'r> MessageParts<'r> {
    /// Reads the labels of a message's text, and the titles of its files.
    pub(super) fn new(zone: &'r TimeZone, text: &'r [TextSpan], files: &'r [Value]) -> Self {
        let labelled = text.iter().filter_map(|span| match span {
            TextSpan::User { id, label }
            | TextSpan::Channel { id, label }
            | TextSpan::UserGroup { id, label } => Some((id.as_str(), label.as_deref()?)),
            TextSpan::Text(..)
            | TextSpan::Link { .. }
            | TextSpan::Broadcast(_)
            | TextSpan::Emoji { .. }
            | TextSpan::Cell
            | TextSpan::Control(_) => None,
        });
        let titled = files.iter().filter_map(|file| {
            Some((
                blocks::text(file, "id")?,
                blocks::text(file, "title").or_else(|| blocks::text(file, "name"))?,
            ))
        });
        Self {
            zone,
            text,
            labels: labelled.take(MAX_LABELS).collect(),
            titles: titled.take(MAX_LABELS).collect(),
        }
    }

    /// Returns the label that the message's text has for an id.
    pub(super) fn label(&self, id: &str) -> Option<String> {
        self.labels.get(id).map(|label| (*label).to_owned())
    }

    /// Returns the title of a file of the message.
    pub(super) fn title(&self, file: &str) -> Option<String> {
        self.titles.get(file).map(|title| (*title).to_owned())
    }
}
