//! Probes of an installation's own addresses, as Slack and a load balancer call them.
//!
//! This module has no access to a token, since the address is user input.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde_json::json;

use crate::hosts::is_loopback;
use crate::http::{Http, describe};
use slack::signature::{REFUSED_LINE, SigningSecrets};

/// Slack's timeout for a response. <https://docs.slack.dev/apis/events-api/#responding>
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum read from a response. An echoed challenge is far shorter.
const MAX_ANSWER_BYTES: usize = 4096;

/// The maximum read from a process's metrics, which have some hundred lines.
const MAX_METRICS_BYTES: usize = 1024 * 1024;

/// Why a probe failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFailure {
    /// The address is not a URL.
    NotAUrl,
    /// The response is a redirect.
    Redirect {
        /// The location of the redirect.
        to: String,
    },
    /// Ingest refused the request.
    Refused {
        /// What is wrong with the signature, according to ingest.
        why: String,
    },
    /// The status is not a success.
    Status {
        /// The status.
        code: u16,
    },
    /// The status is a success, but the body is not Annalist's.
    NotEchoed,
    /// TLS failed.
    Tls(String),
    /// There was no response in time.
    Timeout,
    /// There was no connection.
    Unreachable(String),
}

/// Sends a signed `url_verification`, as Slack does when a user enters a Request URL, and returns how long
/// the response took. <https://docs.slack.dev/reference/events/url_verification>
///
/// # Errors
/// [`ProbeFailure`] if the response does not echo the challenge.
pub async fn probe_request_url(
    url: &str,
    secrets: &SigningSecrets,
    now_s: i64,
) -> Result<Duration, ProbeFailure> {
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
    let sent = Instant::now();
    let answer = success(request.send().await).await?;
    let echo = read_start(answer, MAX_ANSWER_BYTES).await?;
    if echo.trim_ascii() == challenge.as_bytes() { Ok(sent.elapsed()) } else { Err(ProbeFailure::NotEchoed) }
}

/// Checks whether an ingest process on this machine can accept an event.
///
/// # Errors
/// [`ProbeFailure`] if it cannot, or is not running.
pub async fn probe_ready(address: SocketAddr) -> Result<(), ProbeFailure> {
    let url =
        Url::parse(&format!("http://{}/readyz", reachable(address))).map_err(|_| ProbeFailure::NotAUrl)?;
    let http = Http::new(true);
    let request = http.client().map_err(ProbeFailure::Unreachable)?.get(url).timeout(TIMEOUT);
    let answer = success(request.send().await).await?;
    let body = read_start(answer, MAX_ANSWER_BYTES).await?;
    if body.trim_ascii() == b"ok" { Ok(()) } else { Err(ProbeFailure::NotEchoed) }
}

/// Fetches the metrics of a process on this machine, in Prometheus' text format.
///
/// # Errors
/// [`ProbeFailure`] if it does not respond with text.
pub async fn fetch_metrics(address: SocketAddr) -> Result<String, ProbeFailure> {
    let url =
        Url::parse(&format!("http://{}/metrics", reachable(address))).map_err(|_| ProbeFailure::NotAUrl)?;
    let http = Http::new(true);
    let request = http.client().map_err(ProbeFailure::Unreachable)?.get(url).timeout(TIMEOUT);
    let answer = success(request.send().await).await?;
    String::from_utf8(read_start(answer, MAX_METRICS_BYTES).await?).map_err(|_| ProbeFailure::NotEchoed)
}

/// Replaces an unspecified listen address with the loopback address.
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
            let body = read_start(answer, MAX_ANSWER_BYTES).await.unwrap_or_default();
            let body = String::from_utf8_lossy(&body);
            Err(match body.strip_prefix(REFUSED_LINE) {
                Some(why) if status == StatusCode::UNAUTHORIZED => {
                    ProbeFailure::Refused { why: why.trim_end().to_owned() }
                }
                Some(_) | None => ProbeFailure::Status { code: status.as_u16() },
            })
        }
    }
}

async fn read_start(mut answer: Response, max_bytes: usize) -> Result<Vec<u8>, ProbeFailure> {
    let mut body = Vec::new();
    while body.len() <= max_bytes
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

/// The TLS error among the causes of an error, if there is one.
fn tls(error: &(dyn Error + 'static)) -> Option<ProbeFailure> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(ProbeFailure::Tls(tls.to_string()));
        }
        // `source` of an I/O error skips the error that it wraps.
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
    fn a_tls_error_is_found_even_if_it_is_wrapped() {
        let inner = rustls::Error::General("bad certificate".into());
        let twice = std::io::Error::other(std::io::Error::other(inner));
        assert_eq!(tls(&twice), Some(ProbeFailure::Tls("unexpected error: bad certificate".into())));
        assert_eq!(tls(&std::io::Error::other("reset")), None);
    }

    #[test]
    fn an_unspecified_address_is_probed_on_loopback() {
        for (listens, probed) in
            [("0.0.0.0:3000", "127.0.0.1:3000"), ("[::]:3000", "[::1]:3000"), ("10.0.0.7:80", "10.0.0.7:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), probed.parse().unwrap());
        }
    }
}
