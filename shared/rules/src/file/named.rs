//! Which rows name stored bytes. Bytes are stored before a row names them, and a row may be lost or restored
//! from before: so a folder may contain bytes that no row names, which no reader can reach.

use ports::archive::{Item, ItemKey, key};
use ports::files::{FileKey, FileKeyParts};
use slack::ids::TeamId;

use super::{image, row};

/// The rows that may name the bytes of a shared file: the file's own row, and that of the message for which
/// they were stored.
pub fn rows_of(parts: &FileKeyParts) -> Vec<ItemKey> {
    match parts {
        FileKeyParts::Shared { team, channel, ts, file } => {
            vec![ItemKey::file(team, file), ItemKey::message(team, channel, ts)]
        }
        FileKeyParts::Image { .. } => Vec::new(),
    }
}

/// Whether a row, one of [`rows_of`], names these bytes.
pub fn names(item: &Item, key: &FileKey, parts: &FileKeyParts) -> bool {
    match parts {
        FileKeyParts::Shared { file, .. } => row::keys(item, file).contains(key),
        FileKeyParts::Image { .. } => image::keys(item).contains(key),
    }
}

/// The partitions whose rows may name pictures, by [`image::keys`].
pub fn partitions_of_pictures(team: &TeamId) -> [String; 2] {
    [key::users(team), key::emoji(team)]
}
