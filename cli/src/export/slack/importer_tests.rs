//! Exports for importers, read by the rules of the importers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use slack_api::{ApiUrl, Tokens, WebApi};
use testkit::fake_slack::{FakeSlack, FakeWorkspace, channel, person};

use super::zipped::names_and_contents;
use crate::export::{ExportArgs, run};
use crate::fixture::{CliFixture, output, parsed};

/// What `mmetl` reads, and what `zulip` refuses otherwise.
const KNOWN_TO_MMETL: [&str; 9] = [
    "bot_message",
    "channel_join",
    "channel_leave",
    "channel_name",
    "channel_purpose",
    "channel_topic",
    "file_comment",
    "me_message",
    "thread_broadcast",
];

async fn archive() -> CliFixture {
    let fixture = CliFixture::open().await;
    fixture.channel("T1", "C1", "1.000000", "general").await;
    fixture.channel("T1", "C2", "2.000000", "会議").await;
    fixture.person("T1", "U1", "Ana").await;
    let at = |second: i64| format!("{}.000100", 1_700_000_000 + second);
    fixture.post("T1", "C1", &at(0), "a root").await;
    fixture.reply("T1", "C1", &at(1), &at(0), "a reply").await;
    fixture.react("T1", "C1", &at(0), "U2", "tada", &at(2)).await;
    fixture.reply("T1", "C1", &at(3), &at(-100_000), "a reply without a root").await;
    fixture.reply("T1", "C1", &at(4), &at(-100_000), "another one").await;
    fixture.post("T1", "C1", &at(5), "a root that goes").await;
    fixture.reply("T1", "C1", &at(6), &at(5), "its reply").await;
    fixture.delete("T1", "C1", &at(5), &at(7)).await;
    let broadcast = json!({ "text": "to all", "subtype": "thread_broadcast", "thread_ts": at(0) });
    fixture.change("T1", "C1", &at(8), &at(8), broadcast).await;
    for (second, fields) in [
        (9, json!({ "text": "notice", "subtype": "bot_add" })),
        (10, json!({ "text": "app", "user": null, "bot_id": "B1" })),
        (11, json!({ "text": "no author", "user": null })),
        (12, json!({ "text": "stranger", "user": "U77" })),
    ] {
        fixture.change("T1", "C1", &at(second), &at(second), fields).await;
    }
    let file =
        json!({ "id": "F1", "name": "plan.txt", "permalink": "https://acme.slack.com/files/U1/F1/plan.txt" });
    fixture.share("T1", "C1", &at(13), &file).await;
    fixture
}

/// An export: its counts, its entries, and the messages by channel.
struct ReadExport {
    counts: Value,
    entries: BTreeMap<String, Vec<u8>>,
    folder: tempfile::TempDir,
}

impl ReadExport {
    async fn write(fixture: &CliFixture, more: &[&str]) -> Self {
        Self::write_with(fixture, None, more).await
    }

    async fn write_with(fixture: &CliFixture, api: Option<Arc<WebApi>>, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("acme.zip");
        let arguments = ["--format", "slack", "--out", path.to_str().unwrap(), "--data", "unused", "--json"];
        let args: ExportArgs = parsed(&[&arguments[..], more].concat()).unwrap();
        let out = output(async |out| run(&fixture.backend, api, &args, out).await).await.unwrap();
        let counts = serde_json::from_str(&out).unwrap();
        let entries = names_and_contents(File::open(path).unwrap()).into_iter().collect();
        Self { counts, entries, folder }
    }

    fn json(&self, name: &str) -> Vec<Value> {
        serde_json::from_slice(&self.entries[name]).unwrap()
    }

    fn messages(&self, channel: &str) -> Vec<Value> {
        let days = self
            .entries
            .keys()
            .filter(|name| name.starts_with(&format!("{channel}/")) && name.ends_with(".json"));
        days.flat_map(|day| self.json(day)).collect()
    }
}

#[tokio::test]
async fn mmetl_drops_nothing() {
    let export = ReadExport::write(&archive().await, &["--for", "mattermost"]).await;
    let people: BTreeSet<String> =
        export.json("users.json").iter().map(|person| person["id"].as_str().unwrap().to_owned()).collect();
    let channels = export.json("channels.json");
    assert_eq!(channels.len(), 2);
    let messages = export.messages("general");
    let timestamps: BTreeSet<&str> = messages.iter().map(|message| message["ts"].as_str().unwrap()).collect();
    let mut replies = 0;
    for message in &messages {
        let subtype = message["subtype"].as_str();
        assert!(subtype.is_none_or(|subtype| KNOWN_TO_MMETL.contains(&subtype)), "{message}");
        match message["user"].as_str() {
            Some(user) => {
                assert!(people.contains(user), "{message}");
                let members = channels.iter().find(|channel| channel["name"] == "general").unwrap();
                assert!(members["members"].as_array().unwrap().contains(&user.into()), "{message}");
            }
            None => assert!(message["bot_id"].is_string(), "{message}"),
        }
        if let Some(root) = message["thread_ts"].as_str() {
            assert!(timestamps.contains(root), "{message}");
            replies += u64::from(message["ts"] != root);
        }
        for file in message["files"].as_array().into_iter().flatten() {
            let prefix = format!("__uploads/{}/", file["id"].as_str().unwrap());
            assert!(export.entries.keys().any(|name| name.starts_with(&prefix)), "{message}");
        }
    }
    let expected = json!({ "channels": 2, "people": 3, "messages": 12, "threads": 2, "replies": 5,
        "reactions": 1, "files": 0, "placeholders": 1, "missing_files": 1 });
    assert_eq!((&export.counts, replies), (&expected, 5));
    assert_eq!(messages.len(), 13);
    let file =
        messages.iter().find(|message| message["text"].as_str().unwrap().contains("plan.txt")).unwrap();
    assert_eq!(file["text"], "look\nplan.txt (not in the archive)");
}

#[tokio::test]
async fn zulip_reads_all_of_it() {
    let export = ReadExport::write(&archive().await, &["--for", "zulip"]).await;
    for name in export.entries.keys() {
        assert!(name.trim_end_matches('/').matches('/').count() <= 1, "{name}");
    }
    for channel in export.json("channels.json") {
        let folder = format!("{}/", channel["name"].as_str().unwrap());
        assert!(export.entries.keys().any(|name| name.starts_with(&folder)), "{folder}");
    }
    let people = export.json("users.json");
    assert!(people.iter().all(|person| person["profile"].is_object()));
    assert!(people.iter().any(|person| person["name"] == "slackbot" && person["is_bot"] == true));
    let messages = export.messages("general");
    let users: BTreeMap<&str, &Value> =
        messages.iter().map(|message| (message["ts"].as_str().unwrap(), &message["user"])).collect();
    for message in &messages {
        assert!(message["user"].is_string() || message["bot_id"].is_string(), "{message}");
        assert!(message["subtype"] != "file_share" || message["file"].is_object(), "{message}");
        if let Some(root) = message["thread_ts"].as_str().filter(|root| message["ts"] != *root) {
            assert_eq!(&message["parent_user_id"], users[root], "{message}");
            if message["subtype"] == "thread_broadcast" {
                assert_eq!(&message["root"]["user"], users[root]);
            }
        }
        for file in message["files"].as_array().into_iter().flatten() {
            assert_eq!(file["url_private"], "https://acme.slack.com/files/U1/F1/plan.txt");
        }
    }
    assert_eq!((&export.counts["messages"], &export.counts["placeholders"]), (&json!(12), &json!(1)));
    drop(export.folder);
}

const TOKEN: &str = "xoxb-of-the-workspace";
const EMAIL: &str = "ana@mail.example";

/// A Slack that knows one of the channels and one of the people. Its token has these scopes.
fn slack(scopes: &[&str]) -> FakeSlack {
    let mut ana = person("U1", "ana");
    ana["profile"]["email"] = EMAIL.into();
    let mut workspace = FakeWorkspace {
        channels: vec![channel("C1", "general")],
        members: vec![ana],
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ..FakeWorkspace::new("T1")
    };
    workspace.channel_members.insert("C1".to_owned(), vec!["U1".into(), "U5".into()]);
    let slack = FakeSlack::on_virtual_time();
    slack.set_workspace(TOKEN, workspace);
    slack
}

/// The files of a folder that contain this text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn addresses_and_members_come_from_slack_and_are_not_kept() {
    let fixture = archive().await;
    let slack = slack(&["channels:read", "users:read", "users:read.email"]);
    let more = ["--for", "mattermost", "--with-emails", "--with-members"];
    let export = ReadExport::write_with(&fixture, Some(slack.client_in_memory(TOKEN)), &more).await;
    let people = export.json("users.json");
    let with_address: Vec<_> = people
        .iter()
        .filter_map(|person| person["profile"]["email"].as_str().zip(person["id"].as_str()))
        .collect();
    assert_eq!(with_address, [(EMAIL, "U1")]);
    assert!(people.iter().any(|person| person["id"] == "U5"), "importers drop members whom they do not know");
    let members = |name: &str| {
        let channels = export.json("channels.json");
        let channel = channels.into_iter().find(|channel| channel["name"] == name).unwrap();
        channel["members"].clone()
    };
    assert_eq!(members("general"), json!(["U1", "U5", "U77", "USLACKBOT"]));
    assert_eq!(members("会議"), json!([]), "Slack does not show the other channel");
    assert_eq!(files_with(&fixture.data().data.data, EMAIL), [""; 0]);
}

#[tokio::test]
async fn slack_is_asked_only_for_what_the_export_shall_have() {
    let fixture = archive().await;
    for (flag, asked, not_asked) in [
        ("--with-emails", "users.list", "conversations.members"),
        ("--with-members", "conversations.members", "users.list"),
    ] {
        let slack = slack(&["channels:read", "users:read.email"]);
        let api = Some(slack.client_in_memory(TOKEN));
        let export = ReadExport::write_with(&fixture, api, &["--for", "zulip", flag]).await;
        let methods: BTreeSet<String> = slack.calls().into_iter().map(|call| call.method).collect();
        assert!(methods.contains(asked) && !methods.contains(not_asked), "{methods:?}");
        drop(export.folder);
    }
    let args = |more: &[&str]| -> ExportArgs {
        parsed(&[&["--format", "slack", "--out", "x", "--data", "unused"], more].concat()).unwrap()
    };
    assert!(
        !args(&["--for", "zulip"]).asks_slack() && args(&["--for", "zulip", "--with-emails"]).asks_slack()
    );
}

#[tokio::test]
async fn without_the_token_or_the_scope_for_addresses_nothing_is_written() {
    let fixture = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.zip");
    let slack = slack(&["channels:read", "users:read"]);
    let no_token = Arc::new(WebApi::new(ApiUrl::default(), Tokens::empty()));
    for (api, expected) in
        [(slack.client_in_memory(TOKEN), "users:read.email"), (no_token, "SLACK_BOT_TOKEN")]
    {
        let arguments = ["--format", "slack", "--for", "mattermost", "--with-emails", "--data", "unused"];
        let args: ExportArgs =
            parsed(&[&arguments[..], &["--out", path.to_str().unwrap()]].concat()).unwrap();
        let error = output(async |out| run(&fixture.backend, Some(api), &args, out).await).await.unwrap_err();
        let line = error.to_string();
        assert!(
            !error.is::<crate::UsageError>() && line.contains(expected) && !line.contains('\n'),
            "{line}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn an_importer_needs_its_own_flags() {
    let fixture = archive().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    for (format, more, expected) in [
        ("html", &["--for", "zulip"][..], "--format slack"),
        ("slack", &["--for", "mattermost", "--files-url", "https://x.test"], "--files-url"),
    ] {
        let arguments = ["--format", format, "--out", path.to_str().unwrap(), "--data", "unused"];
        let args: ExportArgs = parsed(&[&arguments[..], more].concat()).unwrap();
        let error = output(async |out| run(&fixture.backend, None, &args, out).await).await.unwrap_err();
        assert!(error.is::<crate::UsageError>() && error.to_string().contains(expected), "{error}");
        assert!(!path.exists());
    }
    let bare: Result<ExportArgs, _> = parsed(&["--format", "slack", "--out", "x", "--json"]);
    assert!(bare.is_err());
}
