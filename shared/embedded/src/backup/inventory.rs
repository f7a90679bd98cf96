//! Lists the published files of a data folder, in the order of their keys.

use std::cmp::Ordering;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::FILES_FOLDER;
use ports::files::FileKey;

/// Maximum depth of a key. The limit also bounds a search through symbolic links that a user may have
/// created.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedFile {
    pub key: String,
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// Iterates over the published files of a data folder. It keeps in memory only the names in the folders that
/// lead to the next file.
pub struct Inventory {
    root: PathBuf,
    /// The parts of the key after which the list begins.
    after: Vec<String>,
    /// The keys that are still to be visited, the next one last.
    remaining: Vec<String>,
    /// The number of entries that are not files of the archive, and the first one.
    foreign: Option<(usize, PathBuf)>,
    unread: Option<io::Error>,
}

impl Inventory {
    /// The files of a data folder.
    pub fn new(data: &Path) -> Self {
        Self::after(&data.join(FILES_FOLDER), None)
    }

    /// The files in this folder after a key.
    pub(crate) fn after(root: &Path, key: Option<&FileKey>) -> Self {
        let after = key.iter().flat_map(|key| key.as_str().split('/')).map(str::to_owned).collect();
        let root = root.to_owned();
        let mut inventory = Self { root, after, remaining: Vec::new(), foreign: None, unread: None };
        if let Err(error) = inventory.descend("") {
            inventory.unread = (error.kind() != ErrorKind::NotFound).then_some(error);
        }
        inventory
    }

    /// The entries that are not files of the archive: their number and the first one.
    pub fn foreign(&self) -> Option<&(usize, PathBuf)> {
        self.foreign.as_ref()
    }

    fn descend(&mut self, key: &str) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(key))? {
            let entry = entry?;
            match entry.file_name().into_string() {
                // Unfinished files have no keys yet.
                Ok(name) if key.is_empty() && name == ".incoming" => {}
                Ok(name) => names.push(name),
                Err(_) => self.add_foreign(entry.path()),
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        let below = |name: &String| if key.is_empty() { name.clone() } else { format!("{key}/{name}") };
        let below: Vec<String> = names.iter().map(below).filter(|key| !self.is_before(key)).collect();
        self.remaining.extend(below);
        Ok(())
    }

    /// Whether neither this key nor one below it comes after the key at which the list begins.
    fn is_before(&self, key: &str) -> bool {
        let mut parts = key.split('/');
        let before = self.after.iter().find_map(|after| {
            let order = parts.next().map_or(Ordering::Greater, |part| part.cmp(after));
            order.is_ne().then_some(order)
        });
        before.map_or(!self.after.is_empty(), Ordering::is_lt)
    }

    /// Whether nothing has this key, as opposed to a link that leads nowhere.
    fn is_gone(&self, key: &str) -> bool {
        std::fs::symlink_metadata(self.root.join(key)).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    fn add_foreign(&mut self, path: PathBuf) {
        let (count, _) = self.foreign.get_or_insert((0, path));
        *count += 1;
    }

    fn visit(&mut self, key: &str) -> io::Result<Option<PublishedFile>> {
        let path = self.root.join(key);
        // A folder may be a link to a larger disk.
        let metadata: Metadata = std::fs::metadata(&path)?;
        if metadata.is_dir() && key.split('/').count() < MAX_DEPTH {
            self.descend(key)?;
        } else if metadata.is_file() && FileKey::parse(key).is_some() {
            return Ok(Some(PublishedFile { key: key.to_owned(), path, bytes: metadata.len() }));
        } else {
            self.add_foreign(path);
        }
        Ok(None)
    }
}

impl Iterator for Inventory {
    type Item = io::Result<PublishedFile>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.unread.take() {
            return Some(Err(error));
        }
        loop {
            let key = self.remaining.pop()?;
            match self.visit(&key) {
                Ok(None) => {}
                Ok(Some(file)) => return Some(Ok(file)),
                // It was erased or moved since its folder was read.
                Err(error) if error.kind() == ErrorKind::NotFound && self.is_gone(&key) => {}
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
    fn only_published_files_are_listed_in_order() {
        let data = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("files/slack/T1/C2/1.000000/F1", "abc"),
            ("files/slack/T1/C1/2.000000/F2", ""),
            ("files/slack/T1/images/00ff", "x"),
            ("files/.incoming/7/0", "half"),
            ("files/slack/T1/C1/.DS_Store", "mac"),
            ("files/notes.txt", "mine"),
            ("annalist.db", "not visited"),
        ] {
            write(data.path(), name, bytes);
        }
        let mut inventory = Inventory::new(data.path());
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
    fn files_and_folders_that_are_removed_meanwhile_are_left_out() {
        let data = tempfile::tempdir().unwrap();
        for name in ["C1/1.000000/F1", "C1/1.000000/F2", "C2/1.000000/F3", "C3/1.000000/F4"] {
            write(data.path(), &format!("files/slack/T1/{name}"), "x");
        }
        let mut inventory = Inventory::new(data.path());
        assert_eq!(inventory.next().unwrap().unwrap().key, "slack/T1/C1/1.000000/F1");
        let channels = data.path().join("files/slack/T1");
        std::fs::remove_file(channels.join("C1/1.000000/F2")).unwrap();
        std::fs::remove_dir_all(channels.join("C2")).unwrap();
        let rest: Vec<_> = inventory.map(|file| file.unwrap().key).collect();
        assert_eq!(rest, ["slack/T1/C3/1.000000/F4"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_an_error() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(data.path().join("files/slack")).unwrap();
        std::os::unix::fs::symlink("/no/such/disk", data.path().join("files/slack/T1")).unwrap();
        assert_eq!(Inventory::new(data.path()).next().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn an_archive_without_files_lists_no_files() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(Inventory::new(data.path()).count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_links_to_itself_ends_the_search() {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(data.path().join("files/slack")).unwrap();
        std::os::unix::fs::symlink("../slack", data.path().join("files/slack/T1")).unwrap();
        let mut inventory = Inventory::new(data.path());
        assert_eq!(inventory.by_ref().count(), 0);
        assert!(inventory.foreign().is_some());
    }
}
