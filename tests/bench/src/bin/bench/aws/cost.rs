//! Computes the bill from counts and list prices.

use tests::bill::price::{GB_SECOND, INVOCATION, READ_UNIT, S3_PUT, SQS_REQUEST, WRITE_UNIT};
use tests::harness::metered::{READS, SENDS};

use super::Phase;

/// The method and the prices, as printed in the report: us-east-1, on demand, without the free tier.
pub(super) const METHOD: &str = "Dollars per million events in us-east-1, from the counts above and list prices without the free tier: \
     SQS FIFO 0.50 per million requests (<https://aws.amazon.com/sqs/pricing/>), DynamoDB on demand 0.625 per million \
     write units and 0.125 per million read units (<https://aws.amazon.com/dynamodb/pricing/on-demand/>), S3 5.00 per \
     million puts (<https://aws.amazon.com/s3/pricing/>), Lambda 0.20 per million requests and 0.0000133334 per GB-second \
     on arm64 (<https://aws.amazon.com/lambda/pricing/>). Long-running is what was counted; the machines it runs on come \
     on top. Lambda is arithmetic: an invocation and a send of its own for each event (5 ms in 128 MB), workers in batches \
     of 10 (100 ms in 128 MB). Storage, logs and idle polls are left out.";

const MEMORY_GB: f64 = 0.125;
const INGEST_S: f64 = 0.005;
const BATCH_S: f64 = 0.1;
const BATCH: f64 = 10.0;
const MILLION: f64 = 1e6;

/// Dollars per million events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    sqs: f64,
    dynamodb: f64,
    s3: f64,
    lambda: f64,
}

impl Bill {
    pub(super) fn total(&self) -> f64 {
        self.sqs + self.dynamodb + self.s3 + self.lambda
    }

    pub(super) fn row(&self, what: &str) -> Vec<String> {
        let dollars = [self.sqs, self.dynamodb, self.s3, self.lambda, self.total()];
        std::iter::once(what.to_owned()).chain(dollars.map(|dollars| format!("{dollars:.2}"))).collect()
    }
}

/// Returns the cost of the counted requests.
pub(super) fn long_running(phase: &Phase) -> Bill {
    let million = |count: u64| count as f64 * MILLION / phase.events as f64;
    let sqs = phase.requests.sum(&SENDS)
        + phase.requests.sum(&[
            "ReceiveMessage",
            "DeleteMessage",
            "DeleteMessageBatch",
            "ChangeMessageVisibilityBatch",
        ]);
    Bill {
        sqs: million(sqs) * SQS_REQUEST,
        dynamodb: million(phase.write_units) * WRITE_UNIT + million(phase.requests.sum(&READS)) * READ_UNIT,
        s3: million(phase.puts) * S3_PUT,
        lambda: 0.0,
    }
}

/// Returns the cost if each event is one invocation, and each batch of each worker another.
pub(super) fn lambda(phase: &Phase) -> Bill {
    let running = long_running(phase);
    // A message uses one queue; the job of a file uses another.
    let queues = if phase.puts > 0 { 2.0 } else { 1.0 };
    let follow_ups = queues - 1.0;
    let ingest = MILLION * (INVOCATION + INGEST_S * MEMORY_GB * GB_SECOND);
    let workers = queues * MILLION / BATCH * (INVOCATION + BATCH_S * MEMORY_GB * GB_SECOND);
    let sqs = MILLION * (1.0 + follow_ups / BATCH + queues * 2.0 / BATCH) * SQS_REQUEST;
    Bill { sqs, lambda: ingest + workers, ..running }
}
