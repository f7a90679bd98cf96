//! Compares the views of figures with the rules.

use ports::archive::{Attributes, Item, ItemKey};
use rules::figures::message::{date, mentions, reactions, reactions_text, words};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use slack::ids::Ts;

use super::open_for_writing;

fn database() -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let database = open_for_writing(&folder.path().join("annalist.db")).unwrap();
    (folder, database)
}

fn insert(database: &Connection, item_id: &str, timestamp: &str, attributes: Value) -> Item {
    let Value::Object(mut attributes) = attributes else { panic!("no object") };
    for (name, text) in [("team_id", "T1"), ("channel_id", "C1"), ("content_version", "1")] {
        attributes.entry(name).or_insert_with(|| text.into());
    }
    let parent = attributes.get("parent").and_then(Value::as_str).map(str::to_owned);
    let insert = "INSERT INTO items (item_id, timestamp, parent, attributes) VALUES (?1, ?2, ?3, ?4)";
    let json = serde_json::to_string(&attributes).unwrap();
    database.execute(insert, (item_id, timestamp, parent, json)).unwrap();
    Item { key: ItemKey::new(item_id, timestamp), attributes }
}

fn message(database: &Connection, ts: &str, attributes: Value) -> Item {
    insert(database, "message#T1#C1", ts, attributes)
}

/// The rows of a query as JSON objects.
fn rows(database: &Connection, query: &str) -> Vec<Value> {
    let mut statement = database.prepare(query).unwrap();
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| {
        let mut columns = Attributes::new();
        for (index, name) in names.iter().enumerate() {
            let value = match row.get_ref(index)? {
                ValueRef::Integer(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
            };
            columns.insert(name.clone(), value);
        }
        Ok(Value::Object(columns))
    };
    statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn ten_thousand_texts_have_the_words_and_mentions_that_the_rules_count() {
    const PIECES: [&str; 25] = [
        "a", "word", "é", "名前", " ", "  ", "\t", "\n", "\r\n", "\u{b}", "\u{c}", "\u{1c}", "\u{1}",
        "\u{2}", "\u{200b}", "<@U1>", "<@U2>", "<@U3|bo>", "<@u4>", "<@", ">", "|", "\"", "\\", "<@U5 x>",
    ];
    let (_folder, database) = database();
    let mut random = fastrand::Rng::with_seed(19);
    let mut texts = vec![String::new(), " ".into(), "one".into(), "ä ".repeat(20_000)];
    while texts.len() < 10_000 {
        let piece = |random: &mut fastrand::Rng| match random.u8(0..4) {
            // Every white space character and its neighbours.
            0 => char::from_u32(random.u32(0x80..0x3010)).unwrap_or(' ').to_string(),
            _ => PIECES[random.usize(..PIECES.len())].to_owned(),
        };
        texts.push((0..random.usize(0..12)).map(|_| piece(&mut random)).collect());
    }
    let every: String =
        (1..0x3001).filter_map(char::from_u32).filter(|c| c.is_whitespace()).flat_map(|c| [c, 'x']).collect();
    texts.push(every);
    database.execute_batch("BEGIN").unwrap();
    for (n, text) in texts.iter().enumerate() {
        message(&database, &format!("1700000000.{n:06}"), json!({ "user": "U1", "text": text }));
    }
    database.execute_batch("COMMIT").unwrap();
    let found = rows(&database, "SELECT word_count, mentions FROM message_figures ORDER BY ts");
    assert_eq!(found.len(), texts.len());
    for (found, text) in found.iter().zip(&texts) {
        assert_eq!(found["word_count"], words(text), "{text:?}");
        assert_eq!(found["mentions"], mentions(text, Some("U1")).join(":"), "{text:?}");
    }
}

#[test]
fn a_message_has_the_columns_of_channelstats() {
    let (_folder, database) = database();
    let root = message(
        &database,
        "1700000000.000100",
        json!({ "user": "U1", "text": "hello <@U2>", "raw_event": "{}", "files": [{ "id": "F1" }],
            "reaction#eyes#U2": "1/added", "reaction#eyes#U1": "1/added", "reaction#+1::skin#tone-2#U3": "1/added",
            "reaction#gone#U9": "2/removed" }),
    );
    let reply = |user: Value, more: Value| {
        let mut reply = json!({ "user": user, "thread_ts": "1700000000.000100", "parent": "thread#T1#1700000000.000100",
            "raw_event": "nonsense" });
        reply.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reply
    };
    message(&database, "1700000001.000100", reply("U2".into(), json!({})));
    message(&database, "1700000002.000100", reply(Value::Null, json!({ "bot_id": "B1" })));
    message(&database, "1700000003.000100", reply("U3".into(), json!({ "deleted": true })));
    insert(&database, "message#T1#C2", "1700000004.000100", reply("U4".into(), json!({})));
    let orphan = json!({ "thread_ts": "1.000000", "raw_event": r#"{"parent_user_id":"U7"}"# });
    message(&database, "1700000005.000100", orphan);
    let found = rows(&database, "SELECT * FROM message_figures ORDER BY ts");
    let reactions = reactions(&root);
    assert_eq!(
        found[0],
        json!({
            "cid_ts": "C1_1700000000.000100", "date": date(&Ts::parse("1700000000.000100").unwrap()),
            "ts": "1700000000.000100", "slack_cid": "C1", "word_count": 2, "slack_uid": "U1", "mentions": "U2",
            "reactions": reactions_text(&reactions), "reaction_count": 3, "thread_ts": null, "parent_user_id": "U1",
            "replies": "U2:1700000001.000100,B1:1700000002.000100", "reply_count": 2, "subtype": null,
            "files": r#"[{"id":"F1"}]"#, "is_threadhead": 1, "is_threaded": 1,
        })
    );
    let thread_columns = |row: &Value| {
        ["parent_user_id", "reply_count", "is_threadhead", "is_threaded"].map(|name| row[name].clone())
    };
    assert_eq!(thread_columns(&found[1]), [json!("U1"), json!(0), json!(0), json!(1)]);
    assert_eq!(thread_columns(found.last().unwrap()), [json!("U7"), json!(0), json!(0), json!(1)]);
}

#[test]
fn a_message_with_ten_thousand_reactions_has_each_of_them() {
    let (_folder, database) = database();
    let mut row = json!({ "user": "U1", "text": "word ".repeat(8_000) });
    for n in 0..10_000 {
        row[format!("reaction#emoji{}#U{n:05}", n % 7)] = "1/added".into();
    }
    let row = message(&database, "1700000000.000100", row);
    let found = rows(&database, "SELECT reaction_count, reactions, word_count FROM message_figures");
    assert_eq!((&found[0]["reaction_count"], &found[0]["word_count"]), (&json!(10_000), &json!(8_000)));
    assert_eq!(found[0]["reactions"], reactions_text(&reactions(&row)));
}

#[test]
fn the_other_tables_of_channelstats_are_views_too() {
    let (_folder, database) = database();
    message(&database, "1700000001.000100", json!({ "user": "U1", "subtype": "channel_join" }));
    message(&database, "1700000003.000100", json!({ "user": "U1" }));
    message(&database, "1700000002.000100", json!({ "user": "U1", "deleted": true, "text": "gone" }));
    let first = json!({ "slack_uid": "U1", "slack_cid": "C1", "message_id": "1700000002.000100", "ts": 1_700_000_002 });
    assert_eq!(rows(&database, "SELECT * FROM first_posts"), [first]);
    let person = json!({ "name": "ana", "tz": "Europe/Berlin", "tz_offset": 3600, "insert_timestamp": "001600000000.000100" });
    insert(&database, "user#T1", "U11", person);
    insert(&database, "user#T1", "U21", json!({}));
    insert(&database, "user#T1", "U12", json!({ "erased": true }));
    let columns = "slack_uid, user_name, tz, tz_offset, insert_timestamp";
    assert_eq!(
        rows(&database, &format!("SELECT {columns} FROM users"))[0],
        json!({ "slack_uid": "U11", "user_name": "ana", "tz": "Europe/Berlin", "tz_offset": 3600, "insert_timestamp": 1_600_000_000 })
    );
    assert_eq!(rows(&database, "SELECT * FROM user_hash"), [json!({ "user_key": "1", "uids": "U11 U21" })]);
    let listed =
        |members: u32| json!({ "channel": { "created": 1_500_000_000, "num_members": members } }).to_string();
    let channel = |visibility: &str, members: u32| json!({ "name": "general", "visibility": visibility, "folded": "x", "raw#listed#1": listed(members), "raw#odd#2": "[" });
    insert(&database, "channel#T1#C1", "1.000000", channel("public", 4));
    insert(&database, "channel#T1#C1", "2.000000", channel("private", 5));
    let columns = "friendly_name, slack_cid, members, is_channel, is_group, is_im, is_mpim, created";
    let expected = json!({ "friendly_name": "general", "slack_cid": "C1", "members": 5, "is_channel": 0, "is_group": 1,
        "is_im": 0, "is_mpim": 0, "created": 1_500_000_000 });
    let channels = || rows(&database, &format!("SELECT {columns} FROM channels WHERE name = 'general'"));
    assert_eq!(channels(), [expected]);
    // The daily counts of the directory take precedence.
    insert(&database, "members#T1#C1", "2026-11-20", json!({ "members": 6 }));
    insert(&database, "members#T1#C1", "2026-11-21", json!({ "members": 7 }));
    insert(&database, "members#T1#C2", "2026-11-22", json!({ "members": 8, "channel_id": "C2" }));
    assert_eq!(channels()[0]["members"], 7);
    let days =
        rows(&database, "SELECT day, members FROM channel_members WHERE day < '2026-11-22' ORDER BY day");
    assert_eq!(
        days,
        [json!({ "day": "2026-11-20", "members": 6 }), json!({ "day": "2026-11-21", "members": 7 })]
    );
    insert(
        &database,
        "channel#T1#C1",
        "3.000000",
        json!({ "name": "general", "folded": "x", "archived": true }),
    );
    assert_eq!(channels()[0]["members"], 0);
}

#[test]
fn channels_are_found_by_id_and_by_name_and_counts_by_key() {
    let (_folder, database) = database();
    let named = json!({ "name": "general", "visibility": "public", "folded": "x" });
    insert(&database, "channel#T1#C1", "1.000000", named);
    insert(&database, "members#T1#C1", "2026-11-20", json!({ "members": 6 }));
    let find = |key: &str| rows(&database, &format!("SELECT * FROM Channel WHERE channel_key = '{key}'"));
    let row = |key: &str| {
        json!({ "channel_key": key, "friendly_name": "general", "slack_cid": "C1", "members": 6, "is_channel": 1,
            "is_im": 0, "is_group": 0, "is_mpim": 0, "created": null })
    };
    assert_eq!(find("C1"), [row("C1")]);
    assert_eq!(find("general"), [row("general")]);
    assert_eq!(rows(&database, "SELECT channel_key FROM Channel").len(), 2);
    let counts = json!({ "synced_ts": "1700000000.000100", "all_users": 7, "active_users": 5, "bots": 1,
        "deleted_users": 1, "channels": 2 });
    insert(&database, "meta#T1#sync", "directory", counts.clone());
    insert(&database, "meta#T1#sync", "another", json!({ "all_users": 9 }));
    let found = rows(&database, "SELECT * FROM Configuration WHERE key = 'counts'");
    let mut expected = counts;
    expected["key"] = "counts".into();
    expected["team_id"] = "T1".into();
    assert_eq!(found, [expected]);
}

#[test]
fn a_stored_report_is_one_text_joined_from_its_chunks() {
    let (_folder, database) = database();
    let partition = "report#T1#team/a/b";
    for (timestamp, stamp, value) in [("0000", "now", "ab"), ("0001", "now", "cd"), ("0002", "before", "old")]
    {
        insert(
            &database,
            partition,
            timestamp,
            json!({ "report_id": "team/a/b", "stamp": stamp, "value": value }),
        );
    }
    let head = json!({ "team_id": "T1", "report_id": "team/a/b", "stamp": "now", "chunks": 2 });
    insert(&database, partition, "head", head);
    insert(&database, "report#T1", "team/a/b", json!({ "report_id": "team/a/b" }));
    let whole = rows(&database, "SELECT report_id, value FROM report_store");
    assert_eq!(whole, [json!({ "report_id": "team/a/b", "value": "abcd" })]);
    assert_eq!(rows(&database, "SELECT item_id, value FROM bulk_store").len(), 3);
    let list = json!({ "channel_id": "C1", "team_id": "T1", "value": "{}" });
    insert(&database, "membership#T1#C1", "head", list);
    let chunk = json!({ "channel_id": "C2", "team_id": "T1", "value": "{" });
    insert(&database, "membership#T1#C2", "001700000000.000000#0000", chunk);
    insert(
        &database,
        "membership#T1#C2",
        "head",
        json!({ "channel_id": "C2", "0": "001700000000.000000#0000" }),
    );
    let lists = "SELECT item_id, value FROM bulk_store WHERE item_id LIKE 'membership%' ORDER BY item_id";
    assert_eq!(
        rows(&database, lists),
        [
            json!({ "item_id": "membership#C1", "value": "{}" }),
            json!({ "item_id": "membership#C2#001700000000.000000#0000", "value": "{" }),
        ]
    );
}

#[test]
fn the_view_of_channels_shows_what_is_known_now_about_their_visibility() {
    let (_folder, database) = database();
    for (channel, snapshot, mark, expected) in [
        ("C1", "public", json!({}), "public"),
        ("C2", "public", json!({ "public_at": "001.000000", "private_at": "002.000000" }), "private"),
        ("C3", "private", json!({ "public_at": "003.000000", "private_at": "002.000000" }), "public"),
        ("C4", "public", json!({ "private_at": "002.000000" }), "private"),
        ("C5", "private", json!({ "public_at": "002.000000" }), "public"),
        ("C6", "public", json!({ "public_at": "002.000000", "private_at": "002.000000" }), "private"),
        ("C7", "private", json!({ "opened": "true" }), "private"),
    ] {
        let attributes =
            json!({ "team_id": "T1", "channel_id": channel, "visibility": snapshot, "folded": "1" });
        for (item_id, timestamp, attributes) in [
            (format!("channel#T1#{channel}"), "5.000000", attributes),
            ("meta#T1#public".to_owned(), channel, mark),
        ] {
            let insert = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2, ?3)";
            database.execute(insert, (item_id, timestamp, attributes.to_string())).unwrap();
        }
        let query = format!("SELECT visibility, is_group FROM channels WHERE channel_id = '{channel}'");
        let private = i64::from(expected == "private");
        assert_eq!(
            rows(&database, &query),
            [json!({ "visibility": expected, "is_group": private })],
            "{channel}"
        );
    }
}

#[test]
fn the_views_of_user_groups_and_bookmarks_show_the_newest_lists() {
    let (_folder, database) = database();
    let row = |item_id: &str, timestamp: &str, attributes: Value| {
        let insert = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2, ?3)";
        database.execute(insert, (item_id, timestamp, attributes.to_string())).unwrap();
    };
    let group = json!({ "team_id": "T1", "handle": "oncall", "name": "On call", "version": "2", "members_version": "2" });
    row("usergroup#T1", "S1", group);
    // A group of which only a member is known so far.
    row("usergroup#T1", "S2", json!({ "team_id": "T1" }));
    for (user, member) in [
        ("U1", json!({ "version": "2" })),
        ("U2", json!({ "version": "3" })),
        ("U3", json!({ "version": "1" })),
        ("U4", json!({ "version": "3", "removed": true })),
    ] {
        row("usergroupmember#T1#S1", user, member);
    }
    let groups = rows(&database, "SELECT usergroup_id, handle, name, deleted, members FROM usergroups");
    assert_eq!(
        groups,
        [json!({ "usergroup_id": "S1", "handle": "oncall", "name": "On call", "deleted": null,
            "members": r#"["U1","U2"]"# })]
    );
    let of_channel = json!({ "team_id": "T1", "channel_id": "C1", "title": "Plan", "version": "1" });
    row("bookmark#T1#C1", "Bk1", of_channel.clone());
    let mut removed = of_channel;
    removed["removed"] = true.into();
    row("bookmark#T1#C1", "Bk2", removed);
    row("bookmark#T1#C1", "Bk3", json!({ "channel_id": "C1" }));
    let bookmarks = rows(&database, "SELECT channel_id, bookmark_id, title, removed FROM bookmarks");
    assert_eq!(
        bookmarks,
        [
            json!({ "channel_id": "C1", "bookmark_id": "Bk1", "title": "Plan", "removed": null }),
            json!({ "channel_id": "C1", "bookmark_id": "Bk2", "title": "Plan", "removed": 1 }),
        ]
    );
}
