//! The files port on S3: one object per file, written on condition that the key is free.
//!
//! A file of up to [`PART_BYTES`] is uploaded in one request. A longer one is uploaded in parts of that size,
//! one of which is in memory, and becomes visible when S3 has combined them. Files are never replaced: both
//! paths end in a conditional write.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>

mod reader;
mod writer;

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::Bucket;
use ports::files::key::ROOT;
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError, ListedFile, Published};

use writer::S3Writer;

/// Size of an uploaded part, which is buffered in memory. S3 allows 10,000 parts, so files may have up to 80
/// GiB; its smallest part is 5 MiB. <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The name of an empty object, which is no file.
const PROBE: &str = ".annalist";

/// The files port on S3.
pub(super) struct S3Files(Arc<Bucket>);

impl S3Files {
    /// Sends no request to S3 yet.
    pub(super) fn new(bucket: Bucket) -> Self {
        Self(Arc::new(bucket))
    }
}

#[async_trait]
impl Files for S3Files {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        Ok(self.0.create(key.as_str()))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.0.open(key.as_str()).await
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        let key = self.0.key(key.as_str());
        let deleted = self.0.delete_versions(&key, |found| found == key).await;
        deleted.map(|versions| versions > 0).map_err(FilesError::Unavailable)
    }

    async fn list(&self, after: Option<&FileKey>) -> Result<Vec<ListedFile>, FilesError> {
        let store = &self.0;
        let root = store.key(ROOT);
        let before_keys = root.len() - ROOT.len();
        let mut after = after.map(|key| store.key(key.as_str()));
        loop {
            let list = store.objects.list_objects_v2().bucket(&store.name).prefix(&root);
            let page = list.set_start_after(after).send().await.map_err(|error| store.unavailable(&error))?;
            let listed = page.contents().iter().filter_map(|object| {
                let key = FileKey::parse(object.key()?.get(before_keys..)?)?;
                Some(ListedFile { key, size_bytes: object.size().unwrap_or_default().cast_unsigned() })
            });
            let listed: Vec<ListedFile> = listed.collect();
            after = page.contents().last().and_then(|object| object.key()).map(str::to_owned);
            // A page of objects that are no files is not the end.
            if !listed.is_empty() || after.is_none() {
                return Ok(listed);
            }
        }
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.0.ready().await
    }
}

impl Bucket {
    /// Starts an object, by its name below the prefix. Nothing is visible before it is published, which never replaces
    /// an object.
    pub fn create(self: &Arc<Self>, name: &str) -> Box<dyn FileWriter> {
        Box::new(S3Writer::new(Arc::clone(self), name))
    }

    /// Opens an object; `None` if it is missing.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        reader::open(self, name).await
    }

    /// Checks that the bucket exists and can be reached.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn ready(&self) -> Result<(), FilesError> {
        let response = self.objects.head_bucket().bucket(&self.name).send().await;
        response.map(drop).map_err(|error| self.unavailable(&error))
    }

    /// Checks that the bucket can be reached and written, and that it never replaces an object.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn probe(self: &Arc<Self>) -> Result<(), FilesError> {
        self.ready().await?;
        for _ in 0..2 {
            if self.create(PROBE).publish().await? == Published::AlreadyThere {
                return Ok(());
            }
        }
        Err(writer::not_conditional(self))
    }

    pub(crate) fn unavailable<E>(&self, error: &SdkError<E, HttpResponse>) -> FilesError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        FilesError::Unavailable(self.subject.explain(error))
    }
}

/// The code of S3's error; `None` if the response has no body.
fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    error.as_service_error()?.code()
}

pub(crate) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}
