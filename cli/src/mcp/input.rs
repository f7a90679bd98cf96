//! Replaces lone surrogates in the input. A JavaScript string may contain one, and most clients send it
//! unchanged. rmcp drops a line that is no valid Rust string, so the client would wait for a response that
//! never comes.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, DuplexStream, copy, duplex};

/// Maximum length of a line: far longer than any query, and small enough to keep in memory.
const MAX_LINE: usize = 1 << 20;

/// Replaces a longer line, so that rmcp responds with an error for an invalid request.
const TOO_LONG: &[u8] = b"{}\n";

/// Capacity of the buffer between the input and rmcp.
const AHEAD: usize = 64 * 1024;

/// Returns the lines of the input, with U+FFFD in place of each lone surrogate.
pub(super) fn without_lone_surrogates(input: impl AsyncRead + Send + Unpin + 'static) -> DuplexStream {
    let (read, mut write) = duplex(AHEAD);
    tokio::spawn(async move {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        // A longer line is read in parts.
        let mut is_rest = false;
        while let Ok(1..) = (&mut input).take(MAX_LINE as u64).read_until(b'\n', &mut line).await {
            let is_part = line.len() == MAX_LINE && !line.ends_with(b"\n");
            if !is_rest {
                let output = if is_part {
                    TOO_LONG.to_vec()
                } else {
                    replace_lone_surrogates(&String::from_utf8_lossy(&line))
                };
                if copy(&mut output.as_slice(), &mut write).await.is_err() {
                    return;
                }
            }
            is_rest = is_part;
            line.clear();
        }
    });
    read
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
    async fn lines_are_unchanged_except_those_that_are_too_long() {
        let longest = "y".repeat(MAX_LINE - 1);
        for length in [MAX_LINE, MAX_LINE + 7, 2 * MAX_LINE, 3 * MAX_LINE - 1] {
            let long = "x".repeat(length);
            let sent =
                [b"\xED\xA0\x80\n", long.as_bytes(), b"\n", longest.as_bytes(), b"\nthe rest"].concat();
            let mut read = String::new();
            without_lone_surrogates(std::io::Cursor::new(sent)).read_to_string(&mut read).await.unwrap();
            assert!(read == format!("\u{fffd}\u{fffd}\u{fffd}\n{{}}\n{longest}\nthe rest"), "{length}");
        }
    }
}
