//! Reads the metrics of a running process.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::process::Process;

/// The number of requests of each operation that the process has sent to AWS, by its own metric. S3's
/// operations have the same names as in [`crate::harness::proxy`].
///
/// # Panics
/// If it serves no metrics.
pub async fn aws_requests(process: &Process) -> BTreeMap<String, u64> {
    let text = metrics(process.metrics_address().await).await;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with(ports::metrics::AWS_REQUESTS)) {
        let (labels, count) = line.rsplit_once(' ').expect("a sample has a value");
        let operation = labels.split("operation=\"").nth(1).and_then(|rest| rest.split('"').next());
        let operation = operation.expect("the operation is a label").to_owned();
        counts.insert(operation, count.parse().expect("a count"));
    }
    counts
}

/// The text of the metrics at this address.
///
/// # Panics
/// If no metrics are served.
pub async fn metrics(address: SocketAddr) -> String {
    let stream = TcpStream::connect(address).await.expect("metrics are served");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("metrics are served");
    tokio::spawn(connection);
    let request =
        Request::get("/metrics").header("host", "metrics").body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("metrics are served");
    let body = response.into_body().collect().await.expect("metrics are served").to_bytes();
    String::from_utf8(body.to_vec()).expect("metrics are text")
}
