//! Files and folders on a disk that contain a workspace's history: only their owner may open them, and the owner is who
//! runs the service.
//!
//! [`reader`] reads a file for the files port.

mod reader;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;

pub use reader::{DiskReader, run_blocking};

/// Options for a file that only its owner may read, if they create it.
pub fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a file with these options, and gives it to the owner of its folder.
pub fn open_as_owner_of_folder(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.open(path)?;
    #[cfg(unix)]
    give_to_owner_of_folder(&file, path)?;
    Ok(file)
}

/// Creates a file that only its owner may read. Fails if it exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    open_as_owner_of_folder(private_file_options().write(true).create_new(true), path)
}

/// Makes folders that only their owner may enter.
pub fn private_folder_builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Creates a folder that only its owner may enter, with its parents, unless it exists.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    private_folder_builder().recursive(true).create(folder)
}

/// Creates a folder in a folder of an archive, with its parents; each belongs to the owner of the folder it is in.
pub fn create_folder_within(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_folder_within(parent)?;
    }
    create_private_folder(folder)?;
    #[cfg(unix)]
    {
        use rustix::fs::{Mode, OFlags};

        // The owner of its parent may have put a link in its place.
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        give_to_owner_of_folder(rustix::fs::open(folder, flags, Mode::empty())?, folder)?;
    }
    Ok(())
}

/// Gives what root created to the owner of the folder that it is in: a service must be able to read what a command that
/// root ran left in its data folder. SQLite gives its log files the same owner.
#[cfg(unix)]
fn give_to_owner_of_folder(created: impl std::os::fd::AsFd, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{Gid, Uid};

    if rustix::process::geteuid().is_root()
        && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        let owner = std::fs::metadata(folder)?;
        if owner.uid() != 0 {
            rustix::fs::fchown(created, Some(Uid::from_raw(owner.uid())), Some(Gid::from_raw(owner.gid())))?;
        }
    }
    Ok(())
}

/// Syncs a folder's entries. Systems other than Unix neither support this nor need it.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Syncs everything that was written to the file system of a folder, in one step for any number of files. Returns false
/// where the system cannot do that: then each file must be synced.
/// <https://man7.org/linux/man-pages/man2/syncfs.2.html>
pub fn sync_file_system(folder: &Path) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    match rustix::fs::syncfs(File::open(folder)?) {
        Ok(()) => return Ok(true),
        Err(rustix::io::Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    #[cfg(not(target_os = "linux"))]
    let _ = folder;
    Ok(false)
}

/// The result, or `None` if the file is missing.
pub fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use super::*;

    #[test]
    fn only_the_owner_of_the_folder_may_open_what_is_created_in_it() {
        let root = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            chown(root.path(), Some(1234), Some(1234)).unwrap();
        }
        let owner = std::fs::metadata(root.path()).unwrap();
        let folder = root.path().join("a/b");
        create_folder_within(&folder).unwrap();
        create_folder_within(&folder).unwrap();
        let file = folder.join("file");
        create_private_file(&file).unwrap();
        assert_eq!(create_private_file(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
        for (path, mode) in [(root.path().join("a"), 0o700), (folder, 0o700), (file, 0o600)] {
            let created = std::fs::metadata(&path).unwrap();
            assert_eq!(created.permissions().mode() & 0o777, mode, "{}", path.display());
            assert_eq!((created.uid(), created.gid()), (owner.uid(), owner.gid()), "{}", path.display());
        }
    }
}
