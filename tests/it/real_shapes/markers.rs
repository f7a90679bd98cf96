//! Every kind of content with a marker word in each text that Slack shows: each surface shows every marker.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event;
use testkit::fake_slack::shapes::{Markers, app_message, every_message, rich_text};
use testkit::fake_slack::{self, FakeSlack, FakeWorkspace};
use tests::harness::client::deliver;
use tests::harness::command::{annalist_with, wait_until_idle};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::{ShapeArchive, plain_channel, told, without_escapes, without_tags};
use crate::import::export::{Export, TEAM, person};
use crate::mcp::Client;
use crate::responder::installation::ResponderInstallation;
use crate::responder::workspace::{CHANNEL, TOKEN};

const DEADLINE: Duration = Duration::from_secs(60);
const ROOT: &str = "1700000000.000100";

fn ts(number: usize) -> String {
    format!("17000{:05}.000100", number + 1)
}

/// The messages of every kind with new markers.
fn messages(prefix: &str) -> (Markers, Vec<(&'static str, Value)>) {
    let mut markers = Markers::new(prefix);
    let messages = every_message(&mut markers, ts);
    (markers, messages)
}

/// People, a channel and a user group whose names have markers, and messages that have only their ids.
struct NamedObjects {
    people: Vec<Value>,
    channel: Value,
    user_group: Value,
    /// A message for each object, with the marker of its name.
    messages: Vec<(String, Value)>,
}

impl NamedObjects {
    /// Objects with these letters in their ids. `ts` returns the timestamp of the message with a number.
    fn new(markers: &mut Markers, letters: &str, ts: impl Fn(usize) -> String) -> Self {
        let id = |prefix: &str| format!("{prefix}0NAMED{letters}");
        let users = ["U1", "U2", "U3"].map(|prefix| (id(prefix), markers.word()));
        let ((channel, channel_name), (group, handle)) =
            ((id("C"), markers.word()), (id("S"), markers.word()));
        let elements = [
            json!({ "type": "user", "user_id": users[0].0 }),
            json!({ "type": "canvas_user_mention", "user_id": users[1].0 }),
            json!({ "type": "message_mention", "channel_id": "C0ELSEWHERE", "message_ts": ROOT, "author_id": users[2].0 }),
            json!({ "type": "channel", "channel_id": channel }),
            json!({ "type": "usergroup", "usergroup_id": group }),
        ];
        let names = users.iter().map(|(_, name)| name).chain([&channel_name, &handle]);
        let messages = names.zip(elements).enumerate().map(|(number, (name, element))| {
            (name.clone(), app_message(&ts(number), json!({ "blocks": [rich_text(&[element])] })))
        });
        let messages = messages.collect();
        let person = |(id, name): &(String, String)| {
            event::with_fields(fake_slack::person(id, name), [("team_id", TEAM.into())])
        };
        Self {
            people: users.iter().map(person).collect(),
            channel: fake_slack::channel(&channel, &channel_name),
            user_group: fake_slack::user_group(&group, &handle, &[], 1_600_000_000),
            messages,
        }
    }

    fn messages(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.messages.iter().map(|(_, message)| ("an object's name", message.clone()))
    }

    /// Adds the objects to a workspace.
    fn add_to(&self, workspace: &mut FakeWorkspace) {
        workspace.members.extend(self.people.clone());
        workspace.channels.push(self.channel.clone());
        workspace.user_groups.push(self.user_group.clone());
    }
}

/// The markers that a text lacks, each with the kind of content that has it.
fn lacking(markers: &Markers, messages: &[(&'static str, Value)], text: &str) -> BTreeSet<String> {
    let lacking = markers.shown().iter().filter(|word| !text.contains(word.as_str()));
    let kind = |word: &String| {
        let of_word = messages.iter().find(|(_, message)| message.to_string().contains(word.as_str()));
        format!("{word} of {}", of_word.map_or("no message", |(kind, _)| kind))
    };
    lacking.map(kind).collect()
}

/// All messages in the channel `flat`, and again as replies of one thread in the channel `threaded`.
fn exported(flat: &[(&'static str, Value)], threaded: &[(&'static str, Value)]) -> Export {
    let root = json!({ "type": "message", "user": "U1", "text": "a root", "ts": ROOT, "thread_ts": ROOT });
    let reply = |message: &Value| event::with_fields(message.clone(), [("thread_ts", ROOT.into())]);
    let channel_day: Vec<Value> = flat.iter().map(|(_, message)| message.clone()).collect();
    let thread_day: Vec<Value> = threaded.iter().map(|(_, message)| reply(message)).collect();
    Export::default()
        .with("users.json", &json!([person("U1")]))
        .with(
            "channels.json",
            &json!([plain_channel("C0FLAT", "flat"), plain_channel("C0THREADED", "threaded")]),
        )
        .with("flat/2023-11-14.json", &channel_day.into())
        .with("threaded/2023-11-14.json", &[vec![root], thread_day].concat().into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_surface_shows_every_text_that_slack_shows() {
    let (mut flat_words, flat_shapes) = messages("zqf");
    let (mut thread_words, mut threaded) = messages("zqt");
    let named = NamedObjects::new(&mut flat_words, "F", |number| ts(flat_shapes.len() + number));
    let named_in_thread = NamedObjects::new(&mut thread_words, "T", |number| ts(threaded.len() + number));
    let flat: Vec<_> = flat_shapes.iter().cloned().chain(named.messages()).collect();
    threaded.extend(named_in_thread.messages());
    let archive = ShapeArchive::new(&exported(&flat, &threaded)).await;
    assert_eq!(archive.imported.code, Some(0), "{}", archive.imported.stderr);
    let data = archive.data();
    let channels = [("C0FLAT", "flat"), ("C0THREADED", "threaded")];
    let mut workspace = FakeWorkspace {
        channels: channels.map(|(id, name)| fake_slack::channel(id, name)).into(),
        ..FakeWorkspace::new(TEAM)
    };
    [&named, &named_in_thread].into_iter().for_each(|named| named.add_to(&mut workspace));
    let slack = FakeSlack::start().await;
    slack.set_workspace(TOKEN, workspace);
    let variables = [("SLACK_BOT_TOKEN", TOKEN), ("SLACK_API_URL", &*slack.url())];
    annalist_with(&["sync", "--data", data.to_str().unwrap()], &variables).await.succeeded();
    let mut missing: Vec<(&str, BTreeSet<String>)> = Vec::new();

    missing.push(("messages", lacking(&flat_words, &flat, &archive.printed(&["messages", "flat"]).await)));
    let thread = archive.printed(&["thread", "threaded", ROOT]).await;
    missing.push(("thread", lacking(&thread_words, &threaded, &thread)));
    for format in ["text", "markdown", "html", "jsonl", "slack"] {
        let files = archive.exported(format).await;
        let text: String = files.into_iter().map(|(_, text)| text).collect();
        let text = match format {
            "html" => without_tags(&text),
            "markdown" => without_escapes(&text),
            _ => text,
        };
        for (words, messages, named) in
            [(&flat_words, &flat, &named), (&thread_words, &threaded, &named_in_thread)]
        {
            let mut lacking = lacking(words, messages, &text);
            // These have messages as Slack sent them, and lists of people and channels. Slack's format has no user groups.
            if matches!(format, "jsonl" | "slack") {
                let handle = named.user_group["handle"].as_str().unwrap();
                lacking.retain(|word| !word.starts_with(handle));
            }
            missing.push((format, lacking));
        }
    }

    let around = (0..flat.len()).step_by(20).map(|number| format!("/c/{TEAM}/C0FLAT?around={}", ts(number)));
    let page: String = archive.pages(&around.collect::<Vec<_>>()).await.concat();
    missing.push(("channel page", lacking(&flat_words, &flat, &without_tags(&page))));
    let page = archive.pages(&[format!("/t/{TEAM}/C0THREADED/{ROOT}")]).await.concat();
    missing.push(("thread page", lacking(&thread_words, &threaded, &without_tags(&page))));

    let client = Client::new(&data).await;
    let answers = told(&client, "read_channel", json!({ "channel": "flat", "after": "1.000000" })).await;
    missing.push(("MCP read_channel", lacking(&flat_words, &flat, &answers)));
    let answers = told(&client, "read_thread", json!({ "channel": "threaded", "ts": ROOT })).await;
    missing.push(("MCP read_thread", lacking(&thread_words, &threaded, &answers)));
    client.close().await;

    // One query for all words of a message.
    for (number, (kind, message)) in flat_shapes.iter().enumerate() {
        let text = message.to_string();
        let words: Vec<&str> =
            flat_words.shown().iter().map(String::as_str).filter(|word| text.contains(*word)).collect();
        if archive.found(&words.join(" ")).await != [ts(number)] {
            missing.push(("search", BTreeSet::from([(*kind).to_owned()])));
        }
    }
    for (name, message) in &named.messages {
        if archive.found(name).await != [message["ts"].as_str().unwrap()] {
            missing.push(("search", BTreeSet::from([format!("{name} of {message}")])));
        }
    }
    missing.retain(|(_, words)| !words.is_empty());
    assert!(missing.is_empty(), "{missing:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_asked_with_every_text_of_its_thread() {
    let installation = ResponderInstallation::new().await;
    let mut words = Markers::new("zqr");
    let names = NamedObjects::new(&mut words, "R", |_| String::new());
    installation.slack.change_workspace(TOKEN, |workspace| {
        workspace.knows_every_id = true;
        names.add_to(workspace);
    });
    let variables = [("SLACK_BOT_TOKEN", TOKEN), ("SLACK_API_URL", &*installation.slack.url())];
    annalist_with(&["sync", "--data", installation.data().to_str().unwrap()], &variables).await.succeeded();
    let model = MockServer::start().await;
    let message = json!({ "content": [{ "type": "text", "text": "noted" }], "stop_reason": "end_turn" });
    Mock::given(path("/v1/messages"))
        .respond_with(ResponseTemplate::new(200).set_body_json(message))
        .mount(&model)
        .await;
    let url = model.uri();
    let server = installation
        .up(&[
            ("ANTHROPIC_API_KEY", "hidden-of-model"),
            ("ANTHROPIC_BASE_URL", &url),
            ("ANNALIST_MODEL", "a-model"),
            ("ANNALIST_CONTEXT_BYTES", "524288"),
        ])
        .await;
    let (question_ts, question) = installation.mention(1, "what is all this?");
    let root = format!("{}.000000", question_ts.split('.').next().unwrap());
    let begins = root.clone();
    let earlier = |number: usize| format!("{}.{:06}", begins.split('.').next().unwrap(), number + 1);
    let mut messages = every_message(&mut words, earlier);
    let shapes = messages.len();
    for (number, (kind, mut message)) in names.messages().enumerate() {
        message["ts"] = earlier(shapes + number).into();
        messages.push((kind, message));
    }
    // Nothing is downloaded.
    for (_, message) in &mut messages {
        let files = message.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten();
        files.filter_map(Value::as_object_mut).for_each(|file| drop(file.remove("url_private")));
    }
    let in_thread =
        |message: &Value| event::with_fields(message.clone(), [("thread_ts", root.as_str().into())]);
    let root_message = event::message(&root, "U0ADA", "a root");
    let mut events = vec![event::posted(CHANNEL, &in_thread(&root_message))];
    events.extend(messages.iter().map(|(_, message)| event::posted(CHANNEL, &in_thread(message))));
    deliver(server.address, TEAM, &events).await;
    wait_until_idle(installation.data(), DEADLINE).await;
    let asked_ts = format!("{}.900000", root.split('.').next().unwrap());
    let question = event::with_fields(
        question,
        [
            ("ts", asked_ts.as_str().into()),
            ("event_ts", asked_ts.as_str().into()),
            ("thread_ts", root.as_str().into()),
        ],
    );
    deliver(server.address, TEAM, &[question]).await;
    installation.posted(1, DEADLINE).await;
    let requests = model.received_requests().await.unwrap();
    let body: Value = serde_json::from_slice(&requests.last().unwrap().body).unwrap();
    let document = body["messages"][0]["content"].as_str().unwrap();
    let missing = lacking(&words, &messages, document);
    assert!(missing.is_empty(), "{missing:#?}");
    server.process.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_wrote_is_read_once() {
    let message = |ts: &str, text: &str, elements: Value| {
        json!({ "type": "message", "user": "U1", "ts": ts, "text": text, "blocks": [
            { "type": "rich_text", "elements": [{ "type": "rich_text_section", "elements": elements }] },
        ] })
    };
    let day = json!([
        message(
            "1700000001.000100",
            "seven *plain* words of <@U1>, and <https://example.com/a|a link>",
            json!([
                { "type": "text", "text": "seven " }, { "type": "text", "text": "plain", "style": { "bold": true } },
                { "type": "text", "text": " words of " }, { "type": "user", "user_id": "U1" },
                { "type": "text", "text": ", and " },
                { "type": "link", "url": "https://example.com/a", "text": "a link" },
            ]),
        ),
        message(
            "1700000002.000100",
            "fish &amp; chips :tada: &lt;3",
            json!([
                { "type": "text", "text": "fish & chips " }, { "type": "emoji", "name": "tada", "unicode": "1f389" },
                { "type": "text", "text": " <3" },
            ]),
        ),
    ]);
    let export = Export::default()
        .with("users.json", &json!([person("U1")]))
        .with("channels.json", &json!([plain_channel("C0TWICE", "twice")]))
        .with("twice/2023-11-14.json", &day);
    let archive = ShapeArchive::new(&export).await;
    for (query, word) in [("seven", "seven"), ("chips", "chips")] {
        let hits = archive.printed(&["search", query]).await;
        assert_eq!(hits.matches(word).count(), 1, "{hits}");
    }
    // Slack keeps both forms; the archive has one word count for each message.
    let mut counts = Vec::new();
    for line in archive.printed(&["messages", "twice", "--figures", "--json"]).await.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        counts.push(message["word_count"].as_u64());
    }
    let is_read_once =
        |count: &Option<u64>, words: RangeInclusive<u64>| count.is_some_and(|count| words.contains(&count));
    assert!(
        counts.len() == 2 && is_read_once(&counts[0], 6..=9) && is_read_once(&counts[1], 2..=6),
        "{counts:?}"
    );
}
