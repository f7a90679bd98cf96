//! The files port on one map.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, LIST_PAGE, ListedFile, Published};

/// The size of the chunks in which a file is read.
const CHUNK_BYTES: usize = 1024;

/// Files that live as long as the process.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles {
    published: Arc<Mutex<BTreeMap<FileKey, Bytes>>>,
}

impl MemoryFiles {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// All published files, ordered by key, so that two runs can be compared.
    pub fn published(&self) -> BTreeMap<FileKey, Bytes> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileKey, Bytes>> {
        // Every change is one insert or remove, so a panic elsewhere leaves a whole map.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Files for MemoryFiles {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        Ok(Box::new(MemoryWriter { files: self.clone(), key: key.clone(), written: BytesMut::new() }))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        let file = self.lock().get(key).cloned();
        let reader = |rest: Bytes| {
            Box::new(MemoryReader { size_bytes: rest.len() as u64, rest }) as Box<dyn FileReader>
        };
        Ok(file.map(reader))
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        Ok(self.lock().remove(key).is_some())
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let published = self.lock();
        let page = published.range::<FileKey, _>((after, Bound::Unbounded)).take(LIST_PAGE);
        Ok(page.map(|(key, file)| ListedFile { key: key.clone(), size_bytes: file.len() as u64 }).collect())
    }

    async fn ready(&self) -> Result<(), FilesError> {
        Ok(())
    }
}

struct MemoryWriter {
    files: MemoryFiles,
    key: FileKey,
    written: BytesMut,
}

#[async_trait]
impl FileWriter for MemoryWriter {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        self.written.extend_from_slice(&chunk);
        Ok(())
    }

    async fn publish(self: Box<Self>) -> Result<Published, FilesError> {
        let mut published = self.files.lock();
        if published.contains_key(&self.key) {
            return Ok(Published::AlreadyThere);
        }
        published.insert(self.key.clone(), self.written.clone().freeze());
        Ok(Published::New)
    }
}

struct MemoryReader {
    rest: Bytes,
    size_bytes: u64,
}

#[async_trait]
impl FileReader for MemoryReader {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        let chunk = self.rest.split_to(self.rest.len().min(CHUNK_BYTES));
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}
