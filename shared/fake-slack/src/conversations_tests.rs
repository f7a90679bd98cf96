use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::state::SlackState;
use crate::workspace::channel;

const TOKEN: &str = "xoxb-1";
const NOW_MS: i64 = 1_700_000_000_000;

fn ts(n: i64) -> String {
    format!("{}.000000", 1_600_000_000 + n)
}

fn message(n: i64) -> Value {
    json!({ "type": "message", "user": format!("U{n}"), "text": format!("text {n}"), "ts": ts(n) })
}

fn reply(n: i64, root: i64) -> Value {
    let mut reply = message(n);
    reply["thread_ts"] = ts(root).into();
    reply
}

/// Messages 0 to 9 in C1.
fn slack() -> SlackState {
    let mut workspace = FakeWorkspace { channels: vec![channel("C1", "one")], ..FakeWorkspace::new("T1") };
    (0..10).for_each(|n| workspace.channel_history("C1").post(&message(n)));
    let mut slack = SlackState::default();
    slack.set_workspace(TOKEN, workspace);
    slack
}

fn workspace(slack: &mut SlackState) -> &mut FakeWorkspace {
    slack.workspace(TOKEN).unwrap()
}

fn ask_at(slack: &mut SlackState, now_ms: i64, method: &str, parameters: &[(&str, &str)]) -> Value {
    let parameters = [("channel", "C1")].iter().chain(parameters);
    let parameters: BTreeMap<String, String> =
        parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    slack.answer(&format!("conversations.{method}"), TOKEN, parameters, now_ms).value()
}

fn ask(slack: &mut SlackState, method: &str, parameters: &[(&str, &str)]) -> Value {
    ask_at(slack, NOW_MS, method, parameters)
}

fn numbers(answer: &Value) -> Vec<i64> {
    let number = |message: &Value| {
        message["ts"].as_str()?.split('.').next()?.parse::<i64>().ok().map(|ts| ts - 1_600_000_000)
    };
    answer["messages"].as_array().unwrap().iter().filter_map(number).collect()
}

#[test]
fn history_comes_newest_first_in_pages_without_an_overlap() {
    let mut slack = slack();
    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let answer = ask(&mut slack, "history", &[("limit", "4"), ("cursor", &cursor)]);
        seen.extend(numbers(&answer));
        pages += 1;
        cursor = answer["response_metadata"]["next_cursor"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer["has_more"], !cursor.is_empty());
        if cursor.is_empty() {
            break;
        }
        // A message posted meanwhile is on no later page.
        workspace(&mut slack).channel_history("C1").post(&message(20 + pages));
    }
    assert_eq!((seen, pages), ((0..10).rev().collect(), 3));
}

#[test]
fn the_ends_of_an_interval_are_exclusive_by_default() {
    let mut slack = slack();
    let (oldest, latest) = (ts(3), ts(6));
    let interval = [("oldest", oldest.as_str()), ("latest", latest.as_str())];
    assert_eq!(numbers(&ask(&mut slack, "history", &interval)), [5, 4]);
    let inclusive = [interval[0], interval[1], ("inclusive", "true")];
    assert_eq!(numbers(&ask(&mut slack, "history", &inclusive)), [6, 5, 4, 3]);
    // Paging by the oldest message of each page also finds messages one microsecond apart.
    workspace(&mut slack).channel_history("C1").post(&json!({ "ts": "1600000005.000001", "text": "close" }));
    let page = ask(&mut slack, "history", &[("latest", &latest), ("limit", "1")]);
    assert_eq!(page["messages"][0]["ts"], "1600000005.000001");
    let page = ask(&mut slack, "history", &[("latest", "1600000005.000001"), ("limit", "1")]);
    assert_eq!(numbers(&page), [5]);
    assert_eq!(ask(&mut slack, "history", &[("latest", "soon")])["error"], "invalid_ts_latest");
}

#[test]
fn a_page_has_100_messages_by_default_and_999_at_most() {
    let mut slack = slack();
    (10..1_500).for_each(|n| workspace(&mut slack).channel_history("C1").post(&message(n)));
    for (limit, expected) in [("", 100), ("7", 7), ("999", 999), ("5000", 999)] {
        assert_eq!(numbers(&ask(&mut slack, "history", &[("limit", limit)])).len(), expected);
    }
}

#[test]
fn a_thread_has_its_root_first_on_every_page_with_its_figures() {
    let mut slack = slack();
    let history = workspace(&mut slack).channel_history("C1");
    (20..25).for_each(|n| history.post(&reply(n, 3)));
    history
        .post(&json!({ "type": "message", "subtype": "thread_broadcast", "ts": ts(25), "thread_ts": ts(3) }));
    let listed = ask(&mut slack, "history", &[]);
    assert_eq!(numbers(&listed), [25, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0], "a broadcast is in the channel too");
    assert_eq!(listed["messages"][0]["root"]["ts"], ts(3));
    let root = &listed["messages"][7];
    assert_eq!((&root["reply_count"], &root["latest_reply"]), (&6.into(), &ts(25).into()));
    assert_eq!(root["thread_ts"], ts(3));

    let first = ask(&mut slack, "replies", &[("ts", &ts(3)), ("limit", "4")]);
    assert_eq!(numbers(&first), [3, 20, 21, 22]);
    assert_eq!(first["messages"][1]["parent_user_id"], "U3");
    let cursor = first["response_metadata"]["next_cursor"].as_str().unwrap();
    let second = ask(&mut slack, "replies", &[("ts", &ts(3)), ("limit", "4"), ("cursor", cursor)]);
    assert_eq!((numbers(&second), &second["has_more"]), (vec![3, 23, 24, 25], &false.into()));
    let late = ask(&mut slack, "replies", &[("ts", &ts(3)), ("oldest", &ts(23))]);
    assert_eq!(numbers(&late), [3, 24, 25]);
    assert_eq!(numbers(&ask(&mut slack, "replies", &[("ts", &ts(5))])), [5], "a message without replies");
    assert_eq!(ask(&mut slack, "replies", &[("ts", &ts(77))])["error"], "thread_not_found");
}

#[test]
fn events_change_the_shown_messages() {
    let mut slack = slack();
    let workspace_now = workspace(&mut slack);
    let mut edited = message(1);
    edited["text"] = "better".into();
    edited["edited"] = json!({ "user": "U1", "ts": ts(30) });
    let item = json!({ "type": "message", "channel": "C1", "ts": ts(1) });
    let reaction =
        |kind: &str, user: &str| json!({ "type": kind, "user": user, "reaction": "eyes", "item": item });
    let mut posted = reply(31, 2);
    posted["channel"] = "C1".into();
    posted["channel_type"] = "channel".into();
    posted["event_ts"] = ts(31).into();
    for event in [
        json!({ "type": "message", "subtype": "message_changed", "channel": "C1", "message": edited }),
        json!({ "type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": ts(0) }),
        reaction("reaction_added", "U1"),
        reaction("reaction_added", "U2"),
        reaction("reaction_removed", "U1"),
        posted,
        json!({ "type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": ts(2) }),
        json!({ "type": "channel_id_changed", "old_channel_id": "C0", "new_channel_id": "C1" }),
        json!({ "type": "message", "channel": "C0", "ts": ts(40), "text": "under the old id" }),
    ] {
        workspace_now.apply_event(&event);
    }
    let answer = ask(&mut slack, "history", &[]);
    assert_eq!(numbers(&answer), [40, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    let [.., root, changed] = &answer["messages"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&root["subtype"], &root["reply_count"]), (&"tombstone".into(), &1.into()));
    assert_eq!(changed["text"], "better");
    assert_eq!(changed["reactions"], json!([{ "name": "eyes", "users": ["U2"], "count": 1 }]));
    let thread = ask(&mut slack, "replies", &[("ts", &ts(2))]);
    assert_eq!(numbers(&thread), [2, 31]);
    assert!(
        thread["messages"][1].get("event_ts").is_none() && thread["messages"][1].get("channel").is_none()
    );
    assert_eq!(ask(&mut slack, "history", &[("channel", "C0")])["error"], "channel_not_found");
}

#[test]
fn a_reaction_lists_some_users_and_counts_all() {
    let mut slack = slack();
    workspace(&mut slack).listed_reaction_users = 2;
    for user in ["U1", "U2", "U3"] {
        workspace(&mut slack).channel_history("C1").react(&ts(9), user, "eyes");
    }
    let reactions = ask(&mut slack, "history", &[])["messages"][0]["reactions"].clone();
    assert_eq!(reactions, json!([{ "name": "eyes", "users": ["U1", "U2"], "count": 3 }]));
}

#[test]
fn expired_and_made_up_cursors_are_refused() {
    let mut slack = slack();
    slack.set_cursor_lifetime(Duration::from_secs(60));
    let answer = ask(&mut slack, "history", &[("limit", "4")]);
    let cursor = answer["response_metadata"]["next_cursor"].as_str().unwrap();
    let next = [("limit", "4"), ("cursor", cursor)];
    assert_eq!(numbers(&ask_at(&mut slack, NOW_MS + 60_000, "history", &next)), [5, 4, 3, 2]);
    assert_eq!(ask_at(&mut slack, NOW_MS + 60_001, "history", &next)["error"], "invalid_cursor");
    assert_eq!(ask(&mut slack, "history", &[("cursor", "4")])["error"], "invalid_cursor");
}

#[test]
fn an_empty_page_has_a_cursor_to_the_next_page() {
    let mut slack = slack();
    workspace(&mut slack).empty_page_every = 1;
    let latest = ts(6);
    let empty = ask(&mut slack, "history", &[("latest", &latest), ("limit", "2")]);
    assert_eq!((numbers(&empty), &empty["has_more"]), (vec![], &true.into()));
    let cursor = empty["response_metadata"]["next_cursor"].as_str().unwrap();
    let next = ask(&mut slack, "history", &[("latest", &latest), ("limit", "2"), ("cursor", cursor)]);
    assert_eq!(numbers(&next), [5, 4]);
    let last = ask(&mut slack, "history", &[("latest", &ts(0))]);
    assert_eq!((numbers(&last), &last["has_more"]), (vec![], &false.into()));
}

#[test]
fn a_plan_hides_old_messages_and_the_last_page_is_limited() {
    let mut slack = slack();
    workspace(&mut slack).visible_from_s = Some(1_600_000_004);
    let first = ask(&mut slack, "history", &[("limit", "4")]);
    assert_eq!((numbers(&first), first.get("is_limited")), (vec![9, 8, 7, 6], None));
    let last = ask(&mut slack, "history", &[("latest", &ts(6))]);
    assert_eq!((numbers(&last), &last["is_limited"]), (vec![5, 4], &true.into()));
    let within = ask(&mut slack, "history", &[("oldest", &ts(4))]);
    assert_eq!((numbers(&within).len(), within.get("is_limited")), (5, None));
}

#[test]
fn a_restricted_app_gets_15_objects_once_a_minute() {
    let mut slack = slack();
    (10..40).for_each(|n| workspace(&mut slack).channel_history("C1").post(&message(n)));
    workspace(&mut slack).restricted = true;
    let answer = ask(&mut slack, "history", &[("limit", "999")]);
    assert_eq!((numbers(&answer).len(), &answer["has_more"]), (15, &true.into()));
    let refused = slack.answer("conversations.history", TOKEN, BTreeMap::new(), NOW_MS + 15_500);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("45")));
    assert_eq!(ask_at(&mut slack, NOW_MS + 20_000, "replies", &[("ts", &ts(5))])["ok"], true);
    assert_eq!(ask_at(&mut slack, NOW_MS + 59_999, "history", &[])["ok"], false);
    assert_eq!(ask_at(&mut slack, NOW_MS + 61_000, "history", &[])["ok"], true);
    let early: Vec<bool> = slack.calls().iter().map(|call| call.early).collect();
    assert_eq!(early, [false, false, false, true, false]);
}

#[test]
fn each_unreadable_channel_is_refused_with_its_own_error() {
    let mut slack = slack();
    let here = workspace(&mut slack);
    for (id, is_member, is_private) in [("C2", false, false), ("C3", false, true), ("C4", true, true)] {
        let mut other = channel(id, "other");
        other["is_member"] = is_member.into();
        other["is_private"] = is_private.into();
        here.unlisted_channels.push(other);
    }
    here.unreadable.insert("C1".into(), "method_not_supported_for_channel_type".into());
    here.scopes.push("channels:history".into());
    let expected = [
        ("C1", "method_not_supported_for_channel_type"),
        ("C2", "not_in_channel"),
        ("C3", "missing_scope"),
        ("C4", "missing_scope"),
        ("C5", "channel_not_found"),
    ];
    for (id, error) in expected {
        let answer = ask(&mut slack, "history", &[("channel", id)]);
        assert_eq!(answer["error"], error, "{id}");
    }
    assert_eq!(ask(&mut slack, "history", &[("channel", "C4")])["needed"], "groups:history");
    workspace(&mut slack).scopes.push("groups:history".into());
    assert_eq!(ask(&mut slack, "history", &[("channel", "C3")])["error"], "channel_not_found");
    assert_eq!(ask(&mut slack, "history", &[("channel", "C4")])["ok"], true);
}

#[test]
fn volatile_fields_differ_from_call_to_call_but_content_does_not() {
    let mut slack = slack();
    let here = workspace(&mut slack);
    here.volatile = true;
    here.channel_history("C1").post(&reply(20, 3));
    let mut shared = message(21);
    shared["files"] = json!([{ "id": "F1", "url_private": "https://files.slack.com/F1" }]);
    shared["metadata"] = json!({ "event_type": "deployed" });
    here.channel_history("C1").post(&shared);
    let (first, second) = (ask(&mut slack, "history", &[]), ask(&mut slack, "history", &[]));
    let pairs = first["messages"].as_array().unwrap().iter().zip(second["messages"].as_array().unwrap());
    for (first, second) in pairs {
        assert_ne!(first, second);
        assert_eq!((&first["text"], &first["ts"]), (&second["text"], &second["ts"]));
    }
    assert_ne!(first["messages"][7]["reply_count"], second["messages"][7]["reply_count"]);
    assert_ne!(first["messages"][0]["files"], second["messages"][0]["files"]);
    assert!(first["messages"][0].get("metadata").is_none(), "metadata was not requested");
    let with_metadata = ask(&mut slack, "history", &[("include_all_metadata", "true")]);
    assert_eq!(with_metadata["messages"][0]["metadata"]["event_type"], "deployed");
}

#[test]
fn a_page_repeats_messages_of_the_page_before_and_the_pages_still_end() {
    let mut slack = slack();
    slack.repeat_entries(2);
    let first = ask(&mut slack, "history", &[("limit", "4")]);
    assert_eq!(numbers(&first), [9, 8, 7, 6]);
    let cursor = first["response_metadata"]["next_cursor"].as_str().unwrap();
    let second = ask(&mut slack, "history", &[("limit", "4"), ("cursor", cursor)]);
    assert_eq!(numbers(&second), [7, 6, 5, 4, 3, 2]);
    let last = ask(&mut slack, "history", &[("limit", "4"), ("latest", &ts(2))]);
    assert_eq!((numbers(&last), last["has_more"].as_bool()), (vec![3, 2, 1, 0], Some(false)));

    (1..6).for_each(|n| workspace(&mut slack).channel_history("C1").post(&reply(20 + n, 9)));
    let root = [("ts", ts(9)), ("limit", "3".to_owned())];
    let root: Vec<(&str, &str)> = root.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let first = ask(&mut slack, "replies", &root);
    assert_eq!(numbers(&first), [9, 21, 22]);
    let cursor = first["response_metadata"]["next_cursor"].as_str().unwrap();
    let second = ask(&mut slack, "replies", &[&root[..], &[("cursor", cursor)]].concat());
    assert_eq!(numbers(&second), [9, 21, 22, 23, 24]);
}
