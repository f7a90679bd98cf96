//! How long each kind of call may take and how often it is tried: one row per kind, with the reason.
//!
//! Each kind has a client of its own, so that one kind's failures do not use up another's retries; all share one pool
//! of connections and one cache of credentials.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::retry::RetryPartition;
use aws_smithy_types::checksum_config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_types::service_config::ServiceConfigKey;

use super::request_counter::RequestCounter;

/// Bounds of one kind of call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// How long a connection may take.
    connect: Duration,
    /// How long one attempt may take.
    attempt: Duration,
    /// How long all attempts together may take, the waits between them included.
    pub(super) operation: Duration,
    /// How often it is tried.
    attempts: u32,
    /// The wait before the second attempt; it doubles, with jitter.
    pub(super) first_backoff: Duration,
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A send. Slack waits 3 s and ingest answers 503 after 2 s, so the third attempt must end before that. The SDK's
/// first backoff of up to a second would use the time up alone.
pub(super) const SEND: Policy =
    Policy { connect: ms(500), attempt: ms(800), operation: ms(1_900), attempts: 3, first_backoff: ms(50) };

/// A receive, which waits up to SQS's 20 s for the first message. It is repeated with the same attempt id, so an answer
/// that was lost on its way is given again; more repeats are the runtime's, which backs off.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html>
pub(super) const RECEIVE: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(25_000),
    operation: ms(52_000),
    attempts: 2,
    first_backoff: ms(200),
};

/// Acks, visibility and counts. A lost ack costs a redelivery and a lost heartbeat a lease, so both are worth a few
/// tries; they must be over well within the 10 s between two heartbeats.
pub(super) const SETTLE: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(2_000),
    operation: ms(7_000),
    attempts: 4,
    first_backoff: ms(50),
};

/// Reads and writes of rows, which DynamoDB answers within tens of milliseconds. What is throttled for longer goes back
/// to the queue, which waits better than a held lease does.
pub(super) const ROWS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(3_000),
    operation: ms(10_000),
    attempts: 5,
    first_backoff: ms(25),
};

/// The cache of the existence check. What it does not say at once Slack is asked, which takes a fraction of a second too.
pub(super) const CACHE: Policy =
    Policy { connect: ms(500), attempt: ms(500), operation: ms(900), attempts: 2, first_backoff: ms(25) };

/// Claims, which DynamoDB answers as rows. Without an answer, the caller carries on without the table or gives the job back, and
/// should not wait long; and a renewal must be over well within the 10 s between two of them.
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

/// Everything about files that carries no bytes.
pub(super) const OBJECTS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(5_000),
    operation: ms(20_000),
    attempts: 4,
    first_backoff: ms(100),
};

/// A secret, read once at the start: Lambda allows ten seconds for that.
/// <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
pub(super) const SECRETS: Policy = Policy {
    connect: ms(1_000),
    attempt: ms(2_000),
    operation: ms(7_000),
    attempts: 3,
    first_backoff: ms(50),
};

/// Setting up: rare, and a person watches.
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
            // Unless told, the SDK lets all clients of a service draw on one budget of retries.
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
    /// Checksums are sent only where S3 requires them, unless `AWS_REQUEST_CHECKSUM_CALCULATION` says otherwise: the
    /// SDK's default is refused by many stores that speak S3's language, and the signature covers the bytes anyway.
    /// A custom endpoint is such a store, and hardly any of them answers to a bucket's own host name.
    pub(super) fn s3(&self, sdk: &SdkConfig) -> aws_sdk_s3::Client {
        let mut config = aws_sdk_s3::config::Builder::from(sdk)
            .timeout_config(self.timeouts())
            .retry_config(self.retries())
            .retry_partition(RetryPartition::custom("s3").build())
            .interceptor(RequestCounter);
        // The loader leaves neither unset, so only its source shows whether the user has chosen.
        if said(sdk, "AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation").is_none() {
            config = config.request_checksum_calculation(RequestChecksumCalculation::WhenRequired);
        }
        if said(sdk, "AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation").is_none() {
            config = config.response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        }
        if sdk.endpoint_url().is_some() || said(sdk, "AWS_ENDPOINT_URL", "endpoint_url").is_some() {
            config = config.force_path_style(true);
        }
        aws_sdk_s3::Client::from_conf(config.build())
    }
}

/// What a variable, or else the profile, says for S3: `AWS_ENDPOINT_URL_S3` before `AWS_ENDPOINT_URL`.
fn said(sdk: &SdkConfig, variable: &str, of_profile: &str) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id("S3").env(variable).profile(of_profile);
    sdk.service_config()?.load_config(key.build().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_over_before_ingest_gives_up() {
        // The default of `ingest::IngestLimits::enqueue`.
        assert!(SEND.operation < ms(2_000));
    }

    #[test]
    fn a_receive_may_wait_as_long_as_sqs_does() {
        assert!(RECEIVE.attempt > ms(20_000) && RECEIVE.operation > RECEIVE.attempt * RECEIVE.attempts);
    }
}
