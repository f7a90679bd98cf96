//! The settings of file downloads and their claims.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use ports::claims::DEFAULT_TTL;
use ports::queue::topology::RETENTION;
use workers::claims::ClaimSettings;
use workers::file_downloader::{DEFAULT_FILES_PER_MINUTE, DEFAULT_MAX_FILE_BYTES, DownloadSettings};

/// The settings of file downloads.
#[derive(Debug, Clone, clap::Args)]
pub struct FileArgs {
    /// Files requested per minute from each workspace, by each process
    #[arg(long, env = "ANNALIST_FILES_PER_MINUTE", value_name = "N", default_value_t = DEFAULT_FILES_PER_MINUTE)]
    pub files_per_minute: NonZeroU32,
    /// Largest file to store
    #[arg(long, env = "ANNALIST_MAX_FILE_BYTES", value_name = "BYTES", default_value_t = DEFAULT_MAX_FILE_BYTES)]
    pub max_file_bytes: u64,
    /// Claims, so that a file is fetched once
    #[command(flatten)]
    pub claims: ClaimArgs,
}

impl FileArgs {
    /// The downloader's limits.
    pub fn settings(&self) -> DownloadSettings {
        let claims =
            ClaimSettings { ttl: Duration::from_secs(self.claims.claim_ttl_s), ..ClaimSettings::default() };
        DownloadSettings {
            files_per_minute: self.files_per_minute,
            max_file_bytes: self.max_file_bytes,
            claims,
            ..DownloadSettings::default()
        }
    }
}

/// The settings of claims.
#[derive(Debug, Clone, clap::Args)]
pub struct ClaimArgs {
    /// Seconds to remember that a file was fetched
    #[arg(long, env = "ANNALIST_CLAIM_TTL_S", value_name = "SECONDS", default_value_t = DEFAULT_TTL.as_secs(),
          value_parser = clap::value_parser!(u64).range(TTL_S), hide_short_help = true)]
    pub claim_ttl_s: u64,
}

/// At least the renewal interval of a claim in progress, and at most as long as its job can be on the queue.
const TTL_S: RangeInclusive<u64> = 60..=RETENTION.as_secs();

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct DownloadCommand {
        #[command(flatten)]
        files: FileArgs,
    }

    #[test]
    fn the_ttl_of_claims_is_six_hours_or_up_to_the_queue_retention() {
        let parse = |args: &[&str]| DownloadCommand::try_parse_from([&["annalist"], args].concat());
        let ttl = |args: &[&str]| parse(args).map(|command| command.files.settings().claims.ttl).ok();
        assert_eq!(ttl(&[]), Some(Duration::from_secs(21_600)));
        assert_eq!(ttl(&["--claim-ttl-s", "1209600"]), Some(RETENTION));
        for refused in ["59", "1209601", "6h", "-1"] {
            assert!(parse(&["--claim-ttl-s", refused]).is_err(), "{refused}");
        }
    }
}
