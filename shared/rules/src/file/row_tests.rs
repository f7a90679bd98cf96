use super::*;
use crate::fixture::team;
use crate::project;

fn id(file: &str) -> FileId {
    FileId::parse(file).unwrap()
}

fn share(channel: &str, ts: &str) -> Share {
    Share { channel: ChannelId::parse(channel).unwrap(), ts: Ts::parse(ts).unwrap() }
}

fn file(fields: Value) -> FileObject {
    FileObject::read(&fields).unwrap()
}

/// The row after these updates, in this order.
fn row(updates: &[&Update]) -> Item {
    let mut attributes: Option<Attributes> = None;
    for update in updates {
        let absent =
            Update { set_if_absent: update.set_if_absent.clone(), ..Update::new(update.key.clone()) };
        for step in [*update, &absent] {
            attributes = step.apply(attributes.as_ref()).or(attributes);
        }
    }
    Item { key: updates[0].key.clone(), attributes: attributes.unwrap() }
}

fn key(file: &str) -> FileKey {
    FileKey::parse(&format!("slack/T1/C1/1.000000/{file}")).unwrap()
}

fn bytes() -> StoredBytes {
    StoredBytes { key: key("F1"), source: "own".into(), size_bytes: 3, sha256: "00ff".into() }
}

#[test]
fn every_order_of_a_files_updates_makes_the_same_row() {
    let stub = file(json!({ "id": "F1", "file_access": "check_file_info" }));
    let whole = file(
        json!({ "id": "F1", "name": "a.png", "mimetype": "image/png", "url_private": "https://files.slack.com/f" }),
    );
    let updates = [
        seen(&team(), &stub, Some(&share("C1", "1.000000"))),
        seen(&team(), &whole, Some(&share("C2", "2.000000"))),
        settled(&team(), &id("F1"), &FileState::failed("no answer")),
        settled(&team(), &id("F1"), &FileState::Verdict(FileVerdict::Gone)),
        stored(&team(), &id("F1"), &bytes()),
        deleted(&team(), &id("F1")),
    ];
    let expected = row(&updates.iter().collect::<Vec<_>>());
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let mut shuffled: Vec<&Update> = updates.iter().chain(&updates).collect();
        random.shuffle(&mut shuffled);
        assert_eq!(row(&shuffled), expected);
    }
    assert_eq!(
        project::file(&expected).unwrap().into_json(),
        json!({ "itemId": "file#T1", "timestamp": "F1", "type": "file", "team_id": "T1", "file_id": "F1", "name": "a.png",
            "mimetype": "image/png", "size_bytes": 3, "sha256": "00ff", "state": "held", "uri": bytes().key.as_str(), "deleted": true,
            "shares": [{ "channel_id": "C1", "ts": "1.000000" }, { "channel_id": "C2", "ts": "2.000000" }] })
    );
}

#[test]
fn readers_see_why_a_file_is_not_stored() {
    let object = file(json!({ "id": "F1", "name": "a", "size": 7 }));
    let seen = seen(&team(), &object, None);
    let shown = |state: Option<FileState>| {
        let settled = state.map(|state| settled(&team(), &id("F1"), &state));
        let updates: Vec<&Update> = std::iter::once(&seen).chain(&settled).collect();
        let row = project::file(&row(&updates)).unwrap().into_json();
        assert_eq!((&row["size_bytes"], &row["shares"]), (&json!(7), &json!([])));
        [row["state"].clone(), row["verdict"].clone(), row["error"].clone()]
    };
    assert_eq!(shown(None), [json!("pending"), Value::Null, Value::Null]);
    assert_eq!(
        shown(Some(FileState::Verdict(FileVerdict::Pending))),
        [json!("pending"), json!("pending"), Value::Null]
    );
    assert_eq!(
        shown(Some(FileState::Verdict(FileVerdict::TooBig))),
        [json!("skipped"), json!("too_big"), Value::Null]
    );
    assert_eq!(shown(Some(FileState::failed("x"))), [json!("failed"), Value::Null, json!("x")]);
    // Readers do not see the deletion of a file that was never seen, nor an erased file.
    assert_eq!(project::file(&row(&[&deleted(&team(), &id("F1"))])), None);
    let mut erased = row(&[&seen]);
    erased.attributes.insert("erased".into(), true.into());
    assert_eq!(project::file(&erased), None);
}

#[test]
fn a_message_shows_its_files_in_its_own_order() {
    let share = share("C1", "1.000000");
    let message = |states: &[(&str, FileState)]| {
        let mut updates: Vec<Update> =
            states.iter().map(|(file, state)| on_message(&team(), &share, &id(file), state)).collect();
        updates[0].set_if_absent.extend([
            ("content_version".to_owned(), json!("1")),
            ("files".to_owned(), json!([{ "id": "F9" }, { "id": "F1" }, { "no": "id" }, 7])),
        ]);
        project::message(&row(&updates.iter().collect::<Vec<_>>())).unwrap().into_json()
    };
    let stored = |file: &str| FileState::Stored(key(file));
    let shown = message(&[
        ("F1", stored("F1")),
        ("F5", stored("F5")),
        ("F9", stored("F9")),
        ("F2", FileState::failed("no answer")),
        ("F3", FileState::Verdict(FileVerdict::External)),
    ]);
    assert_eq!(shown["files_s3"], json!([key("F9").as_str(), key("F1").as_str(), key("F5").as_str()]));
    assert_eq!(shown["files_verdict"], json!({ "F3": "external" }));
    assert_eq!(
        (&shown["files_fetch_failed"], &shown["files_fetch_error"]),
        (&json!(true), &json!("no answer"))
    );
    assert!(!shown.as_object().unwrap().keys().any(|name| name.contains('#')), "{shown}");

    let shown = message(&[("F1", stored("F1"))]);
    let names = ["files_verdict", "files_fetch_failed", "files_fetch_error"];
    assert!(names.iter().all(|name| shown.get(name).is_none()), "absent means false: {shown}");
}
