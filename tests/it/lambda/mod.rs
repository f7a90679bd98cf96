//! The parts as Lambda functions: real programs with a simulated Runtime API and an emulated AWS.

mod bill;
mod ingest;
mod nights;
mod secrets;
mod workers;

use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::Value;
use slack::signature::SigningSecrets;
use tests::harness::client::PATH;
use tests::harness::lambda::RunningFunction;
use tests::harness::lambda::payloads::{FunctionUrlRequest, Response};
use tests::harness::process::SIGNING_SECRET;

/// More than any step takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A request that Slack signs with the current time.
fn signed(body: &str) -> FunctionUrlRequest {
    signed_with(SIGNING_SECRET, body)
}

fn signed_with(secret: &str, body: &str) -> FunctionUrlRequest {
    let secrets = SigningSecrets::parse(&secret.to_owned().into()).unwrap();
    let timestamp_s = SystemClock.now().seconds();
    FunctionUrlRequest::post(PATH, body)
        .header("X-Slack-Request-Timestamp", &timestamp_s.to_string())
        .header("X-Slack-Signature", &secrets.sign(timestamp_s, body.as_bytes()))
}

async fn answer(ingest: &RunningFunction, request: &FunctionUrlRequest) -> Response {
    ingest.request(&request.payload()).await
}

/// The lines that a function printed, all of which must be in CloudWatch's format.
fn metric_lines(printed: &str) -> Vec<Value> {
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line} is not JSON")))
        .collect()
}
