//! The two headers that authenticate a request.

use secrecy::SecretString;
use slack::signature::{SigningSecrets, WINDOW_S};

const NOW_S: i64 = 1_700_000_000;

/// The input is three parts: a line with the timestamp header, a line with the signature header, and the
/// body. A forged request is never accepted; a signed one is accepted within the window, unless one bit of it
/// has changed.
///
/// # Panics
/// If that does not hold.
pub fn check(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (timestamp, signature, body) = (line(), line(), line());
    let secrets = secrets();
    let (timestamp, signature) = (str::from_utf8(timestamp).ok(), str::from_utf8(signature).ok());
    for (timestamp, signature) in [(timestamp, signature), (timestamp, None), (None, signature)] {
        assert!(secrets.verify(timestamp, signature, body, NOW_S).is_err(), "a forged request passed");
    }
    // The input also determines an age and a position in the signed data.
    let distance_s = i64::from(data.first().copied().unwrap_or_default()) * 2;
    let sent_s = NOW_S - distance_s;
    let (sent, genuine) = (sent_s.to_string(), secrets.sign(sent_s, body));
    let in_time = distance_s.unsigned_abs() <= WINDOW_S;
    assert_eq!(secrets.verify(Some(&sent), Some(&genuine), body, NOW_S).is_ok(), in_time);
    assert!(secrets.verify(timestamp, Some(&genuine), body, NOW_S).is_err() || timestamp == Some(&*sent));
    let (position, bit) = (data.len() * 7, 1_u8 << (data.len() % 8));
    if !body.is_empty() {
        let mut altered = body.to_vec();
        altered[position % body.len()] ^= bit;
        assert!(secrets.verify(Some(&sent), Some(&genuine), &altered, NOW_S).is_err());
    }
    let mut altered = genuine.into_bytes();
    // A change of one bit may only change the letter case of a hex digit, which has no effect; another digit
    // always has.
    let at = 3 + position % 64;
    altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
    let altered = String::from_utf8(altered).expect("hex digits");
    assert!(secrets.verify(Some(&sent), Some(&altered), body, NOW_S).is_err());
}

fn secrets() -> SigningSecrets {
    let list = SecretString::from("8f742231b10e8888abcd99yyyzzz85a5,1f742231b10e8888abcd99yyyzzz85a5");
    SigningSecrets::parse(&list).expect("two secrets")
}
