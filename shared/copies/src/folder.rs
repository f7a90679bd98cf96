//! A target in a folder.
//!
//! An object is written under a temporary name, synced and renamed, so that no crash leaves a part of one under its name.
//! Links would be simpler, but disks for backups often have file systems without them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use ports::files::{FileReader, FileWriter, FilesError, Published};
use tokio::task::spawn_blocking;

use crate::CopyStore;

/// Size of the chunks of a read.
const READ_BYTES: usize = 256 * 1024;

/// The folder of objects that have no name yet.
const UNFINISHED: &str = ".unfinished";

/// A target in a folder, which must exist: a disk that is not mounted must not become a folder of this one.
#[derive(Debug, Clone)]
pub struct FolderStore(PathBuf);

impl FolderStore {
    /// The target in this folder.
    pub fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }
}

#[async_trait]
impl CopyStore for FolderStore {
    async fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, FilesError> {
        let (root, path) = (self.0.clone(), self.0.join(name));
        let writer = blocking(move || FolderWriter::create(&root, path)).await?;
        Ok(Box::new(writer))
    }

    async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        let path = self.0.join(name);
        let opened = blocking(move || {
            let file = missing_is_none(File::open(path))?;
            let sized = |file: File| file.metadata().map(|metadata| (file, metadata.len()));
            file.map(sized).transpose()
        });
        Ok(opened.await?.map(|(file, size_bytes)| {
            Box::new(FolderReader { file: Some(file), size_bytes }) as Box<dyn FileReader>
        }))
    }

    async fn list(
        &self,
        prefix: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError> {
        let mut folders = vec![prefix.to_owned()];
        while let Some(folder) = folders.pop() {
            let path = self.0.join(&folder);
            for (name, size_bytes) in blocking(move || entries(&path)).await? {
                match size_bytes {
                    Some(size_bytes) => each(&format!("{folder}{name}"), size_bytes),
                    None => folders.push(format!("{folder}{name}/")),
                }
            }
        }
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<(), FilesError> {
        let path = self.0.join(name);
        blocking(move || missing_is_none(std::fs::remove_file(path)).map(drop)).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        let folder = self.0.clone();
        blocking(move || match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(io::Error::other("it is not a folder")),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(io::Error::other("it does not exist; mount its disk, or create the folder"))
            }
            Err(error) => Err(error),
        })
        .await
    }

    async fn remove_leftovers(&self) -> Result<(), FilesError> {
        let unfinished = self.0.join(UNFINISHED);
        blocking(move || missing_is_none(std::fs::remove_dir_all(unfinished)).map(drop)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, FilesError> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| FilesError::Unavailable(error.to_string())),
        Err(stopped) => Err(FilesError::Unavailable(stopped.to_string())),
    }
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a folder, with the sizes of files, and without what is no object.
fn entries(folder: &Path) -> io::Result<Vec<(String, Option<u64>)>> {
    let mut found = Vec::new();
    let Some(entries) = missing_is_none(std::fs::read_dir(folder))? else { return Ok(found) };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A file may be gone by now.
        let Some(metadata) = missing_is_none(entry.metadata())? else { continue };
        if name.starts_with('.') {
            continue;
        }
        if metadata.is_dir() {
            found.push((name, None));
        } else if metadata.is_file() {
            found.push((name, Some(metadata.len())));
        }
    }
    Ok(found)
}

/// An object under its temporary name. Dropping it removes it.
struct FolderWriter {
    /// `None` while another thread writes to it, and after a failure.
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl FolderWriter {
    fn create(root: &Path, path: PathBuf) -> io::Result<Self> {
        create_folder(root, path.parent().unwrap_or(root))?;
        let unfinished = root.join(UNFINISHED);
        create_folder(root, &unfinished)?;
        let temporary = unfinished.join(fastrand::u64(..).to_string());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&temporary)?;
        Ok(Self { file: Some(file), temporary, path })
    }

    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FilesError> {
        let gone = || FilesError::Unavailable("a write to this object has failed before".to_owned());
        let file = self.file.take().ok_or_else(gone)?;
        blocking(move || work(file)).await
    }
}

#[async_trait]
impl FileWriter for FolderWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        let written = self.with_file(move |mut file| file.write_all(&chunk).map(|()| file));
        self.file = Some(written.await?);
        Ok(())
    }

    async fn publish(mut self: Box<Self>) -> Result<Published, FilesError> {
        let (temporary, path) = (self.temporary.clone(), self.path.clone());
        self.with_file(move |file| {
            file.sync_all()?;
            if path.try_exists()? {
                return Ok(Published::AlreadyThere);
            }
            std::fs::rename(&temporary, &path)?;
            sync_parent(&path)?;
            Ok(Published::New)
        })
        .await
    }
}

impl Drop for FolderWriter {
    fn drop(&mut self) {
        // It is gone if it was renamed.
        drop(std::fs::remove_file(&self.temporary));
    }
}

/// Creates a folder below the root, which must exist, and syncs its name.
fn create_folder(root: &Path, folder: &Path) -> io::Result<()> {
    if folder == root || folder.is_dir() {
        return Ok(());
    }
    create_folder(root, folder.parent().unwrap_or(root))?;
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        // Another write was faster.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    sync_parent(folder)
}

/// Waits until a name is on the disk. Systems other than Unix neither support this nor need it.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        Some(_) | None => Ok(()),
    }
}

struct FolderReader {
    /// `None` while another thread reads from it, and after a failure.
    file: Option<File>,
    size_bytes: u64,
}

#[async_trait]
impl FileReader for FolderReader {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        let gone = || FilesError::Unavailable("a read of this object has failed before".to_owned());
        let mut file = self.file.take().ok_or_else(gone)?;
        let (file, chunk) = blocking(move || {
            let mut chunk = Vec::with_capacity(READ_BYTES);
            (&mut file).take(READ_BYTES as u64).read_to_end(&mut chunk)?;
            Ok((file, chunk))
        })
        .await?;
        self.file = Some(file);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }
}
