//! The downloader's limits.

use std::num::NonZeroU32;
use std::time::Duration;

use slack_api::download::DownloadTimeLimits;

use crate::claims;

/// Slack publishes no limit for downloads. Five per second is the rate of a user who scrolls through a
/// channel of pictures, and more than a workspace shares. If it is too much after all, Slack responds with
/// 429 and the downloader slows down.
pub const DEFAULT_FILES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(300).unwrap();

/// Slack's own limit for an upload.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 1024 * 1024 * 1024;

/// Limits of the downloader. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct DownloadSettings {
    /// Requests for files per minute to each workspace.
    pub files_per_minute: NonZeroU32,
    /// Longer files are not stored.
    pub max_file_bytes: u64,
    /// Longer pictures are not stored: Slack's own limits are 1 MB for avatars and 128 kB for emoji.
    pub max_image_bytes: u64,
    /// After this number of receives, a file that still cannot be fetched has failed, and waits for `annalist
    /// files retry`. With the runtime's backoff, the receives span about ten minutes: longer than Slack's
    /// shorter outages, and short enough that a longer outage is noticed.
    pub file_tries: u32,
    /// After this number of receives, a picture is given up: the next sync requests it again.
    pub image_tries: u32,
    pub file_time_limits: DownloadTimeLimits,
    pub image_time_limits: DownloadTimeLimits,
    /// The limits of file claims.
    pub claims: claims::ClaimSettings,
}

impl Default for DownloadSettings {
    fn default() -> Self {
        Self {
            files_per_minute: DEFAULT_FILES_PER_MINUTE,
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            max_image_bytes: 5 * 1024 * 1024,
            file_tries: 12,
            image_tries: 3,
            file_time_limits: DownloadTimeLimits::default(),
            // Pictures are small and come from a CDN.
            image_time_limits: DownloadTimeLimits {
                whole: Duration::from_secs(60),
                ..DownloadTimeLimits::default()
            },
            claims: claims::ClaimSettings::default(),
        }
    }
}
