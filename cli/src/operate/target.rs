//! What a command writes for a user: a file or a folder that gets its name once it is whole.
//!
//! Until then it has a name of its own beside that one, and is locked. What a killed command has left there is removed by the
//! next one that writes to the same name.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use embedded::backup::sync_folder;
use embedded::{DATABASE_FILE, FILES_FOLDER};

/// Reads where something is to be written. `-` is refused: it means standard output elsewhere, and would be a name here.
pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_named = path.as_os_str() != "-";
        is_named
            .then_some(path)
            .ok_or("standard output is no place for it: give a name; ./- is a file called -")
    })
}

/// Where something goes, before any of it is there.
struct TargetPaths {
    path: PathBuf,
    partial: PathBuf,
    folder: PathBuf,
}

impl TargetPaths {
    /// `data` is the folder of an archive on this machine: its own files are no place for others.
    fn of(path: &Path, data: Option<&Path>) -> anyhow::Result<Self> {
        let shown = path.display();
        let Some(name) = path.file_name() else { bail!("{shown} names no file") };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder =
            parent.canonicalize().with_context(|| format!("cannot write to {}", parent.display()))?;
        if let Some(data) = data {
            let files = data.join(FILES_FOLDER);
            if files.canonicalize().is_ok_and(|files| folder.starts_with(files)) {
                bail!(
                    "{shown} lies among the archive's own files: choose a place outside of {}",
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
    place: TargetPaths,
    /// What is written, in a word.
    noun: &'static str,
    force: bool,
    is_published: bool,
}

impl TargetFile {
    /// Creates it under its name of its own. `noun` says in a word what is written; with `force` a file that is there is replaced.
    pub(crate) fn claim(
        path: &Path,
        noun: &'static str,
        data: Option<&Path>,
        force: bool,
    ) -> anyhow::Result<Self> {
        let shown = path.display();
        let place = TargetPaths::of(path, data)?;
        let partial = &place.partial;
        let file = claim(partial).with_context(|| format!("cannot write to {}", partial.display()))?;
        let Some(file) = file else { bail!("another {noun} to {shown} is running: wait for it") };
        Ok(Self { file, place, noun, force, is_published: false })
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A name of the same kind for something else.
    pub(crate) fn beside(&self, extension: &str) -> PathBuf {
        self.place.partial.with_extension(extension)
    }

    /// Gives the file its name once it is on the disk; answers how long it is.
    pub(crate) fn publish(mut self) -> anyhow::Result<u64> {
        let Self { noun, place: TargetPaths { path, partial, folder }, .. } = &self;
        self.file.sync_all().with_context(|| format!("cannot write the {noun}"))?;
        let named = if self.force {
            std::fs::rename(partial, path)
        } else {
            // Unlike a rename, a link replaces nothing that has come meanwhile.
            match std::fs::hard_link(partial, path) {
                Ok(()) => std::fs::remove_file(partial),
                // There are file systems without links.
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
            // What stays is removed by the next run that writes to this name.
            drop(std::fs::remove_file(&self.place.partial));
        }
    }
}

/// A folder that is being filled.
pub(crate) struct TargetFolder {
    place: TargetPaths,
    noun: &'static str,
    /// The folder itself, locked as long as it is filled.
    _locked: File,
    is_published: bool,
}

impl TargetFolder {
    /// Creates it, empty, under its name of its own.
    pub(crate) fn claim(path: &Path, noun: &'static str, data: Option<&Path>) -> anyhow::Result<Self> {
        let place = TargetPaths::of(path, data)?;
        let partial = &place.partial;
        let locked =
            claim_folder(partial).with_context(|| format!("cannot write to {}", partial.display()))?;
        let Some(locked) = locked else {
            bail!("another {noun} to {} is running: wait for it", path.display())
        };
        Ok(Self { place, noun, _locked: locked, is_published: false })
    }

    /// Where it is filled.
    pub(crate) fn unnamed(&self) -> &Path {
        &self.place.partial
    }

    /// Gives the folder its name. What is in it is on the disk already.
    pub(crate) fn publish(mut self) -> anyhow::Result<()> {
        let Self { noun, place: TargetPaths { path, partial, folder }, .. } = &self;
        sync_folder(partial)?;
        // A folder replaces no other one that holds anything.
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
            drop(std::fs::remove_dir_all(&self.place.partial));
        }
    }
}

/// Refuses a name that is taken.
pub(crate) fn is_free(path: &Path) -> anyhow::Result<()> {
    // A link that leads nowhere is there too.
    if path.symlink_metadata().is_ok() {
        bail!("{} exists: choose another name", path.display());
    }
    Ok(())
}

/// Creates the file and takes its lock; `None` if another process holds it. What a killed process has left is removed and
/// never written to: it may have its final name already.
fn claim(partial: &Path) -> io::Result<Option<File>> {
    if let Ok(left) = File::open(partial) {
        match left.try_lock() {
            Ok(()) => std::fs::remove_file(partial)?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let file = private().open(partial)?;
    file.lock()?;
    Ok(Some(file))
}

/// The same for a folder.
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

/// New files that only their owner may read.
pub(crate) fn private() -> OpenOptions {
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
    fn nothing_has_its_name_before_it_is_whole_and_nothing_stays_of_what_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let target = TargetFile::claim(&path, "export", None, false).unwrap();
        assert!(!path.exists());
        let second = TargetFile::claim(&path, "export", None, false).err().unwrap().to_string();
        assert!(second.contains("another export"), "{second}");
        drop(target);
        let filled = TargetFolder::claim(&path, "export", None).unwrap();
        std::fs::write(filled.unnamed().join("a"), "b").unwrap();
        let second = TargetFolder::claim(&path, "export", None).err().unwrap().to_string();
        assert!(second.contains("another export"), "{second}");
        assert!(!path.exists());
        drop(filled);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_has_come_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, filled) = (folder.path().join("a.zip"), folder.path().join("a"));
        std::fs::write(folder.path().join(".a.zip.partial"), "half").unwrap();
        std::fs::create_dir(folder.path().join(".a.partial")).unwrap();
        std::fs::write(folder.path().join(".a.partial/half"), "half").unwrap();
        let target = TargetFile::claim(&file, "export", None, false).unwrap();
        target.file().write_all(b"whole").unwrap();
        assert_eq!(target.publish().unwrap(), 5);
        let target = TargetFolder::claim(&filled, "export", None).unwrap();
        assert!(names(target.unnamed()).is_empty());
        target.publish().unwrap();
        assert!(is_free(&file).is_err() && is_free(&filled).is_err());

        let late = TargetFile::claim(&file, "export", None, false).unwrap();
        assert!(late.publish().is_err(), "a file came meanwhile");
        std::fs::write(filled.join("mine"), "").unwrap();
        let late = TargetFolder::claim(&filled, "export", None).unwrap();
        assert!(late.publish().is_err(), "a folder came meanwhile");
        assert_eq!((std::fs::read(&file).unwrap(), names(&filled)), (b"whole".to_vec(), vec!["mine".into()]));
        assert_eq!(names(folder.path()).len(), 2);
    }
}
