//! The API and MCP over HTTP, under the access control of the pages.

use ::search::follower;
use ::search::index::SearchIndex;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Method, Request};
use http_body_util::BodyExt;
use jiff::tz::TimeZone;
use ports::archive::ArchiveExt;
use process::config::zone::{NamedZone, ZoneArgs};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;
use viewer::Viewer;
use viewer::access::people::PeopleSettings;
use viewer::access::{Access, CookieKey, ViewerAccess, ViewerPassword};
use viewer::index::IndexSource;

use super::*;
use crate::fixture::{CliFixture, message_args, output, parsed};
use crate::operate::token::{self, CreateArgs, TokenCommand};
use crate::read;
use crate::search;

pub(super) struct Served {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Served {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The path and query of the next lines.
    fn next(&self) -> Option<String> {
        let link = self.header("link").strip_prefix('<')?.strip_suffix(">; rel=\"next\"");
        Some(link.expect("an address").to_owned())
    }
}

/// A served archive whose readers are those of this access control.
pub(super) fn served(fixture: &CliFixture, readers: ViewerAccess, calls_per_minute: u32) -> Router {
    served_from(fixture, fixture.backend.archive(), readers, calls_per_minute)
}

/// The same with pages of this archive.
pub(super) fn served_from(
    fixture: &CliFixture,
    archive: Arc<dyn ports::archive::Archive>,
    readers: ViewerAccess,
    calls_per_minute: u32,
) -> Router {
    let zone = Zone::from_args(&ZoneArgs { tz: NamedZone::parse("UTC").ok() });
    let index = fixture.data().data.data.join("index.db");
    let search = Arc::new(SearchSource::new(&fixture.backend, index.clone(), Duration::ZERO));
    let mcp = crate::mcp::http::router(
        Arc::clone(&search),
        zone.clone(),
        Some("https://archive.example:443".to_owned()),
    );
    let mut programs = router(ReadApi { search, zone, backend: fixture.data() }).merge(mcp);
    if let Some(limits) = CallLimits::per_minute(calls_per_minute) {
        programs = programs.layer(axum::middleware::from_fn_with_state(limits, CallLimits::limit));
    }
    let people = PeopleSettings::default();
    let access =
        Access::new("127.0.0.1:3002".parse().unwrap(), &[], readers, people, &CookieKey::new([7; 32]));
    viewer::router(Viewer {
        archive,
        files: fixture.backend.files(),
        index: IndexSource {
            file: index,
            changes: fixture.changes(),
            poll_interval: Duration::ZERO,
            batch_size: search::batch(&fixture.backend),
        },
        clock: fixture.shared_clock(),
        zone: TimeZone::UTC,
        access,
        is_private_for_all: false,
        has_live: true,
        logs_access: false,
        programs,
    })
}

pub(super) fn by_header() -> ViewerAccess {
    ViewerAccess::Header(HeaderName::from_static("x-user"))
}

pub(super) async fn send(
    router: &Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Served {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Served { status: parts.status.as_u16(), headers: parts.headers, body }
}

pub(super) async fn get(router: &Router, path: &str) -> Served {
    send(router, Method::GET, path, &[("x-user", "bo")], "").await
}

/// Calls a method of MCP.
pub(super) async fn call(router: &Router, headers: &[(&str, &str)], method: &str, params: Value) -> Served {
    let mut all =
        vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    all.extend(headers);
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    send(router, Method::POST, "/mcp", &all, &request.to_string()).await
}

/// The header of a token that is made with these arguments.
pub(super) async fn token(fixture: &CliFixture, arguments: &[&str]) -> String {
    let arguments = [&["--name", "tests"], arguments].concat();
    let create = TokenCommand::Create(parsed::<CreateArgs>(&arguments).unwrap());
    let printed = output(async |out| token::run(fixture.archive(), fixture.clock(), &create, out).await);
    format!("Bearer {}", printed.await.unwrap().trim())
}

const ROOT_TS: &str = "1700000001.000000";

/// An archive with threads, edits, files and people. With the private channel, it also has `C2`.
pub(super) async fn filled(with_private: bool) -> CliFixture {
    let fixture = CliFixture::open().await;
    fixture.person("T1", "U1", "Ana").await;
    fixture.channel("T1", "C1", "1700000000.000000", "general").await;
    for n in 1..=12 {
        fixture
            .post("T1", "C1", &format!("{}.000000", 1_700_000_000 + n), &format!("deploy {n} \u{1b}[2J"))
            .await;
    }
    for n in 20..=24 {
        fixture.reply("T1", "C1", &format!("{}.000000", 1_700_000_000 + n), ROOT_TS, "a reply").await;
    }
    for n in 31..=36 {
        let (clock, text) = (format!("{}.000000", 1_700_000_000 + n), format!("version {n}"));
        fixture.edit("T1", "C1", "1700000002.000000", &clock, &text).await;
    }
    for update in testkit::canvas::version(("C1", ROOT_TS), "F1", "Plan", 1_700_000_000, "words").1 {
        fixture.archive().write(&update).await.unwrap();
    }
    if with_private {
        fixture.channel("T1", "C2", "1700000000.000000", "plans-secret").await;
        for n in 1..=12 {
            let ts = format!("{}.000000", 1_700_000_000 + n);
            fixture.post("T1", "C2", &ts, &format!("a secret deploy {n}")).await;
        }
        let file = json!({ "id": "F2", "name": "secret.pdf", "mode": "hosted", "size": 1 });
        fixture.share("T1", "C2", "1700000013.000000", &file).await;
        let made_private = ("purpose", "none");
        fixture
            .channel_notice("T1", "C2", "1700000014.000000", "channel_convert_to_private", made_private)
            .await;
    }
    // A command or a call lets the index catch up for a moment only, in which a busy machine may write less.
    let index = SearchIndex::open(&fixture.data().data.data.join("index.db")).await.unwrap();
    let (changes, archive, batch) = (fixture.changes(), fixture.backend.archive(), follower::BATCH_SIZE);
    assert!(follower::catch_up(&index, &*changes, &*archive, batch, |_| true).await.unwrap());
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_what_the_command_prints() {
    let fixture = filled(true).await;
    let router = served(&fixture, ViewerAccess::All, 0);
    let (archive, root) = (fixture.archive(), message_args("C1", ROOT_TS));
    let read = || message_args("C1", ROOT_TS).read;
    let stored = [fixture.data(), root.read.backend.clone()].map(|backend| backend.files_uri().unwrap());
    let in_channel = || read::ChannelArgs { channel: "C1".to_owned(), read: read() };
    let messages = read::MessagesArgs {
        channel: in_channel(),
        since: None,
        until: read::TimeBound::parse("2023-11-14T22:13:30Z").ok(),
        flat: false,
        figures: false,
        with_names: false,
    };
    let edited = message_args("C1", "1700000002.000000");
    let named = read::MessageArgs { with_names: true, ..root.clone() };
    let state =
        read::SnapshotArgs { channel: in_channel(), history: false, figures: false, forget_public: false };
    let index = process::config::IndexArgs { folder: None };
    let channels = read::ChannelsArgs { count: false, figures: false, index, read: read() };
    let zone = Zone::from_args(&read().zone);
    let index = fixture.data().data.data.join("index.db");
    let searchable = search::SearchableArchive::new(&fixture.backend, index, None, &zone);
    let data = fixture.data().data.data;
    let found = ["deploy", "in:general", "--json", "--tz", "UTC", "--data", data.to_str().unwrap()];
    let found: search::SearchArgs = parsed(&found).unwrap();
    let users = read::UsersArgs { history: None, figures: false, read: read() };
    let files = read::FilesArgs { channel: None, with_names: false, read: read() };
    let files = read::FilesArgs { read: read::ReadArgs { backend: fixture.data(), ..files.read }, ..files };
    for (path, printed) in [
        ("channels", output(async |out| read::channels(&searchable, &channels, out).await).await.unwrap()),
        (
            "channel?channel=%23general",
            output(async |out| read::channel(archive, &state, out).await).await.unwrap(),
        ),
        (
            "messages?channel=C1&until=2023-11-14T22:13:30Z",
            output(async |out| read::messages(archive, &messages, out).await).await.unwrap(),
        ),
        (
            "thread?channel=general&ts=1700000001.000000&team=T1",
            output(async |out| read::thread(archive, &root, out).await).await.unwrap(),
        ),
        (
            "thread?channel=general&ts=1700000001.000000&with_names=true",
            output(async |out| read::thread(archive, &named, out).await).await.unwrap(),
        ),
        (
            "revisions?channel=C1&ts=p1700000002000000",
            output(async |out| read::revisions(archive, &edited, out).await).await.unwrap(),
        ),
        ("users", output(async |out| read::users(archive, &users, out).await).await.unwrap()),
        (
            "search?q=deploy+in:general",
            output(async |out| search::search(&fixture.backend, &found, out).await).await.unwrap(),
        ),
        ("files", output(async |out| read::files(archive, &files, out).await).await.unwrap()),
    ] {
        let answer = get(&router, &format!("{ROOT}{path}")).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, NDJSON), "{path}: {}", answer.body);
        // The newest version of a canvas also has an address of its own.
        let body = answer.body.replace("/files/T1/F1?updated=1700000000", "/files/T1/F1");
        let key = format!("/slack/T1/C1/{ROOT_TS}/F1.001700000000");
        let printed = stored
            .iter()
            .fold(printed, |printed, stored| printed.replace(&format!("{stored}{key}"), "/files/T1/F1"));
        assert_eq!(body, printed, "{path}");
        assert!(!body.is_empty() && answer.next().is_none(), "{path}");
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")), "{path}");
        let head = send(&router, Method::HEAD, &format!("{ROOT}{path}"), &[], "").await;
        assert_eq!((head.status, head.body.as_str(), &head.headers), (200, "", &answer.headers), "{path}");
        let post = send(&router, Method::POST, &format!("{ROOT}{path}"), &[], "").await;
        assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"), "{path}");
        assert!(post.body.starts_with("{\"error\":"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_links_to_the_next_one() {
    let fixture = filled(false).await;
    let router = served(&fixture, ViewerAccess::All, 0);
    for (path, whole) in [
        ("messages?channel=%23general", 17),
        ("messages?channel=C1&since=1700000005.000000", 13),
        ("thread?channel=C1&ts=1700000001.000000", 6),
        ("revisions?channel=C1&ts=1700000002.000000", 6),
        ("search?q=deploy", 11),
    ] {
        let all = get(&router, &format!("{ROOT}{path}&limit=100")).await;
        assert_eq!(all.body.lines().count(), whole, "{path}");
        for limit in [1, 4, 5] {
            let mut next = Some(format!("{ROOT}{path}&limit={limit}"));
            let mut parts = Vec::new();
            while let Some(address) = next {
                let part = get(&router, &address).await;
                assert!(part.status == 200 && part.body.lines().count() <= limit, "{address}: {}", part.body);
                next = part.next();
                assert!(next.is_none() || part.body.lines().count() == limit, "{address}");
                parts.push(part.body);
            }
            if !path.starts_with("search") {
                parts.reverse();
            }
            assert_eq!(parts.concat(), all.body, "{path}, {limit}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_call_gets_one_line_that_says_what_to_do() {
    let fixture = filled(true).await;
    let router = served(&fixture, ViewerAccess::All, 0);
    for (path, status, expected) in [
        ("messages", 400, "the parameter channel is missing"),
        ("messages?channel=", 400, "the parameter channel is missing"),
        ("messages?channel=C1&limit=0", 400, "a number from 1 to 1000"),
        ("messages?channel=C1&limit=1001", 400, "a number from 1 to 1000"),
        ("messages?channel=C1&limit=x", 400, "limit cannot be \"x\""),
        ("search?q=x&limit=101", 400, "a number from 1 to 100"),
        ("search?q=", 400, "the parameter q is missing"),
        ("search?q=from:nobody", 400, "nobody"),
        ("search?q=before:x", 400, "before"),
        ("search?q=x&before=-1", 400, "before cannot be"),
        ("search?q=x&include_deleted=yes", 400, "true or false"),
        ("messages?channel=C1&chanel=C1", 400, "there is no parameter chanel"),
        ("messages?channel=C1&channel=C1", 400, "comes twice"),
        ("messages?channel=C1&since=tomorrow", 400, "since cannot be"),
        ("messages?channel=C1&since=2023-11-15&until=2023-11-14", 400, "must be later than since"),
        ("messages?channel=%FF", 404, "no channel"),
        ("messages?channel=nowhere", 404, "no channel nowhere"),
        ("thread?channel=C1&ts=1", 400, "ts cannot be"),
        ("thread?channel=C1&ts=1700000099.000000", 404, "no message"),
        ("revisions?channel=C1&ts=1700000099.000000", 404, "no message"),
        ("revisions?channel=C1&ts=1700000001.000000&skip=100001", 400, "skip cannot be"),
        ("channels?team=t", 400, "team cannot be"),
        ("channels?team=T9", 404, "no workspace T9"),
        ("users?limit=many", 400, "limit cannot be"),
        ("nothing", 404, "no such address"),
        ("", 404, "no such address"),
    ] {
        let answer = get(&router, &format!("{ROOT}{path}")).await;
        let error: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let line = error["error"].as_str().unwrap_or_default();
        assert!(answer.status == status && line.contains(expected), "{path}: {} {line}", answer.status);
        assert!(
            !line.contains('\n') && answer.header("content-type") == "application/json",
            "{path}: {line}"
        );
    }
}

#[tokio::test]
async fn the_description_has_every_route_with_its_parameters() {
    let fixture = CliFixture::open().await;
    let router = served(&fixture, ViewerAccess::All, 0);
    let answer = get(&router, "/api/v1/openapi.json").await;
    let described: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let mut paths: Vec<&str> =
        described["paths"].as_object().unwrap().keys().map(|path| &path[ROOT.len()..]).collect();
    paths.retain(|path| *path != "openapi.json");
    let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
    names.sort_unstable();
    assert_eq!(paths, names);
    for route in &ROUTES {
        let described = &described["paths"][format!("{ROOT}{}", route.name)]["get"]["parameters"];
        let mut described: Vec<(&str, bool)> = described
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| (parameter["name"].as_str().unwrap(), parameter["required"] == true))
            .collect();
        let required = route.required.iter().map(|name| (*name, true));
        let optional = route.optional.iter().chain(&routes::COMMON).map(|name| (*name, false));
        let mut expected: Vec<(&str, bool)> = required.chain(optional).collect();
        described.sort_unstable();
        expected.sort_unstable();
        assert_eq!(described, expected, "{}", route.name);
    }
    let limits = |name: &str| {
        let parameters = &described["paths"][format!("{ROOT}{name}")]["get"]["parameters"];
        let limit = parameters.as_array().unwrap().iter().find(|parameter| parameter["name"] == "limit");
        limit.unwrap()["schema"].clone()
    };
    for route in &ROUTES {
        let schema = limits(route.name);
        assert_eq!(schema["maximum"], route.limit.max, "{}", route.name);
        assert_eq!(schema.get("default").and_then(Value::as_u64), route.limit.default.map(|n| n as u64));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_to_a_restricted_reader_is_that_of_an_archive_without_the_private_channel() {
    let (whole, reduced) = (filled(true).await, filled(false).await);
    let routers = [&whole, &reduced].map(|fixture| served(fixture, by_header(), 0));
    let operator = served(&whole, ViewerAccess::All, 0);
    let mut differing = 0;
    for path in [
        "channels",
        "channels?limit=1",
        "channel?channel=C2",
        "channel?channel=plans-secret",
        "channel?channel=plans-secre",
        "channel?channel=C9",
        "messages?channel=C1&limit=3",
        "messages?channel=C2",
        "messages?channel=%23plans-secret",
        "messages?channel=C1&with_names=true",
        "messages?channel=C2&with_names=true",
        "files?with_names=true",
        "thread?channel=C2&ts=1700000001.000000",
        "thread?channel=C1&ts=1700000020.000000",
        "revisions?channel=C2&ts=1700000002.000000",
        "users",
        "search?q=deploy&limit=2",
        "search?q=secret",
        "search?q=in:plans-secret",
        "search?q=-in:plans-secret+deploy",
        "search?q=from:Ana",
        "files",
        "files?channel=C2",
        "openapi.json",
    ] {
        let address = format!("{ROOT}{path}");
        let (answer, wanted) = (get(&routers[0], &address).await, get(&routers[1], &address).await);
        assert_eq!(
            (answer.status, &answer.headers, &answer.body),
            (wanted.status, &wanted.headers, &wanted.body)
        );
        differing += usize::from(get(&operator, &address).await.body != answer.body);
    }
    assert!(differing > 10, "{differing} answers show the private channel to the operator");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_calls_the_tools_over_http_and_sees_what_its_reader_sees() {
    let (whole, reduced) = (filled(true).await, filled(false).await);
    // A listener without a guard needs no token.
    let open = served(&whole, ViewerAccess::All, 0);
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let initialized = call(&open, &[], "initialize", client).await;
    assert!(
        initialized.status == 200 && initialized.body.contains("\"name\":\"annalist\""),
        "{}",
        initialized.body
    );
    assert!(initialized.headers.get("mcp-session-id").is_none());
    // Another process answers the next call.
    let listed = call(&served(&whole, ViewerAccess::All, 0), &[], "tools/list", json!({})).await;
    assert!(listed.body.contains("read_channel") && listed.body.contains("list_channels"), "{}", listed.body);
    let secret = json!({ "name": "read_channel", "arguments": { "channel": "C2" } });
    let seen = call(&open, &[], "tools/call", secret).await;
    assert!(seen.body.contains("a secret deploy 12"), "{}", seen.body);

    let password = || ViewerAccess::Password(ViewerPassword::new("correct horse").unwrap());
    let routers = [&whole, &reduced].map(|fixture| served(fixture, password(), 0));
    let tokens = [token(&whole, &[]).await, token(&reduced, &[]).await];
    for arguments in [
        json!({ "name": "list_channels", "arguments": {} }),
        json!({ "name": "search", "arguments": { "query": "deploy" } }),
        json!({ "name": "search", "arguments": { "query": "secret" } }),
        json!({ "name": "read_channel", "arguments": { "channel": "C2" } }),
        json!({ "name": "read_channel", "arguments": { "channel": "C1" } }),
        json!({ "name": "read_thread", "arguments": { "channel": "C2", "ts": ROOT_TS } }),
    ] {
        let answer =
            call(&routers[0], &[("authorization", &tokens[0])], "tools/call", arguments.clone()).await;
        let wanted =
            call(&routers[1], &[("authorization", &tokens[1])], "tools/call", arguments.clone()).await;
        assert_eq!((answer.status, &answer.body), (200, &wanted.body), "{arguments}");
    }
    let ours = [("origin", "https://archive.example"), ("authorization", &*tokens[0])];
    let foreign = [("origin", "https://evil.example"), ("authorization", &*tokens[0])];
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let logged_in = send(&routers[0], Method::POST, "/login", &form, "password=correct+horse").await;
    let cookie = logged_in.header("set-cookie").split(';').next().unwrap().to_owned();
    for (headers, status) in [
        (&[][..], 401),
        (&[("cookie", &*cookie)], 401),
        (&[("authorization", "Bearer annalist_0123456789ab_x")], 401),
        (&ours, 200),
        (&foreign, 403),
    ] {
        assert_eq!(call(&routers[0], headers, "tools/list", json!({})).await.status, status, "{headers:?}");
    }
    for method in [Method::GET, Method::DELETE] {
        let headers = [("authorization", &*tokens[0])];
        assert_eq!(send(&routers[0], method, "/mcp", &headers, "").await.status, 405);
    }
    let by_cookie = send(&routers[0], Method::GET, "/api/v1/users", &[("cookie", &cookie)], "").await;
    assert_eq!(by_cookie.status, 200);
    let nobody = send(&routers[0], Method::GET, "/api/v1/users", &[], "").await;
    assert_eq!((nobody.status, nobody.header("www-authenticate")), (401, "Bearer"));
}

#[tokio::test]
async fn a_reader_with_too_many_calls_waits_and_others_do_not() {
    let fixture = filled(false).await;
    let router = served(&fixture, by_header(), 2);
    let from = async |name: &str, path: &str| send(&router, Method::GET, path, &[("x-user", name)], "").await;
    assert_eq!(from("ana", "/api/v1/users").await.status, 200);
    assert_eq!(from("ana", "/api/v1/users?limit=x").await.status, 400);
    let refused = from("ana", "/api/v1/users").await;
    assert_eq!(refused.status, 429);
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=31).contains(&seconds) && refused.body.contains("try again after"), "{}", refused.body);
    assert_eq!(from("ana", "/mcp").await.status, 429);
    assert_eq!(from("bo", "/api/v1/users").await.status, 200);
    assert_eq!(from("ana", "/c/T1/C1").await.status, 200);
}
