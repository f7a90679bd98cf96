use super::*;
use ports::archive::Item;
use slack::envelope::Envelope;

fn changes_of(event: &str) -> Result<Vec<Change>, Malformed> {
    let body = format!(r#"{{"team_id":"T1","event_id":"Ev1","event_time":5,"event":{event}}}"#);
    let envelope = Envelope::peek(body.as_bytes()).unwrap();
    SlackEvent::read(&envelope).and_then(|event| event.changes())
}

/// The rows after these changes, as if each register were written on its own.
fn written(event: &str) -> Vec<(String, Attributes)> {
    changes_of(event)
        .unwrap()
        .into_iter()
        .map(|change| {
            let update = match change {
                Change::Content(content) => content.if_absent().clone(),
                Change::Register(update) => update,
            };
            (update.key.timestamp.clone(), update.apply(None).unwrap())
        })
        .collect()
}

fn content_of(change: &Change) -> &Content {
    let Change::Content(content) = change else { panic!("{change:?} is no content") };
    content
}

#[test]
fn a_plain_message_is_one_update_with_the_documented_attributes() {
    let event = r#"{"type":"message","channel":"C1","channel_type":"channel","user":"U1","text":"hi","ts":"1700000100.000001","event_ts":"1700000100.000001","files":[{"id":"F1"}]}"#;
    let rows = written(event);
    assert_eq!(rows.len(), 1);
    let row = &rows[0].1;
    for (name, value) in [
        ("type", "message"),
        ("team_id", "T1"),
        ("channel_id", "C1"),
        ("ts", "1700000100.000001"),
        ("text", "hi"),
        ("user", "U1"),
        ("raw_event", event),
    ] {
        assert_eq!(row[name], value, "{name}");
    }
    assert_eq!(row["files"][0]["id"], "F1");
    assert!(!row.contains_key("parent") && !row.contains_key("deleted") && !row.contains_key("updated_ts"));
}

#[test]
fn thread_messages_and_broadcasts_have_a_parent() {
    for event in [
        r#"{"type":"message","channel":"C1","ts":"1700000100.000002","thread_ts":"1700000100.000001"}"#,
        r#"{"type":"message","subtype":"thread_broadcast","channel":"C1","ts":"1700000100.000002","thread_ts":"1700000100.000001","root":{"ts":"1700000100.000001"}}"#,
    ] {
        let row = &written(event)[0].1;
        assert_eq!(row["parent"], "thread#T1#1700000100.000001");
        assert_eq!(row["thread_ts"], "1700000100.000001");
    }
}

#[test]
fn the_old_singular_file_becomes_a_list() {
    let row = &written(
        r#"{"type":"message","subtype":"file_share","channel":"C1","ts":"1700000001.000001","file":{"id":"F1"}}"#,
    )[0]
    .1;
    assert_eq!(row["files"][0]["id"], "F1");
    assert_eq!(row["subtype"], "file_share");
}

#[test]
fn the_row_of_a_comment_on_a_file_has_its_author_in_each_version() {
    let comment = r#""subtype":"file_comment","ts":"1700000001.000001","comment":{"id":"Fc1","user":"U7","comment":"nice"}"#;
    for event in [
        format!(r#"{{"type":"message","channel":"C1",{comment}}}"#),
        format!(
            r#"{{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000003.000000","message":{{{comment}}},
                "previous_message":{{{comment}}}}}"#
        ),
        format!(
            r#"{{"type":"message","subtype":"message_deleted","channel":"C1","ts":"1700000003.000000","deleted_ts":"1700000001.000001",
                "previous_message":{{{comment}}}}}"#
        ),
    ] {
        let rows = written(&event);
        let with_content: Vec<_> =
            rows.iter().filter(|(_, row)| row.contains_key(CONTENT_VERSION)).map(|(_, row)| row).collect();
        assert!(!with_content.is_empty(), "{event}");
        assert!(with_content.iter().all(|row| row["user"] == "U7"), "{event}");
    }
}

#[test]
fn an_edit_carries_its_time_and_the_version_before_it() {
    let rows = written(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000300.000000","event_ts":"1700000300.000000",
            "message":{"ts":"1700000100.000001","text":"new","edited":{"user":"U1","ts":"1700000200.000000"}},
            "previous_message":{"ts":"1700000100.000001","text":"old"}}"#,
    );
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].0, "1700000100.000001");
    assert_eq!(rows[0].1["text"], "new");
    assert_eq!(rows[0].1["updated_ts"], "2023-11-14T22:16:40.000000Z");
    assert_eq!(rows[1].1["text"], "old");
}

#[test]
fn an_unfurl_is_not_an_edit() {
    let changes = changes_of(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000300.000000",
            "message":{"ts":"1700000100.000001","text":"x","attachments":[{"id":1}]},"previous_message":{"ts":"1700000100.000001","text":"x"}}"#,
    )
    .unwrap();
    let is_change: Vec<bool> = changes.iter().map(|change| content_of(change).is_change()).collect();
    assert_eq!(is_change, [true, false]);
    for content in changes.iter().map(content_of) {
        assert_eq!(content.version().edit_time().as_str(), "1700000100.000001");
        assert!(!content.if_absent().set.contains_key("updated_ts"));
    }
}

#[test]
fn a_tombstone_sets_deleted_and_carries_the_last_text_and_its_thread() {
    let rows = written(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000300.000000",
            "message":{"subtype":"tombstone","user":"USLACKBOT","text":"This message was deleted.","ts":"1700000100.000001","thread_ts":"1700000100.000001"},
            "previous_message":{"ts":"1700000100.000001","user":"U1","text":"x"}}"#,
    );
    assert_eq!(rows.len(), 2);
    let names: Vec<&str> = rows[0].1.keys().map(String::as_str).collect();
    assert_eq!(names, ["channel_id", "deleted", "parent", "team_id", "thread_ts", "ts", "type"]);
    assert_eq!((&rows[1].1["text"], &rows[1].1["user"]), (&"x".into(), &"U1".into()));
    assert!(rows[1].1[CONTENT_VERSION].as_str().unwrap().contains("/000000000000.000000/"));
}

#[test]
fn a_deletion_carries_the_text_it_removed() {
    let rows = written(
        r#"{"type":"message","subtype":"message_deleted","channel":"C1","ts":"1700000300.000000","deleted_ts":"1700000100.000001",
            "previous_message":{"ts":"1700000100.000001","text":"gone"}}"#,
    );
    assert_eq!(rows[0].1["deleted"], true);
    assert_eq!(rows[1].1["text"], "gone");
    let tombstone_rows = written(
        r#"{"type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"1700000100.000001",
            "previous_message":{"ts":"1700000100.000001","subtype":"tombstone","text":"This message was deleted."}}"#,
    );
    assert!(tombstone_rows.iter().all(|(_, row)| row["deleted"] == true && !row.contains_key("text")));
}

#[test]
fn message_replied_is_recognized_without_its_subtype() {
    for subtype in [r#""subtype":"message_replied","#, ""] {
        let rows = written(&format!(
            r#"{{"type":"message",{subtype}"channel":"C1","ts":"1700000300.000000","hidden":true,
                "message":{{"ts":"1700000100.000001","thread_ts":"1700000100.000001","text":"root","reply_count":1}}}}"#
        ));
        assert_eq!(rows[0].0, "1700000100.000001");
        assert!(rows[0].1[CONTENT_VERSION].as_str().unwrap().contains("/000000000000.000000/"));
    }
}

#[test]
fn an_event_without_valid_key_fields_is_malformed() {
    for event in [
        r#"{"type":"message","channel":"C1"}"#,
        r#"{"type":"message","channel":"C1","ts":"1"}"#,
        r#"{"type":"message","channel":"C1","ts":"170000000.000100","event_ts":"1700000001.000000"}"#,
        r#"{"type":"message","channel":"C1","ts":"17000000000.000100","event_ts":"1700000001.000000"}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","thread_ts":"170000000.000100"}"#,
        r#"{"type":"message","channel":"C1","subtype":"message_deleted","deleted_ts":"170000000.000100"}"#,
        r#"{"type":"message","channel":"C1","subtype":"message_changed","message":{"ts":"170000000.000100"}}"#,
        r#"{"type":"reaction_added","user":"U1","reaction":"tada","item":{"type":"message","channel":"C1","ts":"170000000.000100"}}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","thread_ts":"x"}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","subtype":"message_changed"}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","subtype":"message_deleted"}"#,
        r#"{"type":"message","ts":"1700000001.000000"}"#,
    ] {
        assert!(changes_of(event).is_err(), "{event}");
    }
}

#[test]
fn a_reply_to_the_channel_carries_the_root() {
    let broadcast = |root: &str| {
        written(&format!(
            r#"{{"type":"message","subtype":"thread_broadcast","channel":"C1","ts":"1700000100.000002","user":"U1","text":"reply",
                "thread_ts":"1700000100.000001","root":{root}}}"#
        ))
    };
    let rows =
        broadcast(r#"{"ts":"1700000100.000001","thread_ts":"1700000100.000001","user":"U2","text":"root"}"#);
    assert_eq!(rows[1].0, "1700000100.000001");
    assert_eq!(
        (&rows[1].1["text"], &rows[1].1["parent"]),
        (&"root".into(), &"thread#T1#1700000100.000001".into())
    );
    assert!(rows[1].1[CONTENT_VERSION].as_str().unwrap().contains("/000000000000.000000/"));
    let gone =
        broadcast(r#"{"ts":"1700000100.000001","subtype":"tombstone","text":"This message was deleted."}"#);
    assert_eq!(gone[1].1["deleted"], true);
    assert_eq!(broadcast(r#"{"ts":"1700000100.000001"}"#).len(), 1, "a stub has no content");
}

#[test]
fn the_reactions_in_a_message_object_are_registers_without_a_clock() {
    let row = &written(
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","text":"x","reactions":[
            {"name":"tada","users":["U1","U2",7,"not an id"],"count":9},{"name":"","users":["U1"]},{"users":["U1"]},7]}"#,
    )[0]
    .1;
    let registers: Vec<&String> = row.keys().filter(|name| name.starts_with("reaction#")).collect();
    assert_eq!(registers, ["reaction#tada#U1", "reaction#tada#U2"]);
    assert_eq!(row["reaction#tada#U1"], "000000000000.000000/added");
}

#[test]
fn a_file_is_read_even_if_one_of_its_fields_is_unreadable() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let row = &written(&format!(
        r#"{{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","text":"half \ud83d",
            "files":[{{"id":"F1","title":"cut \ud83d","name":"a"}},{{"id":"F2","name":"b","odd":{deep}}}]}}"#
    ))[0]
        .1;
    assert_eq!(row["text"], "half \u{fffd}");
    assert_eq!(row["files"][0], serde_json::json!({ "id": "F1", "title": "cut \u{fffd}", "name": "a" }));
    assert_eq!(row["files"][1], serde_json::json!({ "id": "F2", "name": "b" }));
}

#[test]
fn files_of_forwarded_messages_are_files_of_the_message() {
    use serde_json::{Value, json};
    let file = |id: &str| json!({ "id": id, "name": format!("{id}.pdf") });
    let forward = |files: Value| json!({ "is_share": true, "text": "the invoice", "files": files });
    let in_blocks =
        |message: Value| json!({ "message_blocks": [{ "team": "T1", "channel": "C2", "message": message }] });
    let nested = |levels: usize| {
        (0..levels).fold(forward(json!([file("F1")])), |inner, _| json!({ "attachments": [inner] }))
    };
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let mut too_deep = r#"{"files":[{"id":"F1"}]}"#.to_owned();
    for _ in 0..1_000 {
        too_deep = format!(r#"{{"attachments":[{too_deep}]}}"#);
    }
    let many: Vec<Value> = (0..10_000).map(|number| forward(json!([file(&format!("F{number}"))]))).collect();
    let all: Vec<String> = (0..10_000).map(|number| format!("F{number}")).collect();
    for (files, attachments, expected) in [
        ("[]", json!([forward(json!([file("F1"), file("F2")]))]).to_string(), "F1> F2>"),
        (r#"[{"id":"F9"}]"#, json!([forward(json!([file("F1")]))]).to_string(), "F9 F1>"),
        (r#"[{"id":"F1","forwarded":true}]"#, json!([forward(json!([file("F1")]))]).to_string(), "F1"),
        ("null", json!([in_blocks(json!({ "blocks": [], "files": [file("F1")] }))]).to_string(), "F1>"),
        ("null", json!([{ "message_blocks": [{ "files": [file("F1")] }], "files": [file("F1")] }]).to_string(), "F1>"),
        ("null", json!([in_blocks(json!({ "attachments": [in_blocks(json!({ "files": [file("F1")] }))] }))]).to_string(), "F1>"),
        ("null", json!([{ "file": file("F1") }, forward(json!(file("F2"))), forward(json!([7, null, "F3", {}]))]).to_string(), "F1> F2> ?>"),
        ("null", json!(forward(json!([file("F1")]))).to_string(), "F1>"),
        ("null", json!([null, 7, "x", [], {}, { "files": null, "message_blocks": {}, "attachments": 7, "message": [] }]).to_string(), ""),
        ("null", json!([nested(15)]).to_string(), "F1>"),
        ("null", format!("[{too_deep}]"), ""),
        ("null", format!(r#"[{{"odd":{deep},"files":[{{"id":"F1","odd":{deep}}}]}}]"#), "F1>"),
        ("null", r#"[{"text":"a","text":"b","files":[{"id":"F1"}]}]"#.to_owned(), "F1>"),
        ("null", json!(many).to_string(), &(all.join("> ") + ">")),
    ] {
        let event = format!(
            r#"{{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","text":"fyi","files":{files},"attachments":{attachments}}}"#
        );
        let row = &written(&event)[0].1;
        let listed = row.get("files").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let shown = |file: &Value| {
            let mark = if is_forwarded(file) { ">" } else { "" };
            format!("{}{mark}", file["id"].as_str().unwrap_or("?"))
        };
        let shown = listed.iter().map(shown).collect::<Vec<_>>().join(" ");
        assert_eq!(shown, expected, "{}", &event[..event.len().min(300)]);
        assert_eq!(row["raw_event"], *event);
    }
}

#[test]
fn a_preview_of_a_message_with_files_is_no_version() {
    let message = |attachments: &str| {
        format!(
            r#"{{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","text":"see","attachments":{attachments}}}"#
        )
    };
    let previewed = r#"[{"is_msg_unfurl":true,"files":[{"id":"F1","name":"a.pdf"}]}]"#;
    let changed = format!(
        r#"{{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000002.000000","event_ts":"1700000002.000000","message":{}}}"#,
        message(previewed)
    );
    let first = written(&message("[]"))[0].1.clone();
    let changes = changes_of(&changed).unwrap();
    let content = content_of(&changes[0]);
    let stored = Item { key: content.key().clone(), attributes: first };
    let VersionPlan { row, .. } = plan(content, Some(&stored));
    let row = row.unwrap().apply(Some(&stored.attributes)).unwrap();
    assert_eq!(row["files"][0]["id"], "F1");
    let row = Item { key: stored.key.clone(), attributes: row };
    let kept: Vec<Item> = plan(content, Some(&stored))
        .keep
        .iter()
        .map(|update| Item { key: update.key.clone(), attributes: update.apply(None).unwrap() })
        .collect();
    assert_eq!(versions(&kept, Some(&row)).replaced, []);
}

#[test]
fn a_value_of_an_unexpected_type_is_read_as_its_text_and_never_as_absent() {
    let edit = |fields: &str| {
        format!(
            r#"{{"type":"message","subtype":"message_changed","channel":"C1","ts":"1700000002.000000","event_ts":"1700000002.000000",
                "message":{{"ts":"1700000001.000000",{fields}}}}}"#
        )
    };
    for (fields, name, expected) in [
        (r#""user":"U1","text":17"#, "text", Some("17")),
        (r#""user":"U1","text":["a"]"#, "text", Some(r#"["a"]"#)),
        (r#""user":"U1","text":{"text":"a"}"#, "text", Some(r#"{"text":"a"}"#)),
        (r#""user":"U1","text":true"#, "text", Some("true")),
        (r#""user":"U1","text":"""#, "text", Some("")),
        (r#""user":"U1","text":null"#, "text", None),
        (r#""user":{"id":"U1"},"text":"a""#, "user", Some("U1")),
        (r#""user":17,"text":"a""#, "user", Some("17")),
        (r#""user":false,"text":"a""#, "user", None),
        (r#""bot_id":["B1"],"text":"a""#, "bot_id", Some(r#"["B1"]"#)),
        (r#""username":7,"text":"a""#, "username", Some("7")),
    ] {
        let row = &written(&edit(fields))[0].1;
        assert_eq!(row.get(name).and_then(serde_json::Value::as_str), expected, "{fields}");
    }
    for fields in [r#""thread_ts":17"#, r#""thread_ts":{}"#, r#""ts":[]"#] {
        let event =
            format!(r#"{{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1",{fields}}}"#);
        let event = if fields.starts_with(r#""ts""#) {
            event.replace(r#""ts":"1700000001.000000","#, "")
        } else {
            event
        };
        assert!(matches!(changes_of(&event), Err(Malformed::Id(_))), "{event}");
    }
}

#[test]
fn an_object_with_a_repeated_key_is_malformed() {
    for event in [
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","user":"U1","user":"U2"}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","subtype":"message_changed",
            "message":{"ts":"1700000001.000000","user":"U1","user_team":"T1","user_team":"T1"}}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","edited":{"ts":"1700000002.000000","ts":"1700000003.000000"}}"#,
        r#"{"type":"message","channel":"C1","ts":"1700000001.000000","thread_ts":"1700000002.000000",
            "root":{"ts":"1700000002.000000","text":"x","user":"U1","user":"U2"}}"#,
    ] {
        assert!(matches!(changes_of(event), Err(Malformed::Unreadable(_))), "{event}");
    }
}

#[test]
fn a_deleted_file_keeps_its_known_facts() {
    let share = r#"{"id":"F1","name":"plan.pdf","title":"The plan","permalink":"https://x/F1","mode":"hosted","thumb":"t"}"#;
    let event = |files: &str, clock: &str| {
        format!(
            r#"{{"type":"message","subtype":"message_changed","channel":"C1","ts":"{clock}","event_ts":"{clock}",
                "message":{{"ts":"1700000001.000000","user":"U1","text":"x","files":[{files}]}}}}"#
        )
    };
    let shared = event(share, "1700000002.000000");
    let deleted = event(r#"{"id":"F1","mode":"tombstone"}"#, "1700000003.000000");
    let seen = [[&shared, &deleted], [&deleted, &shared]].map(|order| {
        let mut stored: Option<Item> = None;
        for event in order {
            for change in changes_of(event).unwrap() {
                let content = content_of(&change);
                let key = content.key().clone();
                let update = plan(content, stored.as_ref()).row.unwrap_or_else(|| Update {
                    set_if_absent: content.if_absent().set_if_absent.clone(),
                    ..Update::new(key.clone())
                });
                let attributes = update.apply(stored.as_ref().map(|item| &item.attributes)).unwrap();
                stored = Some(Item { key, attributes });
            }
        }
        crate::project::message(&stored.unwrap()).unwrap().into_json()
    });
    let expected = serde_json::json!([{ "id": "F1", "mode": "tombstone", "deleted": true, "name": "plan.pdf",
        "title": "The plan", "permalink": "https://x/F1" }]);
    assert_eq!(seen[0]["files"], expected);
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].as_object().unwrap().keys().all(|name| !name.contains('#')), "{}", seen[0]);
}
