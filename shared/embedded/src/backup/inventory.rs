//! The files of a data folder, in the order of their keys, without those that are still being written.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::FILES_FOLDER;
use ports::files::FileKey;

/// No key is deeper. The limit also bounds a search among links that a user may have put there.
const MAX_DEPTH: usize = 8;

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFile {
    /// Its key.
    pub key: String,
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

/// Goes through the published files of a data folder. What is remembered is the names in the folders that lead to the
/// next one.
pub struct Inventory {
    root: PathBuf,
    /// What is still to be looked at, the next one last.
    ahead: Vec<String>,
    /// What has no business there, counted, with the first.
    foreign: Option<(usize, PathBuf)>,
    unread: Option<io::Error>,
}

impl Inventory {
    /// The files of a data folder.
    pub fn of(data: &Path) -> Self {
        let root = data.join(FILES_FOLDER);
        let mut inventory = Self { root, ahead: Vec::new(), foreign: None, unread: None };
        if let Err(error) = inventory.descend("") {
            inventory.unread = (error.kind() != ErrorKind::NotFound).then_some(error);
        }
        inventory
    }

    /// The entries among the files that are not files of the archive: how many, and the first.
    pub fn foreign(&self) -> Option<&(usize, PathBuf)> {
        self.foreign.as_ref()
    }

    fn descend(&mut self, key: &str) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(key))? {
            let entry = entry?;
            match entry.file_name().into_string() {
                // Half-written files have no keys yet.
                Ok(name) if key.is_empty() && name == ".incoming" => {}
                Ok(name) => names.push(name),
                Err(_) => self.pass_over(entry.path()),
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        let below = |name: &String| if key.is_empty() { name.clone() } else { format!("{key}/{name}") };
        self.ahead.extend(names.iter().map(below));
        Ok(())
    }

    fn pass_over(&mut self, path: PathBuf) {
        let (count, _) = self.foreign.get_or_insert((0, path));
        *count += 1;
    }

    fn look_at(&mut self, key: String) -> io::Result<Option<HeldFile>> {
        let path = self.root.join(&key);
        // A folder may be a link to a larger disk.
        let metadata: Metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() && key.split('/').count() < MAX_DEPTH {
            self.descend(&key)?;
        } else if metadata.is_file() && FileKey::parse(&key).is_some() {
            return Ok(Some(HeldFile { key, path, bytes: metadata.len() }));
        } else {
            self.pass_over(path);
        }
        Ok(None)
    }
}

impl Iterator for Inventory {
    type Item = io::Result<HeldFile>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.unread.take() {
            return Some(Err(error));
        }
        loop {
            let key = self.ahead.pop()?;
            match self.look_at(key) {
                Ok(None) => {}
                Ok(Some(file)) => return Some(Ok(file)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(data: &Path, name: &str, bytes: &str) {
        let path = data.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn published_files_come_in_order_and_nothing_else_does() {
        let data = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("files/slack/T1/C2/1.000000/F1", "abc"),
            ("files/slack/T1/C1/2.000000/F2", ""),
            ("files/slack/T1/images/00ff", "x"),
            ("files/.incoming/7/0", "half"),
            ("files/slack/T1/C1/.DS_Store", "mac"),
            ("files/notes.txt", "mine"),
            ("annalist.db", "not looked at"),
        ] {
            write(data.path(), name, bytes);
        }
        let mut inventory = Inventory::of(data.path());
        let files: Vec<_> = inventory.by_ref().map(|file| file.unwrap()).collect();
        let found: Vec<_> = files.iter().map(|file| (file.key.as_str(), file.bytes)).collect();
        assert_eq!(
            found,
            [("slack/T1/C1/2.000000/F2", 0), ("slack/T1/C2/1.000000/F1", 3), ("slack/T1/images/00ff", 1)]
        );
        assert!(files.iter().all(|file| file.path.is_file()));
        assert_eq!(inventory.foreign().unwrap().0, 2, "{:?}", inventory.foreign());
    }

    #[test]
    fn an_archive_without_files_has_none() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(Inventory::of(data.path()).count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_leads_to_itself_is_not_followed_for_ever() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(data.path().join("files/slack")).unwrap();
        std::os::unix::fs::symlink("../slack", data.path().join("files/slack/T1")).unwrap();
        let mut inventory = Inventory::of(data.path());
        assert_eq!(inventory.by_ref().count(), 0);
        assert!(inventory.foreign().is_some());
    }
}
