use super::*;
use crate::slack::envelope::Envelope;

fn changes_of(event: &str) -> Result<Vec<Change>, Malformed> {
    let body = format!(r#"{{"team_id":"T1","event_id":"Ev1","event_time":5,"event":{event}}}"#);
    let envelope = Envelope::peek(body.as_bytes()).unwrap();
    Event::read(&envelope).unwrap().changes()
}

/// The rows after these changes, as if each register were written alone.
fn written(event: &str) -> Vec<(String, Attributes)> {
    changes_of(event)
        .unwrap()
        .into_iter()
        .map(|change| {
            let update = match change {
                Change::Content(content) => content.if_newer().clone(),
                Change::Register(update) => update,
            };
            (update.key.timestamp.clone(), update.apply(None).unwrap())
        })
        .collect()
}

#[test]
fn a_plain_message_is_one_update_with_the_attributes_of_seed_000() {
    let event = r#"{"type":"message","channel":"C1","channel_type":"channel","user":"U1","text":"hi","ts":"100.000001","event_ts":"100.000001","files":[{"id":"F1"}]}"#;
    let rows = written(event);
    assert_eq!(rows.len(), 1);
    let row = &rows[0].1;
    for (name, value) in [
        ("type", "message"),
        ("team_id", "T1"),
        ("channel_id", "C1"),
        ("ts", "100.000001"),
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
        r#"{"type":"message","channel":"C1","ts":"100.000002","thread_ts":"100.000001"}"#,
        r#"{"type":"message","subtype":"thread_broadcast","channel":"C1","ts":"100.000002","thread_ts":"100.000001","root":{"ts":"100.000001"}}"#,
    ] {
        let row = &written(event)[0].1;
        assert_eq!(row["parent"], "thread#T1#100.000001");
        assert_eq!(row["thread_ts"], "100.000001");
    }
}

#[test]
fn the_old_singular_file_becomes_a_list() {
    let row = &written(
        r#"{"type":"message","subtype":"file_share","channel":"C1","ts":"1.000001","file":{"id":"F1"}}"#,
    )[0]
    .1;
    assert_eq!(row["files"][0]["id"], "F1");
    assert_eq!(row["subtype"], "file_share");
}

#[test]
fn an_edit_brings_its_time_and_the_version_before_it() {
    let rows = written(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"300.000000","event_ts":"300.000000",
            "message":{"ts":"100.000001","text":"new","edited":{"user":"U1","ts":"200.000000"}},
            "previous_message":{"ts":"100.000001","text":"old"}}"#,
    );
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].0, "100.000001");
    assert_eq!(rows[0].1["text"], "new");
    assert_eq!(rows[0].1["updated_ts"], "1970-01-01T00:03:20.000000Z");
    assert_eq!(rows[1].1["text"], "old");
}

#[test]
fn an_unfurl_is_no_edit() {
    let changes = changes_of(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"300.000000",
            "message":{"ts":"100.000001","text":"x","attachments":[{"id":1}]},"previous_message":{"ts":"100.000001","text":"x"}}"#,
    )
    .unwrap();
    for change in changes {
        let Change::Content(content) = change else { panic!("not content") };
        assert!(!content.is_edit());
        assert!(!content.if_newer().set.contains_key("updated_ts"));
    }
}

#[test]
fn a_tombstone_sets_deleted_and_nothing_else() {
    let rows = written(
        r#"{"type":"message","subtype":"message_changed","channel":"C1","ts":"300.000000",
            "message":{"subtype":"tombstone","user":"USLACKBOT","text":"This message was deleted.","ts":"100.000001","thread_ts":"100.000001"},
            "previous_message":{"ts":"100.000001","text":"x"}}"#,
    );
    assert_eq!(rows.len(), 1);
    let names: Vec<&str> = rows[0].1.keys().map(String::as_str).collect();
    assert_eq!(names, ["channel_id", "deleted", "team_id", "ts", "type"]);
}

#[test]
fn a_delete_brings_the_text_it_removed() {
    let rows = written(
        r#"{"type":"message","subtype":"message_deleted","channel":"C1","ts":"300.000000","deleted_ts":"100.000001",
            "previous_message":{"ts":"100.000001","text":"gone"}}"#,
    );
    assert_eq!(rows[0].1["deleted"], true);
    assert_eq!(rows[1].1["text"], "gone");
    let of_tombstone = written(
        r#"{"type":"message","subtype":"message_deleted","channel":"C1","deleted_ts":"100.000001",
            "previous_message":{"ts":"100.000001","subtype":"tombstone","text":"This message was deleted."}}"#,
    );
    assert_eq!(of_tombstone.len(), 1);
}

#[test]
fn message_replied_is_known_without_its_subtype() {
    for subtype in [r#""subtype":"message_replied","#, ""] {
        let rows = written(&format!(
            r#"{{"type":"message",{subtype}"channel":"C1","ts":"300.000000","hidden":true,
                "message":{{"ts":"100.000001","thread_ts":"100.000001","text":"root","reply_count":1}}}}"#
        ));
        assert_eq!(rows[0].0, "100.000001");
        assert!(rows[0].1[CONTENT_VERSION].as_str().unwrap().contains("/000000000000.000000/"));
    }
}

#[test]
fn what_cannot_be_a_key_is_malformed() {
    for event in [
        r#"{"type":"message","channel":"C1"}"#,
        r#"{"type":"message","channel":"C1","ts":"1"}"#,
        r#"{"type":"message","channel":"C1","ts":"1.000000","thread_ts":"x"}"#,
        r#"{"type":"message","channel":"C1","ts":"1.000000","subtype":"message_changed"}"#,
        r#"{"type":"message","channel":"C1","ts":"1.000000","subtype":"message_deleted"}"#,
        r#"{"type":"message","ts":"1.000000"}"#,
    ] {
        assert!(changes_of(event).is_err(), "{event}");
    }
}

#[test]
fn a_stored_row_becomes_the_revision_the_event_would_have_made() {
    let event = r#"{"type":"message","channel":"C1","ts":"100.000001","event_ts":"100.000001","text":"x"}"#;
    let Change::Content(content) = changes_of(event).unwrap().remove(0) else { panic!("not content") };
    let update = content.if_newer();
    let stored = Item { key: update.key.clone(), attributes: update.apply(None).unwrap() };
    assert_eq!(revision_of(&stored), Some(content.as_revision()));
}
