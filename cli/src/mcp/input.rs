//! What comes in, with every character whole. A text of JavaScript may hold half of one, and most clients send it as it is; rmcp
//! drops a line that no text of Rust can hold, and its sender would wait for an answer that never comes.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, DuplexStream, copy, duplex};

/// The longest line that is read: far more than the longest query, and little enough to be held in memory.
const MAX_LINE: usize = 1 << 20;

/// Stands for a longer line: rmcp answers that it is an invalid request.
const TOO_LONG: &[u8] = b"{}\n";

/// Bytes that are read ahead.
const AHEAD: usize = 64 * 1024;

/// The same lines, in which the sign for what cannot be read stands for each half of a character.
pub(super) fn whole(input: impl AsyncRead + Send + Unpin + 'static) -> DuplexStream {
    let (read, mut write) = duplex(AHEAD);
    tokio::spawn(async move {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        // A longer line comes in parts.
        let mut is_rest = false;
        while let Ok(1..) = (&mut input).take(MAX_LINE as u64).read_until(b'\n', &mut line).await {
            let is_part = line.len() == MAX_LINE && !line.ends_with(b"\n");
            if !is_rest {
                let said = if is_part { TOO_LONG.to_vec() } else { mended(&String::from_utf8_lossy(&line)) };
                if copy(&mut said.as_slice(), &mut write).await.is_err() {
                    return;
                }
            }
            is_rest = is_part;
            line.clear();
        }
    });
    read
}

fn mended(line: &str) -> Vec<u8> {
    let mut mended = Vec::with_capacity(line.len());
    let mut rest = line.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at(at);
        mended.extend_from_slice(before);
        let (length, is_half) = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, false),
            (Some(0xD800..=0xDFFF), _) => (6, true),
            // With the sign behind it, which may be another backslash.
            _ => (escape.len().min(2), false),
        };
        let (escape, behind) = escape.split_at(length);
        mended.extend_from_slice(if is_half { br"\ufffd" } else { escape });
        rest = behind;
    }
    mended.extend_from_slice(rest);
    mended
}

/// The unit of UTF-16 that a text begins with, written as an escape.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_becomes_a_sign_and_all_else_stays() {
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
            assert_eq!(String::from_utf8(mended(line)).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn lines_come_as_they_were_sent_and_another_one_for_each_that_is_too_long() {
        let longest = "y".repeat(MAX_LINE - 1);
        for length in [MAX_LINE, MAX_LINE + 7, 2 * MAX_LINE, 3 * MAX_LINE - 1] {
            let long = "x".repeat(length);
            let sent =
                [b"\xED\xA0\x80\n", long.as_bytes(), b"\n", longest.as_bytes(), b"\nthe rest"].concat();
            let mut read = String::new();
            whole(std::io::Cursor::new(sent)).read_to_string(&mut read).await.unwrap();
            assert!(read == format!("\u{fffd}\u{fffd}\u{fffd}\n{{}}\n{longest}\nthe rest"), "{length}");
        }
    }
}
