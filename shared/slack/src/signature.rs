//! Slack's request signature: HMAC-SHA256 over `v0:{timestamp}:{raw body}`.
//!
//! <https://docs.slack.dev/authentication/verifying-requests-from-slack>

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use crate::hex::to_hex;

/// Slack's replay window: a request that is older or further in the future is refused.
pub const WINDOW_S: u64 = 300;

/// The text before the reason in the response to a refused request.
pub const REFUSED_LINE: &str = "annalist refused this request: ";

/// A signature is `v0=` and 64 hex digits.
const SIGNATURE_PREFIX: &str = "v0=";

/// Why a request is not accepted as Slack's. It never contains the expected signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a signature header is missing")]
    MissingHeader,
    /// The timestamp is not a plain number of seconds.
    #[error("the timestamp header is not a number")]
    MalformedTimestamp,
    /// The signature is valid but the timestamp is more than [`WINDOW_S`] away from now: this machine's clock
    /// is wrong, or the request was replayed.
    #[error("the timestamp is {ahead_s:+} s away from this machine's clock")]
    Stale {
        /// How many seconds the request is ahead of this machine's clock; negative if it is behind.
        ahead_s: i64,
    },
    /// The signature is not `v0=` and 64 hex digits.
    #[error("the signature header is malformed")]
    MalformedSignature,
    /// No secret produces this signature.
    #[error("it is signed with another secret, or was changed on its way")]
    Mismatch,
}

impl Refused {
    /// Every label.
    pub const LABELS: [&'static str; 5] =
        ["missing_header", "malformed_timestamp", "stale", "malformed_signature", "mismatch"];

    /// A label for metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::Stale { .. } => "stale",
            Self::MalformedSignature => "malformed_signature",
            Self::Mismatch => "mismatch",
        }
    }
}

/// The app's signing secret, or two during a rotation.
#[derive(Clone)]
pub struct SigningSecrets {
    keyed: Vec<Hmac<Sha256>>,
    odd: usize,
}

/// The list of secrets cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecrets {
    /// Nothing but separators and blanks.
    #[error("it is empty")]
    Empty,
    /// More secrets than a rotation needs: each secret adds an HMAC computation to every forged request.
    #[error("it lists more than two secrets")]
    TooMany,
}

impl SigningSecrets {
    /// Parses one secret, or two separated by a comma.
    ///
    /// # Errors
    /// [`InvalidSecrets`] if there is no secret or more than two.
    pub fn parse(list: &SecretString) -> Result<Self, InvalidSecrets> {
        let secrets = list.expose_secret().split(',').map(str::trim).filter(|secret| !secret.is_empty());
        let odd = secrets.clone().filter(|secret| !has_usual_format(secret)).count();
        let keyed: Vec<_> =
            secrets.filter_map(|secret| Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()).collect();
        match keyed.len() {
            0 => Err(InvalidSecrets::Empty),
            1 | 2 => Ok(Self { keyed, odd }),
            _ => Err(InvalidSecrets::TooMany),
        }
    }

    /// A secret that is no app's.
    pub(crate) fn stand_in() -> Self {
        let keyed = Hmac::<Sha256>::new_from_slice(b"stand-in").into_iter().collect();
        Self { keyed, odd: 0 }
    }

    /// The number of secrets: two during a rotation.
    pub fn count(&self) -> usize {
        self.keyed.len()
    }

    /// The number of secrets that do not have Slack's usual format. Slack does not guarantee a format, so
    /// they are used anyway.
    pub fn unusual_count(&self) -> usize {
        self.odd
    }

    /// Checks a request. `timestamp` and `signature` are the header values, `now_s` is Unix time.
    ///
    /// # Errors
    /// [`Refused`], which contains the reason but not the expected signature. [`Refused::Stale`] only if the
    /// signature is valid.
    pub fn verify(
        &self,
        timestamp: Option<&str>,
        signature: Option<&str>,
        body: &[u8],
        now_s: i64,
    ) -> Result<(), Refused> {
        let (Some(timestamp), Some(signature)) = (timestamp, signature) else {
            return Err(Refused::MissingHeader);
        };
        // `parse` alone would accept "+1"; Slack sends only digits.
        if timestamp.is_empty() || !timestamp.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Refused::MalformedTimestamp);
        }
        let sent_s: i64 = timestamp.parse().map_err(|_| Refused::MalformedTimestamp)?;
        let claimed = decode_signature(signature).ok_or(Refused::MalformedSignature)?;
        let genuine = self.keyed.iter().any(|key| {
            let mut mac = key.clone();
            mac.update(b"v0:");
            mac.update(timestamp.as_bytes());
            mac.update(b":");
            mac.update(body);
            mac.verify_slice(&claimed).is_ok()
        });
        if !genuine {
            return Err(Refused::Mismatch);
        }
        if now_s.abs_diff(sent_s) > WINDOW_S {
            return Err(Refused::Stale { ahead_s: sent_s.saturating_sub(now_s) });
        }
        Ok(())
    }

    /// The signature header that Slack would send with the first secret. For the simulated Slack of the demo
    /// and of tests.
    pub fn sign(&self, timestamp_s: i64, body: &[u8]) -> String {
        let mut signature = String::from(SIGNATURE_PREFIX);
        if let Some(key) = self.keyed.first() {
            let mut mac = key.clone();
            mac.update(format!("v0:{timestamp_s}:").as_bytes());
            mac.update(body);
            signature.push_str(&to_hex(&mac.finalize().into_bytes()));
        }
        signature
    }
}

/// 32 hex digits, as on every app's Basic Information page.
fn has_usual_format(secret: &str) -> bool {
    secret.len() == 32 && secret.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn decode_signature(signature: &str) -> Option<[u8; 32]> {
    let hex = signature.strip_prefix(SIGNATURE_PREFIX)?.as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example from Slack's documentation.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIMESTAMP: &str = "1531420618";
    const BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect\
&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const NOW_S: i64 = 1_531_420_618;

    fn secrets(list: &str) -> SigningSecrets {
        SigningSecrets::parse(&SecretString::from(list)).unwrap()
    }

    #[test]
    fn slacks_documented_vector_is_accepted() {
        assert_eq!(secrets(SECRET).verify(Some(TIMESTAMP), Some(SIGNATURE), BODY, NOW_S), Ok(()));
        assert_eq!(secrets(SECRET).sign(NOW_S, BODY), SIGNATURE);
    }

    #[test]
    fn either_secret_is_accepted_during_rotation() {
        for list in [format!("new,{SECRET}"), format!("{SECRET}, new")] {
            assert_eq!(secrets(&list).verify(Some(TIMESTAMP), Some(SIGNATURE), BODY, NOW_S), Ok(()));
        }
        let only_new = secrets("new");
        assert_eq!(only_new.verify(Some(TIMESTAMP), Some(SIGNATURE), BODY, NOW_S), Err(Refused::Mismatch));
    }

    #[test]
    fn the_window_is_five_minutes_on_both_sides() {
        let secrets = secrets(SECRET);
        for (now_s, expected) in [
            (NOW_S + 300, Ok(())),
            (NOW_S - 300, Ok(())),
            (NOW_S + 301, Err(Refused::Stale { ahead_s: -301 })),
            (NOW_S - 301, Err(Refused::Stale { ahead_s: 301 })),
        ] {
            assert_eq!(secrets.verify(Some(TIMESTAMP), Some(SIGNATURE), BODY, now_s), expected);
        }
        let line = Refused::Stale { ahead_s: 301 }.to_string();
        assert_eq!(line, "the timestamp is +301 s away from this machine's clock");
    }

    #[test]
    fn only_a_validly_signed_request_is_stale() {
        let verify = |body, now_s| secrets(SECRET).verify(Some(TIMESTAMP), Some(SIGNATURE), body, now_s);
        assert_eq!(verify(b"{}", NOW_S + 1_000), Err(Refused::Mismatch));
        assert_eq!(verify(BODY, i64::MIN), Err(Refused::Stale { ahead_s: i64::MAX }));
        let last = i64::MAX.to_string();
        let signature = secrets(SECRET).sign(i64::MAX, BODY);
        let verdict = secrets(SECRET).verify(Some(&last), Some(&signature), BODY, NOW_S);
        assert_eq!(verdict, Err(Refused::Stale { ahead_s: i64::MAX - NOW_S }));
    }

    #[test]
    fn hostile_headers_are_refused_by_kind() {
        let secrets = secrets(SECRET);
        let verify = |timestamp, signature| secrets.verify(timestamp, signature, BODY, NOW_S);
        assert_eq!(verify(None, Some(SIGNATURE)), Err(Refused::MissingHeader));
        assert_eq!(verify(Some(TIMESTAMP), None), Err(Refused::MissingHeader));
        for timestamp in ["", "+1531420618", "1531420618.0", "99999999999999999999", "٣", " 1531420618"] {
            assert_eq!(
                verify(Some(timestamp), Some(SIGNATURE)),
                Err(Refused::MalformedTimestamp),
                "{timestamp}"
            );
        }
        for signature in ["", "v0=", "v0=é", "v1=00", &SIGNATURE[3..], &format!("{SIGNATURE}0")] {
            assert_eq!(
                verify(Some(TIMESTAMP), Some(signature)),
                Err(Refused::MalformedSignature),
                "{signature}"
            );
        }
        let other_body = secrets.verify(Some(TIMESTAMP), Some(SIGNATURE), b"{}", NOW_S);
        assert_eq!(other_body, Err(Refused::Mismatch));
    }

    #[test]
    fn an_empty_or_long_list_of_secrets_is_refused() {
        for list in ["", " , ,"] {
            assert_eq!(SigningSecrets::parse(&SecretString::from(list)).err(), Some(InvalidSecrets::Empty));
        }
        assert_eq!(SigningSecrets::parse(&SecretString::from("a,b,c")).err(), Some(InvalidSecrets::TooMany));
    }
}
