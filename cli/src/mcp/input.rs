//! Reads lines of the input. rmcp drops a line that it cannot parse as JSON, and the client would wait for a
//! response that never comes.
//!
//! * A lone surrogate is replaced: a JavaScript string may contain one, and most clients send it unchanged.
//! * Any other line that is no JSON is answered with an error.

use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader, DuplexStream, copy, duplex,
};
use tokio::sync::mpsc;

/// Maximum length of a line: far longer than any query, and small enough to keep in memory.
const MAX_LINE: usize = 1 << 20;

/// Replaces a longer line, so that rmcp responds with an error for an invalid request.
const TOO_LONG: &[u8] = b"{}\n";

/// Capacity of the buffer between the input and rmcp.
const AHEAD: usize = 64 * 1024;

/// Lines that are not answered yet. While there are more, no input is read.
const MAX_UNANSWERED: usize = 16;

/// A write of a response.
type PendingWrite = Pin<Box<dyn Future<Output = Result<(), std::io::Error>> + Send>>;

/// Lines of JSON for rmcp, and one error for each other line.
pub(super) struct LineTransport<W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, DuplexStream, W>,
    unparsable: mpsc::Receiver<()>,
    /// The error that is being written. It is kept here because rmcp may stop to receive at any time.
    answer: Option<PendingWrite>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> LineTransport<W> {
    pub(super) fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Self {
        let (read, unparsable) = parsable_lines(input);
        Self { inner: AsyncRwTransport::new_server(read, output), unparsable, answer: None }
    }

    /// Writes the errors for all lines that were read so far.
    async fn answer_unparsable(&mut self) {
        loop {
            if let Some(answer) = &mut self.answer {
                // The output is closed if this fails, and rmcp finds that out itself.
                drop(answer.await);
                self.answer = None;
            }
            if self.unparsable.try_recv().is_err() {
                return;
            }
            self.begin_answer();
        }
    }

    fn begin_answer(&mut self) {
        let error = ErrorData::parse_error("this line is no JSON", None);
        self.answer = Some(Box::pin(Transport::send(
            &mut self.inner,
            TxJsonRpcMessage::<RoleServer>::error(error, None),
        )));
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for LineTransport<W> {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        Transport::send(&mut self.inner, item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.answer_unparsable().await;
            tokio::select! {
                biased;
                Some(()) = self.unparsable.recv() => self.begin_answer(),
                received = self.inner.receive() => {
                    if received.is_none() {
                        self.answer_unparsable().await;
                    }
                    return received;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Returns the lines that are JSON, with U+FFFD in place of each lone surrogate, and a receiver with one item
/// for each other line.
fn parsable_lines(input: impl AsyncRead + Send + Unpin + 'static) -> (DuplexStream, mpsc::Receiver<()>) {
    let (read, mut write) = duplex(AHEAD);
    let (unparsable, unanswered) = mpsc::channel(MAX_UNANSWERED);
    tokio::spawn(async move {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        // A longer line is read in parts.
        let mut is_rest = false;
        while let Ok(1..) = (&mut input).take(MAX_LINE as u64).read_until(b'\n', &mut line).await {
            let is_part = line.len() == MAX_LINE && !line.ends_with(b"\n");
            if !is_rest && !line.trim_ascii().is_empty() {
                let output = if is_part { Some(TOO_LONG.to_vec()) } else { json_line(&line) };
                let is_open = match output {
                    Some(output) => copy(&mut output.as_slice(), &mut write).await.is_ok(),
                    None => mpsc::Sender::send(&unparsable, ()).await.is_ok(),
                };
                if !is_open {
                    return;
                }
            }
            is_rest = is_part;
            line.clear();
        }
    });
    (read, unanswered)
}

/// Returns the line without lone surrogates; `None` if it is no JSON.
fn json_line(line: &[u8]) -> Option<Vec<u8>> {
    let mut line = replace_lone_surrogates(String::from_utf8_lossy(line).trim());
    serde_json::from_slice::<Value>(&line).ok()?;
    line.push(b'\n');
    Some(line)
}

fn replace_lone_surrogates(line: &str) -> Vec<u8> {
    let mut output = Vec::with_capacity(line.len());
    let mut rest = line.as_bytes();
    while let Some(index) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at(index);
        output.extend_from_slice(before);
        let (length, is_half) = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, false),
            (Some(0xD800..=0xDFFF), _) => (6, true),
            // A backslash and the following character, which may be another backslash.
            _ => (escape.len().min(2), false),
        };
        let (escape, remaining) = escape.split_at(length);
        output.extend_from_slice(if is_half { br"\ufffd" } else { escape });
        rest = remaining;
    }
    output.extend_from_slice(rest);
    output
}

/// Parses a leading `\u` escape as a UTF-16 code unit.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (line, expected) in [
            (r#"{"query":"\ud83d x"}"#, r#"{"query":"\ufffd x"}"#),
            (r#""\uDE00\uD83D""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\\ud83d \\\ud83d \u4f1a \n""#, r#""\\ud83d \\\ufffd \u4f1a \n""#),
            (r"\", r"\"),
            (r"\u", r"\u"),
            (r"\ud8", r"\ud8"),
            ("no escape 会議", "no escape 会議"),
        ] {
            assert_eq!(String::from_utf8(replace_lone_surrogates(line)).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn lines_of_json_are_unchanged_except_those_that_are_too_long() {
        let longest = format!("\"{}\"", "y".repeat(MAX_LINE - 3));
        for length in [MAX_LINE, MAX_LINE + 7, 2 * MAX_LINE, 3 * MAX_LINE - 1] {
            let long = "x".repeat(length);
            let sent =
                [b"\"\xED\xA0\x80\"\n", long.as_bytes(), b"\n", longest.as_bytes(), b"\n[\"the rest\"]"]
                    .concat();
            let mut read = String::new();
            let (mut lines, mut unparsable) = parsable_lines(std::io::Cursor::new(sent));
            lines.read_to_string(&mut read).await.unwrap();
            assert!(
                read == format!("\"\u{fffd}\u{fffd}\u{fffd}\"\n{{}}\n{longest}\n[\"the rest\"]\n"),
                "{length}"
            );
            assert!(unparsable.recv().await.is_none());
        }
    }

    /// Returns the lines that a server would print for this input, if it never answers.
    async fn errors_for(input: &str) -> Vec<Value> {
        let (output, mut printed) = duplex(AHEAD);
        let mut transport = LineTransport::new(std::io::Cursor::new(input.to_owned().into_bytes()), output);
        while transport.receive().await.is_some() {}
        transport.close().await.unwrap();
        drop(transport);
        let mut text = String::new();
        printed.read_to_string(&mut text).await.unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn each_line_that_is_no_json_is_answered_with_a_parse_error() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":}}"#,
            r#"{"jsonrpc":"2.0","id":7"#,
            "GET / HTTP/1.1",
            "{'id': 7}",
            "1e999",
            "\u{0}",
            &deep,
        ] {
            for around in [[0, 0], [0, 2], [3, 1]] {
                let [before, after] = around.map(|count| format!("{ping}\n\n").repeat(count));
                let errors = errors_for(&format!("{before}{line}\n{after}{line}")).await;
                assert_eq!(errors.len(), 2, "{line}");
                for error in errors {
                    assert_eq!(
                        (&error["error"]["code"], &error["id"]),
                        (&(-32700).into(), &Value::Null),
                        "{line}"
                    );
                    assert_eq!(error["jsonrpc"], "2.0");
                }
            }
        }
        let many = errors_for(&"x\n".repeat(5 * MAX_UNANSWERED)).await;
        assert_eq!(many.len(), 5 * MAX_UNANSWERED);
        assert!(errors_for(&format!("{ping}\r\n \n{ping}")).await.is_empty());
    }
}
