//! Which files of a data folder the rows of a copy name. A folder may also contain files that no row names: a
//! file that a job stored a moment ago, or that an erasure from another copy of the folder left behind.

use std::collections::{HashMap, HashSet};

use embedded::backup::{BackupError, CopiedRows};
use ports::archive::{Item, rows};
use ports::files::{FileKey, FileKeyParts};
use rules::file::row::{self, ExpectedBytes};
use rules::file::{image, named};
use slack::ids::{FileId, TeamId};

/// The bytes that a row says are stored: the versions of a file, or pictures.
pub(crate) fn named_bytes(item: &Item) -> Vec<ExpectedBytes<'_>> {
    if item.is_erased() {
        return Vec::new();
    }
    if item.key.item_id.starts_with(rows::FILE.prefix()) {
        let file = FileId::parse(&item.key.timestamp);
        return file.map_or_else(|_| Vec::new(), |file| row::expected_bytes(item, &file));
    }
    let expected = |key| ExpectedBytes { key, size_bytes: None, sha256: None };
    image::stored_keys(item).map(expected).collect()
}

/// The names in the rows of a copy.
pub(crate) struct NamedFiles {
    rows: CopiedRows,
    /// The pictures that rows of people and emoji name, by workspace.
    pictures: HashMap<TeamId, HashSet<FileKey>>,
}

impl NamedFiles {
    /// The names in these rows.
    pub(crate) fn of(rows: CopiedRows) -> Self {
        Self { rows, pictures: HashMap::new() }
    }

    /// Whether a row may name this key.
    pub(crate) fn contain(&mut self, key: &str) -> Result<bool, BackupError> {
        // A key that this version does not create has no row that it knows of: it may be of another version.
        let Some(key) = FileKey::parse(key) else { return Ok(true) };
        let Some(parts) = key.parts() else { return Ok(true) };
        if let FileKeyParts::Image { team } = &parts {
            return Ok(self.pictures_of(team)?.contains(&key));
        }
        for row_key in named::rows_of(&parts) {
            if self.rows.get(&row_key)?.is_some_and(|row| named::names(&row, &key, &parts)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn pictures_of(&mut self, team: &TeamId) -> Result<&HashSet<FileKey>, BackupError> {
        if !self.pictures.contains_key(team) {
            let mut pictures = HashSet::new();
            for partition in named::partitions_of_pictures(team) {
                self.rows.for_each(&partition, |row| pictures.extend(image::keys(&row)))?;
            }
            self.pictures.insert(team.clone(), pictures);
        }
        Ok(self.pictures.entry(team.clone()).or_default())
    }
}
