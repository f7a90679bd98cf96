//! Cookies: how they are read, and texts that only this archive can have written.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use hmac::{Hmac, KeyInit, Mac};
use oidc::{from_base64url, to_base64url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// Maximum length of a cookie's value. Browsers keep at most 4 KiB.
const MAX_VALUE_BYTES: usize = 4 * 1024;

/// The values of the cookies of this name. A browser sends one.
pub(super) fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let cookies = cookies.flat_map(|cookies| cookies.split(';'));
    let cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
    cookies.filter(|(known, _)| *known == name).map(|(_, value)| value).collect()
}

/// The value of the only cookie of this name.
pub(crate) fn only_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    match values(headers, name).as_slice() {
        [value] if value.len() <= MAX_VALUE_BYTES => Some(value),
        [..] => None,
    }
}

/// Compares all bytes, so that the time does not depend on the first difference.
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// The key with which cookies of one kind are signed.
#[derive(Clone)]
pub(crate) struct SealingKey(pub(crate) [u8; 32]);

impl SealingKey {
    fn mac(&self, payload: &str) -> [u8; 32] {
        // A shorter key is padded with zeros to a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(payload.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// A value as JSON, with its signature.
    pub(crate) fn seal(&self, value: &impl Serialize) -> String {
        let payload = to_base64url(serde_json::to_string(value).unwrap_or_default().as_bytes());
        let mac = to_base64url(&self.mac(&payload));
        format!("{payload}.{mac}")
    }

    /// The value of a text from [`SealingKey::seal`]; `None` for every other text.
    pub(crate) fn open<T: DeserializeOwned>(&self, text: &str) -> Option<T> {
        let (payload, mac) = text.split_once('.')?;
        if !are_equal(&from_base64url(mac)?, &self.mac(payload)) {
            return None;
        }
        serde_json::from_slice(&from_base64url(payload)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cookie_of_the_name_counts() {
        let headers = |cookies: &[&str]| {
            let mut headers = HeaderMap::new();
            for cookie in cookies {
                headers.append(COOKIE, cookie.parse().unwrap());
            }
            headers
        };
        let long = format!("a={}", "x".repeat(MAX_VALUE_BYTES + 1));
        for (cookies, expected) in [
            (&["a=1"][..], Some("1")),
            (&["b=2; a=1 ;c"], Some("1")),
            (&["b=2", "a=1=2"], Some("1=2")),
            (&["a=1; a=1"], None),
            (&["a=1", "a=2"], None),
            (&["aa=1"], None),
            (&["a"], None),
            (&[&long], None),
            (&[], None),
        ] {
            assert_eq!(only_value(&headers(cookies), "a"), expected, "{cookies:?}");
        }
    }

    #[test]
    fn a_sealed_value_is_opened_with_its_key_and_unchanged() {
        let key = SealingKey([7; 32]);
        let sealed = key.seal(&("ana", 7));
        assert_eq!(key.open::<(String, i64)>(&sealed), Some(("ana".to_owned(), 7)));
        assert_eq!(SealingKey([8; 32]).open::<(String, i64)>(&sealed), None);
        assert_eq!(key.open::<(i64, String)>(&sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.open::<(String, i64)>(&changed), None, "{changed}");
        }
        for text in [
            "",
            ".",
            "a",
            &sealed[1..],
            &sealed[..sealed.len() - 1],
            &format!("{sealed}."),
            &format!("{sealed}="),
        ] {
            assert_eq!(key.open::<(String, i64)>(text), None, "{text}");
        }
    }
}
