//! Sign-in with an OpenID Connect provider: the authorization code flow of one confidential client.
//!
//! * [`issuer`]: which addresses are called. [`discovery`]: what a provider says about itself.
//! * [`claims`]: what a provider says about a person, and whether it says that to us, now.
//! * [`client`]: the requests to the provider.
//!
//! Knows no page, no cookie and no archive. No Slack token can reach it.

pub mod claims;
pub mod client;
pub mod discovery;
pub mod issuer;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Bytes as text that an address and a cookie can contain.
pub fn to_base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a text from [`to_base64url`]; `None` for every other text.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
