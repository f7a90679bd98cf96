//! What pages show of people, channels, user groups and emoji: it changes without the messages.

use std::collections::BTreeSet;

use reader::text::spans::TextSpan;
use rules::publishing;
use rules::view::{MessageView, file_owner};
use viewer::emoji::split_skin_tones;
use viewer::pages::message::PageMessage;
use viewer::pages::public;

/// The names and other things that a unit shows, and that change without it: `u:` people and bots, `g:` user
/// groups, `c:` channels, `e:` emoji, and `f:` the copies of files.
#[derive(Debug, Clone, Default)]
pub(super) struct UnitTags(BTreeSet<String>);

impl UnitTags {
    /// Notes what decides whether quotes in a message are shown.
    pub(super) fn note_quotes(&mut self, row: &MessageView) {
        if row.raw_event().is_some_and(|raw| raw.contains("\"attachments\"")) {
            let (people, channels) = publishing::quoted(row);
            self.0.extend(people.iter().map(|person| format!("u:{person}")));
            self.0.extend(channels.iter().map(|channel| format!("c:{channel}")));
        }
        let owners = row.files().iter().filter_map(file_owner);
        self.0.extend(row.user().into_iter().chain(owners).map(|user| format!("u:{user}")));
    }

    /// Notes what messages mention.
    pub(super) fn note<'m>(&mut self, messages: impl IntoIterator<Item = &'m PageMessage>) {
        for message in messages {
            self.0.extend(
                message.content.people().chain(message.reactors()).map(|person| format!("u:{person}")),
            );
            self.0.extend(message.content.user_groups().map(|group| format!("g:{group}")));
            let reactions = message.row.reactions().iter().filter_map(|reaction| reaction["name"].as_str());
            self.0.extend(reactions.map(|name| format!("e:{}", split_skin_tones(name).0)));
            for span in public::lines(message).iter().flat_map(|line| &line.spans) {
                let tag = match span {
                    TextSpan::Channel { id, .. } => format!("c:{id}"),
                    TextSpan::Emoji { name, .. } => format!("e:{}", split_skin_tones(name).0),
                    TextSpan::User { id, .. } => format!("u:{id}"),
                    TextSpan::Text(..)
                    | TextSpan::Link { .. }
                    | TextSpan::UserGroup { .. }
                    | TextSpan::Broadcast(_)
                    | TextSpan::Cell
                    | TextSpan::Control(_) => continue,
                };
                self.0.insert(tag);
            }
        }
    }

    pub(super) fn note_copy(&mut self, tag: String) {
        self.0.insert(tag);
    }

    /// Notes the same as these tags.
    pub(super) fn extend(&mut self, tags: impl IntoIterator<Item = String>) {
        self.0.extend(tags);
    }

    /// The names of the noted emoji.
    pub(super) fn emoji(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|tag| tag.strip_prefix("e:"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The tags as lines. One with a line break, which no id or name in Slack has, is no tag.
    pub(super) fn to_lines(&self) -> Option<String> {
        let has_breaks = self.iter().any(|tag| tag.contains(['\n', '\r']));
        (!has_breaks).then(|| self.iter().collect::<Vec<_>>().join("\n"))
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}
