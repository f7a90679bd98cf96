//! Access control.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::header::{COOKIE, HOST, HeaderName};
use axum::http::{HeaderMap, Uri};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

/// The name of the cookie of an authenticated browser.
pub const COOKIE_NAME: &str = "annalist";

/// How users are authenticated.
#[derive(Clone)]
pub enum ViewerAccess {
    /// Everyone who can reach the listener, which is on loopback.
    All,
    /// Users who know the password.
    Password(ViewerPassword),
    /// Users whom a proxy names in this header. Only the proxy may reach the listener.
    Header(HeaderName),
}

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
    fn cookie(&self, password: &ViewerPassword) -> String {
        // A shorter key is padded with zeros to a block.
        let mut block = [0; 64];
        block[..Self::BYTES].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(b"annalist viewer cookie ");
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

    /// Whether a text is the password.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        are_equal(&digest(text.trim()), &self.password)
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Compares all bytes, so that the time does not depend on the first difference.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// The access control of a listener, and the host names under which browsers reach it.
#[derive(Clone)]
pub struct Access {
    /// Names and addresses without a port, in lower case.
    hosts: Vec<String>,
    /// How users are authenticated.
    pub authentication: ViewerAccess,
    /// The value of the cookie of a browser that logged in. It is valid until the password or the key changes;
    /// empty without a password.
    pub(crate) cookie: String,
}

/// The result of the access check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The request is allowed.
    Granted,
    /// The host is unknown. An attacker may have made their host name resolve to this address (DNS
    /// rebinding), so that their page can read ours.
    WrongHost,
    /// The user must log in.
    LoginNeeded,
    /// The cookie is wrong: it is guessed, or older than the password. The user must log in.
    WrongCookie,
    /// The proxy did not name a user.
    UserMissing,
}

impl Access {
    /// Returns the access control for a listener at this address, which browsers also reach under these
    /// names. The cookie of a log-in depends on the key.
    pub fn new(address: SocketAddr, names: &[String], readers: ViewerAccess, key: &CookieKey) -> Self {
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        if !address.ip().is_unspecified() {
            hosts.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        hosts.extend(names.iter().map(|name| without_port(name).to_ascii_lowercase()));
        let cookie = match &readers {
            ViewerAccess::Password(password) => key.cookie(password),
            ViewerAccess::All | ViewerAccess::Header(_) => String::new(),
        };
        Self { hosts, authentication: readers, cookie }
    }

    /// Checks whether a request is allowed.
    #[must_use]
    pub fn check_request(&self, uri: &Uri, headers: &HeaderMap) -> Admission {
        let mut named = headers.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => host.to_str().ok(),
            (Some(_), Some(_)) => None,
            (None, _) => uri.authority().map(|authority| authority.as_str()),
        };
        let is_known = |host: &str| self.hosts.contains(&without_port(host).to_ascii_lowercase());
        if !host.is_some_and(is_known) {
            return Admission::WrongHost;
        }
        match &self.authentication {
            ViewerAccess::All => Admission::Granted,
            ViewerAccess::Password(_) => self.check_cookies(headers),
            ViewerAccess::Header(name) => {
                let is_named =
                    headers.get(name).is_some_and(|reader| !reader.as_bytes().trim_ascii().is_empty());
                if is_named { Admission::Granted } else { Admission::UserMissing }
            }
        }
    }
}

impl Access {
    /// Checks the cookies of a request. A browser sends one with our name.
    fn check_cookies(&self, headers: &HeaderMap) -> Admission {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let cookies =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let ours: Vec<&str> =
            cookies.filter(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value).collect();
        match ours.as_slice() {
            [] => Admission::LoginNeeded,
            [cookie] if are_equal(cookie.as_bytes(), self.cookie.as_bytes()) => Admission::Granted,
            [..] => Admission::WrongCookie,
        }
    }
}

/// Whether a browser can send this host name, with or without a port. Browsers send letters other than ASCII as
/// Punycode.
pub fn is_host_name(name: &str) -> bool {
    let name = without_port(name);
    match name.strip_prefix('[').and_then(|address| address.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !name.is_empty() && name.bytes().all(is_allowed)
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(listen: &str, names: &[&str], readers: ViewerAccess) -> Access {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Access::new(listen.parse().unwrap(), &names, readers, &CookieKey::new([7; 32]))
    }

    fn admitted(access: &Access, headers: &[(&'static str, &str)]) -> Admission {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        access.check_request(&"/".parse().unwrap(), &headers.collect())
    }

    #[test]
    fn only_requests_to_names_of_this_listener_are_granted() {
        let known = access("192.0.2.7:3002", &["Archive.example", "other.example:443"], ViewerAccess::All);
        for host in [
            "localhost",
            "LOCALHOST:3002",
            "127.0.0.1:3002",
            "[::1]:3002",
            "[::1]",
            "192.0.2.7",
            "archive.example:8080",
            "other.example",
        ] {
            assert_eq!(admitted(&known, &[("host", host)]), Admission::Granted, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "",
            "127.0.0.1.evil.example:3002",
            "evil.example:localhost",
        ] {
            assert_eq!(admitted(&known, &[("host", host)]), Admission::WrongHost, "{host}");
        }
        assert_eq!(admitted(&known, &[]), Admission::WrongHost);
        let everywhere = access("0.0.0.0:3002", &[], ViewerAccess::All);
        assert_eq!(admitted(&everywhere, &[("host", "0.0.0.0")]), Admission::WrongHost);
        let twice: HeaderMap =
            [(HOST, "localhost".parse().unwrap()), (HOST, "evil.example".parse().unwrap())].into_iter().fold(
                HeaderMap::new(),
                |mut headers, (name, value)| {
                    headers.append(name, value);
                    headers
                },
            );
        assert_eq!(known.check_request(&"/".parse().unwrap(), &twice), Admission::WrongHost);
    }

    #[test]
    fn a_host_name_is_what_a_browser_sends() {
        for name in ["archive.example", "Archive.example:8080", "archive_1", "192.0.2.7", "[::1]:3002"] {
            assert!(is_host_name(name), "{name}");
        }
        for name in [
            "",
            ":3002",
            "https://archive.example",
            "archive.example/",
            "*.example",
            "*",
            "a b",
            "::1",
            "é.example",
        ] {
            assert!(!is_host_name(name), "{name}");
        }
    }

    #[test]
    fn a_request_without_the_cookie_must_log_in() {
        let password = ViewerPassword::new("correct horse\n").unwrap();
        assert!(password.matches("correct horse") && !password.matches("correct") && !password.matches(""));
        assert!(ViewerPassword::new(" \n").is_none());
        let known = access("127.0.0.1:3002", &[], ViewerAccess::Password(password.clone()));
        let with = |cookie: &str| admitted(&known, &[("host", "localhost"), ("cookie", cookie)]);
        let right = &known.cookie;
        assert_eq!(right.len(), 64);
        for (cookie, expected) in [
            (format!("a=b; annalist={right}; c"), Admission::Granted),
            (String::new(), Admission::LoginNeeded),
            (format!("other={right}"), Admission::LoginNeeded),
            ("annalist=".to_owned(), Admission::WrongCookie),
            ("annalist=correct horse".to_owned(), Admission::WrongCookie),
            (format!("annalist={right}0"), Admission::WrongCookie),
            // Many guesses in one request are no better than one.
            (format!("annalist=0; annalist={right}"), Admission::WrongCookie),
            // What a hash of the password alone would be.
            (format!("annalist={}", to_hex(&digest("correct horse"))), Admission::WrongCookie),
        ] {
            assert_eq!(with(&cookie), expected, "{cookie}");
        }
        let cookies = [("correct horse", 7), ("correct horse", 8), ("another", 7)]
            .map(|(text, key)| CookieKey::new([key; 32]).cookie(&ViewerPassword::new(text).unwrap()));
        assert!(cookies[0] == *right && cookies[1] != *right && cookies[2] != *right);
    }

    #[test]
    fn a_proxy_must_name_the_user() {
        let known = access("127.0.0.1:3002", &[], ViewerAccess::Header(HeaderName::from_static("x-user")));
        assert_eq!(admitted(&known, &[("host", "localhost"), ("x-user", "ana")]), Admission::Granted);
        assert_eq!(admitted(&known, &[("host", "localhost"), ("x-user", " ")]), Admission::UserMissing);
        assert_eq!(admitted(&known, &[("host", "localhost")]), Admission::UserMissing);
    }
}
