//! Serves metrics on a listener of their own, so that they never share an address with Slack's requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// A scraper needs one connection; more than a few are an error.
const MAX_CONNECTIONS: usize = 16;

/// The maximum lifetime of a connection: a scraper can open another.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);

/// A scraper sends its request immediately. A connection without a request for this long is closed, even if
/// it is kept alive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(3);

/// The buffer of one connection: hyper's minimum, and far more than a scraper's request.
const MAX_BUFFER_BYTES: usize = 8 * 1024;

/// The pause after a failed accept, usually caused by too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// How often histograms are aggregated, which limits their memory between two scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Prometheus' text format. <https://prometheus.io/docs/instrumenting/exposition_formats/>
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Binds the requested address, or `default`, which is best effort: if it is taken, no metrics are served.
///
/// # Errors
/// If the requested address cannot be bound; the error names it and the flag.
pub async fn bind(
    requested: Option<SocketAddr>,
    default: Option<SocketAddr>,
) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = requested.or(default) else { return Ok(None) };
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(source) if requested.is_some() => Err(BindError { address, source }),
        Err(error) => {
            tracing::warn!(%address, %error, "no metrics are served; --metrics-listen chooses another address");
            Ok(None)
        }
    }
}

/// The requested metrics address is taken or does not belong to this machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {address}: {source}; choose another address with --metrics-listen")]
pub struct BindError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Serves `GET /metrics` until `shutdown` resolves, and aggregates recorded values in the meantime.
pub async fn serve_metrics(
    listener: TcpListener,
    handle: PrometheusHandle,
    shutdown: impl Future<Output = ()>,
) {
    let mut connections = JoinSet::new();
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            _ = upkeep.tick() => handle.run_upkeep(),
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(timeout(CONNECTION_LIFETIME, answer(stream, handle.clone())));
                    }
                    // Events are handled without metrics, and an immediate retry would take CPU time from
                    // them.
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections for metrics");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
}

async fn answer(stream: TcpStream, handle: PrometheusHandle) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = respond(&request, &handle);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_BUFFER_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A scraper that disconnects is not an error.
    drop(connection.await);
}

fn respond<B>(request: &Request<B>, handle: &PrometheusHandle) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, handle.render()),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(CONTENT_TYPE));
    response
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::net::SocketAddr;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn serving(handle: PrometheusHandle) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_metrics(listener, handle, pending()));
        address
    }

    async fn send_request(address: SocketAddr, request_line: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_are_rendered_at_their_path_only() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || metrics::counter!("seen_total").increment(7));
        let address = serving(recorder.handle()).await;
        let answer = send_request(address, "GET /metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("\nseen_total 7\n"), "{answer}");
        assert!(send_request(address, "GET /").await.starts_with("HTTP/1.1 404 "));
        assert!(send_request(address, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_waits_until_another_closes() {
        let address = serving(PrometheusBuilder::new().build_recorder().handle()).await;
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let waiting = tokio::spawn(send_request(address, "GET /metrics"));
        drop(idle);
        assert!(waiting.await.unwrap().starts_with("HTTP/1.1 200 "));
    }

    // Time is paused: it advances automatically when all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_within_seconds() {
        let address = serving(PrometheusBuilder::new().build_recorder().handle()).await;
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost:").await.unwrap();
            idle.push(stream);
        }
        let began = tokio::time::Instant::now();
        assert!(send_request(address, "GET /metrics").await.starts_with("HTTP/1.1 200 "));
        assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn the_listener_stops_at_shutdown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let handle = PrometheusBuilder::new().build_recorder().handle();
        let serving = serve_metrics(listener, handle, async {});
        timeout(Duration::from_secs(5), serving).await.unwrap();
    }
}
