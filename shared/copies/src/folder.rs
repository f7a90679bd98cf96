//! A target in a folder.
//!
//! An object is written under a temporary name, synced and renamed, so that no crash leaves a part of one under its name.
//! Many small objects are synced together: each sync delays whoever else writes to the disk.
//! Links would be simpler, but disks for backups often have file systems without them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use disk::{
    DiskReader, missing_is_none, private_file_options, private_folder_builder, run_blocking,
    sync_file_system, sync_folder,
};
use ports::files::{FileReader, FileWriter, FilesError, Published};

use crate::CopyStore;

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
        let writer = run_blocking(move || FolderWriter::create(&root, path)).await?;
        Ok(Box::new(writer))
    }

    async fn put_all(&self, objects: Vec<(String, Bytes)>) -> Result<(), FilesError> {
        let root = self.0.clone();
        run_blocking(move || put_all(&root, &objects)).await
    }

    async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        DiskReader::open(self.0.join(name)).await
    }

    async fn list(
        &self,
        prefix: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError> {
        let mut folders = vec![prefix.to_owned()];
        while let Some(folder) = folders.pop() {
            let path = self.0.join(&folder);
            for (name, size_bytes) in run_blocking(move || entries(&path)).await? {
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
        run_blocking(move || missing_is_none(std::fs::remove_file(path)).map(drop)).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        let folder = self.0.clone();
        run_blocking(move || match std::fs::metadata(&folder) {
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
        run_blocking(move || missing_is_none(std::fs::remove_dir_all(unfinished)).map(drop)).await
    }
}

/// Writes objects that are named by their content: one of the same name may be replaced.
fn put_all(root: &Path, objects: &[(String, Bytes)]) -> io::Result<()> {
    let batch = root.join(UNFINISHED).join(fastrand::u64(..).to_string());
    create_folder(root, &batch)?;
    let written = put_batch(root, &batch, objects);
    // Something is in it only after a failure.
    let removed = std::fs::remove_dir_all(&batch);
    written.and(removed)
}

fn put_batch(root: &Path, batch: &Path, objects: &[(String, Bytes)]) -> io::Result<()> {
    let temporary = |number: usize| batch.join(number.to_string());
    for (number, (_, bytes)) in objects.iter().enumerate() {
        let mut file = private_file_options().write(true).create_new(true).open(temporary(number))?;
        file.write_all(bytes)?;
    }
    if !sync_file_system(root)? {
        for number in 0..objects.len() {
            File::open(temporary(number))?.sync_all()?;
        }
    }
    let mut folders = BTreeSet::new();
    for (number, (name, _)) in objects.iter().enumerate() {
        let path = root.join(name);
        let folder = path.parent().unwrap_or(root).to_owned();
        create_folder(root, &folder)?;
        std::fs::rename(temporary(number), path)?;
        folders.insert(folder);
    }
    if !sync_file_system(root)? {
        for folder in &folders {
            sync_folder(folder)?;
        }
    }
    Ok(())
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
        let file = private_file_options().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file: Some(file), temporary, path })
    }

    async fn with_file<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FilesError> {
        let gone = || FilesError::Unavailable("a write to this object has failed before".to_owned());
        let file = self.file.take().ok_or_else(gone)?;
        run_blocking(move || work(file)).await
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
            path.parent().map_or(Ok(()), sync_folder)?;
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
    match private_folder_builder().create(folder) {
        // Another write was faster.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    folder.parent().map_or(Ok(()), sync_folder)
}
