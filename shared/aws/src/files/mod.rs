//! The files port on S3: one object per file, written on the condition that the key is free.
//!
//! A file up to [`PART_BYTES`] is one request; a longer one goes up in parts of that size, of which one is in memory at a
//! time, and appears when S3 has put them together. Nothing is ever replaced: both ways end in a conditional write.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>

mod reader;
mod writer;

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::fault::CallSubject;
use crate::versions::delete_versions;
use crate::{Aws, policy};
use ports::files::{FileKey, FileReader, FileWriter, Files, FilesError};

use writer::S3Writer;

/// How much of a file is in memory before it goes up. S3 takes 10,000 parts, so this is up to 80 GiB, and its smallest
/// part is 5 MiB. <https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html>
const PART_BYTES: usize = 8 * 1024 * 1024;

/// The files port on S3.
pub(super) struct S3Files(Arc<BucketClients>);

/// A bucket and the ways to it.
struct BucketClients {
    bucket: String,
    /// For what carries a file's bytes.
    bytes: aws_sdk_s3::Client,
    /// For everything else.
    objects: aws_sdk_s3::Client,
    subject: CallSubject,
}

impl S3Files {
    /// Nothing is asked of S3 yet.
    pub(super) fn new(aws: &Aws) -> Self {
        Self(Arc::new(BucketClients {
            bucket: aws.names().bucket().to_owned(),
            bytes: policy::BYTES.s3(&aws.sdk),
            objects: policy::OBJECTS.s3(&aws.sdk),
            subject: CallSubject::bucket(aws),
        }))
    }
}

#[async_trait]
impl Files for S3Files {
    async fn create(&self, key: &FileKey) -> Result<Box<dyn FileWriter>, FilesError> {
        Ok(Box::new(S3Writer::new(Arc::clone(&self.0), key)))
    }

    async fn open(&self, key: &FileKey) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        reader::open(&self.0, key).await
    }

    async fn delete(&self, key: &FileKey) -> Result<bool, FilesError> {
        let BucketClients { objects, subject, bucket, .. } = &*self.0;
        let is_meant = |found: &str| found == key.as_str();
        let deleted = delete_versions(objects, subject, bucket, key.as_str(), is_meant).await;
        deleted.map(|versions| versions > 0).map_err(FilesError::Unavailable)
    }

    async fn ready(&self) -> Result<(), FilesError> {
        let store = &self.0;
        let asked = store.objects.head_bucket().bucket(&store.bucket).send().await;
        asked.map(drop).map_err(|error| store.unavailable(&error))
    }
}

impl BucketClients {
    fn unavailable<E>(&self, error: &SdkError<E, HttpResponse>) -> FilesError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        FilesError::Unavailable(self.subject.explain(error))
    }
}

/// The code of S3's refusal; none of an answer without a body.
fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    error.as_service_error()?.code()
}

fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}
