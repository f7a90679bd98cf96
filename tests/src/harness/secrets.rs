//! Secrets that no program may print. The harness searches for them in every line that any program prints.

use testkit::fake_socket::TICKET;

use super::process::SIGNING_SECRET;

/// Slack's verification token in the envelopes of generated events.
pub const VERIFICATION_TOKEN: &str = "not-checked-any-more";

/// The prefixes of Slack's tokens. A prefix alone, as in `xoxb-…`, is not a secret.
const TOKEN_PREFIXES: [&str; 6] = ["xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxs-", "xapp-"];

/// The kind of the secret that a text contains, if any.
pub fn find_secret(text: &str) -> Option<&'static str> {
    if text.contains(SIGNING_SECRET) {
        return Some("the signing secret");
    }
    if text.contains(VERIFICATION_TOKEN) {
        return Some("the verification token");
    }
    if text.contains(TICKET) {
        return Some("the ticket of a socket");
    }
    let is_token = |prefix: &&str| {
        let followed = |(at, _): (usize, &str)| {
            text[at + prefix.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        text.match_indices(*prefix).any(followed)
    };
    TOKEN_PREFIXES.iter().any(is_token).then_some("a token")
}

/// Asserts that a text contains no secret.
///
/// # Panics
/// If it contains one.
pub fn assert_no_secret(what: &str, text: &str) {
    if let Some(secret) = find_secret(text) {
        let lines: Vec<&str> = text.lines().filter(|line| find_secret(line).is_some()).collect();
        panic!("{what} shows {secret}:\n{}", lines.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_distinguished_from_words_about_them() {
        for secret in
            ["a xoxb-1", "Bearer xoxp-12-ab", SIGNING_SECRET, "{\"token\":\"not-checked-any-more\"}"]
        {
            assert!(find_secret(secret).is_some(), "{secret}");
        }
        for word in ["it begins with xoxb-", "`xoxb-…`", "xoxb-*", "xoxb hidden", ""] {
            assert_eq!(find_secret(word), None, "{word}");
        }
    }
}
