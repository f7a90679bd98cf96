//! The text of a canvas, for search: a row of its own, and a register on each message that shares the canvas.
//! The register changes with each edit, so that followers of messages read the text again.

use super::object::edit_time;
use super::stored::{Share, file_identity};
use crate::message;
use crate::version::hash;
use ports::archive::{Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{FileId, TeamId};

/// The prefix of the registers on a message, one per canvas that it shares: the time of the newest edit.
const CANVAS: &str = "canvas#";

/// The register of the text for search, the text, and the name of the canvas.
const TEXT_VERSION: &str = "text_version";
const TEXT: &str = "text";
const NAME: &str = "name";

/// The update that stores the text and the name of a version, for search. The newest edit stays.
pub fn stored(team: &TeamId, file: &FileId, updated: u64, name: Option<&str>, text: &str) -> Update {
    let version = format!("{}/{}", edit_time(updated), hash(&format!("{}/{text}", name.unwrap_or_default())));
    let set = text_attributes([(TEXT, text), (NAME, name.unwrap_or_default())]);
    let mut set_if_absent = file_identity(team, file);
    set_if_absent.insert("type".into(), "canvas_text".into());
    Update {
        guard: Guard::Greater { register: TEXT_VERSION.into(), version },
        set,
        set_if_absent,
        ..Update::new(ItemKey::canvas_text(team, file))
    }
}

/// The name and the text of a canvas, for search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanvasText {
    pub file: FileId,
    pub name: String,
    pub text: String,
}

/// The name and the text in the row of a canvas's text.
pub fn read(item: &Item) -> Option<CanvasText> {
    let file = FileId::parse(&item.key.timestamp).ok()?;
    let name = item.text(NAME).unwrap_or_default().to_owned();
    Some(CanvasText { file, name, text: item.text(TEXT)?.to_owned() })
}

/// The update that records on a message that a canvas it shares was edited, so that the search reads the
/// canvas's text again.
pub fn on_message(team: &TeamId, share: &Share, file: &FileId, updated: u64) -> Update {
    let Share { channel, ts } = share;
    Update {
        guard: Guard::Greater { register: format!("{CANVAS}{file}"), version: edit_time(updated) },
        set_if_absent: message::identity(team, channel, ts),
        ..Update::new(ItemKey::message(team, channel, ts))
    }
}

/// The canvases with a text that a message shares.
pub fn on(message: &Item) -> impl Iterator<Item = FileId> + '_ {
    message.attributes.keys().filter_map(|name| FileId::parse(name.strip_prefix(CANVAS)?).ok())
}

/// Whether an attribute of a message is the register of a canvas.
pub(super) fn is_register(name: &str) -> bool {
    name.starts_with(CANVAS)
}
