//! The address of a provider, and the addresses that it may name.

use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The name under which Slack is configured.
const SLACK: &str = "slack";

/// Slack as a provider.
const SLACK_ISSUER: &str = "https://slack.com";

/// The address that names a provider: https, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer(Url);

/// The public address of the pages, to which a provider sends browsers back: https, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteAddress(Url);

/// Why a text is not the address of a provider, or of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidIssuer(&'static str);

impl FromStr for SiteAddress {
    type Err = InvalidIssuer;

    fn from_str(text: &str) -> Result<Self, InvalidIssuer> {
        let url = parse(text.trim())?;
        if url.path() == "/" { Ok(Self(url)) } else { Err(InvalidIssuer("it has a path")) }
    }
}

impl SiteAddress {
    /// The address of a path of the site, which begins with a slash.
    pub fn with_path(&self, path: &str) -> String {
        format!("{}{path}", self.0.as_str().trim_end_matches('/'))
    }

    /// The host, as browsers send it without a port.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// What browsers send as the origin of its pages, always with the port.
    pub fn origin(&self) -> String {
        let port = self.0.port_or_known_default().unwrap_or_default();
        format!("{}://{}:{port}", self.0.scheme(), self.host())
    }
}

fn parse(text: &str) -> Result<Url, InvalidIssuer> {
    let url = Url::parse(text).map_err(|_| InvalidIssuer("it is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidIssuer("it contains a user name or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(InvalidIssuer("it contains a ? or a #"));
    }
    if !is_https(&url) && !is_loopback_http(&url) {
        return Err(InvalidIssuer("it must begin with https://, or be an address of this machine"));
    }
    Ok(url)
}

impl FromStr for Issuer {
    type Err = InvalidIssuer;

    fn from_str(text: &str) -> Result<Self, InvalidIssuer> {
        let text = if text.trim() == SLACK { SLACK_ISSUER } else { text.trim() };
        Ok(Self(parse(text)?))
    }
}

impl Issuer {
    pub fn is_slack(&self) -> bool {
        self.without_slash() == SLACK_ISSUER
    }

    /// Whether an issuer that a provider names is this one. Some providers write a slash at the end.
    pub(crate) fn is(&self, named: &str) -> bool {
        named.strip_suffix('/').unwrap_or(named) == self.without_slash()
    }

    /// The address of the provider, without a slash at the end.
    pub fn without_slash(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// The address of the discovery document.
    pub(crate) fn discovery_address(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.without_slash())
    }

    /// Whether the provider is on this machine and is called without encryption.
    pub(crate) fn is_loopback_http(&self) -> bool {
        is_loopback_http(&self.0)
    }

    /// An address that the provider named, if it may be called.
    pub(crate) fn allowed(&self, address: &str) -> Option<Url> {
        let url = Url::parse(address).ok()?;
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        let is_allowed = is_https(&url) || self.is_loopback_http() && is_loopback_http(&url);
        (is_allowed && !has_credentials && url.fragment().is_none()).then_some(url)
    }
}

fn is_https(url: &Url) -> bool {
    url.scheme() == "https" && url.host_str().is_some_and(|host| !host.is_empty())
}

fn is_loopback_http(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    url.scheme() == "http" && (host == "localhost" || address.is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_has_https_or_is_on_this_machine() {
        for (text, slack) in [
            ("slack", true),
            (" https://slack.com/ ", true),
            ("https://accounts.example", false),
            ("https://login.example/tenant/v2.0", false),
            ("http://127.0.0.1:9000", false),
            ("http://localhost:9000/realms/a", false),
            ("http://[::1]:9000", false),
        ] {
            assert_eq!(text.parse::<Issuer>().map(|issuer| issuer.is_slack()), Ok(slack), "{text}");
        }
        for text in [
            "",
            " ",
            "Slack",
            "accounts.example",
            "http://accounts.example",
            "http://127.0.0.1.evil.example",
            "ftp://127.0.0.1",
            "https://user:word@accounts.example",
            "https://accounts.example?tenant=1",
            "https://accounts.example/#a",
        ] {
            assert!(text.parse::<Issuer>().is_err(), "{text}");
        }
        let issuer: Issuer = "https://login.example/tenant/".parse().unwrap();
        assert_eq!(
            issuer.discovery_address(),
            "https://login.example/tenant/.well-known/openid-configuration"
        );
        for (named, same) in [
            ("https://login.example/tenant", true),
            ("https://login.example/tenant/", true),
            ("https://login.example/tenant//", false),
            ("https://login.example", false),
            ("http://login.example/tenant", false),
            ("", false),
        ] {
            assert_eq!(issuer.is(named), same, "{named}");
        }
    }

    #[test]
    fn the_address_of_the_pages_has_no_path() {
        for (text, host, callback) in [
            ("https://archive.example", "archive.example", "https://archive.example/login/callback"),
            (
                " https://Archive.example:8443/ ",
                "archive.example",
                "https://archive.example:8443/login/callback",
            ),
            ("http://127.0.0.1:3002", "127.0.0.1", "http://127.0.0.1:3002/login/callback"),
            ("http://[::1]:3002", "[::1]", "http://[::1]:3002/login/callback"),
        ] {
            let address: SiteAddress = text.parse().unwrap();
            assert_eq!((address.host(), &*address.with_path("/login/callback")), (host, callback));
        }
        for text in [
            "",
            "archive.example",
            "http://archive.example",
            "https://archive.example/a",
            "https://a.example?b",
        ] {
            assert!(text.parse::<SiteAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_provider_may_only_name_encrypted_addresses() {
        let remote: Issuer = "https://accounts.example".parse().unwrap();
        let local: Issuer = "http://127.0.0.1:9000".parse().unwrap();
        for (address, from_remote, from_local) in [
            ("https://oauth.example/token", true, true),
            ("http://127.0.0.1:9000/token", false, true),
            ("http://oauth.example/token", false, false),
            ("https://a:b@oauth.example/token", false, false),
            ("javascript:alert(1)", false, false),
            ("/token", false, false),
            ("", false, false),
        ] {
            let allowed = (remote.allowed(address).is_some(), local.allowed(address).is_some());
            assert_eq!(allowed, (from_remote, from_local), "{address}");
        }
    }
}
