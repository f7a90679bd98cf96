use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::with_event;
use crate::message::stored_version;
use crate::version;
use ports::archive::{Attributes, Item, Update};

fn ids() -> (TeamId, ChannelId) {
    (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap())
}

fn read_value(message: &Value) -> Result<HistoryMessage, Malformed> {
    let (team, channel) = ids();
    read(&team, &channel, &to_raw_value(message).unwrap())
}

fn update(message: &HistoryMessage) -> &Update {
    match &message.change {
        Change::Content(content) => content.if_absent(),
        Change::Register(update) => update,
    }
}

fn row(message: &Value) -> Attributes {
    update(&read_value(message).unwrap()).apply(None).unwrap()
}

fn kept(message: &Value) -> Value {
    serde_json::from_str(row(message)["raw_event"].as_str().unwrap()).unwrap()
}

#[test]
fn a_message_of_history_is_content_of_clock_zero_with_its_reactions() {
    let message = json!({ "type": "message", "ts": "1700000100.000001", "user": "U1", "text": "hi",
        "reactions": [{ "name": "tada", "users": ["U2"], "count": 1 }] });
    let read = read_value(&message).unwrap();
    let row = row(&message);
    let item = Item { key: update(&read).key.clone(), attributes: row.clone() };
    assert_eq!(stored_version(&item).unwrap().clock(), version::zero());
    assert_eq!((&row["text"], &row["user"], &row["team_id"]), (&json!("hi"), &json!("U1"), &json!("T1")));
    assert_eq!(row["reaction#tada#U2"], "000000000000.000000/added");
    assert!(!row["raw_event"].as_str().unwrap().contains("tada"));
    assert_eq!((read.author.unwrap().as_str(), read.reactions_cut, read.thread), ("U1", false, None));
}

#[test]
fn a_comment_on_a_file_is_by_its_author() {
    let comment =
        json!({ "ts": "1700000001.000000", "subtype": "file_comment", "comment": { "user": "U7" } });
    assert_eq!(read_value(&comment).unwrap().author.unwrap().as_str(), "U7");
    assert_eq!(row(&comment)["user"], "U7");
    let by_an_app = json!({ "ts": "1700000001.000000", "bot_id": "B1", "comment": ["U7"] });
    assert_eq!(read_value(&by_an_app).unwrap().author, None);
}

#[test]
fn an_event_about_the_same_edit_wins_over_history_and_a_missed_edit_over_the_event() {
    let posted = r#"{"type":"message","channel":"C1","ts":"1700000100.000001","text":"hi","event_ts":"1700000100.000001"}"#;
    let changes = with_event(posted, |event| event.changes()).unwrap();
    let Change::Content(live) = &changes[0] else { panic!("{changes:?}") };
    let same = read_value(&json!({ "ts": "1700000100.000001", "text": "hi" })).unwrap();
    let edited = json!({ "ts": "1700000100.000001", "text": "ho", "edited": { "ts": "1700000200.000000" } });
    let edited = read_value(&edited).unwrap();
    assert!(live.version() > same.content().unwrap().version());
    assert!(live.version() < edited.content().unwrap().version());
    assert_eq!(edited.newest_time().as_str(), "1700000200.000000");
}

#[test]
fn numeric_timestamps_of_old_exports_are_read() {
    let message = json!({ "ts": 1_355_517_523.000_008_f64, "thread_ts": 1_355_517_500, "text": "old",
        "edited": { "ts": 1_355_517_600.5 }, "parent_user_id": "U1" });
    let read = read_value(&message).unwrap();
    assert_eq!(read.ts.as_str(), "1355517523.000008");
    assert_eq!(read.thread_ts.as_ref().unwrap().as_str(), "1355517500.000000");
    assert_eq!(read.edited.as_ref().unwrap().as_str(), "1355517600.500000");
    assert!(read.is_reply());
    assert_eq!(kept(&message)["ts"], "1355517523.000008");
}

#[test]
fn an_object_that_is_not_a_message_is_malformed() {
    for message in
        [json!(null), json!([]), json!("x"), json!({}), json!({ "text": "x" }), json!({ "ts": null })]
    {
        assert!(matches!(read_value(&message), Err(Malformed::Missing { .. })), "{message}");
    }
    for message in [
        json!({ "ts": "soon" }),
        json!({ "ts": -1 }),
        json!({ "ts": 1e300 }),
        json!({ "ts": "170000000.000100" }),
        json!({ "ts": "1700000001.000000", "thread_ts": "x" }),
    ] {
        assert!(matches!(read_value(&message), Err(Malformed::Id(_))), "{message}");
    }
    let odd = json!({ "ts": "1700000001.000000", "text": null, "user": 7, "files": [null], "reactions": 7, "edited": [] });
    assert!(read_value(&odd).is_ok());
}

#[test]
fn tombstones_delete_and_keep_their_thread() {
    for message in [
        json!({ "ts": "1700000001.000000", "subtype": "tombstone", "thread_ts": "1700000001.000000", "reply_count": 2 }),
        json!({ "ts": "1700000001.000000", "user": "USLACKBOT", "text": "This message was deleted.", "reply_count": 2 }),
    ] {
        let row = row(&message);
        assert_eq!((&row["deleted"], &row["thread_ts"]), (&json!(true), &json!("1700000001.000000")));
        assert!(!row.contains_key("text"));
    }
    let quoted = json!({ "ts": "1700000001.000000", "user": "U1", "text": "This message was deleted." });
    assert!(read_value(&quoted).unwrap().content().is_some());
}

#[test]
fn a_root_has_the_number_of_replies_and_a_reply_does_not() {
    let root = json!({ "ts": "1700000001.000000", "thread_ts": "1700000001.000000", "reply_count": 2, "latest_reply": "1700000003.000000" });
    let head = read_value(&root).unwrap().thread.unwrap();
    assert_eq!((head.reply_count, head.latest_reply.unwrap().as_str()), (2, "1700000003.000000"));
    let old = json!({ "ts": "1700000001.000000", "replies": [{ "user": "U1", "ts": 1_700_000_002.0 }], "latest_reply": 1_700_000_002.0 });
    let old = read_value(&old).unwrap();
    assert_eq!(old.thread.as_ref().unwrap().reply_count, 1);
    assert_eq!(old.thread_ts.as_ref().unwrap().as_str(), "1700000001.000000");
    for message in [
        json!({ "ts": "1700000001.000000", "reply_count": 0 }),
        json!({ "ts": "1700000002.000000", "thread_ts": "1700000001.000000", "reply_count": 2 }),
    ] {
        assert_eq!(read_value(&message).unwrap().thread, None);
    }
}

#[test]
fn a_truncated_list_of_reactions_is_detected() {
    let reacted = |count: u32| {
        let reactions = json!([{ "name": "tada", "users": ["U2"], "count": count }]);
        read_value(&json!({ "ts": "1700000001.000000", "reactions": reactions })).unwrap().reactions_cut
    };
    assert_eq!([reacted(1), reacted(51)], [false, true]);
}

#[test]
fn addresses_of_files_lose_their_query_and_other_addresses_only_tokens() {
    for (before, after) in [
        (
            "https://files.slack.com/files-pri/T1-F1/a.png?t=xoxe-1-2",
            "https://files.slack.com/files-pri/T1-F1/a.png",
        ),
        ("https://slack-files.com/T1-F1-abc?pub_secret=1", "https://slack-files.com/T1-F1"),
        ("https://slack-files.com/T0AB-F0CD-0a1b2c3d4e", "https://slack-files.com/T0AB-F0CD"),
        ("http://slack-files.com/T0AB-F0CD-0a1b-2c3d/more", "http://slack-files.com/T0AB-F0CD"),
        ("https://slack-files.com/T0AB-F0CD", "https://slack-files.com/T0AB-F0CD"),
        ("https://slack-files.com/about-us-page", "https://slack-files.com/about-us-page"),
        (
            "https://slack-files.com/files-tmb/T1-F1-abc/a.png",
            "https://slack-files.com/files-tmb/T1-F1-abc/a.png",
        ),
        ("https://acme.slack.com/files/U1/F1/a.png?origin=x", "https://acme.slack.com/files/U1/F1/a.png"),
        (
            "https://acme.slack.com/archives/C1/p1?thread_ts=1",
            "https://acme.slack.com/archives/C1/p1?thread_ts=1",
        ),
        ("https://docs.google.com/d?id=1", "https://docs.google.com/d?id=1"),
        ("https://x.test/a?t=xoxe-1-2", "https://x.test/a"),
        ("https://x.test/a?t=xoxe-1&b=2", "https://x.test/a?b=2"),
        ("https://x.test/a?b=2&t=xoxe-1#c", "https://x.test/a?b=2#c"),
        ("https://x.test/a?b=2&amp;t=xoxe-1&amp;c=3", "https://x.test/a?b=2&amp;c=3"),
        ("https://x.test/a?t=xoxe-1&amp;c=3", "https://x.test/a?c=3"),
        ("https://x.test/?u=https%3A%2F%2Fy%2F%3Ft%3Dxoxp%2D1&b=2", "https://x.test/?b=2"),
        ("https://x.test/xoxb-1/b", "https://x.test//b"),
        ("https://x.test/#t=xoxe.xoxp-1", "https://x.test/"),
        ("see <https://x.test/a?t=xoxe-1|this> and that", "see <https://x.test/a|this> and that"),
        ("files.slack.com/a?t=xoxe-1", "files.slack.com/a"),
        ("my token is xoxb-1 ok?", "my token is xoxb-1 ok?"),
        ("https://x.test/?q=xoxo", "https://x.test/?q=xoxo"),
    ] {
        let mut text = before.to_owned();
        links::clean(&mut text);
        assert_eq!(text, after);
    }
    let mut hostile = format!("https://x.test/?{}", "a=xoxe-1&".repeat(100_000));
    links::clean(&mut hostile);
    assert!(!hostile.contains("xox"));
}

#[test]
fn tokens_are_removed_from_every_field() {
    let url = "https://files.slack.com/files-pri/T1-F1/a.mp4?t=xoxe-1-2";
    let message = json!({ "ts": "1700000001.000000", "text": format!("<{url}>"),
        "files": [{ "id": "F1", "mp4": url, "converted_pdf": url, "new_field": { "deeper": [url] }, "shares": {}, "num_stars": 1 }],
        "attachments": [{ "image_url": url, "files": [{ "id": "F2", "shares": {}, "thumb_64": url }] }],
        "blocks": [{ "type": "image", "slack_file": { "url": url } }] });
    let row = Value::Object(row(&message)).to_string();
    assert!(!row.contains("xox") && !row.contains("shares") && !row.contains("num_stars"), "{row}");
    assert!(row.contains("a.mp4"));
}

/// A value with addresses in it, at any depth.
fn member() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
            "[a-z xo&?=;#/-]{0,12}".prop_map(Value::from),
            ("[a-z]{0,3}", "[a-z&;#=/]{0,6}", "[a-z&;#=/]{0,6}")
                .prop_map(
                    |(path, before, after)| format!("https://x.test/{path}?{before}t=xoxe-1{after}").into()
                ),
            ("[a-z]{1,3}", "[a-z]{0,3}")
                .prop_map(|(path, query)| format!("https://files.slack.com/{path}?{query}").into()),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
    text.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("files|file|url|shares|name|text", inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn message() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-z_]{1,12}|text|files|file|blocks|attachments", member(), 0..6).prop_map(
        |members| {
            let mut message: Map<String, Value> = members.into_iter().collect();
            message.retain(|name, _| !VOLATILE.contains(&name.as_str()) && name != "thread_ts");
            message.insert("ts".into(), "1700000001.000000".into());
            message
        },
    )
}

/// Listed here a second time, independently of the code under test.
const VOLATILE: [&str; 21] = [
    "reactions",
    "reply_count",
    "reply_users",
    "reply_users_count",
    "latest_reply",
    "replies",
    "subscribed",
    "last_read",
    "unread_count",
    "is_locked",
    "pinned_to",
    "pinned_info",
    "is_starred",
    "saved",
    "permalink",
    "user_profile",
    "root",
    "parent_user_id",
    "user_team",
    "source_team",
    "team",
];

proptest! {
    #[test]
    fn normalizing_is_idempotent(message in message()) {
        let once = kept(&Value::Object(message));
        prop_assert_eq!(&kept(&once), &once);
    }

    #[test]
    fn volatile_members_make_no_difference(
        message in message(),
        volatile in prop::collection::vec((prop::sample::select(&VOLATILE[..]), member()), 0..8),
    ) {
        let mut more = message.clone();
        more.extend(volatile.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let content = |message: Map<String, Value>| {
            let read = read_value(&Value::Object(message)).unwrap();
            let content = read.content().unwrap();
            (content.version().clone(), content.if_absent().set.clone())
        };
        prop_assert_eq!(content(more), content(message));
    }

    #[test]
    fn the_order_of_members_makes_no_difference_and_no_token_stays(message in message(), seed in any::<u64>()) {
        let mut members: Vec<String> = message
            .iter()
            .map(|(name, value)| format!("{}: {value}", Value::from(name.as_str())))
            .collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut members);
        let shuffled = RawValue::from_string(format!("{{ {} }}", members.join(" ,"))).unwrap();
        let (team, channel) = ids();
        let shuffled = read(&team, &channel, &shuffled).unwrap();
        let straight = read_value(&Value::Object(message)).unwrap();
        prop_assert_eq!(&shuffled, &straight);
        prop_assert!(!update(&shuffled).set["raw_event"].as_str().unwrap().contains("xoxe-"));
    }
}
