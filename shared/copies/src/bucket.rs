//! A target in a bucket, or below a prefix in it.

use std::sync::Arc;

use async_trait::async_trait;
use ports::files::{FileReader, FileWriter, FilesError};
use s3::Bucket;

use crate::CopyStore;

/// A target in a bucket.
#[derive(Debug, Clone)]
pub struct BucketStore(Arc<Bucket>);

impl BucketStore {
    /// The target in this bucket.
    pub fn new(bucket: Bucket) -> Self {
        Self(Arc::new(bucket))
    }
}

#[async_trait]
impl CopyStore for BucketStore {
    async fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, FilesError> {
        Ok(self.0.create(name))
    }

    async fn open(&self, name: &str) -> Result<Option<Box<dyn FileReader>>, FilesError> {
        self.0.open(name).await
    }

    async fn list(
        &self,
        prefix: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError> {
        self.0.list(prefix, each).await
    }

    async fn delete(&self, name: &str) -> Result<(), FilesError> {
        self.0.remove(name).await
    }

    async fn ready(&self) -> Result<(), FilesError> {
        self.0.ready().await
    }

    /// The bucket's lifecycle removes unfinished uploads.
    async fn remove_leftovers(&self) -> Result<(), FilesError> {
        Ok(())
    }
}
