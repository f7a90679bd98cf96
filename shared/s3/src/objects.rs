//! Lists, replaces and removes objects below a prefix, for copies of an archive and public sites: with the credentials of whoever owns the
//! bucket, which are no role of a fleet.

use bytes::Bytes;
use ports::files::FilesError;

use crate::Bucket;

impl Bucket {
    /// Calls `each` with the name and the size of each object whose name below the prefix begins with `names`.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn list(
        &self,
        names: &str,
        each: &mut (dyn for<'n> FnMut(&'n str, u64) + Send),
    ) -> Result<(), FilesError> {
        let request = self.objects.list_objects_v2().bucket(&self.name).prefix(self.key(names));
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.next().await {
            for object in page.map_err(|error| self.unavailable(&error))?.contents() {
                let name = object.key().and_then(|key| key.strip_prefix(&self.prefix));
                let size_bytes = object.size().and_then(|size| u64::try_from(size).ok());
                if let (Some(name), Some(size_bytes)) = (name, size_bytes) {
                    each(name, size_bytes);
                }
            }
        }
        Ok(())
    }

    /// Returns the first whole keys that begin with `prefix`, and whether there are more.
    pub(crate) async fn first_keys(&self, prefix: &str) -> Result<(Vec<String>, bool), String> {
        let page = self.objects.list_objects_v2().bucket(&self.name).prefix(prefix).send().await;
        let page = page.map_err(|error| self.subject.explain(&error))?;
        let keys = page.contents().iter().filter_map(|object| object.key().map(str::to_owned)).collect();
        Ok((keys, page.is_truncated() == Some(true)))
    }

    /// Writes an object, or replaces it, with what a browser is told about it.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn replace(
        &self,
        name: &str,
        content: Bytes,
        content_type: &str,
        cache_control: &str,
    ) -> Result<(), FilesError> {
        let request = self.bytes.put_object().bucket(&self.name).key(self.key(name)).body(content.into());
        let request = request.content_type(content_type).cache_control(cache_control);
        request.send().await.map(drop).map_err(|error| self.unavailable(&error))
    }

    /// Removes an object, if it exists; in a bucket with versions it becomes an older one.
    ///
    /// # Errors
    /// [`FilesError::Unavailable`]
    pub async fn remove(&self, name: &str) -> Result<(), FilesError> {
        let removed = self.objects.delete_object().bucket(&self.name).key(self.key(name)).send().await;
        removed.map(drop).map_err(|error| self.unavailable(&error))
    }
}
