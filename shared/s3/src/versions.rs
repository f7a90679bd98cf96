//! Deletes objects permanently: in a versioned bucket, deleting an object only hides it.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};

use crate::Bucket;
use crate::files::status;

impl Bucket {
    /// Deletes every version and delete marker of the objects whose whole keys begin with `prefix` and satisfy
    /// `is_target`. Returns the number of deleted versions.
    pub async fn delete_versions(
        &self,
        prefix: &str,
        is_target: impl Fn(&str) -> bool,
    ) -> Result<usize, String> {
        let Self { name: bucket, objects: client, subject, .. } = self;
        let mut deleted = 0;
        loop {
            // A page has as many versions as one request can delete. Deleted ones are not listed again.
            let Found { versions, marks, has_more } = self.find(prefix, &is_target).await?;
            deleted += versions.len();
            let objects: Vec<ObjectIdentifier> = versions.into_iter().chain(marks).collect();
            if objects.is_empty() {
                return Ok(deleted);
            }
            let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build();
            let delete = delete.map_err(|error| error.to_string())?;
            let answer = client.delete_objects().bucket(bucket).delete(delete).send().await;
            let answer = answer.map_err(|error| subject.explain(&error))?;
            if let Some(error) = answer.errors().first() {
                let (code, key) = (error.code().unwrap_or("unknown"), error.key().unwrap_or_default());
                return Err(format!("S3 did not delete {key} from bucket {bucket}: {code}"));
            }
            if !has_more {
                return Ok(deleted);
            }
        }
    }

    /// The first versions and delete markers of these objects.
    async fn find(&self, prefix: &str, is_target: &impl Fn(&str) -> bool) -> Result<Found, String> {
        let Self { name: bucket, objects: client, subject, .. } = self;
        let page = match client.list_object_versions().bucket(bucket).prefix(prefix).send().await {
            Ok(page) => page,
            // A store without versions.
            Err(error) if status(&error) == Some(501) => {
                let (keys, has_more) = self.first_keys(prefix).await?;
                let found = keys.iter().filter_map(|key| matching((Some(key), None), is_target));
                return Ok(Found { versions: found.collect(), marks: Vec::new(), has_more });
            }
            Err(error) => return Err(subject.explain(&error)),
        };
        let versions = page.versions().iter().map(|version| (version.key(), version.version_id()));
        let marks = page.delete_markers().iter().map(|mark| (mark.key(), mark.version_id()));
        Ok(Found {
            versions: versions.filter_map(|found| matching(found, is_target)).collect(),
            marks: marks.filter_map(|found| matching(found, is_target)).collect(),
            has_more: page.is_truncated() == Some(true),
        })
    }
}

/// What is to be deleted.
struct Found {
    versions: Vec<ObjectIdentifier>,
    marks: Vec<ObjectIdentifier>,
    has_more: bool,
}

fn matching(
    (key, version): (Option<&str>, Option<&str>),
    is_target: impl Fn(&str) -> bool,
) -> Option<ObjectIdentifier> {
    let key = key.filter(|key| is_target(key))?;
    ObjectIdentifier::builder().key(key).set_version_id(version.map(str::to_owned)).build().ok()
}
