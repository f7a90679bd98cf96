//! The password of the pages, and the cookie of a browser in which it was entered.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use super::cookies::are_equal;

/// The password of the pages, as its hash.
#[derive(Clone)]
pub struct ViewerPassword {
    password: [u8; 32],
}

/// The secret of an archive's pages, without which no client can compute the cookie for a password.
#[derive(Clone)]
pub struct CookieKey([u8; CookieKey::BYTES]);

impl CookieKey {
    /// The number of random bytes.
    pub const BYTES: usize = 32;

    /// Returns the key with these random bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The cookie of a browser in which this password was entered.
    pub(super) fn cookie(&self, password: &ViewerPassword) -> String {
        self.keyed(b"annalist viewer cookie ", password)
    }

    /// The key with which programs read feeds. It opens nothing else.
    pub(super) fn feed_key(&self, password: &ViewerPassword) -> String {
        self.keyed(b"annalist viewer feed ", password)
    }

    fn keyed(&self, purpose: &[u8], password: &ViewerPassword) -> String {
        // A shorter key is padded with zeros to a block.
        let mut block = [0; 64];
        block[..Self::BYTES].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(purpose);
        mac.update(&password.password);
        to_hex(&mac.finalize().into_bytes())
    }
}

impl ViewerPassword {
    /// Returns the password; `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self { password: digest(text) })
    }

    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        are_equal(&digest(text.trim()), &self.password)
    }
}

pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
