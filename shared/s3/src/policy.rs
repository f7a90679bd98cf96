//! Timeouts and retries of a kind of call, and those of S3 with their reasons.
//!
//! Each kind has its own client, so that the failures of one kind do not use up the retries of another; all
//! share one connection pool and one credentials cache.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::config::StalledStreamProtectionConfig;
use aws_sdk_s3::config::retry::RetryPartition;
use aws_smithy_types::checksum_config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_types::service_config::ServiceConfigKey;

use super::request_counter::RequestCounter;

/// Timeouts and retries of one kind of call.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Timeout for connecting.
    pub connect: Duration,
    /// Timeout of one attempt.
    pub attempt: Duration,
    /// Timeout of all attempts together, including the waits between them.
    pub operation: Duration,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles, with jitter.
    pub first_backoff: Duration,
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// One part of a file, up to 8 MiB: at 1 Mbit/s that takes a minute.
pub const BYTES: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(90_000),
    operation: ms(300_000),
    attempts: 4,
    first_backoff: ms(100),
};

/// A body of which S3 sends or takes not one byte for this long has stalled: as long as a part may take. The
/// SDK's default of 20 s ends downloads on a machine whose cores are all busy.
const STALLED: Duration = ms(60_000);

/// S3 requests that transfer no content.
pub const OBJECTS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(5_000),
    operation: ms(20_000),
    attempts: 4,
    first_backoff: ms(100),
};

impl Policy {
    /// For the builder of a client.
    pub fn timeouts(&self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .connect_timeout(self.connect)
            .operation_attempt_timeout(self.attempt)
            .operation_timeout(self.operation)
            .build()
    }

    /// For the builder of a client.
    pub fn retries(&self) -> RetryConfig {
        RetryConfig::standard().with_max_attempts(self.attempts).with_initial_backoff(self.first_backoff)
    }

    /// A client of S3 for this kind of call.
    ///
    /// Checksums are sent only if S3 requires them, unless `AWS_REQUEST_CHECKSUM_CALCULATION` is set: many
    /// S3-compatible stores reject the SDK's default, and the signature covers the bytes anyway. A custom
    /// endpoint is such a store, and hardly any of them supports a bucket's own host name.
    pub fn s3(&self, sdk: &SdkConfig) -> aws_sdk_s3::Client {
        let mut config = aws_sdk_s3::config::Builder::from(sdk)
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .retry_partition(RetryPartition::custom("s3").build())
            .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(STALLED).build())
            .interceptor(RequestCounter);
        // The loader always sets both, so only the sources show whether the user has set them.
        if user_setting(sdk, "AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation").is_none() {
            config = config.request_checksum_calculation(RequestChecksumCalculation::WhenRequired);
        }
        if user_setting(sdk, "AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation").is_none() {
            config = config.response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        }
        if sdk.endpoint_url().is_some() || user_setting(sdk, "AWS_ENDPOINT_URL", "endpoint_url").is_some() {
            config = config.force_path_style(true);
        }
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// The user's setting for S3, from the environment or else the profile: `AWS_ENDPOINT_URL_S3` before
/// `AWS_ENDPOINT_URL`.
fn user_setting(sdk: &SdkConfig, variable: &str, profile_key: &str) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id("S3").env(variable).profile(profile_key);
    sdk.service_config()?.load_config(key.build().ok()?)
}
