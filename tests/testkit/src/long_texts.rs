//! Long texts of one repeated pattern. A reader that compares each character with all others takes minutes for
//! a megabyte of some of them.

use std::time::{Duration, Instant};

/// The patterns: markup of Slack, Markdown and HTML that begins and does not end, and what stands in credentials
/// and addresses.
pub const PATTERNS: [&str; 34] = [
    "<",
    ">",
    "&",
    "*",
    "_",
    "~",
    "`",
    "[",
    "![",
    "](",
    ":",
    ":a",
    "```",
    "*a ",
    "<a ",
    "<a|",
    "<@",
    "<@U0APP|",
    "<@U0APP|<",
    "<!date^",
    "&amp;",
    "\\",
    "a_*~",
    "> ",
    "- ",
    "|",
    "<https://",
    "https://a?xoxb-",
    "?xoxe.",
    "<!--",
    "</",
    "&#x",
    "(\u{ad}",
    "e\u{301}",
];

/// How much longer the long text is.
const FACTOR: u32 = 8;

/// How much longer it may take: reading each character once takes eight times as long, and comparing each with
/// all others 64 times.
const MAX_FACTOR: u32 = 4 * FACTOR;

/// What the machine may add to a measurement.
const NOISE: Duration = Duration::from_millis(5);

/// Returns a pattern repeated to this length.
pub fn text_of(pattern: &str, bytes: usize) -> String {
    pattern.repeat(bytes.div_ceil(pattern.len()))
}

/// Checks that the time of a reader grows with the length of a text alone. `read` reads a text of each pattern with
/// `short_bytes` bytes, and one that is eight times as long. Another process may take the time of one attempt.
///
/// # Panics
/// If it takes longer in each attempt.
pub fn assert_linear(reader: &str, short_bytes: usize, mut read: impl FnMut(&str)) {
    for pattern in PATTERNS {
        let short = text_of(pattern, short_bytes);
        let long = text_of(pattern, short_bytes * FACTOR as usize);
        let mut time = |text: &str| {
            let started = Instant::now();
            read(text);
            started.elapsed()
        };
        let is_linear = |_| {
            let (short_time, long_time) = (time(&short).min(time(&short)), time(&long));
            long_time < short_time * MAX_FACTOR + NOISE
        };
        assert!((0..10).any(is_linear), "{reader} takes too long for {pattern:?}");
    }
}
