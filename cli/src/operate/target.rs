//! The output of a command: a file or a folder that gets its final name once it is complete.
//!
//! Until then it has a temporary name in the same folder, and is locked. The next command that writes to the
//! same name removes the remains of a killed one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use disk::{private_folder_builder, sync_folder};
use embedded::is_data_folder;

use super::sums;

/// Returns a parser for an output path. It refuses `-`, which means standard output elsewhere, and would be a
/// file name here.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_named = path.as_os_str() != "-";
        is_named.then_some(path).ok_or("cannot write to standard output: give a name; ./- is a file called -")
    })
}

/// The final and temporary paths of an output.
struct TargetPaths {
    path: PathBuf,
    partial: PathBuf,
    folder: PathBuf,
}

impl TargetPaths {
    /// Returns the paths. Nothing in a data folder is an output: its files belong to the archive.
    fn new(path: &Path) -> anyhow::Result<Self> {
        let paths = Self::anywhere(path)?;
        if let Some(data) = paths.folder.ancestors().find(|folder| is_data_folder(folder)) {
            let (shown, data) = (path.display(), data.display());
            bail!("{shown} is in the data folder {data}: choose a path outside of it");
        }
        Ok(paths)
    }

    fn anywhere(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let Some(name) = path.file_name() else { bail!("{shown} names no file") };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder =
            parent.canonicalize().with_context(|| format!("cannot write to {}", parent.display()))?;
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        Ok(Self { path: folder.join(name), partial: folder.join(partial), folder })
    }

    /// Refuses to replace anything but a regular file: a link leads elsewhere, and a device, a FIFO or a socket
    /// would be gone.
    fn check_replaced(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        match self.path.symlink_metadata() {
            Ok(found) if found.is_file() => Ok(()),
            Ok(found) if found.is_dir() => bail!("{shown} is a folder: name a file in it"),
            Ok(found) if found.is_symlink() => bail!("{shown} is a link: name the file that it leads to"),
            Ok(_) => bail!("{shown} is not a file: choose another name"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot write to {shown}")),
        }
    }
}

/// Writes a small file into a folder, which is created if it is missing. Replaces a regular file only.
pub(crate) fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let path = folder.join(name);
    TargetFile::claim_with(&path, TargetPaths::new(&path)?, "file", true, &public_file_options())?
        .fill(bytes)?;
    Ok(path)
}

/// Writes a small file, also into a data folder, which is created if it is missing. Only its owner may read it. With
/// `force`, an existing file is replaced.
pub(crate) fn write_private_file(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    private_folder_builder()
        .recursive(true)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let paths = TargetPaths::anywhere(path)?;
    TargetFile::claim_with(path, paths, "file", force, &private_file_options())?.fill(text.as_bytes())
}

/// A file that is being written.
pub(crate) struct TargetFile {
    file: File,
    paths: TargetPaths,
    /// The word for the output in messages.
    noun: &'static str,
    force: bool,
    is_published: bool,
}

impl TargetFile {
    /// Creates the file under its temporary name. `noun` is the word for the output in messages; with
    /// `force`, an existing file is replaced.
    pub(crate) fn claim(path: &Path, noun: &'static str, force: bool) -> anyhow::Result<Self> {
        Self::claim_with(path, TargetPaths::new(path)?, noun, force, &private_file_options())
    }

    fn claim_with(
        path: &Path,
        paths: TargetPaths,
        noun: &'static str,
        force: bool,
        options: &OpenOptions,
    ) -> anyhow::Result<Self> {
        let shown = path.display();
        if force {
            paths.check_replaced()?;
        } else {
            ensure_free(path)?;
        }
        let partial = &paths.partial;
        let file =
            claim(partial, options).with_context(|| format!("cannot write to {}", partial.display()))?;
        let Some(file) = file else { bail!("another {noun} to {shown} is running: wait for it") };
        Ok(Self { file, paths, noun, force, is_published: false })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Writes the whole content, and publishes it.
    fn fill(self, bytes: &[u8]) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", self.paths.path.display());
        self.file().write_all(bytes).with_context(cannot)?;
        self.publish().map(drop)
    }

    /// Returns another temporary path in the same folder.
    pub(crate) fn sibling_path(&self, extension: &str) -> PathBuf {
        self.paths.partial.with_extension(extension)
    }

    /// Syncs the file to disk, gives it its final name, and returns its size.
    pub(crate) fn publish(mut self) -> anyhow::Result<u64> {
        let Self { noun, paths: TargetPaths { path, partial, folder }, .. } = &self;
        self.file.sync_all().with_context(|| format!("cannot write the {noun}"))?;
        let named = if self.force {
            self.paths.check_replaced()?;
            std::fs::rename(partial, path)
        } else {
            // Unlike a rename, a link does not replace a file that was created meanwhile.
            match std::fs::hard_link(partial, path) {
                Ok(()) => std::fs::remove_file(partial),
                // Some file systems have no hard links.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
                    std::fs::rename(partial, path)
                }
                Err(error) => Err(error),
            }
        };
        named.with_context(|| format!("cannot name the {noun} {}", path.display()))?;
        sync_folder(folder)?;
        self.is_published = true;
        Ok(self.file.metadata()?.len())
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if !self.is_published {
            // If this fails, the next run that writes to this name removes the file.
            drop(std::fs::remove_file(&self.paths.partial));
        }
    }
}

/// A folder that is being filled.
pub(crate) struct TargetFolder {
    paths: TargetPaths,
    noun: &'static str,
    /// The folder itself, locked while it is being filled.
    _locked: File,
    is_published: bool,
}

impl TargetFolder {
    /// Creates an empty folder under its temporary name.
    pub(crate) fn claim(path: &Path, noun: &'static str) -> anyhow::Result<Self> {
        let paths = TargetPaths::new(path)?;
        let partial = &paths.partial;
        let locked =
            claim_folder(partial).with_context(|| format!("cannot write to {}", partial.display()))?;
        let Some(locked) = locked else {
            bail!("another {noun} to {} is running: wait for it", path.display())
        };
        Ok(Self { paths, noun, _locked: locked, is_published: false })
    }

    pub(crate) fn partial_path(&self) -> &Path {
        &self.paths.partial
    }

    /// Adds the hashes of the files, and gives the folder its final name. The caller has already synced its files to disk.
    pub(crate) fn publish(mut self) -> anyhow::Result<()> {
        let Self { noun, paths: TargetPaths { path, partial, folder }, .. } = &self;
        sums::write(partial).with_context(|| format!("cannot write the {noun}"))?;
        sync_folder(partial)?;
        // A rename does not replace a folder that is not empty.
        std::fs::rename(partial, path)
            .with_context(|| format!("cannot name the {noun} {}", path.display()))?;
        sync_folder(folder)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for TargetFolder {
    fn drop(&mut self) {
        if !self.is_published {
            drop(std::fs::remove_dir_all(&self.paths.partial));
        }
    }
}

/// Returns an error if the path exists.
pub(crate) fn ensure_free(path: &Path) -> anyhow::Result<()> {
    // A broken symbolic link exists too.
    if path.symlink_metadata().is_ok() {
        bail!("{} exists: choose another name", path.display());
    }
    Ok(())
}

/// Creates and locks the file; `None` if another process holds the lock. The remains of a killed process are
/// removed, and never written to, because they may already have the final name.
fn claim(partial: &Path, options: &OpenOptions) -> io::Result<Option<File>> {
    if let Ok(left) = open_regular(partial) {
        match left.try_lock() {
            Ok(()) => std::fs::remove_file(partial)?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let file = options.open(partial)?;
    file.lock()?;
    Ok(Some(file))
}

/// Creates and locks the folder, like [`claim`].
fn claim_folder(partial: &Path) -> io::Result<Option<File>> {
    if let Ok(left) = open_folder(partial) {
        match left.try_lock() {
            Ok(()) => std::fs::remove_dir_all(partial)?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    private_folder_builder().create(partial)?;
    let folder = File::open(partial)?;
    folder.lock()?;
    Ok(Some(folder))
}

/// Opens what a killed process left. Anything else under this name makes the caller's creation fail.
fn open_regular(partial: &Path) -> io::Result<File> {
    if partial.symlink_metadata()?.is_file() {
        File::open(partial)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// As [`open_regular`], for a folder.
fn open_folder(partial: &Path) -> io::Result<File> {
    if partial.symlink_metadata()?.is_dir() {
        File::open(partial)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// Returns options for new files without content of the archive, which every user may read.
fn public_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options
}

/// Returns options for new files that only their owner may read.
pub(crate) fn private_file_options() -> OpenOptions {
    let mut options = disk::private_file_options();
    options.read(true).write(true).create_new(true);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_settings_and_their_new_folder() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/data");
        let path = data.join("annalist.env");
        for text in ["A=1\n", "A=2\n"] {
            write_private_file(&path, text, true).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&data)), (0o600, 0o700));
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(names(&data), ["annalist.env"]);
        // After `annalist up` has run.
        std::fs::write(data.join(embedded::DATABASE_FILE), "").unwrap();
        std::fs::create_dir(data.join(embedded::FILES_FOLDER)).unwrap();
        assert!(is_data_folder(&data));
        write_private_file(&path, "A=3\n", true).unwrap();
        let link = data.join("link.env");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let refused = write_private_file(&link, "A=4\n", true).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "A=3\n");
    }

    #[test]
    fn outputs_get_their_name_when_published_and_are_removed_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let target = TargetFile::claim(&path, "export", false).unwrap();
        assert!(!path.exists());
        let second = TargetFile::claim(&path, "export", false).err().unwrap().to_string();
        assert!(second.contains("another export"), "{second}");
        drop(target);
        let filled = TargetFolder::claim(&path, "export").unwrap();
        std::fs::write(filled.partial_path().join("a"), "b").unwrap();
        let second = TargetFolder::claim(&path, "export").err().unwrap().to_string();
        assert!(second.contains("another export"), "{second}");
        assert!(!path.exists());
        drop(filled);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn remains_of_a_killed_process_are_removed_and_newer_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (file, filled) = (folder.path().join("a.zip"), folder.path().join("a"));
        std::fs::write(folder.path().join(".a.zip.partial"), "half").unwrap();
        std::fs::create_dir(folder.path().join(".a.partial")).unwrap();
        std::fs::write(folder.path().join(".a.partial/half"), "half").unwrap();
        let target = TargetFile::claim(&file, "export", false).unwrap();
        target.file().write_all(b"whole").unwrap();
        assert_eq!(target.publish().unwrap(), 5);
        let target = TargetFolder::claim(&filled, "export").unwrap();
        assert!(names(target.partial_path()).is_empty());
        target.publish().unwrap();
        assert!(ensure_free(&file).is_err() && ensure_free(&filled).is_err());

        assert!(TargetFile::claim(&file, "export", false).is_err());
        std::fs::rename(&file, folder.path().join("b.zip")).unwrap();
        let late = TargetFile::claim(&file, "export", false).unwrap();
        std::fs::rename(folder.path().join("b.zip"), &file).unwrap();
        assert!(late.publish().is_err(), "a file came meanwhile");
        std::fs::write(filled.join("mine"), "").unwrap();
        let late = TargetFolder::claim(&filled, "export").unwrap();
        assert!(late.publish().is_err(), "a folder came meanwhile");
        assert_eq!(
            (std::fs::read(&file).unwrap(), names(&filled)),
            (b"whole".to_vec(), vec![sums::SUMS.into(), "mine".into()])
        );
        assert_eq!(names(folder.path()).len(), 2);
    }

    /// What a name can be, other than a file and a folder.
    #[cfg(unix)]
    #[test]
    fn only_a_regular_file_outside_of_every_data_folder_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::write(at("mine"), "mine").unwrap();
        std::os::unix::fs::symlink(at("mine"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("broken")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::fs::create_dir_all(at("data/files/slack")).unwrap();
        std::fs::create_dir(at("data/processes")).unwrap();
        for name in ["data/annalist.db", "data/annalist.db-wal", "data/erasures.jsonl", "data/index.db"] {
            std::fs::write(at(name), "archive").unwrap();
        }
        std::os::unix::fs::symlink(at("data"), at("way")).unwrap();
        for (name, expected) in [
            ("link", "is a link"),
            ("broken", "is a link"),
            ("null", "is a link"),
            ("socket", "is not a file"),
            ("/dev/null", "is not a file"),
            ("/dev/stdout", "is a link"),
            (".", "is a folder"),
            ("..", "names no file"),
            ("data", "is a folder"),
            ("data/annalist.db", "in the data folder"),
            ("data/annalist.db-wal", "in the data folder"),
            ("data/erasures.jsonl", "in the data folder"),
            ("data/new", "in the data folder"),
            ("data/files/slack/new", "in the data folder"),
            ("way/index.db", "in the data folder"),
            ("nowhere/new", "cannot write to"),
        ] {
            let refused =
                TargetFile::claim(&at(name), "backup", true).err().map(|error| format!("{error:#}"));
            let refused = refused.unwrap_or_else(|| panic!("{name} is accepted"));
            assert!(refused.contains(expected) && !refused.contains('\n'), "{name}: {refused}");
            let (folder, file) = (at(name).parent().unwrap().to_owned(), at(name));
            if let Some(file) = file.file_name().filter(|_| folder.is_dir()) {
                assert!(write_file(&folder, file.to_str().unwrap(), b"new").is_err(), "{name}");
            }
            if name.starts_with("data/") {
                assert!(TargetFolder::claim(&at(name), "export").is_err(), "{name}");
            }
        }
        assert_eq!(std::fs::read(at("mine")).unwrap(), b"mine");
        assert!(at("null").is_symlink() && at("link").is_symlink() && !at("nowhere").exists());
        assert_eq!(std::fs::read(at("data/annalist.db-wal")).unwrap(), b"archive");
        write_file(root.path(), "mine", b"new").unwrap();
        assert_eq!(std::fs::read(at("mine")).unwrap(), b"new");
        // Something else has the name of an unfinished output.
        std::os::unix::fs::symlink(at("mine"), at(".out.partial")).unwrap();
        assert!(TargetFile::claim(&at("out"), "backup", true).is_err());
        assert_eq!(std::fs::read(at("mine")).unwrap(), b"new");
    }
}
