//! The log of who reads what, which is off by default. It never has words of a search or of a message.

use axum::extract::{MatchedPath, Query, Request};
use axum::http::StatusCode;
use reader::access::Via;
use reader::plain;

/// The target of its lines, for filters.
const TARGET: &str = "access";

/// Maximum length of a value: ids and channels' names are shorter, and forged ones are cut.
const MAX_CHARS: usize = 80;

/// The files of the pages themselves, which say nothing about a reader.
const UNLOGGED: [&str; 3] = ["/static/", "/favicon.ico", "/robots.txt"];

/// What a request opens: the pattern of its address, and its place in the archive.
pub(crate) struct OpenedRoute {
    route: String,
    team: String,
    channel: String,
    ts: String,
}

impl OpenedRoute {
    pub(crate) fn of(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().map(|matched| matched.as_str().to_owned());
        let route = route.unwrap_or_default();
        let Query(asked) = Query::<Vec<(String, String)>>::try_from_uri(request.uri()).unwrap_or_default();
        let named = |name: &str| {
            let in_path =
                route.split('/').zip(request.uri().path().split('/')).find_map(|(pattern, part)| {
                    (pattern.strip_prefix('{')?.strip_suffix('}')? == name).then_some(part)
                });
            let in_query = || asked.iter().find(|(asked, _)| asked == name).map(|(_, value)| value.as_str());
            plain::excerpt(in_path.or_else(in_query).unwrap_or_default(), MAX_CHARS)
        };
        let [team, channel, ts] = ["team", "channel", "ts"].map(named);
        Self { route, team, channel, ts }
    }

    /// Writes the line.
    pub(crate) fn log(&self, reader: &str, via: Via, status: StatusCode) {
        let Self { route, team, channel, ts } = self;
        if UNLOGGED.iter().any(|prefix| route.starts_with(prefix)) {
            return;
        }
        let (reader, via, status) = (plain::excerpt(reader, MAX_CHARS), via.as_str(), status.as_u16());
        tracing::info!(target: TARGET, reader, via, route, team, channel, ts, status, "read");
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::{self, Next};
    use axum::response::{IntoResponse, Response};
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_line_has_the_pattern_and_the_place_and_no_words() {
        async fn shown(request: Request, _: Next) -> Response {
            let OpenedRoute { route, team, channel, ts } = OpenedRoute::of(&request);
            [route, team, channel, ts].join(" ").into_response()
        }
        let router = Router::new()
            .route("/c/{team}/{channel}", get(async || ()))
            .route("/t/{team}/{channel}/{ts}", get(async || ()))
            .route("/search", get(async || ()))
            .route("/api/v1/messages", get(async || ()))
            .layer(middleware::from_fn(shown));
        let long = format!("/c/T1/{}", "x".repeat(1_000));
        for (address, expected) in [
            ("/c/T1/C1?around=1.000000", "/c/{team}/{channel} T1 C1 "),
            ("/t/T1/C1/1.000000", "/t/{team}/{channel}/{ts} T1 C1 1.000000"),
            ("/search?q=secret+words", "/search   "),
            ("/api/v1/messages?channel=%23general&team=T1&q=secret", "/api/v1/messages T1 #general "),
            ("/api/v1/messages?channel=a%0Ab", "/api/v1/messages  a b "),
            ("/nothing/secret", "   "),
            (&long, &format!("/c/{{team}}/{{channel}} T1 {}… ", "x".repeat(80))),
        ] {
            let request = Request::get(address).body(Body::empty()).unwrap();
            let body = router.clone().oneshot(request).await.unwrap().into_body();
            let body = body.collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&body), expected, "{address}");
        }
    }
}
