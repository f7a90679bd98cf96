//! Access control: who makes a request. [`Access`] reads what a request presents, and
//! [`Admissions`](identity::Admissions) finds out who that is, before any handler runs.
//!
//! * [`password`], [`provider`], [`people`]: the guards, and the people of the settings.
//! * [`session`], [`cookies`]: what browsers keep. [`identity`], [`recent`]: the rows that decide who may read.

pub(crate) mod cookies;
pub(crate) mod identity;
mod password;
pub mod people;
pub mod provider;
pub(crate) mod session;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::header::{AUTHORIZATION, HOST, HeaderName};
use axum::http::{HeaderMap, Uri};
use ports::clock::Clock;
use rules::reader_token::{self, PresentedToken};

use cookies::are_equal;
use identity::Presented;
use people::PeopleSettings;
use provider::SignIn;

pub use password::{CookieKey, ViewerPassword};

/// The name of the cookie of a browser in which the password was entered.
pub const COOKIE_NAME: &str = "annalist";

/// Maximum length of a name that a proxy gives.
const MAX_NAME_BYTES: usize = 4 * 1024;

/// How users are authenticated.
#[derive(Clone)]
pub enum ViewerAccess {
    /// Everyone who can reach the listener, which is on loopback.
    All,
    /// Users who know the password.
    Password(ViewerPassword),
    /// Users whom a proxy names in this header. Only the proxy may reach the listener.
    Header(HeaderName),
    /// Users who sign in with a provider.
    SignIn(Arc<SignIn>),
}

/// The access control of a listener, and the host names under which browsers reach it.
#[derive(Clone)]
pub struct Access {
    /// Names and addresses without a port, in lower case.
    hosts: Vec<String>,
    /// How users are authenticated.
    pub authentication: ViewerAccess,
    /// Which people may read, and as whom.
    pub people: PeopleSettings,
    /// The value of the cookie of a browser that logged in. It is valid until the password or the key changes;
    /// empty without a password.
    pub(crate) cookie: String,
    /// The key that opens feeds, which programs read; empty without a password.
    feed_key: String,
}

/// The result of the access check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request presents what it needs.
    Granted(Presented),
    /// The host is unknown. An attacker may have made their host name resolve to this address (DNS
    /// rebinding), so that their page can read ours.
    WrongHost,
    /// The user must log in.
    LoginNeeded,
    /// The cookie is wrong: it is guessed, or older than the password. The user must log in.
    WrongCookie,
    /// The proxy did not name a user, or named several.
    UserMissing,
    /// The token has not the shape of one, or is not the only one.
    WrongToken,
    /// The key of a feed is wrong.
    WrongKey,
}

impl Access {
    /// Returns the access control for a listener at this address, which browsers also reach under these
    /// names. The cookie of a log-in depends on the key.
    pub fn new(
        address: SocketAddr,
        names: &[String],
        readers: ViewerAccess,
        people: PeopleSettings,
        key: &CookieKey,
    ) -> Self {
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        if !address.ip().is_unspecified() {
            hosts.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        hosts.extend(names.iter().map(|name| without_port(name).to_ascii_lowercase()));
        let (cookie, feed_key) = match &readers {
            ViewerAccess::Password(password) => (key.cookie(password), key.feed_key(password)),
            ViewerAccess::All | ViewerAccess::Header(_) | ViewerAccess::SignIn(_) => Default::default(),
        };
        Self { hosts, authentication: readers, people, cookie, feed_key }
    }

    /// Adds to the address of a feed the key with which a program without a cookie can read it.
    pub(crate) fn with_feed_key(&self, feed: String) -> String {
        if self.feed_key.is_empty() {
            return feed;
        }
        let sign = if feed.contains('?') { '&' } else { '?' };
        format!("{feed}{sign}key={}", self.feed_key)
    }

    /// Checks what a request presents. A token goes before everything else, and never falls back to
    /// it.
    #[must_use]
    pub(crate) fn check_request(&self, uri: &Uri, headers: &HeaderMap, clock: &dyn Clock) -> Admission {
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
        match check_token(headers) {
            Ok(None) => {}
            Ok(Some(token)) => return Admission::Granted(Presented::Token(token)),
            Err(admission) => return admission,
        }
        if let Some(admission) = self.check_feed_key(uri) {
            return admission;
        }
        match &self.authentication {
            ViewerAccess::All => Admission::Granted(Presented::Nothing),
            ViewerAccess::Password(_) => self.check_cookies(headers),
            ViewerAccess::Header(name) => {
                let mut names = headers.get_all(name).iter();
                let name = match (names.next(), names.next()) {
                    (Some(name), None) => String::from_utf8_lossy(name.as_bytes()).trim().to_owned(),
                    (_, _) => String::new(),
                };
                let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
                if is_name { Admission::Granted(Presented::Name(name)) } else { Admission::UserMissing }
            }
            ViewerAccess::SignIn(provider) => match provider.session(headers, clock.now().seconds()) {
                Some(session) => Admission::Granted(Presented::Session(session)),
                None => Admission::LoginNeeded,
            },
        }
    }

    /// Checks the key in the address of a feed: that of the password, or a reader's token. `None` if the address
    /// has none, or if it means nothing here.
    fn check_feed_key(&self, uri: &Uri) -> Option<Admission> {
        if !is_feed(uri.path()) {
            return None;
        }
        let mut keys = uri.query()?.split('&').filter_map(|pair| pair.strip_prefix("key="));
        let key = keys.next()?;
        let is_token = key.starts_with(reader_token::PREFIX);
        match &self.authentication {
            ViewerAccess::Header(_) => None,
            ViewerAccess::All if !is_token => None,
            _ if keys.next().is_some() => Some(Admission::WrongKey),
            _ if is_token => Some(match PresentedToken::parse(key) {
                Some(token) => Admission::Granted(Presented::Token(token)),
                None => Admission::WrongToken,
            }),
            ViewerAccess::Password(_) if are_equal(key.as_bytes(), self.feed_key.as_bytes()) => {
                Some(Admission::Granted(Presented::Password))
            }
            ViewerAccess::All | ViewerAccess::Password(_) | ViewerAccess::SignIn(_) => {
                Some(Admission::WrongKey)
            }
        }
    }

    /// Checks the cookies of a request. A browser sends one with our name.
    fn check_cookies(&self, headers: &HeaderMap) -> Admission {
        match cookies::values(headers, COOKIE_NAME).as_slice() {
            [] => Admission::LoginNeeded,
            [cookie] if are_equal(cookie.as_bytes(), self.cookie.as_bytes()) => {
                Admission::Granted(Presented::Password)
            }
            [..] => Admission::WrongCookie,
        }
    }
}

/// Whether this is the path of a feed.
fn is_feed(path: &str) -> bool {
    let is_of_channel = path.starts_with("/c/") && path.split('/').count() == 5;
    path == "/search/feed.xml" || is_of_channel && path.ends_with("/feed.xml")
}

/// The token of a request. Other values of the header count as absent: proxies forward their own.
fn check_token(headers: &HeaderMap) -> Result<Option<PresentedToken>, Admission> {
    let values: Vec<&str> =
        headers.get_all(AUTHORIZATION).iter().map(|value| value.to_str().unwrap_or_default()).collect();
    let ours = |value: &&str| {
        let (scheme, token) = value.trim().split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && token.starts_with(reader_token::PREFIX))
            .then(|| token.to_owned())
    };
    let tokens: Vec<String> = values.iter().filter_map(ours).collect();
    match (tokens.as_slice(), values.len()) {
        ([], _) => Ok(None),
        ([token], 1) => PresentedToken::parse(token).map(Some).ok_or(Admission::WrongToken),
        ([..], _) => Err(Admission::WrongToken),
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
    use ports::clock::SystemClock;

    use super::*;

    fn access(listen: &str, names: &[&str], readers: ViewerAccess) -> Access {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Access::new(
            listen.parse().unwrap(),
            &names,
            readers,
            PeopleSettings::default(),
            &CookieKey::new([7; 32]),
        )
    }

    fn admitted(access: &Access, headers: &[(&'static str, &str)]) -> Admission {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        access.check_request(&"/".parse().unwrap(), &headers.collect(), &SystemClock)
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
            assert_eq!(admitted(&known, &[("host", host)]), Admission::Granted(Presented::Nothing), "{host}");
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
        assert_eq!(known.check_request(&"/".parse().unwrap(), &twice, &SystemClock), Admission::WrongHost);
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
            (format!("a=b; annalist={right}; c"), Admission::Granted(Presented::Password)),
            (String::new(), Admission::LoginNeeded),
            (format!("other={right}"), Admission::LoginNeeded),
            ("annalist=".to_owned(), Admission::WrongCookie),
            ("annalist=correct horse".to_owned(), Admission::WrongCookie),
            (format!("annalist={right}0"), Admission::WrongCookie),
            // Many guesses in one request are no better than one.
            (format!("annalist=0; annalist={right}"), Admission::WrongCookie),
            // What a hash of the password alone would be.
            (
                format!("annalist={}", slack::hex::to_hex(&password::digest("correct horse"))),
                Admission::WrongCookie,
            ),
        ] {
            assert_eq!(with(&cookie), expected, "{cookie}");
        }
        let cookies = [("correct horse", 7), ("correct horse", 8), ("another", 7)]
            .map(|(text, key)| CookieKey::new([key; 32]).cookie(&ViewerPassword::new(text).unwrap()));
        assert!(cookies[0] == *right && cookies[1] != *right && cookies[2] != *right);
    }

    #[test]
    fn a_proxy_must_name_one_user() {
        let known = access("127.0.0.1:3002", &[], ViewerAccess::Header(HeaderName::from_static("x-user")));
        let granted = |name: &str| Admission::Granted(Presented::Name(name.to_owned()));
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for (headers, expected) in [
            (&[("x-user", "ana")][..], granted("ana")),
            (&[("x-user", " ana@example.org ")], granted("ana@example.org")),
            (&[("x-user", " ")], Admission::UserMissing),
            (&[("x-user", &*long)], Admission::UserMissing),
            (&[("x-user", "ana"), ("x-user", "bo")], Admission::UserMissing),
            (&[("x-user", "ana"), ("x-user", "ana")], Admission::UserMissing),
            (&[], Admission::UserMissing),
        ] {
            let mut map = HeaderMap::new();
            map.insert(HOST, "localhost".parse().unwrap());
            for (name, value) in headers {
                map.append(*name, value.parse().unwrap());
            }
            assert_eq!(
                known.check_request(&"/".parse().unwrap(), &map, &SystemClock),
                expected,
                "{headers:?}"
            );
        }
        // Without the setting, the header means nothing.
        let open = access("127.0.0.1:3002", &[], ViewerAccess::All);
        assert_eq!(
            admitted(&open, &[("host", "localhost"), ("x-user", "ana")]),
            Admission::Granted(Presented::Nothing)
        );
    }

    #[test]
    fn a_token_counts_before_everything_else_and_never_falls_back() {
        let token = format!("annalist_0123456789ab_{}", "A".repeat(43));
        let open = access("127.0.0.1:3002", &[], ViewerAccess::All);
        let presented = PresentedToken::parse(&token).unwrap();
        let granted = Admission::Granted(Presented::Token(presented));
        let nothing = Admission::Granted(Presented::Nothing);
        for (values, expected) in [
            (&[format!("Bearer {token}")][..], &granted),
            (&[format!("bearer  {token} ")], &granted),
            (&[format!("Bearer {token}x")], &Admission::WrongToken),
            (&["Bearer annalist_".to_owned()], &Admission::WrongToken),
            (&[format!("Bearer {token}"), format!("Bearer {token}")], &Admission::WrongToken),
            (&["Basic YTpi".to_owned(), format!("Bearer {token}")], &Admission::WrongToken),
            (&["Basic YTpi".to_owned()], &nothing),
            (&["Bearer eyJhbGciOi".to_owned()], &nothing),
            (std::slice::from_ref(&token), &nothing),
            (&[String::new()], &nothing),
        ] {
            let mut map = HeaderMap::new();
            map.insert(HOST, "localhost".parse().unwrap());
            for value in values {
                map.append(AUTHORIZATION, value.parse().unwrap());
            }
            assert_eq!(
                open.check_request(&"/".parse().unwrap(), &map, &SystemClock),
                *expected,
                "{values:?}"
            );
        }
    }
}
