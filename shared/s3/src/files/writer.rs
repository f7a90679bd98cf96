//! Writes an object.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::{PART_BYTES, code, status};
use crate::Bucket;
use ports::files::{FileWriter, FilesError, Published};

/// The `If-None-Match` value for a write that requires a free key.
const NOTHING_YET: &str = "*";

/// The waits before a write is retried that conflicted with a concurrent one to the same key. The other write
/// ends soon, and then the key is taken.
const CONFLICT_WAITS_MS: [u64; 5] = [50, 100, 200, 400, 800];

/// A file that is not visible yet.
pub(super) struct S3Writer {
    store: Arc<Bucket>,
    key: String,
    /// Buffered bytes, up to the size of a part.
    buffered: BytesMut,
    /// The multipart upload, once the file is longer than a part.
    upload: Option<MultipartUpload>,
    /// Whether bytes are being sent or were lost. Stays set if a write is cancelled, so that a file with a
    /// hole is never published.
    incomplete: bool,
}

/// A multipart upload and the parts that S3 has received.
struct MultipartUpload {
    id: String,
    parts: Vec<CompletedPart>,
}

/// Why a conditional write failed.
enum WriteRefusal {
    /// The key exists.
    Taken,
    /// Another write to the same key is in progress.
    Conflict,
    /// S3 does not know the upload: an earlier attempt whose response was lost has completed it, or another
    /// client aborted it.
    Unknown,
    /// The S3-compatible store does not support conditional writes.
    NotConditional,
    Other,
}

impl S3Writer {
    /// Sends no request to S3 yet.
    pub(super) fn new(store: Arc<Bucket>, key: &str) -> Self {
        let buffered = BytesMut::new();
        Self { store, key: key.to_owned(), buffered, upload: None, incomplete: false }
    }

    fn check_complete(&self) -> Result<(), FilesError> {
        match self.incomplete {
            true => Err(FilesError::Unavailable("a write to this file has failed before".into())),
            false => Ok(()),
        }
    }

    /// Sends the buffered bytes as the next part.
    async fn send_part(&mut self) -> Result<(), FilesError> {
        self.incomplete = true;
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => {
                let id = self.start_upload().await?;
                self.upload.insert(MultipartUpload { id, parts: Vec::new() })
            }
        };
        let number = upload.parts.len() as i32 + 1;
        let store = &self.store;
        let request = store
            .bytes
            .upload_part()
            .bucket(&store.name)
            .key(store.key(&self.key))
            .upload_id(&upload.id)
            .part_number(number)
            .body(ByteStream::from(self.buffered.split().freeze()));
        let sent = request.send().await.map_err(|error| store.unavailable(&error))?;
        upload.parts.push(CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build());
        self.incomplete = false;
        Ok(())
    }

    /// Starts a multipart upload and returns its id.
    async fn start_upload(&self) -> Result<String, FilesError> {
        let store = &self.store;
        let request = store.objects.create_multipart_upload().bucket(&store.name).key(store.key(&self.key));
        let begun = request.send().await.map_err(|error| store.unavailable(&error))?;
        begun.upload_id.ok_or_else(|| FilesError::Unavailable("S3 returned no id for an upload".into()))
    }

    /// Uploads the whole file in one request.
    async fn put(&mut self) -> Result<Published, FilesError> {
        let store = &self.store;
        let content = self.buffered.split().freeze();
        let mut waits = CONFLICT_WAITS_MS.into_iter();
        loop {
            let request = store.bytes.put_object().bucket(&store.name).key(store.key(&self.key));
            let request = request.if_none_match(NOTHING_YET).body(ByteStream::from(content.clone()));
            let Err(error) = request.send().await else { return Ok(Published::New) };
            match refusal(&error) {
                WriteRefusal::Taken => return Ok(Published::AlreadyThere),
                WriteRefusal::Conflict if let Some(wait_ms) = waits.next() => {
                    sleep(Duration::from_millis(wait_ms)).await;
                }
                WriteRefusal::NotConditional => return Err(not_conditional(store)),
                WriteRefusal::Conflict | WriteRefusal::Unknown | WriteRefusal::Other => {
                    return Err(store.unavailable(&error));
                }
            }
        }
    }

    /// Completes a multipart upload.
    async fn complete(&self, upload: &MultipartUpload) -> Result<Published, FilesError> {
        let store = &self.store;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(upload.parts.clone())).build();
        let request = store
            .bytes
            .complete_multipart_upload()
            .bucket(&store.name)
            .key(store.key(&self.key))
            .upload_id(&upload.id)
            .multipart_upload(parts)
            .if_none_match(NOTHING_YET);
        let Err(error) = request.send().await else { return Ok(Published::New) };
        match refusal(&error) {
            WriteRefusal::Taken => Ok(Published::AlreadyThere),
            WriteRefusal::NotConditional => Err(not_conditional(store)),
            // After a conflict, S3 requires a new upload, and the bytes are gone, so the caller has to fetch
            // the file again. Unless the file exists by now, written by the other client or by our own
            // earlier attempt.
            WriteRefusal::Conflict | WriteRefusal::Unknown if self.exists().await? => {
                Ok(Published::AlreadyThere)
            }
            WriteRefusal::Conflict | WriteRefusal::Unknown | WriteRefusal::Other => {
                Err(store.unavailable(&error))
            }
        }
    }

    async fn exists(&self) -> Result<bool, FilesError> {
        let store = &self.store;
        match store.objects.head_object().bucket(&store.name).key(store.key(&self.key)).send().await {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(404) => Ok(false),
            Err(error) => Err(store.unavailable(&error)),
        }
    }
}

#[async_trait]
impl FileWriter for S3Writer {
    async fn write(&mut self, chunk: Bytes) -> Result<(), FilesError> {
        self.check_complete()?;
        let mut rest = chunk;
        while !rest.is_empty() {
            // Only once more bytes follow: a file that fits is uploaded in one request.
            if self.buffered.len() == PART_BYTES {
                self.send_part().await?;
            }
            let fits = rest.len().min(PART_BYTES - self.buffered.len());
            self.buffered.extend_from_slice(&rest.split_to(fits));
        }
        Ok(())
    }

    async fn publish(mut self: Box<Self>) -> Result<Published, FilesError> {
        self.check_complete()?;
        if self.upload.is_some() {
            // Never empty: a part is sent only once more bytes follow.
            self.send_part().await?;
        }
        let Some(upload) = &self.upload else { return self.put().await };
        let published = self.complete(upload).await;
        if let Some(upload) = self.upload.take()
            && published != Ok(Published::New)
        {
            abort(&self.store, &self.key, &upload.id).await;
        }
        published
    }
}

impl Drop for S3Writer {
    fn drop(&mut self) {
        // A part in transit may arrive after this. The bucket's lifecycle removes it, like the leftovers of a
        // crash.
        if let (Some(upload), Ok(runtime)) = (self.upload.take(), Handle::try_current()) {
            let (store, key) = (Arc::clone(&self.store), self.key.clone());
            drop(runtime.spawn(async move { abort(&store, &key, &upload.id).await }));
        }
    }
}

/// Aborts an upload: until then its parts are billed.
async fn abort(store: &Bucket, key: &str, upload: &str) {
    let request = store.objects.abort_multipart_upload().bucket(&store.name).key(store.key(key));
    match request.upload_id(upload).send().await {
        Ok(_) => {}
        Err(error) if code(&error) == Some("NoSuchUpload") => {}
        Err(error) => {
            let why = store.subject.explain(&error);
            tracing::warn!(%key, why, "an unfinished upload stays until the bucket's lifecycle removes it");
        }
    }
}

fn refusal<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> WriteRefusal {
    match (code(error), status(error)) {
        (Some("PreconditionFailed"), _) | (None, Some(412)) => WriteRefusal::Taken,
        (Some("ConditionalRequestConflict"), _) | (None, Some(409)) => WriteRefusal::Conflict,
        (Some("NoSuchUpload"), _) => WriteRefusal::Unknown,
        (Some("NotImplemented"), _) | (None, Some(501)) => WriteRefusal::NotConditional,
        _ => WriteRefusal::Other,
    }
}

pub(super) fn not_conditional(store: &Bucket) -> FilesError {
    FilesError::Unavailable(format!(
        "the store of bucket {} does not support conditional writes (If-None-Match), without which a file could be \
         replaced: set AWS_ENDPOINT_URL to one that does",
        store.name
    ))
}
