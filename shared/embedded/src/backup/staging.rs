//! A staging folder for a data folder. It is filled under another name and renamed at the end, so that a
//! restore that fails or is killed leaves no partial archive.
//!
//! If the data folder does not exist yet, the staging folder is created next to it and renamed. If it exists
//! and is empty, the staging folder is created inside it, because it may be a volume, which cannot be
//! renamed; then the database is renamed last.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use disk::{
    create_private_file, create_private_folder, missing_is_none, private_folder_builder, sync_folder,
};

use super::BackupError;
use crate::{DATABASE_FILE, FILES_FOLDER};
use ports::files::FileKey;

/// The name of the staging folder within an existing data folder.
const WORK: &str = ".restoring";

/// The folder within it for the database from the backup, whose rows are copied into the folder's own
/// database.
const PACKED: &str = "packed";

/// The file that a restore locks while it runs: the leftovers of a killed restore can be locked.
const LOCK: &str = "lock";

/// The root of a volume contains this folder if it is an ext4 file system.
const LOST_AND_FOUND: &str = "lost+found";

/// The settings of an installation, which no backup contains. They may be written before the archive is restored.
const SETTINGS: &str = "annalist.env";

/// A data folder that is being restored. Dropping it removes everything that was created.
pub struct StagingFolder {
    target: PathBuf,
    work: PathBuf,
    inside: bool,
    lock: File,
    published: bool,
}

impl StagingFolder {
    /// Starts to restore a data folder.
    ///
    /// # Errors
    /// [`BackupError::NotEmpty`] if the folder has content already.
    pub fn begin(data: &Path) -> Result<Self, BackupError> {
        let target = std::path::absolute(data).map_err(BackupError::at(data))?;
        let inside = match std::fs::read_dir(&target) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(BackupError::at(data))?.file_name();
                    if ![WORK, LOST_AND_FOUND, SETTINGS].iter().any(|known| name == *known) {
                        return Err(BackupError::NotEmpty(data.to_owned()));
                    }
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            // A file, or a folder that this user may not read.
            Err(error) => return Err(BackupError::at(data)(error)),
        };
        let work = if inside { target.join(WORK) } else { sibling_folder(&target)? };
        let lock = lock_staging_folder(&work, data)?;
        Ok(Self { target, work, inside, lock, published: false })
    }

    /// The path of the database from the backup.
    pub fn packed_database(&self) -> PathBuf {
        self.work.join(PACKED).join(DATABASE_FILE)
    }

    /// Creates the file for the database from the backup. It does not become part of the data folder.
    pub fn create_packed_database(&self) -> Result<File, BackupError> {
        let path = self.packed_database();
        let file = create_private_folder(&self.work.join(PACKED)).and_then(|()| create_private_file(&path));
        file.map_err(BackupError::at(&path))
    }

    /// Creates the file of the folder's own database. Returns its temporary path.
    pub fn create_database(&self) -> Result<PathBuf, BackupError> {
        let path = self.database();
        create_private_file(&path).map(drop).map_err(BackupError::at(&path))?;
        Ok(path)
    }

    fn database(&self) -> PathBuf {
        self.work.join(DATABASE_FILE)
    }

    /// Creates the file of a key.
    ///
    /// # Errors
    /// The system's, even if the file exists already.
    pub fn create_file_of(&self, key: &FileKey) -> Result<File, BackupError> {
        let path = self.work.join(FILES_FOLDER).join(key.as_str());
        let folder = path.parent().unwrap_or(&self.work);
        let file = create_private_folder(folder).and_then(|()| create_private_file(&path));
        file.map_err(BackupError::at(&path))
    }

    /// As [`StagingFolder::create_file_of`]; `None` if it exists.
    pub fn create_new_file_of(&self, key: &FileKey) -> Result<Option<File>, BackupError> {
        match self.create_file_of(key) {
            Err(BackupError::Path { source, .. }) if source.kind() == ErrorKind::AlreadyExists => Ok(None),
            created => created.map(Some),
        }
    }

    /// Removes the file of a key.
    pub fn remove_file_of(&self, key: &FileKey) -> Result<(), BackupError> {
        let path = self.work.join(FILES_FOLDER).join(key.as_str());
        std::fs::remove_file(&path).map_err(BackupError::at(&path))
    }

    /// Renames the folder to its final name, after syncing everything in it.
    ///
    /// # Errors
    /// The system's; then everything is removed.
    pub fn publish(mut self) -> Result<(), BackupError> {
        self.finish().map_err(BackupError::at(&self.target))?;
        self.published = true;
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(self.work.join(PACKED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        sync_folders(&self.work)?;
        if self.inside {
            return self.move_out();
        }
        std::fs::remove_file(self.work.join(LOCK))?;
        std::fs::rename(&self.work, &self.target)?;
        sync_folder(self.target.parent().unwrap_or(&self.target))
    }

    fn move_out(&self) -> io::Result<()> {
        transfer_ownership(&self.work, &self.target)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&self.target, std::fs::Permissions::from_mode(0o700))?;
        }
        let (files, database) = (self.target.join(FILES_FOLDER), self.target.join(DATABASE_FILE));
        let has_files = self.work.join(FILES_FOLDER).is_dir();
        if has_files {
            std::fs::rename(self.work.join(FILES_FOLDER), &files)?;
            sync_folder(&self.target)?;
        }
        if let Err(error) = std::fs::rename(self.database(), &database) {
            if has_files {
                std::fs::rename(&files, self.work.join(FILES_FOLDER))?;
            }
            return Err(error);
        }
        std::fs::remove_dir_all(&self.work)?;
        sync_folder(&self.target)
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, the next restore into this folder removes it.
            drop(std::fs::remove_dir_all(&self.work));
        }
        // Only now may another restore start.
        drop(self.lock.unlock());
    }
}

/// The path `.{name}.restoring` next to a folder.
fn sibling_folder(target: &Path) -> Result<PathBuf, BackupError> {
    let unusable = || BackupError::at(target)(io::Error::other("it has no name"));
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().ok_or_else(unusable)?);
    name.push(WORK);
    let parent = target.parent().ok_or_else(unusable)?;
    create_private_folder(parent).map_err(BackupError::at(parent))?;
    Ok(parent.join(name))
}

/// Creates the staging folder and locks it.
fn lock_staging_folder(work: &Path, data: &Path) -> Result<File, BackupError> {
    if let Ok(lock) = File::open(work.join(LOCK)) {
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Restoring(data.to_owned())),
            Err(TryLockError::Error(error)) => return Err(BackupError::at(work)(error)),
        }
    }
    missing_is_none(std::fs::remove_dir_all(work)).map_err(BackupError::at(work))?;
    let create = || {
        // Fails if another restore has just started.
        private_folder_builder().create(work)?;
        let lock = create_private_file(&work.join(LOCK))?;
        lock.lock()?;
        Ok(lock)
    };
    create().map_err(BackupError::at(work))
}

/// Syncs a folder and all folders below it.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Changes the owner of everything to that of the target folder, if root restores for another user.
#[cfg(unix)]
fn transfer_ownership(work: &Path, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let owner = std::fs::metadata(target)?;
    let current = std::fs::metadata(work)?;
    if owner.uid() == current.uid() {
        return Ok(());
    }
    change_owner(work, owner.uid(), owner.gid())
}

#[cfg(unix)]
fn change_owner(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            change_owner(&entry?.path(), uid, gid)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

#[cfg(not(unix))]
fn transfer_ownership(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn build(staging_folder: &StagingFolder) {
        staging_folder.create_packed_database().unwrap().write_all(b"from outside").unwrap();
        std::fs::write(staging_folder.create_database().unwrap(), b"db").unwrap();
        staging_folder
            .create_file_of(&FileKey::parse("slack/T1/C1/1.000000/F1").unwrap())
            .unwrap()
            .write_all(b"abc")
            .unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_published_folder_is_complete_and_leaves_no_staging_folder() {
        for exists in [false, true] {
            let parent = tempfile::tempdir().unwrap();
            let data = parent.path().join("data");
            if exists {
                std::fs::create_dir(&data).unwrap();
                std::fs::create_dir(data.join(LOST_AND_FOUND)).unwrap();
                std::fs::write(data.join(SETTINGS), "ANNALIST_LOG=info").unwrap();
            }
            let staging_folder = StagingFolder::begin(&data).unwrap();
            build(&staging_folder);
            assert!(!data.join(DATABASE_FILE).exists());
            staging_folder.publish().unwrap();
            assert_eq!(names(parent.path()), ["data"]);
            let expected: &[&str] = if exists {
                &[DATABASE_FILE, SETTINGS, FILES_FOLDER, LOST_AND_FOUND]
            } else {
                &[DATABASE_FILE, FILES_FOLDER]
            };
            assert_eq!(names(&data), expected);
            assert_eq!(std::fs::read(data.join("files/slack/T1/C1/1.000000/F1")).unwrap(), b"abc");
            assert!(matches!(StagingFolder::begin(&data), Err(BackupError::NotEmpty(_))));
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
                assert_eq!(mode(&data), 0o700);
                assert_eq!(mode(&data.join("files/slack")), 0o700);
                assert_eq!(mode(&data.join(DATABASE_FILE)), 0o600);
            }
        }
    }

    #[test]
    fn a_failed_restore_leaves_no_files_and_a_killed_one_does_not_block_the_next() {
        for exists in [false, true] {
            let parent = tempfile::tempdir().unwrap();
            let data = parent.path().join("data");
            if exists {
                std::fs::create_dir(&data).unwrap();
            }
            let failed = StagingFolder::begin(&data).unwrap();
            build(&failed);
            assert!(matches!(StagingFolder::begin(&data), Err(BackupError::Restoring(_))));
            drop(failed);
            assert_eq!(names(parent.path()), if exists { vec!["data"] } else { vec![] });
            if exists {
                assert!(names(&data).is_empty());
            }
            // A killed process drops nothing, but its locks end.
            let mut killed = StagingFolder::begin(&data).unwrap();
            build(&killed);
            killed.lock.unlock().unwrap();
            killed.published = true;
            drop(killed);
            let next = StagingFolder::begin(&data).unwrap();
            build(&next);
            next.publish().unwrap();
            assert_eq!(names(&data), [DATABASE_FILE, FILES_FOLDER]);
        }
    }

    #[test]
    fn a_folder_with_content_and_a_plain_file_are_not_changed() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("mine"), "x").unwrap();
        assert!(matches!(StagingFolder::begin(parent.path()), Err(BackupError::NotEmpty(_))));
        assert!(matches!(StagingFolder::begin(&parent.path().join("mine")), Err(BackupError::Path { .. })));
        assert_eq!(names(parent.path()), ["mine"]);
    }
}
