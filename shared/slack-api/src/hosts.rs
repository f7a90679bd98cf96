//! The hosts of Slack: which URLs may be requested at all. Every URL in an event or a listing is untrusted.
//!
//! The functions decide only by the parsed URL: `Url` has already converted the host to lower case and
//! punycode, and removed default ports.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use reqwest::Url;

/// Slack's Web API. <https://docs.slack.dev/apis/web-api/>
const SLACK: &str = "https://slack.com/api/";

/// Hosts with the files of workspaces. On Enterprise Grid, the first redirects to the second.
/// <https://docs.slack.dev/reference/objects/file-object>
const FILE_HOSTS: [&str; 2] = ["files.slack.com", "files-origin.slack.com"];

/// A domain whose subdomains also have files.
const FILE_DOMAIN: &str = "slack-files.com";

/// The domain whose subdomains have avatars and emoji (`avatars.`, `ca.`, `emoji.`, `a.`).
const IMAGE_DOMAIN: &str = "slack-edge.com";

/// The host that Slack uses for the avatar of a user who did not choose a picture.
/// <https://docs.slack.dev/reference/objects/user-object>
const GRAVATAR: &str = "secure.gravatar.com";

/// Gravatar redirects users without a picture to Slack's default picture, through this public cache. The
/// cache fetches from any host, so the path must be one of Slack.
const GRAVATAR_CACHE: [&str; 3] = ["i0.wp.com", "i1.wp.com", "i2.wp.com"];
const CACHED_FROM_SLACK: &str = "/a.slack-edge.com/";

/// The domains whose subdomains have the sockets of Socket Mode: Slack, and Slack for US agencies.
/// <https://docs.slack.dev/govslack>
#[cfg(feature = "socket")]
const SOCKET_DOMAINS: [&str; 2] = ["slack.com", "slack-gov.com"];

/// The base to which the name of a method is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUrl(Url);

/// Why a base cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApiUrl {
    #[error("it is not a URL ({0})")]
    NotAUrl(String),
    /// A token would be sent without encryption.
    #[error("it must begin with https:// (http:// is for this machine only: localhost, 127.0.0.1, [::1])")]
    NotEncrypted,
    /// It has parts that a base URL cannot have. The error does not contain them, since they may be secret.
    #[error("it must not have a user name, a password, a `?` or a `#`")]
    UnexpectedParts,
}

impl ApiUrl {
    /// The URL of a method. Its name consists of letters, digits and dots.
    pub(super) fn method(&self, name: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{name}", self.0.path()));
        url
    }

    /// Whether the API is simulated on this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }
}

impl Default for ApiUrl {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "a constant, parsed by every test that makes a client")]
        SLACK.parse().expect("Slack's own address is a base")
    }
}

impl FromStr for ApiUrl {
    type Err = InvalidApiUrl;

    fn from_str(text: &str) -> Result<Self, InvalidApiUrl> {
        let mut url = Url::parse(text.trim()).map_err(|error| InvalidApiUrl::NotAUrl(error.to_string()))?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            _ => return Err(InvalidApiUrl::NotEncrypted),
        }
        if has_credentials(&url) || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidApiUrl::UnexpectedParts);
        }
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self(url))
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a download from this URL may send the workspace's token: only to Slack's file hosts, or to a
/// simulated Slack on this machine. Checked again for every redirect.
pub fn may_carry_token(url: &Url, api: &ApiUrl) -> bool {
    is_same_loopback(url, api)
        || is_plain_https(url)
            && url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host) || is_below(host, FILE_DOMAIN))
}

/// Whether an avatar or an emoji may be fetched from this URL, never with a token. Checked again for every
/// redirect.
pub fn may_fetch_image(url: &Url, api: &ApiUrl) -> bool {
    is_same_loopback(url, api)
        || is_plain_https(url)
            && url.host_str().is_some_and(|host| {
                host == GRAVATAR
                    || is_below(host, IMAGE_DOMAIN)
                    || GRAVATAR_CACHE.contains(&host) && url.path().starts_with(CACHED_FROM_SLACK)
            })
}

/// Whether a connection of Socket Mode may be opened at this address: encrypted and at Slack, or on this machine if
/// the API is simulated here.
#[cfg(feature = "socket")]
pub(crate) fn may_open_socket(url: &Url, api: &ApiUrl) -> bool {
    if has_credentials(url) {
        return false;
    }
    match url.scheme() {
        "wss" => {
            let at_slack = |host| SOCKET_DOMAINS.iter().any(|domain| is_below(host, domain));
            url.port().is_none() && url.host_str().is_some_and(at_slack)
        }
        "ws" => api.is_loopback() && is_loopback(url),
        _ => false,
    }
}

/// Whether a URL has the scheme, host and port of a simulated API on this machine.
fn is_same_loopback(url: &Url, api: &ApiUrl) -> bool {
    api.is_loopback() && !has_credentials(url) && url.origin() == api.0.origin()
}

/// Whether a URL is https on the default port, without credentials.
fn is_plain_https(url: &Url) -> bool {
    url.scheme() == "https" && url.port().is_none() && !has_credentials(url)
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).and_then(|rest| rest.strip_suffix('.')).is_some_and(|label| !label.is_empty())
}

/// Whether the host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        // An IPv6 address is in brackets.
        host == "localhost"
            || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
            || host.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn api(text: &str) -> ApiUrl {
        text.parse().unwrap()
    }

    /// URLs that must never receive a token, for any API.
    const HOSTILE: [&str; 28] = [
        "http://files.slack.com/f",
        "ftp://files.slack.com/f",
        "https://files.slack.com:8443/f",
        "https://files.slack.com:80/f",
        "https://user@files.slack.com/f",
        "https://user:secret@files.slack.com/f",
        "https://:secret@files.slack.com/f",
        "https://files.slack.com@evil.com/f",
        "https://evil.com/files.slack.com",
        "https://evil.com?files.slack.com",
        "https://evil.com#files.slack.com",
        "https://evil.com\\@files.slack.com/f",
        "https://files.slack.com.evil.com/f",
        "https://evilfiles.slack.com/f",
        "https://x.files.slack.com/f",
        "https://slack.com/f",
        "https://files.slack.com./f",
        "https://files.slack.com../f",
        "https://slack-files.com/f",
        "https://.slack-files.com/f",
        "https://evilslack-files.com/f",
        "https://a.slack-files.com.evil.com/f",
        "https://files.ѕlack.com/f",
        "https://files.xn--lack-k1d.com/f",
        "https://[::1]/f",
        "https://127.0.0.1/f",
        "https://localhost/f",
        "https://a.slack-edge.com/f",
    ];

    #[test]
    fn a_token_is_sent_to_slacks_file_hosts() {
        let slack = ApiUrl::default();
        for allowed in [
            "https://files.slack.com/files-pri/T1-F1/a.png",
            "https://FILES.SLACK.COM/f",
            "https://files.slack.com:443/f",
            "https://files-origin.slack.com/f?x=https://evil.com",
            "https://a.slack-files.com/f",
            "https://a.b.slack-files.com/f",
            // Full-width letters are normalized: the request goes to Slack.
            "https://ｆiles.slack.com/f",
        ] {
            assert!(may_carry_token(&url(allowed), &slack), "{allowed}");
        }
    }

    #[test]
    fn a_token_is_sent_to_no_other_host() {
        for api in [ApiUrl::default(), api("http://127.0.0.1:8080/api/"), api("https://proxy.example.com/")] {
            for hostile in HOSTILE {
                // The parser already rejects some of them, which is just as good.
                let carried = Url::parse(hostile).is_ok_and(|url| may_carry_token(&url, &api));
                assert!(!carried, "{hostile} with {api}");
            }
        }
    }

    #[test]
    fn only_the_exact_loopback_origin_of_the_api_receives_a_token() {
        let api_v4 = api("http://127.0.0.1:8080/api");
        assert!(may_carry_token(&url("http://127.0.0.1:8080/files/F1"), &api_v4));
        for other in [
            "http://127.0.0.1:8081/f",
            "http://127.0.0.1/f",
            "https://127.0.0.1:8080/f",
            "http://127.0.0.2:8080/f",
            "http://localhost:8080/f",
            "http://[::1]:8080/f",
            "http://user@127.0.0.1:8080/f",
            "http://127.0.0.1.evil.com:8080/f",
        ] {
            assert!(!may_carry_token(&url(other), &api_v4), "{other}");
        }
        // Other notations of the same address are the same host.
        assert!(may_carry_token(&url("http://2130706433:8080/f"), &api_v4));
        assert!(may_carry_token(&url("http://[::1]:9/f"), &api("http://[0:0:0:0:0:0:0:1]:9/")));
        // A remote API does not allow tokens for other URLs.
        assert!(!may_carry_token(&url("https://proxy.example.com/f"), &api("https://proxy.example.com/")));
    }

    #[test]
    fn images_are_fetched_only_from_slacks_image_hosts() {
        let slack = ApiUrl::default();
        for allowed in [
            "https://avatars.slack-edge.com/2024-01-01/1_2_72.jpg",
            "https://emoji.slack-edge.com/T1/parrot/0123.gif",
            "https://a.slack-edge.com/80588/img/slackbot_72.png",
            "https://secure.gravatar.com/avatar/0123.jpg?s=72&d=https%3A%2F%2Fa.slack-edge.com%2Fx.png",
            "https://i0.wp.com/a.slack-edge.com/df10d/img/avatars/ava_0001-72.png?ssl=1",
        ] {
            assert!(may_fetch_image(&url(allowed), &slack), "{allowed}");
            assert!(!may_carry_token(&url(allowed), &slack), "{allowed}");
        }
        for hostile in [
            "http://avatars.slack-edge.com/a.png",
            "https://slack-edge.com/a.png",
            "https://avatars.slack-edge.com.evil.com/a.png",
            "https://evilslack-edge.com/a.png",
            "https://avatars.slack-edge.com:444/a.png",
            "https://u:p@avatars.slack-edge.com/a.png",
            "https://i0.wp.com/evil.com/a.slack-edge.com/a.png",
            "https://i0.wp.com/a.slack-edge.com/../evil.com/a.png",
            "https://x.secure.gravatar.com/a.png",
            "https://169.254.169.254/latest/meta-data",
            "http://127.0.0.1:8080/a.png",
        ] {
            assert!(!may_fetch_image(&url(hostile), &slack), "{hostile}");
        }
        let local = api("http://localhost:8080/api/");
        assert!(may_fetch_image(&url("http://localhost:8080/avatar.png"), &local));
        assert!(!may_fetch_image(&url("http://localhost:8081/avatar.png"), &local));
    }

    #[cfg(feature = "socket")]
    #[test]
    fn a_socket_is_opened_at_slack_or_beside_a_simulated_api() {
        let (slack, local) = (ApiUrl::default(), api("http://127.0.0.1:8080/api/"));
        for allowed in ["wss://wss-primary.slack.com/link/?ticket=x", "wss://wss-primary.slack-gov.com/link/"]
        {
            assert!(may_open_socket(&url(allowed), &slack), "{allowed}");
        }
        for hostile in [
            "ws://wss-primary.slack.com/link/",
            "https://wss-primary.slack.com/link/",
            "wss://slack.com.evil.com/",
            "wss://evilslack.com/",
            "wss://wss-primary.slack.com:8443/",
            "wss://user@wss-primary.slack.com/",
            "wss://127.0.0.1/",
            "ws://127.0.0.1:9/",
        ] {
            assert!(!may_open_socket(&url(hostile), &slack), "{hostile}");
        }
        assert!(may_open_socket(&url("ws://127.0.0.1:9/?ticket=x"), &local));
        assert!(!may_open_socket(&url("ws://10.0.0.1:9/"), &local));
    }

    #[test]
    fn a_method_is_appended_to_a_base_with_a_slash() {
        for (base, expected) in [
            (SLACK, "https://slack.com/api/auth.test"),
            ("https://slack.com/api", "https://slack.com/api/auth.test"),
            (" http://127.0.0.1:8080 ", "http://127.0.0.1:8080/auth.test"),
            ("http://localhost/a/b", "http://localhost/a/b/auth.test"),
            ("http://[::1]:8080/", "http://[::1]:8080/auth.test"),
            ("HTTPS://Proxy.Example.COM:444/slack/", "https://proxy.example.com:444/slack/auth.test"),
        ] {
            assert_eq!(api(base).method("auth.test").as_str(), expected);
        }
        assert_eq!(ApiUrl::default().to_string(), SLACK);
    }

    #[test]
    fn a_base_that_would_leak_a_token_is_rejected() {
        for (hostile, expected) in [
            ("http://slack.com/api/", InvalidApiUrl::NotEncrypted),
            ("http://127.0.0.1.evil.com/", InvalidApiUrl::NotEncrypted),
            ("http://localhost.evil.com/", InvalidApiUrl::NotEncrypted),
            ("http://localhost./", InvalidApiUrl::NotEncrypted),
            ("http://10.0.0.1/", InvalidApiUrl::NotEncrypted),
            ("http://[::2]/", InvalidApiUrl::NotEncrypted),
            ("http://0.0.0.0/", InvalidApiUrl::NotEncrypted),
            ("file:///api/", InvalidApiUrl::NotEncrypted),
            ("ws://localhost/", InvalidApiUrl::NotEncrypted),
            ("localhost:8080", InvalidApiUrl::NotEncrypted),
            ("https://xoxb@slack.com/api/", InvalidApiUrl::UnexpectedParts),
            ("https://u:p@slack.com/api/", InvalidApiUrl::UnexpectedParts),
            ("https://slack.com/api/?token=x", InvalidApiUrl::UnexpectedParts),
            ("https://slack.com/api/#x", InvalidApiUrl::UnexpectedParts),
        ] {
            assert_eq!(hostile.parse::<ApiUrl>(), Err(expected), "{hostile}");
        }
        for nonsense in ["", "slack.com", "https://", "https:///", "//slack.com/", "https://a b/"] {
            assert!(nonsense.parse::<ApiUrl>().is_err(), "{nonsense}");
        }
    }
}
