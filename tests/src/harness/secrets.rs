//! What no program may ever show. The harness looks for it in every line that any program prints.

use super::process::SIGNING_SECRET;

/// Slack's verification token, as it is in the envelopes of the made-up events.
pub const VERIFICATION_TOKEN: &str = "not-checked-any-more";

/// How Slack's tokens begin. What merely explains this, such as `xoxb-…`, shows none.
const TOKEN_PREFIXES: [&str; 6] = ["xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxs-", "xapp-"];

/// The secret that a text shows, by its kind.
pub fn shown_in(text: &str) -> Option<&'static str> {
    if text.contains(SIGNING_SECRET) {
        return Some("the signing secret");
    }
    if text.contains(VERIFICATION_TOKEN) {
        return Some("the verification token");
    }
    let is_token = |prefix: &&str| {
        let followed = |(at, _): (usize, &str)| {
            text[at + prefix.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        text.match_indices(*prefix).any(followed)
    };
    TOKEN_PREFIXES.iter().any(is_token).then_some("a token")
}

/// Nothing secret is in what a program showed.
///
/// # Panics
/// If something is.
pub fn assert_none(what: &str, text: &str) {
    if let Some(secret) = shown_in(text) {
        let lines: Vec<&str> = text.lines().filter(|line| shown_in(line).is_some()).collect();
        panic!("{what} shows {secret}:\n{}", lines.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_words_about_them() {
        for secret in
            ["a xoxb-1", "Bearer xoxp-12-ab", SIGNING_SECRET, "{\"token\":\"not-checked-any-more\"}"]
        {
            assert!(shown_in(secret).is_some(), "{secret}");
        }
        for word in ["it begins with xoxb-", "`xoxb-…`", "xoxb-*", "xoxb hidden", ""] {
            assert_eq!(shown_in(word), None, "{word}");
        }
    }
}
