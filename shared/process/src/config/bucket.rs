//! A bucket that a user names, and the files of a data folder in one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ports::archive::{Archive, ArchiveError, ArchiveExt, Guard, Item, ItemKey, Update};
use ports::files::{Files, FilesError};

/// How help shows a bucket.
pub const BUCKET_PLACE: &str = "s3://BUCKET[/PREFIX]";

/// Why a bucket cannot be named.
const NO_S3: &str = "this build has no S3: build it with `--features s3`";

/// The register of the row that says where the files are.
const STORE: &str = "store";

/// A bucket, or the keys below a prefix in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPlace {
    name: String,
    /// Empty, or ending in `/`.
    prefix: String,
}

/// Why the files of a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesPlaceError {
    /// The files are in a bucket that was not named.
    #[error(
        "the files of this archive are in {0}: set --files {0} (ANNALIST_FILES); `annalist files move --to folder` brings \
         them back"
    )]
    Elsewhere(String),
    /// The bucket cannot be used.
    #[error("--files {place} cannot be used: {}", unavailable(why))]
    Unusable {
        /// The bucket.
        place: BucketPlace,
        /// Why.
        why: FilesError,
    },
    /// The row cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn unavailable(FilesError::Unavailable(why): &FilesError) -> &str {
    why
}

impl FromStr for BucketPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(place) = text.strip_prefix("s3://") else {
            return Err("name a bucket: s3://BUCKET[/PREFIX]");
        };
        if !cfg!(feature = "s3") {
            return Err(NO_S3);
        }
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        let is_part =
            |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(|b| b.is_ascii_graphic());
        let prefix = match prefix.trim_end_matches('/') {
            "" => Some(String::new()),
            prefix => prefix.split('/').all(is_part).then(|| format!("{prefix}/")),
        };
        let place = prefix.filter(|_| is_name).map(|prefix| Self { name: name.to_owned(), prefix });
        place.ok_or("name a bucket: s3://BUCKET[/PREFIX]")
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix } = self;
        write!(f, "s3://{}", format!("{name}/{prefix}").trim_end_matches('/'))
    }
}

#[cfg(feature = "s3")]
impl BucketPlace {
    /// The bucket, which is not asked anything yet.
    pub async fn connect(&self) -> s3::Bucket {
        s3::Bucket::connect(&self.name, &self.prefix).await
    }

    /// The files below the prefix. The bucket is not asked anything yet.
    ///
    /// # Errors
    /// [`FilesPlaceError::Unusable`] in a build without S3.
    pub async fn files(&self) -> Result<Arc<dyn Files>, FilesPlaceError> {
        Ok(self.connect().await.files())
    }

    /// Checks that files can be stored there.
    ///
    /// # Errors
    /// [`FilesPlaceError::Unusable`]
    pub async fn probe(&self) -> Result<(), FilesPlaceError> {
        let probed = Arc::new(self.connect().await).probe().await;
        probed.map_err(|why| FilesPlaceError::Unusable { place: self.clone(), why })
    }
}

/// No bucket is parsed.
#[cfg(not(feature = "s3"))]
#[expect(clippy::unused_async, reason = "with S3 they await")]
impl BucketPlace {
    /// The files below the prefix.
    ///
    /// # Errors
    /// [`FilesPlaceError::Unusable`] in a build without S3.
    pub async fn files(&self) -> Result<Arc<dyn Files>, FilesPlaceError> {
        Err(FilesPlaceError::Unusable { place: self.clone(), why: FilesError::Unavailable(NO_S3.to_owned()) })
    }

    /// Checks that files can be stored there.
    ///
    /// # Errors
    /// [`FilesPlaceError::Unusable`]
    pub async fn probe(&self) -> Result<(), FilesPlaceError> {
        self.files().await.map(drop)
    }
}

/// The bucket with the files of a data folder, by its row.
pub fn store_of(row: &Item) -> Option<&str> {
    row.text(STORE)
}

/// The bucket that an archive says its files are in.
pub async fn stored_place(archive: &dyn Archive) -> Result<Option<String>, ArchiveError> {
    let row = archive.get(&ItemKey::archive_files()).await?;
    Ok(row.as_ref().and_then(store_of).map(str::to_owned))
}

/// Stores that the files of an archive are in this bucket, from now on.
///
/// # Errors
/// [`FilesPlaceError::Elsewhere`] if they are in another one.
pub async fn store_place(archive: &dyn Archive, place: &BucketPlace) -> Result<(), FilesPlaceError> {
    let guard = Guard::Unchanged { register: STORE.to_owned(), expected: None, version: place.to_string() };
    // If another process was faster, its bucket counts.
    archive.write(&Update { guard, ..Update::new(ItemKey::archive_files()) }).await?;
    check_place(stored_place(archive).await?.as_deref(), Some(place))
}

/// Stores that the files of an archive are in its folder again.
pub async fn forget_place(archive: &dyn Archive) -> Result<(), ArchiveError> {
    match archive.get(&ItemKey::archive_files()).await? {
        Some(row) => archive.delete_unchanged(&row).await.map(drop),
        None => Ok(()),
    }
}

/// Whether the files of an archive are where the user says.
///
/// # Errors
/// [`FilesPlaceError::Elsewhere`]
pub fn check_place(store: Option<&str>, named: Option<&BucketPlace>) -> Result<(), FilesPlaceError> {
    match store {
        Some(store) if named.map(BucketPlace::to_string).as_deref() != Some(store) => {
            Err(FilesPlaceError::Elsewhere(store.to_owned()))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_name_and_a_prefix() {
        for refused in
            ["", "b", "ftp://b", "s3://", "s3:///a", "s3://b/../a", "s3://b//a", "s3://b/a b", "s3://b c"]
        {
            assert!(refused.parse::<BucketPlace>().is_err(), "{refused}");
        }
        for (text, name, prefix) in
            [("s3://b", "b", ""), ("s3://b/", "b", ""), ("s3://a.b/c/d/", "a.b", "c/d/")]
        {
            let parsed = text.parse::<BucketPlace>();
            if cfg!(feature = "s3") {
                let place = BucketPlace { name: name.to_owned(), prefix: prefix.to_owned() };
                assert_eq!(place.to_string(), text.trim_end_matches('/'));
                assert_eq!(parsed, Ok(place));
            } else {
                assert!(parsed.unwrap_err().contains("--features s3"));
            }
        }
    }
}
