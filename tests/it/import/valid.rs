//! Valid exports.

use std::fs;

use serde_json::{Value, json};
use slack::ids::Ts;
use testkit::fake_slack::{FakeSlack, FakeWorkspace};
use tests::harness::command::{annalist, annalist_with, json_lines, status};
use tests::harness::process;

use super::export::{Export, ImportFolder, TEAM, channel, entries, exported_message, file, person};
use super::{import, import_with, rows};
use crate::export::formats::contains;

/// Two channels, a thread, an edit, reactions, files, private conversations.
fn export() -> Export {
    let root =
        json!({ "thread_ts": "1600000001.000100", "reply_count": 1, "latest_reply": "1600000002.000100" });
    let mut thread = exported_message("1600000001.000100", "U1", "a question");
    thread.as_object_mut().unwrap().extend(root.as_object().unwrap().clone());
    let mut reply = exported_message("1600000002.000100", "U2", "an answer");
    reply["thread_ts"] = "1600000001.000100".into();
    reply["parent_user_id"] = "U1".into();
    let mut edited = exported_message("1600000003.000100", "U1", "corrected");
    edited["edited"] = json!({ "user": "U1", "ts": "1600000009.000000" });
    edited["reactions"] = json!([
        { "name": "tada", "users": ["U2"], "count": 1 }, { "name": "+1", "users": ["U1"], "count": 70 },
    ]);
    let mut shared =
        exported_message("1600086400.000100", "U2", "see <https://x.test/?t=xoxe-1-secret|this>");
    shared["files"] = json!([file("F1", 3), file("F2", 4)]);
    let secret = json!([exported_message("1600000001.000100", "U1", "hidden")]);
    Export::with_lists(&["U1", "U2"], &[("C1", "general"), ("C2", "random"), ("C3", "empty")])
        .with("groups.json", &json!([channel("G1", "secret")]))
        .with("dms.json", &json!([{ "id": "D1", "members": ["U1", "U2"] }]))
        .with("mpims.json", &json!([channel("G2", "mpdm-u1--u2-1")]))
        .with("integration_logs.json", &json!([]))
        .with("general/2020-09-13.json", &json!([thread, reply, edited]))
        .with("general/2020-09-14.json", &json!([shared]))
        .with("general/canvas_in_the_conversation.json", &json!({}))
        .with("random/2020-09-13.json", &json!([exported_message("1600000004.000100", "U2", "elsewhere")]))
        .with("secret/2020-09-13.json", &secret)
        .with("D1/2020-09-13.json", &secret)
        .with("mpdm-u1--u2-1/2020-09-13.json", &secret)
        .with("FC:F1:Plan/2020-09-13.json", &secret)
}

#[tokio::test]
async fn an_export_is_imported_once_and_a_second_import_changes_nothing() {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    let first = import(&zip, &import_folder.data()).await;
    assert_eq!((first.code, first.kinds()), (Some(0), vec![]), "{}", first.stderr);
    let expected = json!({
        "channels": 3, "messages": 5, "new": 5, "updated": 0, "unchanged": 0, "expired": 0, "users": 2, "files": 2, "reactions_cut": 1,
        "private_skipped": 3, "skipped": 0, "problems": 0,
    });
    assert_eq!(first.sum, expected);
    let before = rows(&import_folder.data());

    let again = import(&zip, &import_folder.data()).await;
    assert_eq!((again.code, again.count("new"), again.count("unchanged")), (Some(0), 0, 5));
    assert_eq!(rows(&import_folder.data()), before);

    // The folder contains no private data and no token.
    let text = format!("{before:?}");
    assert!(!text.contains("ada@example.com"), "mail addresses are not stored");
    assert!(!text.contains("hidden") && !text.contains("secret"), "{text}");
    for file in ["annalist.db", "annalist.db-wal"] {
        let bytes = fs::read(import_folder.data().join(file)).unwrap_or_default();
        assert!(!contains(&bytes, "xoxe"), "{file}");
    }
    assert_eq!(status(import_folder.data().as_path()).await["queues"][1]["waiting"].as_u64(), Some(0));
}

#[tokio::test]
async fn an_unpacked_export_is_imported_like_its_zip_and_is_searchable_at_once() {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    let unpacked = import_folder.data().with_file_name("unpacked");
    for (name, bytes) in entries(&zip) {
        let path = unpacked.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let sum = import(&zip, &import_folder.data()).await.sum;
    let data = import_folder.data().with_file_name("of-the-folder");
    let of_folder = import(&unpacked, &data).await;
    assert_eq!((of_folder.code, of_folder.kinds(), &of_folder.sum), (Some(0), vec![], &sum));
    let identity = |row: &(String, String, String)| !row.0.starts_with("meta#archive");
    let of = |data: &std::path::Path| {
        rows(data).into_iter().filter(identity).map(|(id, at, _)| (id, at)).collect::<Vec<_>>()
    };
    assert_eq!(of(&data), of(&import_folder.data()));
    let index = search::index::SearchIndex::open(&data.join("index.db")).await.unwrap();
    assert_eq!(index.count().await.unwrap(), sum["messages"].as_u64().unwrap());
}

#[tokio::test]
async fn imported_messages_are_read_like_live_ones() {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    import(&zip, &import_folder.data()).await;
    let data = import_folder.data();
    let messages = json_lines(data.as_path(), &["messages", "#general"]).await;
    let texts: Vec<&str> = messages.iter().filter_map(|message| message["text"].as_str()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    let edited = messages.iter().find(|message| message["text"] == "corrected").unwrap();
    assert_eq!(edited["reactions"][1], json!({ "name": "tada", "users": ["U2"], "count": 1 }));
    let thread = json_lines(data.as_path(), &["thread", "general", "1600000001.000100"]).await;
    assert_eq!(thread.len(), 2);
    let channels = json_lines(data.as_path(), &["channels"]).await;
    let names: Vec<&str> = channels.iter().filter_map(|channel| channel["name"].as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");

    let coverage = json_lines(data.as_path(), &["coverage", "#general"]).await;
    let span = json!({ "from": "1600000001.000100", "to": "1600086400.000100", "source": "import" });
    assert_eq!(coverage[0]["spans"], json!([span]));
    assert_eq!(coverage[0]["last_message_timestamp"], 1_600_086_400);
    let holes = coverage[0]["holes"].as_array().unwrap();
    assert!(holes.iter().all(|hole| hole["reason"] == "before_joining"), "{coverage:?}");
    assert_eq!(holes.last().unwrap()["state"], "open", "the app is not in the channel");
    assert!(!format!("{channels:?}").contains("members"));
    let users = json_lines(data.as_path(), &["users"]).await;
    assert_eq!(users[0]["real_name"], "Person U1");
    // Rows from lists have the timestamp of the newest message as their version.
    let row = rows(&data).into_iter().find(|(item, _, _)| item == &format!("user#{TEAM}")).unwrap();
    assert!(row.2.contains("001600086400.000100"), "{row:?}");
    let facts: Vec<_> =
        rows(&data).into_iter().filter(|(item, _, _)| item == &format!("filled#{TEAM}")).collect();
    assert_eq!(facts.len(), 3, "{facts:?}");
    for (_, key, attributes) in facts {
        assert!(key.ends_with("#001600086400.000100"), "{key}");
        assert!(attributes.contains("001600000001.000100") && attributes.contains("import"), "{attributes}");
    }
}

#[tokio::test]
async fn a_dry_run_reports_the_same_and_writes_nothing() {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    let dry = import_with(&zip, &import_folder.data(), &["--dry-run"], &[]).await;
    assert_eq!((dry.code, dry.count("new"), dry.count("files")), (Some(0), 5, 2));
    assert!(!import_folder.data().exists());
    import_with(&zip, &import_folder.data(), &["--no-files"], &[]).await;
    let before = rows(&import_folder.data());
    let more = export()
        .with("random/2020-09-15.json", &json!([exported_message("1600172800.000100", "U1", "more")]));
    let zip = import_folder.zip("more.zip", &more);
    let dry = import_with(&zip, &import_folder.data(), &["--dry-run"], &[]).await;
    assert_eq!((dry.count("new"), dry.count("unchanged")), (1, 5));
    assert_eq!(rows(&import_folder.data()), before);
    let (zip, data) = (zip.to_str().unwrap().to_owned(), import_folder.data());
    let text = annalist(&["import", &zip, "--dry-run", "--data", data.to_str().unwrap()]).await;
    for expected in
        ["1 private channel: never stored", "1 direct message: never stored", "Would import 6 messages"]
    {
        assert!(text.stdout.contains(expected), "{expected}: {}", text.stdout);
    }
}

#[tokio::test]
async fn files_are_queued_until_they_are_downloaded_unless_no_files_is_set() {
    let waiting = async |data: &std::path::Path| {
        let status = status(data).await;
        let files = status["queues"].as_array().unwrap().iter().find(|queue| queue["name"] == "files");
        files.unwrap()["waiting"].as_u64().unwrap()
    };
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    let without = import_with(&zip, &import_folder.data(), &["--no-files"], &[]).await;
    assert_eq!((without.count("files"), waiting(&import_folder.data()).await), (0, 0));
    let with = import(&zip, &import_folder.data()).await;
    assert_eq!((with.count("files"), waiting(&import_folder.data()).await), (2, 2));
    let database = fs::read(import_folder.data().join("annalist.db")).unwrap();
    assert!(!contains(&database, "xoxe"));
}

#[tokio::test]
async fn files_in_a_slackdump_export_are_stored_if_a_public_message_shares_them() {
    let import_folder = ImportFolder::new();
    let mut shared = exported_message("1600000001.000100", "U1", "three files");
    shared["files"] = json!([file("F1", 5), file("F2", 5), file("F3", 5)]);
    let export = Export::with_lists(&["U1"], &[("C1", "general")])
        .with("general/2020-09-13.json", &json!([shared]))
        .with_bytes("__uploads/F1/a.txt", "hello")
        .with_bytes("__uploads/F2/a.txt", "<!DOCTYPE html><title>Log in")
        .with_bytes("__uploads/F9/a.txt", "of a private channel");
    let zip = import_folder.zip("slackdump.zip", &export);
    let imported = import(&zip, &import_folder.data()).await;
    assert_eq!((imported.code, imported.count("files")), (Some(0), 3), "{:?}", imported.problems);
    let stored_file = import_folder.data().join(format!("files/slack/{TEAM}/C1/1600000001.000100/F1"));
    assert_eq!(fs::read_to_string(stored_file).unwrap(), "hello");
    let files = json_lines(import_folder.data().as_path(), &["files"]).await;
    let states: Vec<(&str, &str)> = files
        .iter()
        .map(|file| (file["file_id"].as_str().unwrap(), file["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("F1", "held")]);
    let messages = json_lines(import_folder.data().as_path(), &["messages", "general"]).await;
    assert!(messages[0]["files_s3"][0].as_str().unwrap().ends_with("/F1"), "{}", messages[0]);
    let before = rows(&import_folder.data());
    let again = import(&zip, &import_folder.data()).await;
    // The two missing files are queued again.
    assert_eq!((again.code, again.count("files")), (Some(0), 2));
    assert_eq!(rows(&import_folder.data()), before);
}

#[tokio::test]
async fn an_organisation_is_imported_workspace_by_workspace() {
    let of = |id: &str, team: &str| {
        let mut person = person(id);
        person["team_id"] = team.into();
        person
    };
    let message = |ts: &str, user: &str, team: &str| {
        let mut message = exported_message(ts, user, "hello");
        message["team"] = team.into();
        json!([message])
    };
    let export = Export::default()
        .with("org_users.json", &json!([of("U1", "E1"), of("U2", "E1"), of("U3", "T2")]))
        .with("channels.json", &json!([channel("C0", "shared")]))
        .with("shared/2020-09-13.json", &message("1600000001.000100", "U1", "T1"))
        .with("teams/one/users.json", &json!([of("U1", "T1")]))
        .with("teams/one/channels.json", &json!([channel("C1", "general")]))
        .with("teams/one/general/2020-09-13.json", &message("1600000002.000100", "U2", "T1"))
        .with("teams/two/users.json", &json!([of("U3", "T2")]))
        .with("teams/two/channels.json", &json!([channel("C2", "general")]))
        .with("teams/two/general/2020-09-13.json", &message("1600000003.000100", "U3", "T2"));
    let import_folder = ImportFolder::new();
    let imported = import(&import_folder.zip("grid.zip", &export), &import_folder.data()).await;
    assert_eq!((imported.code, imported.kinds()), (Some(0), vec![]));
    assert_eq!((imported.count("channels"), imported.count("messages"), imported.count("users")), (3, 3, 5));
    let items: Vec<String> = rows(&import_folder.data()).into_iter().map(|(item, _, _)| item).collect();
    for expected in ["message#T1#C0", "message#T1#C1", "message#T2#C2", "user#T1", "user#T2"] {
        assert!(items.iter().any(|item| item == expected), "{expected}: {items:?}");
    }
}

#[tokio::test]
async fn an_export_of_another_workspace_changes_nothing() {
    let import_folder = ImportFolder::new();
    let mine = import_folder.zip("mine.zip", &export());
    let slack = FakeSlack::start().await;
    slack.set_workspace("xoxb-1", FakeWorkspace::with_size("T1", 1, 1));
    slack.set_workspace("xoxb-2", FakeWorkspace::with_size(TEAM, 1, 1));
    let url = slack.url();
    let token = |token| [("SLACK_BOT_TOKEN", token), ("SLACK_API_URL", url.as_str())];
    let refused = import_with(&mine, &import_folder.data(), &[], &token("xoxb-1")).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains(TEAM) && refused.stderr.lines().count() == 1, "{}", refused.stderr);
    let imported = import_with(&mine, &import_folder.data(), &[], &token("xoxb-2")).await;
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let before = rows(&import_folder.data());

    let mut foreign = person("U1");
    foreign["team_id"] = "T0OTHER".into();
    let mut message = exported_message("1600000001.000100", "U1", "other");
    message["team"] = "T0OTHER".into();
    let other = Export::default()
        .with("users.json", &json!([foreign]))
        .with("channels.json", &json!([channel("C9", "general")]))
        .with("general/2020-09-13.json", &json!([message]));
    let other = import_folder.zip("other.zip", &other);
    let refused = import(&other, &import_folder.data()).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--team T0OTHER"), "{}", refused.stderr);
    assert_eq!(rows(&import_folder.data()), before);
    let with_team = import_with(&other, &import_folder.data(), &["--team", "T0OTHER"], &[]).await;
    assert_eq!((with_team.code, with_team.count("new")), (Some(0), 1), "{}", with_team.stderr);
}

#[tokio::test]
async fn a_channel_that_was_marked_private_is_not_imported() {
    let import_folder = ImportFolder::new();
    let zip = import_folder.zip("export.zip", &export());
    import(&zip, &import_folder.data()).await;
    let data = import_folder.data();
    let data = data.to_str().unwrap();
    annalist_with(&["channel", "random", "--forget-public", "--data", data], &[]).await.succeeded();
    let before = rows(&import_folder.data());
    let more = export()
        .with("random/2020-09-15.json", &json!([exported_message("1600172800.000100", "U1", "secret plan")]));
    let imported = import(&import_folder.zip("more.zip", &more), &import_folder.data()).await;
    assert_eq!((imported.count("new"), imported.count("private_skipped")), (0, 4));
    assert!(!format!("{:?}", rows(&import_folder.data())).contains("secret plan"));
    assert_eq!(rows(&import_folder.data()), before);
}

#[tokio::test]
async fn an_export_is_imported_while_up_runs_on_the_same_folder() {
    let import_folder = ImportFolder::new();
    let server = process::up(import_folder.data().as_path()).await;
    let days: Vec<Value> = (0..3000)
        .map(|n| {
            exported_message(
                &Ts::parse(&format!("16000{n:05}.000100")).unwrap().to_string(),
                "U1",
                "a message",
            )
        })
        .collect();
    let export =
        Export::with_lists(&["U1"], &[("C1", "general")]).with("general/2020-09-13.json", &json!(days));
    let imported = import(&import_folder.zip("export.zip", &export), &import_folder.data()).await;
    assert_eq!((imported.code, imported.count("new")), (Some(0), 3000), "{}", imported.stderr);
    server.process.stop().await;
}
