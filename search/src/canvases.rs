//! The texts of canvases. A canvas is found through the messages that share it: its name and its text are part
//! of the words of each.

use std::collections::BTreeSet;

use ports::archive::{Archive, ArchiveError, Item, ItemKey};
use reader::search::document::{self, SearchDocument};
use reader::search::units;
use rules::file::canvas_text::{self, CanvasText};
use slack::ids::{FileId, TeamId};

/// The maximum number of canvases per message that are searched, so that the words of a message take at most
/// a few megabytes.
const MAX_CANVASES: usize = 10;

/// Reads the canvases that a message shares, in one of these workspaces.
pub(crate) async fn read(
    archive: &dyn Archive,
    teams: &BTreeSet<&TeamId>,
    message: &Item,
) -> Result<Vec<CanvasText>, ArchiveError> {
    let files: Vec<FileId> = canvas_text::on(message).take(MAX_CANVASES).collect();
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<ItemKey> = files
        .iter()
        .flat_map(|file| teams.iter().map(move |team| ItemKey::canvas_text(team, file)))
        .collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let mut found: Vec<CanvasText> = rows.iter().flatten().filter_map(canvas_text::read).collect();
    // A file that several workspaces know has the same id in each.
    found.dedup_by(|one, other| one.file == other.file);
    Ok(found)
}

/// Adds canvases to the searchable parts of the message that shares them.
pub(crate) fn add(document: &mut SearchDocument, canvases: &[CanvasText]) {
    for CanvasText { name, text, .. } in canvases {
        for part in [name, text] {
            document.text.push('\n');
            document.text.push_str(part);
        }
    }
}

/// The words of canvases for the index, after those of their message.
pub(crate) fn index_words(canvases: &[CanvasText]) -> String {
    let mut words = String::new();
    for part in canvases.iter().flat_map(|canvas| [&canvas.name, &canvas.text]) {
        words.push(' ');
        words += &document::index_words(&units::split_into_units(part));
    }
    words
}
