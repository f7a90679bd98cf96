//! The files port on a folder, `files/` in the data folder.
//!
//! A file is written under a temporary name in [`temporary`] and gets its key by a hard link, which fails if
//! the key exists: so no crash leaves a partial file under a key, and files are never replaced. All disk
//! access runs on blocking threads.

mod folders;
pub(super) mod moving;
mod temporary;
pub(super) mod uri;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use disk::{DiskReader, run_blocking};
use tokio::runtime::Handle;

use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, LIST_PAGE, ListedFile, Published};

use crate::backup::{Inventory, PublishedFile};
use folders::Folders;
use temporary::{TemporaryFile, TemporaryFiles};

/// Chunks are buffered to this size before they are written: network chunks are a hundred times smaller, and
/// each switch to another thread costs as much as writing one.
const WRITE_BYTES: usize = 512 * 1024;

/// The files in an open data folder.
pub(super) struct EmbeddedFiles {
    folder: PathBuf,
    folders: Arc<Folders>,
    temporary: Arc<TemporaryFiles>,
}

impl EmbeddedFiles {
    /// The files of a data folder; `process` is this process's id in [`super::process_lock`]. Creates no
    /// folder yet: most commands only read.
    pub(super) fn new(data: &Path, process: i64) -> io::Result<Self> {
        let data = std::path::absolute(data)?;
        let folder = data.join(super::FILES_FOLDER);
        let temporary = Arc::new(TemporaryFiles::new(folder.join(".incoming"), process));
        Ok(Self { folder, folders: Arc::new(Folders::new(data)), temporary })
    }

    /// Removes the unfinished files of processes that have ended.
    pub(super) fn remove_leftovers(&self, is_alive: impl Fn(i64) -> bool) -> io::Result<()> {
        self.temporary.remove_leftovers(is_alive)
    }

    fn path(&self, key: &FileKey) -> PathBuf {
        self.folder.join(key.as_str())
    }
}

#[async_trait]
impl Files for EmbeddedFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        let temporary = Arc::clone(&self.temporary);
        let file = run_blocking(move || temporary.create()).await?;
        let folders = Arc::clone(&self.folders);
        Ok(Box::new(EmbeddedWriter {
            folders,
            path: self.path(key),
            file: Some(file),
            buffered: BytesMut::new(),
        }))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        DiskReader::open(self.path(key)).await
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        let (folders, path) = (Arc::clone(&self.folders), self.path(key));
        run_blocking(move || folders.unlink(&path)).await
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        let inventory = Inventory::after(&self.folder, after);
        run_blocking(move || {
            let is_gone = |found: &io::Result<PublishedFile>| {
                found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
            };
            // A file may be deleted between two steps.
            let page = inventory.filter(|found| !is_gone(found)).take(LIST_PAGE);
            page.map(|found| {
                let PublishedFile { key, bytes, .. } = found?;
                let key = FileKey::parse(&key).ok_or_else(|| io::Error::from(ErrorKind::InvalidData))?;
                Ok(ListedFile { key, size_bytes: bytes })
            })
            .collect()
        })
        .await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        let temporary = Arc::clone(&self.temporary);
        run_blocking(move || temporary.create().map(drop)).await
    }
}

/// A file under its temporary name.
struct EmbeddedWriter {
    folders: Arc<Folders>,
    path: PathBuf,
    /// `None` while another thread writes to it, and after a failure.
    file: Option<TemporaryFile>,
    buffered: BytesMut,
}

impl EmbeddedWriter {
    /// Passes the file and the buffered bytes to another thread.
    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(TemporaryFile) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FilesError> {
        let buffered = self.buffered.split().freeze();
        let gone = || FilesError::Unavailable("a write to this file has failed before".into());
        let mut file = self.file.take().ok_or_else(gone)?;
        run_blocking(move || {
            file.append(&buffered)?;
            work(file)
        })
        .await
    }
}

#[async_trait]
impl FileWriter for EmbeddedWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        let mut rest = chunk;
        while !rest.is_empty() {
            let fits = rest.len().min(WRITE_BYTES - self.buffered.len());
            self.buffered.extend_from_slice(&rest.split_to(fits));
            if self.buffered.len() == WRITE_BYTES {
                self.file = Some(self.with_file(Ok).await?);
            }
        }
        Ok(())
    }

    async fn publish(mut self: Box<Self>) -> Result<Published, FilesError> {
        let (folders, path) = (Arc::clone(&self.folders), self.path.clone());
        self.with_file(move |file| publish(&file, &folders, &path)).await
    }
}

impl Drop for EmbeddedWriter {
    fn drop(&mut self) {
        // On a blocking thread: removing a large file takes long.
        if let (Some(file), Ok(runtime)) = (self.file.take(), Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(file)));
        }
    }
}

/// Publishes a file durably: first its content is synced, then its name.
fn publish(file: &TemporaryFile, folders: &Folders, path: &Path) -> io::Result<Published> {
    file.sync()?;
    Ok(if folders.link(file.path(), path)? { Published::New } else { Published::AlreadyThere })
}

#[cfg(test)]
mod tests {
    use super::*;
    use slack::ids::TeamId;

    fn key() -> FileKey {
        FileKey::image(&TeamId::parse("T1").unwrap(), "https://example.com/a.png")
    }

    fn names(folder: &Path) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn dropped_and_published_files_leave_no_temporary_files() {
        let data = tempfile::tempdir().unwrap();
        let files = EmbeddedFiles::new(data.path(), 7).unwrap();
        let incoming = data.path().join("files/.incoming/7");
        let mut writer = files.create(&key()).await.unwrap();
        writer.write(Bytes::from_static(b"abc")).await.unwrap();
        assert_eq!(names(&incoming).len(), 1);
        std::thread::spawn(move || drop(writer)).join().unwrap();
        assert!(names(&incoming).is_empty() && files.open(&key()).await.unwrap().is_none());

        assert_eq!(files.create(&key()).await.unwrap().publish().await.unwrap(), Published::New);
        assert_eq!(files.create(&key()).await.unwrap().publish().await.unwrap(), Published::AlreadyThere);
        assert!(names(&incoming).is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn only_the_owner_has_access() {
        use std::os::unix::fs::PermissionsExt;

        let data = tempfile::tempdir().unwrap();
        let files = EmbeddedFiles::new(data.path(), 7).unwrap();
        files.create(&key()).await.unwrap().publish().await.unwrap();
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for folder in ["files", "files/.incoming", "files/slack", "files/slack/T1"] {
            assert_eq!(mode(data.path().join(folder)), 0o700, "{folder}");
        }
        assert_eq!(mode(files.path(&key())), 0o600);
    }

    #[tokio::test]
    async fn the_uri_points_to_the_file() {
        let data = tempfile::tempdir().unwrap();
        let files = EmbeddedFiles::new(&data.path().join("my data"), 7).unwrap();
        files.create(&key()).await.unwrap().publish().await.unwrap();
        let uri = format!("{}/{}", crate::files_uri(&data.path().join("my data")).unwrap(), key());
        let path = uri.strip_prefix("file://").unwrap().replace("%20", " ");
        assert!(Path::new(&path).is_file(), "{uri}");
    }

    #[tokio::test]
    async fn a_failed_write_publishes_no_file() {
        let data = tempfile::tempdir().unwrap();
        let files = EmbeddedFiles::new(data.path(), 7).unwrap();
        let writer = files.create(&key()).await.unwrap();
        // A user removes the folder.
        std::fs::remove_dir_all(data.path().join("files")).unwrap();
        assert!(writer.publish().await.is_err());
        assert!(files.open(&key()).await.unwrap().is_none());
    }
}
