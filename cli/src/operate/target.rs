//! The output of a command: a file or a folder that gets its final name once it is complete.
//!
//! Until then it has a temporary name in the same folder, and is locked. The next command that writes to the
//! same name removes the remains of a killed one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use embedded::backup::sync_folder;
use embedded::{DATABASE_FILE, FILES_FOLDER};

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
    /// Returns the paths. `data` is the folder of an archive on this machine, whose own files must not be
    /// overwritten.
    fn new(path: &Path, data: Option<&Path>) -> anyhow::Result<Self> {
        let shown = path.display();
        let Some(name) = path.file_name() else { bail!("{shown} names no file") };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder =
            parent.canonicalize().with_context(|| format!("cannot write to {}", parent.display()))?;
        if let Some(data) = data {
            let files = data.join(FILES_FOLDER);
            if files.canonicalize().is_ok_and(|files| folder.starts_with(files)) {
                bail!(
                    "{shown} is among the archive's own files: choose a path outside of {}",
                    files.display()
                );
            }
            if name == DATABASE_FILE && data.canonicalize().is_ok_and(|data| folder == data) {
                bail!("{shown} is the archive itself: choose another name");
            }
        }
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        Ok(Self { path: folder.join(name), partial: folder.join(partial), folder })
    }
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
    pub(crate) fn claim(
        path: &Path,
        noun: &'static str,
        data: Option<&Path>,
        force: bool,
    ) -> anyhow::Result<Self> {
        let shown = path.display();
        let paths = TargetPaths::new(path, data)?;
        let partial = &paths.partial;
        let file = claim(partial).with_context(|| format!("cannot write to {}", partial.display()))?;
        let Some(file) = file else { bail!("another {noun} to {shown} is running: wait for it") };
        Ok(Self { file, paths, noun, force, is_published: false })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
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
    pub(crate) fn claim(path: &Path, noun: &'static str, data: Option<&Path>) -> anyhow::Result<Self> {
        let paths = TargetPaths::new(path, data)?;
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

    /// Gives the folder its final name. The caller has already synced its files to disk.
    pub(crate) fn publish(mut self) -> anyhow::Result<()> {
        let Self { noun, paths: TargetPaths { path, partial, folder }, .. } = &self;
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
fn claim(partial: &Path) -> io::Result<Option<File>> {
    if let Ok(left) = File::open(partial) {
        match left.try_lock() {
            Ok(()) => std::fs::remove_file(partial)?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let file = private_file_options().open(partial)?;
    file.lock()?;
    Ok(Some(file))
}

/// Creates and locks the folder, like [`claim`].
fn claim_folder(partial: &Path) -> io::Result<Option<File>> {
    if let Ok(left) = File::open(partial) {
        match left.try_lock() {
            Ok(()) => std::fs::remove_dir_all(partial)?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(partial)?;
    let folder = File::open(partial)?;
    folder.lock()?;
    Ok(Some(folder))
}

/// Returns options for new files that only their owner may read.
pub(crate) fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn outputs_get_their_name_when_published_and_are_removed_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let target = TargetFile::claim(&path, "export", None, false).unwrap();
        assert!(!path.exists());
        let second = TargetFile::claim(&path, "export", None, false).err().unwrap().to_string();
        assert!(second.contains("another export"), "{second}");
        drop(target);
        let filled = TargetFolder::claim(&path, "export", None).unwrap();
        std::fs::write(filled.partial_path().join("a"), "b").unwrap();
        let second = TargetFolder::claim(&path, "export", None).err().unwrap().to_string();
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
        let target = TargetFile::claim(&file, "export", None, false).unwrap();
        target.file().write_all(b"whole").unwrap();
        assert_eq!(target.publish().unwrap(), 5);
        let target = TargetFolder::claim(&filled, "export", None).unwrap();
        assert!(names(target.partial_path()).is_empty());
        target.publish().unwrap();
        assert!(ensure_free(&file).is_err() && ensure_free(&filled).is_err());

        let late = TargetFile::claim(&file, "export", None, false).unwrap();
        assert!(late.publish().is_err(), "a file came meanwhile");
        std::fs::write(filled.join("mine"), "").unwrap();
        let late = TargetFolder::claim(&filled, "export", None).unwrap();
        assert!(late.publish().is_err(), "a folder came meanwhile");
        assert_eq!((std::fs::read(&file).unwrap(), names(&filled)), (b"whole".to_vec(), vec!["mine".into()]));
        assert_eq!(names(folder.path()).len(), 2);
    }
}
