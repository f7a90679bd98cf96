//! A data folder in the making. It is built under another name and gets its own at the end, so that a restore that
//! fails or is killed leaves no half of an archive.
//!
//! Where the folder does not exist yet, it is built beside it and renamed. Where it exists and is empty, it is built
//! inside, for it may be a volume, which cannot be renamed: the database's name comes last.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{BackupError, sync_folder};
use crate::connection::create_private_folder;
use crate::{DATABASE_FILE, FILES_FOLDER};
use ports::files::FileKey;

/// Where the folder is built within itself.
const WORK: &str = ".restoring";

/// The folder within it for the database as it was packed, which is not taken over as it is.
const PACKED: &str = "packed";

/// Held locked while a restore goes on: what a killed one has left can be locked.
const LOCK: &str = "lock";

/// The root of a volume has this where it is an ext4 file system of its own.
const LOST_AND_FOUND: &str = "lost+found";

/// A data folder in the making. Dropping it removes what was made.
pub struct StagingFolder {
    target: PathBuf,
    work: PathBuf,
    inside: bool,
    lock: File,
    published: bool,
}

impl StagingFolder {
    /// Begins to build this data folder.
    ///
    /// # Errors
    /// [`BackupError::NotEmpty`] if something is there already.
    pub fn begin(data: &Path) -> Result<Self, BackupError> {
        let target = std::path::absolute(data).map_err(BackupError::at(data))?;
        let inside = match std::fs::read_dir(&target) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(BackupError::at(data))?.file_name();
                    if name != WORK && name != LOST_AND_FOUND {
                        return Err(BackupError::NotEmpty(data.to_owned()));
                    }
                }
                true
            }
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            // A file, or a folder that this user may not read.
            Err(error) => return Err(BackupError::at(data)(error)),
        };
        let work = if inside { target.join(WORK) } else { beside(&target)? };
        let lock = claim(&work, data)?;
        Ok(Self { target, work, inside, lock, published: false })
    }

    /// Where the database as it was packed is for now.
    pub fn packed_database(&self) -> PathBuf {
        self.work.join(PACKED).join(DATABASE_FILE)
    }

    /// Makes the file of the database as it was packed. It is not part of the folder that is made.
    ///
    /// # Errors
    /// The system's.
    pub fn create_packed_database(&self) -> Result<File, BackupError> {
        let path = self.packed_database();
        let made = create_private_folder(&self.work.join(PACKED)).and_then(|()| create_file(&path));
        made.map_err(BackupError::at(&path))
    }

    /// Makes the file of the folder's own database, and says where it is for now.
    ///
    /// # Errors
    /// The system's.
    pub fn create_database(&self) -> Result<PathBuf, BackupError> {
        let path = self.database();
        create_file(&path).map(drop).map_err(BackupError::at(&path))?;
        Ok(path)
    }

    fn database(&self) -> PathBuf {
        self.work.join(DATABASE_FILE)
    }

    /// Makes the file of a key.
    ///
    /// # Errors
    /// The system's, even if the file exists already.
    pub fn create_held(&self, key: &FileKey) -> Result<File, BackupError> {
        let path = self.work.join(FILES_FOLDER).join(key.as_str());
        let folder = path.parent().unwrap_or(&self.work);
        create_private_folder(folder).and_then(|()| create_file(&path)).map_err(BackupError::at(&path))
    }

    /// Gives the folder its name, once everything in it is on the disk.
    ///
    /// # Errors
    /// The system's; nothing is left then.
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
        hand_over(&self.work, &self.target)?;
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
            // What stays is removed by the next restore into this folder.
            drop(std::fs::remove_dir_all(&self.work));
        }
        // Only now may another restore begin.
        drop(self.lock.unlock());
    }
}

/// `.{name}.restoring` beside a folder.
fn beside(target: &Path) -> Result<PathBuf, BackupError> {
    let unusable = || BackupError::at(target)(io::Error::other("it has no name"));
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().ok_or_else(unusable)?);
    name.push(WORK);
    let parent = target.parent().ok_or_else(unusable)?;
    create_private_folder(parent).map_err(BackupError::at(parent))?;
    Ok(parent.join(name))
}

/// Makes the folder to build in, and takes its lock.
fn claim(work: &Path, data: &Path) -> Result<File, BackupError> {
    if let Ok(lock) = File::open(work.join(LOCK)) {
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Restoring(data.to_owned())),
            Err(TryLockError::Error(error)) => return Err(BackupError::at(work)(error)),
        }
    }
    match std::fs::remove_dir_all(work) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(BackupError::at(work)(error)),
    }
    let made = || {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // Fails if another restore has begun at this moment.
        builder.create(work)?;
        let lock = create_file(&work.join(LOCK))?;
        lock.lock()?;
        Ok(lock)
    };
    made().map_err(BackupError::at(work))
}

fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits until the names of everything below a folder are on the disk.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Gives everything to the owner of the destination folder, if root restores for another user.
#[cfg(unix)]
fn hand_over(work: &Path, target: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let owner = std::fs::metadata(target)?;
    let made = std::fs::metadata(work)?;
    if owner.uid() == made.uid() {
        return Ok(());
    }
    give(work, owner.uid(), owner.gid())
}

#[cfg(unix)]
fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

#[cfg(not(unix))]
fn hand_over(_: &Path, _: &Path) -> io::Result<()> {
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
            .create_held(&FileKey::parse("slack/T1/C1/1.000000/F1").unwrap())
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
    fn it_appears_whole_beside_and_inside_and_leaves_nothing_else() {
        for exists in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let data = place.path().join("data");
            if exists {
                std::fs::create_dir(&data).unwrap();
                std::fs::create_dir(data.join(LOST_AND_FOUND)).unwrap();
            }
            let staging_folder = StagingFolder::begin(&data).unwrap();
            build(&staging_folder);
            assert!(!data.join(DATABASE_FILE).exists());
            staging_folder.publish().unwrap();
            assert_eq!(names(place.path()), ["data"]);
            let expected: &[&str] = if exists {
                &[DATABASE_FILE, FILES_FOLDER, LOST_AND_FOUND]
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
    fn one_that_fails_leaves_nothing_and_one_that_is_killed_nothing_that_stands_in_the_way() {
        for exists in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let data = place.path().join("data");
            if exists {
                std::fs::create_dir(&data).unwrap();
            }
            let failed = StagingFolder::begin(&data).unwrap();
            build(&failed);
            assert!(matches!(StagingFolder::begin(&data), Err(BackupError::Restoring(_))));
            drop(failed);
            assert_eq!(names(place.path()), if exists { vec!["data"] } else { vec![] });
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
    fn what_is_not_empty_or_no_folder_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("mine"), "x").unwrap();
        assert!(matches!(StagingFolder::begin(place.path()), Err(BackupError::NotEmpty(_))));
        assert!(matches!(StagingFolder::begin(&place.path().join("mine")), Err(BackupError::Path { .. })));
        assert_eq!(names(place.path()), ["mine"]);
    }
}
