//! An export in a folder: an unpacked zip, or what slackdump wrote. Links are not followed, so that a hostile export
//! brings in no other file of this machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use workers::import::{EntryTooLarge, ExportEntries, ExportEntry, Problem, ProblemKind};

use super::zipped::{MAX_ENTRIES, MAX_ENTRY_BYTES, file_name};

/// Maximum depth: an export has `CHANNEL/DAY.json`, and files as `FOLDER/ID/NAME`.
const MAX_DEPTH: usize = 4;

/// The regular files of a folder, by their paths in it.
pub(super) struct FolderExport {
    root: PathBuf,
    entries: Vec<ExportEntry>,
}

impl FolderExport {
    /// Lists the files.
    ///
    /// # Errors
    /// Returns the problem because of which the folder cannot be read at all.
    pub(super) fn open(root: &Path) -> Result<Self, Problem> {
        let mut entries = Vec::new();
        list(root, "", MAX_DEPTH, &mut entries)
            .map_err(|(kind, detail)| Problem::new(kind, file_name(root), detail))?;
        Ok(Self { root: root.to_owned(), entries })
    }
}

/// Adds the files below a folder, in the order of their names.
fn list(
    folder: &Path,
    prefix: &str,
    depth: usize,
    entries: &mut Vec<ExportEntry>,
) -> Result<(), (ProblemKind, String)> {
    let unreadable =
        |error: io::Error| (ProblemKind::BrokenZip, format!("{} cannot be read: {error}", folder.display()));
    let mut found: Vec<_> =
        fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<_>>()).map_err(unreadable)?;
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        // A name that is no UTF-8 is no name of an export.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{prefix}{name}");
        let metadata = entry.metadata().map_err(unreadable)?;
        if metadata.is_dir() && depth > 1 {
            list(&entry.path(), &format!("{name}/"), depth - 1, entries)?;
        } else if metadata.is_file() {
            if entries.len() as u64 >= MAX_ENTRIES {
                return Err((ProblemKind::TooLarge, format!("it has more than {MAX_ENTRIES} files")));
            }
            let modified_s = Some(metadata.mtime());
            entries.push(ExportEntry { name, packed_bytes: metadata.len(), modified_s });
        }
    }
    Ok(())
}

impl ExportEntries for FolderExport {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        let Some(entry) = self.entries.get(entry) else { return Err(io::ErrorKind::NotFound.into()) };
        // It may have become a link, or a pipe, since it was listed.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.root.join(&entry.name))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file any more"));
        }
        if metadata.len() > MAX_ENTRY_BYTES {
            return Err(io::Error::other(EntryTooLarge(format!("it has {} bytes", metadata.len()))));
        }
        Ok(Box::new(file.take(MAX_ENTRY_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn regular_files_are_listed_in_order_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("export"), folder.path().join("outside"));
        fs::create_dir_all(root.join("general")).unwrap();
        fs::create_dir_all(root.join("a/b/c/d/e")).unwrap();
        fs::create_dir(&outside).unwrap();
        for path in ["export/users.json", "export/general/2026-01-02.json", "export/general/2026-01-01.json"]
        {
            fs::write(folder.path().join(path), path).unwrap();
        }
        fs::write(root.join("a/b/c/d/deep.json"), "").unwrap();
        fs::write(outside.join("secret"), "").unwrap();
        symlink(&outside, root.join("linked")).unwrap();
        symlink(outside.join("secret"), root.join("secret.json")).unwrap();
        let mut export = FolderExport::open(&root).unwrap();
        let names: Vec<&str> = export.entries().iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["general/2026-01-01.json", "general/2026-01-02.json", "users.json"]);
        let mut text = String::new();
        export.open(2).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "export/users.json");
        // A file that was replaced by a link after it was listed.
        fs::remove_file(root.join("users.json")).unwrap();
        symlink(outside.join("secret"), root.join("users.json")).unwrap();
        assert!(export.open(2).is_err());
        assert!(export.open(3).is_err());
    }
}
