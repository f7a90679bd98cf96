//! Where copies of the database go, and how long they stay.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::bucket::BucketPlace;
use copies::CopyStore;
use copies::folder::FolderStore;
use jiff::SignedDuration;

/// How help shows a target.
pub const COPY_TARGET: &str = "DIR|s3://BUCKET[/PREFIX]";

/// The nightly copy.
#[derive(Debug, Clone, clap::Args)]
pub struct CopyArgs {
    /// Copy the database each night, at --nightly-at, to a folder of another disk or to a bucket
    #[arg(long, env = "ANNALIST_COPY_TO", value_name = COPY_TARGET)]
    pub copy_to: Option<CopyTarget>,
    /// Remove copies that are older, such as 7d; the newest one stays
    #[arg(long, env = "ANNALIST_COPY_KEEP", value_name = "AGE", default_value = "7d", value_parser = at_least_a_day)]
    pub copy_keep: CopyAge,
}

/// A copy that is made now.
#[derive(Debug, Clone, clap::Args)]
pub struct CopyNowArgs {
    /// A folder on another disk, or a bucket
    #[arg(long, env = "ANNALIST_COPY_TO", value_name = COPY_TARGET, required = true)]
    pub to: Option<CopyTarget>,
    /// Remove copies that are older, such as 7d; the newest one stays
    #[arg(long, env = "ANNALIST_COPY_KEEP", value_name = "AGE", default_value = "7d")]
    pub copy_keep: CopyAge,
}

/// Where copies are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyTarget {
    /// A folder.
    Folder(PathBuf),
    /// A bucket.
    Bucket(BucketPlace),
}

impl FromStr for CopyTarget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "name a folder of another disk, or s3://BUCKET[/PREFIX]";
        match text.split_once("://") {
            Some(("s3", _)) => text.parse().map(Self::Bucket),
            None if !text.is_empty() => Ok(Self::Folder(text.into())),
            Some(_) | None => Err(EXPECTED),
        }
    }
}

impl fmt::Display for CopyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Bucket(place) => place.fmt(f),
        }
    }
}

impl CopyTarget {
    /// The store, which is not asked anything yet.
    #[cfg_attr(
        not(feature = "s3"),
        expect(clippy::unused_async, reason = "a bucket's configuration is awaited")
    )]
    pub async fn store(&self) -> Arc<dyn CopyStore> {
        match self {
            Self::Folder(folder) => Arc::new(FolderStore::new(folder)),
            #[cfg(feature = "s3")]
            Self::Bucket(place) => Arc::new(copies::bucket::BucketStore::new(place.connect().await)),
            // No such target is parsed; one without a folder refuses everything.
            #[cfg(not(feature = "s3"))]
            Self::Bucket(_) => Arc::new(FolderStore::new(Path::new(&self.to_string()))),
        }
    }

    /// Whether it is within a data folder, so that both are lost together.
    pub fn is_within(&self, data: &Path) -> bool {
        match self {
            // A folder that does not exist is within one if its name is.
            Self::Folder(folder) => {
                let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
                whole(folder).zip(whole(data)).is_some_and(|(folder, data)| folder.starts_with(data))
            }
            Self::Bucket(_) => false,
        }
    }
}

/// How long copies stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyAge(u32);

impl CopyAge {
    /// As a duration.
    pub fn duration(self) -> SignedDuration {
        SignedDuration::from_hours(24 * i64::from(self.0))
    }
}

impl fmt::Display for CopyAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}d", self.0)
    }
}

impl FromStr for CopyAge {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let days = text.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()));
        days.and_then(|days| days.parse().ok()).map(Self).ok_or("use a number of days such as 7d")
    }
}

fn at_least_a_day(text: &str) -> Result<CopyAge, &'static str> {
    match text.parse()? {
        CopyAge(0) => Err("use at least 1d; `annalist copy --copy-keep 0d` leaves one copy only"),
        age => Ok(age),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_for_whole_days() {
        for (text, days, nightly) in
            [("7d", Some(7), true), ("0d", Some(0), false), ("36500d", Some(36_500), true)]
        {
            assert_eq!(text.parse::<CopyAge>().ok().map(|age| age.0), days, "{text}");
            assert_eq!(at_least_a_day(text).is_ok(), nightly, "{text}");
        }
        for refused in ["", "d", "7", "-1d", "+1d", "7 d", "1w", "99999999999d", "forever"] {
            assert!(refused.parse::<CopyAge>().is_err(), "{refused}");
        }
    }

    #[test]
    fn a_copy_within_the_data_folder_is_recognised_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir_all(data.join("copies")).unwrap();
        for (target, expected) in
            [("data", true), ("data/copies", true), ("data/new", true), ("data2", false), (".", false)]
        {
            let target = CopyTarget::Folder(folder.path().join(target));
            assert_eq!(target.is_within(&data), expected, "{target}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&data, folder.path().join("link")).unwrap();
            assert!(CopyTarget::Folder(folder.path().join("link/copies")).is_within(&data));
        }
    }

    #[test]
    fn a_target_is_a_folder_or_a_bucket() {
        assert_eq!("/mnt/copies".parse(), Ok(CopyTarget::Folder("/mnt/copies".into())));
        for refused in ["", "ftp://host/x", "file:///mnt", "s3://"] {
            assert!(refused.parse::<CopyTarget>().is_err(), "{refused}");
        }
        let bucket = "s3://b/a".parse::<BucketPlace>();
        assert_eq!("s3://b/a".parse(), bucket.map(CopyTarget::Bucket));
    }
}
