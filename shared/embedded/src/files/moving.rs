//! The files port of a folder whose files are in a bucket, or move there or back.
//!
//! New files go to the bucket. A file is in one of the two, and while it moves in both: so each is asked last for what
//! the other did not have, and whatever moves meanwhile is found, and is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, LIST_PAGE, ListedFile, Published};

/// The files in a bucket, and those that are still in the folder.
pub(crate) struct MovingFiles {
    pub(crate) folder: Arc<dyn Files>,
    pub(crate) bucket: Arc<dyn Files>,
}

impl MovingFiles {
    /// The folder comes first: it costs nothing, and most files move away from it.
    fn places(&self) -> [&dyn Files; 3] {
        [&*self.folder, &*self.bucket, &*self.folder]
    }
}

#[async_trait]
impl Files for MovingFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        let writer = self.bucket.create(key).await?;
        Ok(Box::new(MovingWriter { writer, folder: Arc::clone(&self.folder), key: key.clone() }))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        for place in self.places() {
            if let Some(reader) = place.open(key).await? {
                return Ok(Some(reader));
            }
        }
        Ok(None)
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        let mut existed = false;
        for place in self.places() {
            existed |= place.delete(key).await?;
        }
        Ok(existed)
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        let pages = [self.folder.list(after).await?, self.bucket.list(after).await?];
        // What follows the end of a page is not known yet.
        let end = pages.iter().filter_map(|page| page.last()).map(|file| file.key.clone()).min();
        let known = pages.into_iter().flatten().filter(|file| Some(&file.key) <= end.as_ref());
        let known: BTreeMap<FileKey, u64> = known.map(|file| (file.key, file.size_bytes)).collect();
        Ok(known
            .into_iter()
            .take(LIST_PAGE)
            .map(|(key, size_bytes)| ListedFile { key, size_bytes })
            .collect())
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.bucket.ready().await
    }
}

/// A file that is written to the bucket.
struct MovingWriter {
    writer: Box<dyn FileWriter>,
    folder: Arc<dyn Files>,
    key: FileKey,
}

#[async_trait]
impl FileWriter for MovingWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        self.writer.write(chunk).await
    }

    async fn publish(self: Box<Self>) -> Result<Published, FilesError> {
        // If it moves away now, the bucket has it.
        match self.folder.open(&self.key).await? {
            Some(_) => Ok(Published::AlreadyThere),
            None => self.writer.publish().await,
        }
    }
}
