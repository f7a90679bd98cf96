//! An object being read.

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use super::{BucketClients, code};
use ports::files::{FileKey, FileReader, FilesError};

/// Opens an object; `None` if it is missing.
pub(super) async fn open(
    store: &BucketClients,
    key: &FileKey,
) -> Result<Option<Box<dyn FileReader>>, FilesError> {
    let found = match store.bytes.get_object().bucket(&store.bucket).key(key.as_str()).send().await {
        Ok(found) => found,
        // A missing bucket is no missing file: that answer has a code of its own. `NotFound` is what the SDK calls a 404
        // without a body.
        Err(error) if matches!(code(&error), Some("NoSuchKey" | "NotFound")) => {
            return Ok(None);
        }
        Err(error) => return Err(store.unavailable(&error)),
    };
    let size_bytes = found.content_length.and_then(|length| u64::try_from(length).ok());
    let size_bytes =
        size_bytes.ok_or_else(|| FilesError::Unavailable(format!("S3 does not say how long {key} is")))?;
    let body = Some(found.body);
    Ok(Some(Box::new(S3Reader { key: key.clone(), body, size_bytes, read_bytes: 0 })))
}

/// The answer to a read, as far as it has come.
struct S3Reader {
    key: FileKey,
    /// Gone for good when it broke. That it stalls counts as breaking: the SDK gives up on a body that brings nothing
    /// for a while.
    body: Option<ByteStream>,
    size_bytes: u64,
    read_bytes: u64,
}

impl S3Reader {
    fn broken(&self, why: &str) -> FilesError {
        let Self { key, read_bytes, size_bytes, .. } = self;
        FilesError::Unavailable(format!("S3 broke off {key} at byte {read_bytes} of {size_bytes}: {why}"))
    }
}

#[async_trait]
impl FileReader for S3Reader {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn next(&mut self) -> Result<Option<Bytes>, FilesError> {
        let Some(mut body) = self.body.take() else {
            return Err(self.broken("a read of this file has failed before"));
        };
        loop {
            match body.next().await {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) => {
                    self.read_bytes += chunk.len() as u64;
                    self.body = Some(body);
                    return Ok(Some(chunk));
                }
                Some(Err(error)) => return Err(self.broken(&error.to_string())),
                None if self.read_bytes == self.size_bytes => {
                    self.body = Some(body);
                    return Ok(None);
                }
                None => return Err(self.broken("the connection was closed")),
            }
        }
    }
}
