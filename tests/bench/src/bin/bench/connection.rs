//! One kept-alive HTTP/1.1 connection, with just enough parsing to separate the responses.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The initial buffer size: more than most responses here.
const ANSWER_BYTES: usize = 4096;

/// More than any response here: pages are the longest.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// An open connection.
pub(crate) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(ANSWER_BYTES) })
    }

    /// Returns the length of the last response, including its head.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer.len()
    }

    /// Sends a request and returns the status of the response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.write_all(request).await.context("cannot send")?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await.context("cannot read")? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(answer) = complete(&self.answer)? {
                return Ok(answer);
            }
            if self.answer.len() >= MAX_ANSWER_BYTES {
                bail!("the answer is too long");
            }
        }
    }
}

/// Returns the status once the response is complete.
fn complete(answer: &[u8]) -> anyhow::Result<Option<u16>> {
    let Some(head_len) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..head_len]).context("the head is not text")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no status in {status_line:?}"))?;
    let body_len = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .context("the answer has no content-length")?;
    Ok((answer.len() >= head_len + 4 + body_len).then_some(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";
        for len in 0..answer.len() {
            assert_eq!(complete(&answer[..len]).unwrap(), None);
        }
        assert_eq!(complete(answer).unwrap(), Some(503));
        assert!(complete(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
