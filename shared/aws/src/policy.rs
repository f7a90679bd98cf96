//! Timeouts and retries of each kind of call, with the reasons. [`s3::policy`] has those of S3.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::config::retry::RetryPartition;
use s3::policy::Policy;
use s3::request_counter::RequestCounter;

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

/// A client of SQS for this kind of call.
pub(super) fn sqs(sdk: &SdkConfig, policy: Policy) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::config::Builder::from(sdk)
        .timeout_config(policy.timeouts())
        .retry_config(policy.retries())
        // By default, all clients of a service share one retry budget.
        .retry_partition(RetryPartition::custom("sqs").build())
        .interceptor(RequestCounter);
    aws_sdk_sqs::Client::from_conf(config.build())
}

/// A client of DynamoDB for this kind of call.
pub(super) fn dynamodb(sdk: &SdkConfig, policy: Policy) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(sdk)
        .timeout_config(policy.timeouts())
        .retry_config(policy.retries())
        .retry_partition(RetryPartition::custom("dynamodb").build())
        .interceptor(RequestCounter);
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

/// A client of Secrets Manager for this kind of call.
pub(super) fn secretsmanager(sdk: &SdkConfig, policy: Policy) -> aws_sdk_secretsmanager::Client {
    let config = aws_sdk_secretsmanager::config::Builder::from(sdk)
        .timeout_config(policy.timeouts())
        .retry_config(policy.retries())
        .interceptor(RequestCounter);
    aws_sdk_secretsmanager::Client::from_conf(config.build())
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
