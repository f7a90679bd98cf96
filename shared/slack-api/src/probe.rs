//! An installation's own addresses, asked as Slack and a load balancer ask them.
//!
//! No token is known here: the address is user input.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde_json::json;

use crate::hosts::is_loopback;
use crate::http::{Http, describe};
use slack::signature::{REFUSED_LINE, SigningSecrets};

/// Slack waits no longer. <https://docs.slack.dev/apis/events-api/#responding>
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// What is read of an answer. A challenge that comes back is far shorter.
const MAX_ANSWER_BYTES: usize = 4096;

/// What is read of a process's metrics: some hundred lines.
const MAX_METRICS_BYTES: usize = 1024 * 1024;

/// Why an address does not do what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFailure {
    /// It is no URL.
    NotAUrl,
    /// It sends elsewhere.
    Redirect {
        /// Where to, as it said.
        to: String,
    },
    /// Ingest refused the request.
    Refused {
        /// What is wrong with the signature, as it said.
        why: String,
    },
    /// It answered, and not with success.
    Status {
        /// The status.
        code: u16,
    },
    /// It answered with success, and with something else than annalist would.
    NotEchoed,
    /// The encryption failed.
    Tls(String),
    /// It did not answer in time.
    Timeout,
    /// There was no connection.
    Unreachable(String),
}

/// Sends a signed `url_verification`, as Slack does when a Request URL is entered; says how long the answer took.
/// <https://docs.slack.dev/reference/events/url_verification>
///
/// # Errors
/// [`ProbeFailure`] if the challenge does not come back.
pub async fn request_url(url: &str, secrets: &SigningSecrets, now_s: i64) -> Result<Duration, ProbeFailure> {
    let url = Url::parse(url).map_err(|_| ProbeFailure::NotAUrl)?;
    let challenge: String = std::iter::repeat_with(fastrand::alphanumeric).take(40).collect();
    let body = json!({ "type": "url_verification", "challenge": challenge }).to_string();
    let http = Http::new(is_loopback(&url));
    let request = http
        .client()
        .map_err(ProbeFailure::Unreachable)?
        .post(url)
        .timeout(TIMEOUT)
        .header(CONTENT_TYPE, "application/json")
        .header("x-slack-request-timestamp", now_s.to_string())
        .header("x-slack-signature", secrets.sign(now_s, body.as_bytes()))
        .body(body);
    let asked = Instant::now();
    let answer = success(request.send().await).await?;
    let echo = beginning(answer, MAX_ANSWER_BYTES).await?;
    if echo.trim_ascii() == challenge.as_bytes() { Ok(asked.elapsed()) } else { Err(ProbeFailure::NotEchoed) }
}

/// Asks an ingest on this machine whether it could take an event.
///
/// # Errors
/// [`ProbeFailure`] if it could not, or is not there.
pub async fn ready(address: SocketAddr) -> Result<(), ProbeFailure> {
    let url =
        Url::parse(&format!("http://{}/readyz", reachable(address))).map_err(|_| ProbeFailure::NotAUrl)?;
    let http = Http::new(true);
    let request = http.client().map_err(ProbeFailure::Unreachable)?.get(url).timeout(TIMEOUT);
    let answer = success(request.send().await).await?;
    let body = beginning(answer, MAX_ANSWER_BYTES).await?;
    if body.trim_ascii() == b"ok" { Ok(()) } else { Err(ProbeFailure::NotEchoed) }
}

/// Asks a process on this machine for its metrics, in Prometheus' text format.
///
/// # Errors
/// [`ProbeFailure`] if it does not answer with text.
pub async fn metrics(address: SocketAddr) -> Result<String, ProbeFailure> {
    let url =
        Url::parse(&format!("http://{}/metrics", reachable(address))).map_err(|_| ProbeFailure::NotAUrl)?;
    let http = Http::new(true);
    let request = http.client().map_err(ProbeFailure::Unreachable)?.get(url).timeout(TIMEOUT);
    let answer = success(request.send().await).await?;
    String::from_utf8(beginning(answer, MAX_METRICS_BYTES).await?).map_err(|_| ProbeFailure::NotEchoed)
}

/// What listens on every address is asked on this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn success(answer: reqwest::Result<Response>) -> Result<Response, ProbeFailure> {
    let answer = answer.map_err(failure)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    match location {
        Some(to) if status.is_redirection() => Err(ProbeFailure::Redirect { to: to.to_owned() }),
        Some(_) | None => {
            let said = beginning(answer, MAX_ANSWER_BYTES).await.unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            Err(match said.strip_prefix(REFUSED_LINE) {
                Some(why) if status == StatusCode::UNAUTHORIZED => {
                    ProbeFailure::Refused { why: why.trim_end().to_owned() }
                }
                Some(_) | None => ProbeFailure::Status { code: status.as_u16() },
            })
        }
    }
}

async fn beginning(mut answer: Response, most_bytes: usize) -> Result<Vec<u8>, ProbeFailure> {
    let mut body = Vec::new();
    while body.len() <= most_bytes
        && let Some(chunk) = answer.chunk().await.map_err(failure)?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn failure(error: reqwest::Error) -> ProbeFailure {
    if error.is_timeout() {
        return ProbeFailure::Timeout;
    }
    let tls = tls(&error);
    tls.unwrap_or_else(|| ProbeFailure::Unreachable(describe(error)))
}

/// What TLS complained of, wherever it is among the causes.
fn tls(error: &(dyn Error + 'static)) -> Option<ProbeFailure> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(ProbeFailure::Tls(tls.to_string()));
        }
        // An I/O error passes over what it wraps when it is asked for its source.
        cause = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_complains_of_is_found_however_it_is_wrapped() {
        let inner = rustls::Error::General("bad certificate".into());
        let twice = std::io::Error::other(std::io::Error::other(inner));
        assert_eq!(tls(&twice), Some(ProbeFailure::Tls("unexpected error: bad certificate".into())));
        assert_eq!(tls(&std::io::Error::other("reset")), None);
    }

    #[test]
    fn what_listens_everywhere_is_asked_here() {
        for (listens, asked) in
            [("0.0.0.0:3000", "127.0.0.1:3000"), ("[::]:3000", "[::1]:3000"), ("10.0.0.7:80", "10.0.0.7:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
