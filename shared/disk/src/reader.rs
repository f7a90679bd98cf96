//! Bytes of a file in chunks, read on blocking threads.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::Bytes;
use ports::files::{FileReader, FilesError};
use tokio::task::spawn_blocking;

use crate::missing_is_none;

/// Size of the chunks of a read.
const READ_BYTES: usize = 256 * 1024;

/// Runs blocking work on another thread. It runs to the end even if the caller is cancelled.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, FilesError> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| FilesError::Unavailable(error.to_string())),
        Err(stopped) => Err(FilesError::Unavailable(stopped.to_string())),
    }
}

/// A file that is open for reading.
pub struct DiskReader {
    /// `None` while another thread reads from it, and after a failure.
    file: Option<File>,
    size_bytes: u64,
}

impl DiskReader {
    /// Opens a file; `None` if there is none.
    pub async fn open(path: PathBuf) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        let opened = run_blocking(move || {
            let sized = |file: File| file.metadata().map(|metadata| (file, metadata.len()));
            missing_is_none(File::open(path))?.map(sized).transpose()
        });
        Ok(opened
            .await?
            .map(|(file, size_bytes)| Box::new(Self { file: Some(file), size_bytes }) as Box<dyn FileReader>))
    }
}

#[async_trait]
impl FileReader for DiskReader {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        let gone = || FilesError::Unavailable("a read of this file has failed before".to_owned());
        let mut file = self.file.take().ok_or_else(gone)?;
        let (file, chunk) = run_blocking(move || {
            let mut chunk = Vec::with_capacity(READ_BYTES);
            (&mut file).take(READ_BYTES as u64).read_to_end(&mut chunk)?;
            Ok((file, chunk))
        })
        .await?;
        self.file = Some(file);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }
}
