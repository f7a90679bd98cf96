//! Whether this process may write to an archive: not if a newer version has changed the format of what is stored.

use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey};
use rules::archive_version::{ArchiveVersion, FORMAT};
use tokio::time::sleep;

/// A process of an older version ends within this time after a newer one has begun to write.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(600);

const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why this process must not write.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error(
        "Annalist {by} has written this archive in format {format}, and this is Annalist {OWN_VERSION}, which writes format \
         {FORMAT}: run Annalist {by} or a newer version"
    )]
    Newer { format: u32, by: String },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Reads the version of the archive, and raises it to the own one if it is older or missing.
///
/// # Errors
/// [`VersionError`].
pub async fn check(archive: &dyn Archive) -> Result<(), VersionError> {
    if refuse_newer(archive).await? != Some(FORMAT) {
        let own = ArchiveVersion { format: FORMAT, by: OWN_VERSION.to_owned() };
        archive.write(&own.update()).await?;
    }
    Ok(())
}

/// Reads the version of the archive, and returns its format. A command that may write nothing leaves it as it is.
///
/// # Errors
/// [`VersionError`].
pub async fn refuse_newer(archive: &dyn Archive) -> Result<Option<u32>, VersionError> {
    let row = archive.get(&ItemKey::archive_version()).await?;
    match row.as_ref().and_then(ArchiveVersion::from_row) {
        Some(ArchiveVersion { format, by }) if format > FORMAT => Err(VersionError::Newer { format, by }),
        version => Ok(version.map(|version| version.format)),
    }
}

/// Checks again from time to time, and returns once this process must not write any more. An archive that cannot be read
/// is checked later.
pub async fn wait_until_newer(archive: &dyn Archive) -> VersionError {
    loop {
        sleep(CHECK_INTERVAL).await;
        match check(archive).await {
            Err(newer @ VersionError::Newer { .. }) => return newer,
            Err(VersionError::Archive(error)) => {
                tracing::warn!(%error, "the version of the archive cannot be read");
            }
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::memory::archive::MemoryArchive;
    use tokio::time::{Instant, timeout};

    use super::*;

    async fn raise(archive: &MemoryArchive, format: u32) {
        let newer = ArchiveVersion { format, by: "9.1.2".to_owned() };
        archive.write(&newer.update()).await.unwrap();
    }

    async fn stored(archive: &MemoryArchive) -> Option<ArchiveVersion> {
        let row = archive.get(&ItemKey::archive_version()).await.unwrap();
        row.as_ref().and_then(ArchiveVersion::from_row)
    }

    #[tokio::test]
    async fn a_missing_or_older_version_is_raised_and_a_newer_one_ends_the_process_in_one_line() {
        let archive = MemoryArchive::new();
        let own = ArchiveVersion { format: FORMAT, by: OWN_VERSION.to_owned() };
        check(&archive).await.unwrap();
        assert_eq!(stored(&archive).await, Some(own.clone()));
        check(&archive).await.unwrap();

        let older = MemoryArchive::new();
        raise(&older, FORMAT - 1).await;
        check(&older).await.unwrap();
        assert_eq!(stored(&older).await, Some(own));

        raise(&archive, FORMAT + 1).await;
        let line = check(&archive).await.unwrap_err().to_string();
        assert!(
            line.contains("Annalist 9.1.2") && line.contains(OWN_VERSION) && !line.contains('\n'),
            "{line}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_runs_learns_of_a_newer_version_within_ten_minutes() {
        let archive = MemoryArchive::new();
        check(&archive).await.unwrap();
        let an_hour = Duration::from_secs(3_600);
        assert!(timeout(an_hour, wait_until_newer(&archive)).await.is_err());
        raise(&archive, FORMAT + 1).await;
        let began = Instant::now();
        wait_until_newer(&archive).await;
        assert!(began.elapsed() <= CHECK_INTERVAL);
    }
}
