//! Timeouts and retries of each kind of call, with the reasons.
//!
//! Each kind has its own client, so that the failures of one kind do not use up the retries of another; all
//! share one connection pool and one credentials cache.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::config::StalledStreamProtectionConfig;
use aws_sdk_sqs::config::retry::RetryPartition;
use aws_smithy_types::checksum_config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_types::service_config::ServiceConfigKey;

use super::request_counter::RequestCounter;

/// Timeouts and retries of one kind of call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Timeout for connecting.
    connect: Duration,
    /// Timeout of one attempt.
    attempt: Duration,
    /// Timeout of all attempts together, including the waits between them.
    pub(super) operation: Duration,
    /// Maximum number of attempts.
    attempts: u32,
    /// The wait before the second attempt; it doubles, with jitter.
    pub(super) first_backoff: Duration,
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A send. Slack waits 3 s and ingest answers 503 after 2 s, so the third attempt must end before that. The
/// SDK's default first backoff of up to a second would be too long.
pub(super) const SEND: Policy =
    Policy { connect: ms(500), attempt: ms(800), operation: ms(1_900), attempts: 3, first_backoff: ms(50) };

/// A receive, which waits up to SQS's 20 s for the first message. It is retried with the same attempt id, so
/// that SQS repeats a response that was lost; further retries are up to the runtime, which backs off.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
pub(super) const RECEIVE: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(25_000),
    operation: ms(52_000),
    attempts: 2,
    first_backoff: ms(200),
};

/// Acks, changes of visibility, and counts. A lost ack causes a redelivery, and a lost heartbeat loses the
/// lease, so both are worth several attempts; they must end well within the 10 s between two heartbeats.
pub(super) const SETTLE: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(2_000),
    operation: ms(7_000),
    attempts: 4,
    first_backoff: ms(50),
};

/// Reads and writes of rows, which DynamoDB answers within tens of milliseconds. A job that is throttled for
/// longer goes back to the queue: waiting there is better than holding a lease.
pub(super) const ROWS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(3_000),
    operation: ms(10_000),
    attempts: 5,
    first_backoff: ms(25),
};

/// The cache of the existence check. If it does not answer quickly, Slack is asked, which takes a fraction of
/// a second too.
pub(super) const CACHE: Policy =
    Policy { connect: ms(500), attempt: ms(500), operation: ms(900), attempts: 2, first_backoff: ms(25) };

/// Claims, which DynamoDB answers as fast as rows. Without a response, the caller continues without the table
/// or returns the job to the queue, and should not wait long; and a renewal must end well within the 10 s
/// between two renewals.
pub(super) const CLAIMS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(2_000),
    operation: ms(5_000),
    attempts: 4,
    first_backoff: ms(25),
};

/// One part of a file, up to 8 MiB: at 1 Mbit/s that takes a minute.
pub(super) const BYTES: Policy = Policy {
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
pub(super) const OBJECTS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(5_000),
    operation: ms(20_000),
    attempts: 4,
    first_backoff: ms(100),
};

/// A secret, which is read at startup: Lambda allows ten seconds for that. Later reads have shorter timeouts of
/// their own.
/// <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
pub(super) const SECRETS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(2_000),
    operation: ms(7_000),
    attempts: 3,
    first_backoff: ms(50),
};

/// Provisioning: rare, and a person is watching.
pub(super) const SETUP: Policy = Policy {
    connect: ms(3_000),
    attempt: ms(15_000),
    operation: ms(60_000),
    attempts: 5,
    first_backoff: ms(200),
};

impl Policy {
    fn timeouts(&self) -> TimeoutConfig {
        TimeoutConfig::builder()
            .connect_timeout(self.connect)
            .operation_attempt_timeout(self.attempt)
            .operation_timeout(self.operation)
            .build()
    }

    fn retries(&self) -> RetryConfig {
        RetryConfig::standard().with_max_attempts(self.attempts).with_initial_backoff(self.first_backoff)
    }

    /// A client of SQS for this kind of call.
    pub(super) fn sqs(&self, sdk: &SdkConfig) -> aws_sdk_sqs::Client {
        let config = aws_sdk_sqs::config::Builder::from(sdk)
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            // By default, all clients of a service share one retry budget.
            .retry_partition(RetryPartition::custom("sqs").build())
            .interceptor(RequestCounter);
        aws_sdk_sqs::Client::from_conf(config.build())
    }

    /// A client of DynamoDB for this kind of call.
    pub(super) fn dynamodb(&self, sdk: &SdkConfig) -> aws_sdk_dynamodb::Client {
        let config = aws_sdk_dynamodb::config::Builder::from(sdk)
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .retry_partition(RetryPartition::custom("dynamodb").build())
            .interceptor(RequestCounter);
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// A client of Secrets Manager for this kind of call.
    pub(super) fn secretsmanager(&self, sdk: &SdkConfig) -> aws_sdk_secretsmanager::Client {
        let config = aws_sdk_secretsmanager::config::Builder::from(sdk)
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .interceptor(RequestCounter);
        aws_sdk_secretsmanager::Client::from_conf(config.build())
    }

    /// A client of S3 for this kind of call.
    ///
    /// Checksums are sent only if S3 requires them, unless `AWS_REQUEST_CHECKSUM_CALCULATION` is set: many
    /// S3-compatible stores reject the SDK's default, and the signature covers the bytes anyway. A custom
    /// endpoint is such a store, and hardly any of them supports a bucket's own host name.
    pub(super) fn s3(&self, sdk: &SdkConfig) -> aws_sdk_s3::Client {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_ends_before_ingest_gives_up() {
        // The default of `ingest::IngestLimits::enqueue`.
        assert!(SEND.operation < ms(2_000));
    }

    #[test]
    fn a_receive_may_wait_as_long_as_sqs_does() {
        assert!(RECEIVE.attempt > ms(20_000) && RECEIVE.operation > RECEIVE.attempt * RECEIVE.attempts);
    }
}
