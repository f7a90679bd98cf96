//! Requests generated before the clock starts: the driver shares the machine with the server and must use
//! little CPU.

use std::sync::Arc;

use ::testkit::corpus::{Effect, TEAM, Workload};
use ::tests::harness::client::PATH;
use ::tests::harness::process::SIGNING_SECRET;
use ports::clock::{Clock, SystemClock};
use secrecy::SecretString;
use slack::signature::SigningSecrets;

const TIMESTAMP_DIGITS: usize = 10;
const SIGNATURE_BYTES: usize = 67;

/// Signed requests in the order in which they are sent.
pub(crate) struct Pool {
    bytes: Vec<u8>,
    requests: Vec<BenchRequest>,
    secrets: SigningSecrets,
}

struct BenchRequest {
    start: usize,
    body: usize,
    end: usize,
    row: Option<ExpectedRow>,
}

/// The row that a request should create.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedRow {
    pub(crate) item_id: String,
    pub(crate) timestamp: String,
}

impl Pool {
    /// Generates and signs the next `count` events of a workload.
    pub(crate) fn generate(workload: &mut Workload, count: usize) -> anyhow::Result<Arc<Self>> {
        let secrets = SigningSecrets::parse(&SecretString::from(SIGNING_SECRET))?;
        let mut pool =
            Self { bytes: Vec::with_capacity(count * 1500), requests: Vec::with_capacity(count), secrets };
        for event in workload.take(count) {
            let start = pool.bytes.len();
            let head = format!(
                "POST {PATH} HTTP/1.1\r\nhost: annalist.test\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nx-slack-request-timestamp: {:0<TIMESTAMP_DIGITS$}\r\n\
                 x-slack-signature: {:0<SIGNATURE_BYTES$}\r\n\r\n",
                event.body.len(),
                "",
                ""
            );
            pool.bytes.extend_from_slice(head.as_bytes());
            let body = pool.bytes.len();
            pool.bytes.extend_from_slice(event.body.as_bytes());
            let row = match event.effect {
                Effect::Posted { ts, .. } => {
                    Some(ExpectedRow { item_id: format!("message#{TEAM}#{}", event.channel), timestamp: ts })
                }
                Effect::Edited { .. } | Effect::Deleted { .. } => None,
            };
            pool.requests.push(BenchRequest { start, body, end: pool.bytes.len(), row });
        }
        pool.sign();
        Ok(Arc::new(pool))
    }

    /// Signs every request again, unless the pool is still in use: a signature is valid for five minutes.
    pub(crate) fn sign_again(pool: &mut Arc<Self>) {
        if let Some(pool) = Arc::get_mut(pool) {
            pool.sign();
        }
    }

    fn sign(&mut self) {
        let now_s = SystemClock.now().seconds();
        for request in &self.requests {
            let signature = self.secrets.sign(now_s, &self.bytes[request.body..request.end]);
            let signature_at = request.body - 4 - SIGNATURE_BYTES;
            self.bytes[signature_at..signature_at + SIGNATURE_BYTES].copy_from_slice(signature.as_bytes());
            let timestamp_at = signature_at - "\r\nx-slack-signature: ".len() - TIMESTAMP_DIGITS;
            let timestamp = format!("{now_s:0TIMESTAMP_DIGITS$}");
            self.bytes[timestamp_at..timestamp_at + TIMESTAMP_DIGITS].copy_from_slice(timestamp.as_bytes());
        }
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of rows that the first `count` requests should create.
    pub(crate) fn rows(&self, count: usize) -> usize {
        self.requests[..count].iter().filter(|request| request.row.is_some()).count()
    }

    /// Returns the bytes of a request.
    pub(crate) fn request(&self, n: usize) -> &[u8] {
        &self.bytes[self.requests[n].start..self.requests[n].end]
    }

    /// Returns the row that a request should create, if it is a new message.
    pub(crate) fn row(&self, n: usize) -> Option<&ExpectedRow> {
        self.requests[n].row.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use ::testkit::corpus::Shape;

    use super::*;

    #[test]
    fn a_request_carries_a_signature_that_verifies() {
        let pool = Pool::generate(&mut Workload::new(Shape::default()), 20).unwrap();
        assert_eq!(pool.len(), 20);
        for n in 0..pool.len() {
            let text = std::str::from_utf8(pool.request(n)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
            let (timestamp, signature) =
                (header("x-slack-request-timestamp: "), header("x-slack-signature: "));
            let now_s = SystemClock.now().seconds();
            assert_eq!(pool.secrets.verify(timestamp, signature, body.as_bytes(), now_s), Ok(()));
            assert_eq!(header("content-length: "), Some(body.len().to_string().as_str()));
        }
        assert!(pool.rows(20) > 10 && pool.row(0).is_some());
    }
}
