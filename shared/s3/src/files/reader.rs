//! Reads an object.

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use super::code;
use crate::Bucket;
use ports::files::{FileReader, FilesError};

/// Opens an object; `None` if it is missing.
pub(super) async fn open(store: &Bucket, key: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
    let found = match store.bytes.get_object().bucket(&store.name).key(store.key(key)).send().await {
        Ok(found) => found,
        // A missing bucket is not a missing file and has another code. The SDK reports a 404 without a body
        // as `NotFound`.
        Err(error) if matches!(code(&error), Some("NoSuchKey" | "NotFound")) => {
            return Ok(None);
        }
        Err(error) => return Err(store.unavailable(&error)),
    };
    let size_bytes = found.content_length.and_then(|length| u64::try_from(length).ok());
    let size_bytes =
        size_bytes.ok_or_else(|| FilesError::Unavailable(format!("S3 did not report the size of {key}")))?;
    let body = Some(found.body);
    Ok(Some(Box::new(S3Reader { key: key.to_owned(), body, size_bytes, read_bytes: 0 })))
}

/// The response to a read, while its body is received.
struct S3Reader {
    key: String,
    /// `None` after a failure. A stall is a failure too: the SDK aborts a body that delivers no bytes for a
    /// while.
    body: Option<ByteStream>,
    size_bytes: u64,
    read_bytes: u64,
}

impl S3Reader {
    fn interrupted(&self, why: &str) -> FilesError {
        let Self { key, read_bytes, size_bytes, .. } = self;
        FilesError::Unavailable(format!("S3 interrupted {key} at byte {read_bytes} of {size_bytes}: {why}"))
    }
}

#[async_trait]
impl FileReader for S3Reader {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        let Some(mut body) = self.body.take() else {
            return Err(self.interrupted("a read of this file has failed before"));
        };
        loop {
            match body.next().await {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) => {
                    self.read_bytes += chunk.len() as u64;
                    self.body = Some(body);
                    return Ok(Some(chunk));
                }
                Some(Err(error)) => return Err(self.interrupted(&error.to_string())),
                None if self.read_bytes == self.size_bytes => {
                    self.body = Some(body);
                    return Ok(None);
                }
                None => return Err(self.interrupted("the connection was closed")),
            }
        }
    }
}
