//! Single messages, each in a channel of its own, with the texts that surfaces must show or must not show.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ShapeArchive, plain_channel, told, without_escapes, without_tags};
use crate::import::export::{Export, TEAM, person};
use crate::mcp::Client;

/// What must hold after the import.
enum Expected {
    /// Every surface shows these texts.
    Shown(&'static [&'static str]),
    /// No surface shows these texts.
    Hidden(&'static [&'static str]),
    /// One surface contains this text; a page with its tags is the surface `tags`.
    On(&'static str, &'static str),
    /// A query finds this number of messages.
    Found(&'static str, usize),
}

use Expected::{Found, Hidden, On, Shown};

/// A channel's messages, and what must hold.
struct RealCase {
    name: &'static str,
    messages: Value,
    expected: Vec<Expected>,
}

fn app(ts: &str, content: Value) -> Value {
    let mut message = json!({ "type": "message", "subtype": "bot_message", "bot_id": "B0APP", "username": "app",
        "text": "", "ts": ts });
    if let (Value::Object(message), Value::Object(content)) = (&mut message, content) {
        message.extend(content);
    }
    message
}

fn rich_text(elements: Value) -> Value {
    json!([{ "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": elements }] }])
}

fn by(user: &str, ts: &str, content: Value) -> Value {
    let mut message = json!({ "type": "message", "user": user, "text": "", "ts": ts });
    if let (Value::Object(message), Value::Object(content)) = (&mut message, content) {
        message.extend(content);
    }
    message
}

const TS: [&str; 3] = ["1700000060.000100", "1700000061.000100", "1700000062.000100"];

fn cases() -> Vec<RealCase> {
    vec![
        RealCase {
            name: "app-with-blocks",
            messages: json!([app(
                TS[0],
                json!({ "text": "New alert", "blocks": [
                { "type": "header", "text": { "type": "plain_text", "text": "Router 9 lost its uplink" } },
                { "type": "section", "fields": [{ "type": "mrkdwn", "text": "*Level*\nAMBER" }] },
                { "type": "table", "rows": [[{ "type": "raw_text", "text": "north-hall" }]] },
            ] })
            )]),
            expected: vec![
                Shown(&["Router 9 lost its uplink", "AMBER", "north-hall"]),
                Found("uplink", 1),
                Found("AMBER", 1),
                Found("north-hall", 1),
            ],
        },
        RealCase {
            name: "names-in-the-text",
            messages: json!([by(
                "U1",
                TS[0],
                json!({
                "text": "ask <#C0HIDDEN|board-room> and <!subteam^S0NIGHT|@nightshift> and <@U0LEFT|oldsam>",
                "blocks": rich_text(json!([
                    { "type": "text", "text": "ask " }, { "type": "channel", "channel_id": "C0HIDDEN" },
                    { "type": "text", "text": " and " }, { "type": "usergroup", "usergroup_id": "S0NIGHT" },
                    { "type": "text", "text": " and " }, { "type": "user", "user_id": "U0LEFT" },
                ])) })
            )]),
            expected: vec![Shown(&["ask #board-room and @nightshift and @oldsam"])],
        },
        RealCase {
            name: "blocks-of-other-kinds",
            messages: json!([
                app(
                    TS[0],
                    json!({ "blocks": [
                    { "type": "plan", "plan_id": "p", "title": "Checks finished", "tasks": [
                        { "type": "task_card", "task_id": "t", "title": "Read the log", "status": "complete" }] },
                    { "type": "task_card", "task_id": "u", "title": "Wrote the note", "status": "complete" },
                ] })
                ),
                by(
                    "U1",
                    TS[1],
                    json!({ "text": "at Acme and F0CANVAS9", "blocks": rich_text(json!([
                    { "type": "text", "text": "at " }, { "type": "team", "team_id": "T0ELSEWHERE" },
                    { "type": "text", "text": " and " }, { "type": "canvas", "file_id": "F0CANVAS9" },
                    { "type": "text", "text": " then" },
                ])) })
                ),
                app(
                    TS[2],
                    json!({ "blocks": [{ "type": "file", "source": "remote", "external_id": "X", "file_id": "F0SEATS",
                    "file": { "id": "F0SEATS", "title": "Seating plan", "external_url": "https://example.com/seats" } }] })
                ),
            ]),
            expected: vec![
                Shown(&[
                    "Checks finished",
                    "Read the log",
                    "Wrote the note",
                    "F0CANVAS9",
                    "T0ELSEWHERE",
                    "Seating plan",
                ]),
                Hidden(&["no text"]),
            ],
        },
        RealCase {
            name: "dates",
            messages: json!([
                app(
                    TS[0],
                    json!({ "text": "Starts soon", "blocks": rich_text(json!([
                    { "type": "text", "text": "Starts on " },
                    { "type": "date", "timestamp": 1_705_569_650, "format": "{date_num} {time}" },
                ])) })
                ),
                by("U1", TS[1], json!({ "text": "Ends on <!date^1705569650^{date_num}> or so" })),
                by(
                    "U1",
                    TS[2],
                    json!({
                    "text": "<!date^1705569650^{date_long}^https://example.com/timetable|the timetable>" })
                ),
            ]),
            expected: vec![
                Shown(&["Starts on 2024-01-18", "Ends on 2024-01-18 or so"]),
                Hidden(&["date^", "{date", "1705569650"]),
                On("tags", "href=\"https://example.com/timetable\""),
                On("messages", "https://example.com/timetable"),
            ],
        },
        RealCase {
            name: "huddle",
            messages: json!([by(
                "USLACKBOT",
                TS[0],
                json!({ "subtype": "huddle_thread", "room": {
                "id": "R0HUDDLE", "name": "weekly retro", "created_by": "U2", "date_start": 1_687_381_097,
                "date_end": 1_687_382_537, "participants": [], "participant_history": ["U1", "U2"],
                "has_ended": true, "call_family": "huddle" } })
            )]),
            expected: vec![Shown(&["weekly retro", "Person U1", "Person U2", "24 min"])],
        },
        RealCase {
            name: "numbered-list",
            messages: json!([app(
                TS[0],
                json!({ "text": "1. main\n    a. nested", "blocks": [{ "type": "rich_text", "elements": [
                { "type": "rich_text_list", "style": "ordered", "indent": 0, "elements": [
                    { "type": "rich_text_section", "elements": [{ "type": "text", "text": "main" }] }] },
                { "type": "rich_text_list", "style": "ordered", "indent": 1, "elements": [
                    { "type": "rich_text_section", "elements": [{ "type": "text", "text": "nested" }] }] },
            ] }] })
            )]),
            expected: vec![On("messages", "1. main"), On("messages", "a. nested"), On("text", "a. nested")],
        },
        RealCase {
            name: "two-skin-tones",
            messages: json!([by("U1", TS[0], json!({ "text": "agreed :handshake::skin-tone-2-3:" }))]),
            expected: vec![On("page", "🤝"), Hidden(&[" :skin-tone-2-3:"])],
        },
        RealCase {
            name: "texts-in-files",
            messages: json!([
                by(
                    "USLACKBOT",
                    TS[0],
                    json!({ "files": [{ "id": "F0MAIL1", "mode": "email", "filetype": "email",
                    "name": "Rent", "title": "Rent", "mimetype": "text/html", "size": 900, "subject": "Rent",
                    "from": [{ "address": "ida@example.com", "name": "Ida", "original": "Ida <ida@example.com>" }],
                    "plain_text": "Pay the rent by noon", "url_private": "https://files.slack.com/files-pri/T1-F0MAIL1/rent" }] })
                ),
                by(
                    "U1",
                    TS[1],
                    json!({ "files": [{ "id": "F0SNIP1", "mode": "snippet", "filetype": "python",
                    "name": "mend.py", "title": "mend.py", "size": 20, "mimetype": "text/plain",
                    "preview": "print('pump mended')", "url_private": "https://files.slack.com/files-pri/T1-F0SNIP1/mend.py" }] })
                ),
            ]),
            expected: vec![
                Shown(&["Ida", "Pay the rent by noon", "pump mended"]),
                Found("noon", 1),
                Found("\"pump mended\"", 1),
            ],
        },
        RealCase {
            name: "bot-of-the-directory",
            messages: json!([{ "type": "message", "subtype": "bot_message", "bot_id": "B0TICKET", "text": "a ticket is done",
                "ts": TS[0] }]),
            expected: vec![Shown(&["Ticket Robot"]), Hidden(&["B0TICKET"])],
        },
        RealCase {
            name: "person-of-another-organisation",
            messages: json!([
                by(
                    "U0KIM",
                    TS[0],
                    json!({ "text": "greetings from outside", "team": "T0PARTNER01", "user_team": "T0PARTNER01",
                    "source_team": "T0PARTNER01", "user_profile": { "avatar_hash": "x", "first_name": "Kim",
                        "real_name": "Kim Vale", "display_name": "kim.v", "team": "T0PARTNER01", "name": "kim" } })
                ),
                by("U1", TS[1], json!({ "text": "welcome <@U0KIM>" })),
            ]),
            expected: vec![Shown(&["kim.v", "welcome @kim.v"]), Hidden(&["U0KIM"]), Found("from:@kim.v", 1)],
        },
        RealCase {
            name: "forwarded-file",
            messages: json!([by(
                "U1",
                TS[0],
                json!({ "text": "see this", "attachments": [{ "id": 1, "is_share": true,
                "is_msg_unfurl": true, "author_name": "Sam", "text": "the lease", "channel_id": "C0GONE",
                "ts": "1699999999.000100", "from_url": "https://example.slack.com/archives/C0GONE/p1699999999000100",
                "files": [{ "id": "F0LEASE", "name": "lease-31.pdf", "title": "lease-31.pdf", "mode": "hosted",
                    "mimetype": "application/pdf", "filetype": "pdf", "size": 5,
                    "url_private": "https://files.slack.com/files-pri/T1-F0LEASE/lease-31.pdf" }] }] })
            )]),
            expected: vec![
                Shown(&["the lease", "lease-31.pdf"]),
                Found("lease-31", 1),
                Found("has:file lease-31", 1),
            ],
        },
        RealCase {
            name: "replies-without-root",
            messages: json!([
                by("U1", TS[0], json!({ "text": "the first late reply", "thread_ts": "1699990000.000100" })),
                by("U2", TS[1], json!({ "text": "the second late reply", "thread_ts": "1699990000.000100" })),
            ]),
            expected: vec![
                Shown(&["the first late reply", "the second late reply"]),
                Hidden(&["There are no messages here"]),
            ],
        },
    ]
}

fn exported(cases: &[RealCase]) -> Export {
    let channels: Vec<Value> =
        cases.iter().enumerate().map(|(number, case)| plain_channel(&id(number), case.name)).collect();
    let bot = json!({ "id": "U0TICKET", "team_id": TEAM, "name": "ticketrobot", "real_name": "Ticket Robot",
        "is_bot": true, "profile": { "bot_id": "B0TICKET", "real_name": "Ticket Robot", "display_name": "" } });
    let lists = Export::default()
        .with("users.json", &json!([person("U1"), person("U2"), bot]))
        .with("channels.json", &channels.into())
        .with_bytes("__uploads/F0LEASE/lease-31.pdf", "bytes");
    cases
        .iter()
        .fold(lists, |export, case| export.with(&format!("{}/2023-11-14.json", case.name), &case.messages))
}

fn id(number: usize) -> String {
    format!("C0CASE{number:02}")
}

/// The text of a case on every surface.
async fn surfaces(archive: &ShapeArchive, cases: &[RealCase]) -> Vec<BTreeMap<&'static str, String>> {
    let mut exports = BTreeMap::new();
    for format in ["text", "markdown", "html"] {
        exports.insert(format, archive.exported(format).await);
    }
    let paths: Vec<String> = (0..cases.len()).map(|number| format!("/c/{TEAM}/{}", id(number))).collect();
    let pages = archive.pages(&paths).await;
    let client = Client::new(&archive.data()).await;
    let mut surfaces = Vec::new();
    for (case, page) in cases.iter().zip(pages) {
        let messages = archive.printed(&["messages", case.name]).await;
        let answers =
            told(&client, "read_channel", json!({ "channel": case.name, "after": "1.000000" })).await;
        let mut of_case = BTreeMap::from([
            ("messages", messages),
            ("MCP", answers),
            ("page", main_part(&page)),
            ("tags", page),
        ]);
        for (format, files) in &exports {
            let of_channel = files.iter().filter(|(path, _)| path.contains(case.name));
            let text: String = of_channel.map(|(_, text)| text.as_str()).collect();
            let text = match *format {
                "html" => without_tags(&text),
                "markdown" => without_escapes(&text),
                _ => text,
            };
            of_case.insert(format, text);
        }
        surfaces.push(of_case);
    }
    client.close().await;
    surfaces
}

/// The text of a page after its menu of channels.
fn main_part(page: &str) -> String {
    without_tags(page.split_once("<main").map_or(page, |(_, main)| main))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_real_shapes_are_shown_as_slack_shows_them() {
    let cases = cases();
    let archive = ShapeArchive::new(&exported(&cases)).await;
    assert_eq!(archive.imported.code, Some(0), "{}", archive.imported.stderr);
    let surfaces = surfaces(&archive, &cases).await;
    let mut failures = Vec::new();
    for (case, surfaces) in cases.iter().zip(&surfaces) {
        let texts = || surfaces.iter().filter(|(surface, _)| **surface != "tags");
        for expected in &case.expected {
            match expected {
                Shown(shown) => {
                    for (surface, text) in texts() {
                        for words in shown.iter().filter(|words| !text.contains(**words)) {
                            failures.push(format!("{}: {surface} lacks {words:?}: {text}", case.name));
                        }
                    }
                }
                Hidden(hidden) => {
                    for (surface, text) in texts() {
                        for words in hidden.iter().filter(|words| text.contains(**words)) {
                            failures.push(format!("{}: {surface} has {words:?}: {text}", case.name));
                        }
                    }
                }
                On(surface, words) => {
                    if !surfaces[surface].contains(words) {
                        failures
                            .push(format!("{}: {surface} lacks {words:?}: {}", case.name, surfaces[surface]));
                    }
                }
                Found(query, count) => {
                    let found = archive.found(query).await;
                    if found.len() != *count {
                        failures.push(format!("{}: {query} finds {found:?}", case.name));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
