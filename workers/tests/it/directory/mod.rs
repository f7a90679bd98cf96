//! Tests of the directory sync: the rows that it writes and the channels that it joins.

mod bookmarks;
mod fixture;
mod joining;
mod memberships;
mod pins;
mod ticks;
mod unlisted;
mod user_groups;

use ports::archive::{Archive, ArchiveExt, ItemKey, key};
use ports::queue::QueueName;
use ports::queue::job::{Job, Payload};
use reader::directory;
use rules::figures::members;
use rules::file::{FileJob, row};
use serde_json::{Value, json};
use slack_api::{ApiError, Method};
use testkit::deliveries::receive_visible;
use testkit::fake_slack::{FakeSlack, FakeWorkspace, START_S, SlackAnswer, channel, person, refusal, tokens};
use workers::directory::SyncError;

use fixture::{DirectoryFixture, TOKEN, id, team, ts};

#[tokio::test]
async fn every_person_and_every_channel_on_every_page_is_stored() {
    let mut workspace = FakeWorkspace::with_size("T1", 25, 33);
    workspace.emoji =
        json!({ "parrot": "https://emoji.slack-edge.com/T1/parrot/1.gif", "bird": "alias:parrot" });
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.slack.set_page_size(10);
    let report = fixture.sync().await;
    assert_eq!((report.channels.listed, report.people.listed, report.emoji.listed), (25, 33, 2));
    assert_eq!((report.channels.changed, report.people.changed, report.emoji.changed), (25, 33, 2));
    assert_eq!(report.team_name.as_deref(), Some("Workspace T1"));
    assert_eq!(
        (fixture.slack.call_count("conversations.list"), fixture.slack.call_count("users.list")),
        (3, 4)
    );

    for number in [0, 24] {
        let channel = format!("C{number:05}");
        assert_eq!(fixture.index_name(&channel).await, Some(format!("channel-{number}")));
        let newest = fixture.newest(&channel).await;
        assert_eq!(newest["visibility"], "public");
        assert_eq!(newest["purpose"], format!("for channel-{number}"));
        let mark = ItemKey::public_mark(&team("T1"), &id(&channel));
        assert!(fixture.archive.get(&mark).await.unwrap().is_some());
    }
    let users = fixture.users().await;
    assert_eq!(users.len(), 33);
    assert_eq!(
        (&users[32]["display_name"], &users[32]["tz"]),
        (&json!("person-32"), &json!("Europe/Berlin"))
    );
    let emoji = fixture.rows(key::emoji(&team("T1"))).await;
    assert_eq!(emoji.iter().map(|row| row.text("value").unwrap()).collect::<Vec<_>>().len(), 2);
    assert_eq!(fixture.rows(key::teams()).await.len(), 1);
    let workspace = directory::read_workspace_facts(&*fixture.archive, &team("T1")).await.unwrap();
    assert_eq!(workspace.name.as_deref(), Some("Workspace T1"));
    assert_eq!(workspace.base_url.as_deref(), Some("https://example.slack.com/"));
    let synced = fixture.archive.get(&ItemKey::directory_sync(&team("T1"))).await.unwrap().unwrap();
    assert_eq!(
        (&synced.attributes["channels"], synced.text("synced_ts")),
        (&json!(25), Some(ts(0).as_str()))
    );
    // 33 avatars and one emoji image; the other emoji is an alias.
    assert_eq!(fixture.image_jobs().await, 34);
}

#[tokio::test]
async fn slack_is_asked_for_the_name_of_an_organisation_once_a_week() {
    let mut workspace = FakeWorkspace::with_size("T1", 1, 0);
    let mut stranger = person("U0PAT", "pat");
    stranger["team_id"] = "T0ACME".into();
    let mut unseen = person("U0SAM", "sam");
    unseen["team_id"] = "T0HIDDEN".into();
    workspace.members = vec![stranger, unseen];
    workspace.organisations.insert(
        "T0ACME".into(),
        json!({ "id": "T0ACME", "name": "Acme", "domain": "acme", "icon": { "image_68": "https://a.test/68.png" } }),
    );
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.sync().await;
    assert_eq!(fixture.slack.call_count("team.info"), 2);
    let rows = fixture.rows(key::organisations(&team("T1"))).await;
    let names: Vec<_> = rows.iter().map(|row| (row.key.timestamp.as_str(), row.text("name"))).collect();
    assert_eq!(names, [("T0ACME", Some("Acme")), ("T0HIDDEN", None)]);
    const WEEK_S: i64 = 7 * 86_400;
    for (later_s, calls) in [(3_600, 2), (WEEK_S - 60, 2), (WEEK_S + 60, 4)] {
        fixture.slack.set_clock(START_S + later_s);
        fixture.sync().await;
        assert_eq!(fixture.slack.call_count("team.info"), calls, "after {later_s} s");
    }
}

#[tokio::test]
async fn the_user_of_an_app_names_its_bot() {
    let mut workspace = FakeWorkspace::with_size("T1", 1, 1);
    let mut app = person("U0JIRA", "jira");
    app["is_bot"] = true.into();
    app["profile"]["display_name"] = "".into();
    app["profile"]["bot_id"] = "B0JIRA".into();
    workspace.members.push(app);
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.sync().await;
    let rows = fixture.rows(key::bots(&team("T1"))).await;
    let facts: Vec<_> =
        rows.iter().map(|row| ["bot_id", "name", "user_id"].map(|name| row.text(name).unwrap())).collect();
    assert_eq!(facts, [["B0JIRA", "Real jira", "U0JIRA"]]);
}

#[tokio::test]
async fn a_sync_of_an_unchanged_workspace_writes_only_its_own_row() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 12, 12)).await;
    fixture.sync().await;
    fixture.writes();
    let (before, jobs) = (fixture.archive.items(), fixture.image_jobs().await);
    fixture.slack.set_clock(START_S + 3_600);
    let report = fixture.sync().await;
    assert_eq!((report.channels.changed, report.people.changed, report.emoji.changed), (0, 0, 0));
    assert_eq!(fixture.writes(), 1);
    assert_eq!(fixture.image_jobs().await, jobs);
    let changed: Vec<_> = fixture.archive.items().into_iter().filter(|item| !before.contains(item)).collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].key, ItemKey::directory_sync(&team("T1")));
    assert_eq!(changed[0].text("synced_ts"), Some(ts(3_600).as_str()));
}

#[tokio::test]
async fn member_counts_are_stored_once_a_day_and_accounts_are_counted_by_kind() {
    let mut workspace = FakeWorkspace::with_size("T1", 2, 5);
    workspace.channels[0]["num_members"] = 7.into();
    workspace.members[1]["deleted"] = true.into();
    workspace.members[2]["is_bot"] = true.into();
    workspace.members[3]["is_restricted"] = true.into();
    workspace.members[4]["is_stranger"] = true.into();
    let fixture = DirectoryFixture::new(workspace).await;
    let days = async || {
        let rows = fixture.rows(key::members(&team("T1"), &id("C00000"))).await;
        rows.iter().map(|row| (row.key.timestamp.clone(), members::count(row).unwrap())).collect::<Vec<_>>()
    };
    fixture.sync().await;
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["num_members"] = 9.into());
    fixture.slack.set_clock(START_S + 3_600);
    fixture.sync().await;
    assert_eq!(days().await, [("2023-11-14".to_owned(), 7)]);
    fixture.slack.set_clock(START_S + 7_200);
    fixture.sync().await;
    assert_eq!(days().await, [("2023-11-14".to_owned(), 7), ("2023-11-15".to_owned(), 9)]);
    let synced = fixture.archive.get(&ItemKey::directory_sync(&team("T1"))).await.unwrap().unwrap();
    let counts = ["all_users", "active_users", "bots", "deleted_users"].map(|name| &synced.attributes[name]);
    assert_eq!(counts, [4, 2, 1, 1].map(Value::from).each_ref());
}

#[tokio::test]
async fn changes_missed_in_downtime_are_stored() {
    let mut workspace = FakeWorkspace::with_size("T1", 1, 1);
    workspace.emoji = json!({ "old": "https://emoji.slack-edge.com/T1/old/1.gif" });
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.sync().await;
    fixture.slack.set_clock(START_S + 3_600);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels[0]["name"] = "renamed".into();
        workspace.channels[0]["is_archived"] = true.into();
        workspace.channels.push(channel("C77777", "new"));
        workspace.members[0]["profile"]["display_name"] = "Ada".into();
        workspace.emoji = json!({ "new": "https://emoji.slack-edge.com/T1/new/1.gif" });
    });
    let report = fixture.sync().await;
    assert_eq!((report.channels.changed, report.people.changed, report.emoji.changed), (2, 1, 2));
    let newest = fixture.newest("C00000").await;
    assert_eq!(newest["names_history"], json!(["renamed", "channel-0"]));
    assert_eq!(newest["archived"], true);
    assert_eq!(fixture.index_name("C00000").await.as_deref(), Some("renamed"));
    assert_eq!(fixture.index_name("C77777").await.as_deref(), Some("new"));
    assert_eq!(fixture.users().await[0]["display_name"], "Ada");
    let emoji = fixture.rows(key::emoji(&team("T1"))).await;
    let value = |name: &str| emoji.iter().find(|row| row.key.timestamp == name).unwrap().text("value");
    assert!(value("new").is_some() && value("old").is_none());
}

#[tokio::test]
async fn a_later_event_wins_over_the_list() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 1, 1)).await;
    // The event is newer than the list, as if Slack had renamed the channel during the call.
    let renamed = |name: &str, ts: String| json!({ "type": "channel_rename", "channel": { "id": "C00000", "name": name }, "event_ts": ts });
    fixture.handle_event(renamed("by-event", ts(1))).await;
    fixture.sync().await;
    assert_eq!(fixture.newest("C00000").await["name"], "by-event");
    assert_eq!(fixture.index_name("C00000").await.as_deref(), Some("by-event"));
    // An event from before the list that arrives late loses.
    fixture.handle_event(renamed("long-ago", ts(-60))).await;
    assert_eq!(fixture.index_name("C00000").await.as_deref(), Some("by-event"));
    fixture.slack.set_clock(START_S + 3_600);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["name"] = "by-event".into());
    fixture.sync().await;
    fixture.writes();
    fixture.slack.set_clock(START_S + 5_400);
    fixture.sync().await;
    assert_eq!(fixture.writes(), 1, "changes from events are not written again");
}

#[tokio::test]
async fn a_channel_that_readers_would_not_find_is_projected_again() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 2, 0)).await;
    fixture.sync().await;
    let shard = fixture.rows(key::channel_index(&team("T1"))).await.remove(0);
    assert!(fixture.archive.delete_unchanged(&shard).await.unwrap());
    fixture.slack.set_clock(START_S + 3_600);
    fixture.sync().await;
    assert_eq!(fixture.index_name("C00001").await.as_deref(), Some("channel-1"));
}

#[tokio::test]
async fn malformed_entries_are_counted_and_skipped() {
    let long = "x".repeat(10_000);
    let with = |mut value: Value, pointer: &str, field: Value| {
        *value.pointer_mut(pointer).unwrap() = field;
        value
    };
    let mut workspace = FakeWorkspace::with_size("T1", 1, 1);
    workspace.channels.extend([
        json!(null),
        json!([]),
        json!("C1"),
        json!({}),
        json!({ "id": "C0NAMELESS" }),
        with(channel("C1", "a"), "/id", json!(7)),
        with(channel("C1", "a"), "/id", json!("c#1")),
        with(channel("C0LONG", "a"), "/name", long.clone().into()),
        with(channel("C0EMPTY", "a"), "/name", "".into()),
        with(channel("C0PRIVATE", "a"), "/is_private", true.into()),
        with(with(channel("C0DIRECT", "a"), "/is_mpim", true.into()), "/is_member", json!("?")),
    ]);
    workspace.channels.push(json!({ "id": "C0BARE", "name": "bare", "topic": 7, "is_archived": "?" }));
    workspace.members.extend([
        json!(null),
        json!({}),
        json!({ "id": "u1" }),
        with(person("U1", "a"), "/name", long.clone().into()),
        with(person("U1", "a"), "/profile/display_name", long.clone().into()),
    ]);
    workspace.members.push(json!({ "id": "U0BARE", "profile": null }));
    workspace.emoji = json!({ "": "https://x/1", (long): "https://x/2", "number": 7, "fine": "alias:tada" });
    let fixture = DirectoryFixture::new(workspace).await;
    let report = fixture.sync().await;
    assert_eq!((report.channels.listed, report.channels.skipped, report.channels.changed), (13, 11, 2));
    assert_eq!((report.people.listed, report.people.skipped, report.people.changed), (7, 5, 2));
    assert_eq!((report.emoji.listed, report.emoji.skipped, report.emoji.changed), (4, 3, 1));
    assert_eq!(fixture.index_name("C0BARE").await.as_deref(), Some("bare"));
    assert_eq!(fixture.users().await.len(), 2);
    for private in ["C0PRIVATE", "C0DIRECT"] {
        let mark = ItemKey::public_mark(&team("T1"), &id(private));
        assert!(fixture.archive.get(&mark).await.unwrap().is_none());
        assert!(fixture.rows(key::channels(&team("T1"), &id(private))).await.is_empty());
    }
}

#[tokio::test]
async fn a_missing_scope_leaves_out_its_part_and_nothing_else() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 2, 2)).await;
    fixture
        .slack
        .refuse("emoji.list", json!({ "ok": false, "error": "missing_scope", "needed": "emoji:read" }));
    fixture.slack.refuse("conversations.list", json!({ "ok": false, "error": "missing_scope" }));
    let report = fixture.sync().await;
    assert_eq!(report.missing_scopes.iter().collect::<Vec<_>>(), ["channels:read", "emoji:read"]);
    assert_eq!((report.channels.listed, report.people.changed), (0, 2));
    let synced = fixture.archive.get(&ItemKey::directory_sync(&team("T1"))).await.unwrap().unwrap();
    assert_eq!(synced.attributes["missing_scopes"], json!(["channels:read", "emoji:read"]));
}

#[tokio::test]
async fn a_cycle_of_pages_fails_only_its_own_list() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 2, 2)).await;
    let page = |cursor: &str| {
        SlackAnswer::json(&json!({ "ok": true, "channels": [],
            "response_metadata": { "next_cursor": cursor } }))
    };
    fixture.slack.plan_answers("conversations.list", [page("a"), page("b"), page("a"), page("b")]);
    let report = fixture.sync.sync(&team("T1")).await;
    let failure = report.failure.unwrap();
    assert!(matches!(failure, SyncError::Endless(Method::ConversationsList)), "{failure}");
    assert_eq!(fixture.slack.call_count("conversations.list"), 3);
    assert_eq!(report.people.changed, 2);
    assert!(fixture.archive.get(&ItemKey::directory_sync(&team("T1"))).await.unwrap().is_none());
}

#[tokio::test]
async fn a_server_error_is_retried_and_a_garbled_response_is_not() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 2, 2)).await;
    fixture.slack.plan_answers("users.list", [SlackAnswer::new(500)]);
    assert_eq!(fixture.sync().await.people.changed, 2);
    assert_eq!(fixture.slack.call_count("users.list"), 2);

    for garbled in [json!({ "ok": true }), json!({ "ok": true, "members": {} }), json!("x")] {
        fixture.slack.plan_answers("users.list", [SlackAnswer::json(&garbled)]);
        let failure = fixture.sync.sync(&team("T1")).await.failure.unwrap();
        assert!(matches!(failure, SyncError::Api(ApiError::Garbled { .. })), "{failure}");
    }
    // A malformed field next to the list does not lose the list.
    let odd = json!({ "ok": true, "members": [person("U77", "new")], "response_metadata": "?" });
    fixture.slack.plan_answers("users.list", [SlackAnswer::json(&odd)]);
    assert_eq!(fixture.sync().await.people.changed, 1);
}

#[tokio::test]
async fn a_refused_token_fails_with_a_one_line_error() {
    let fixture = DirectoryFixture::new(FakeWorkspace::new("T1")).await;
    fixture.sync().await;
    fixture.slack.plan_answers("auth.test", [refusal("token_revoked")]);
    let failure = fixture.sync.sync(&team("T1")).await.failure.unwrap().to_string();
    assert!(failure.contains("token_revoked") && !failure.contains("xoxb"), "{failure}");
}

#[tokio::test]
async fn each_workspace_is_read_with_its_own_token_and_no_channel_is_joined_by_default() {
    let slack = FakeSlack::start().await;
    slack.set_workspace(
        TOKEN,
        FakeWorkspace { members: vec![person("U1", "ada")], ..FakeWorkspace::half_joined("T1") },
    );
    slack.set_workspace("xoxb-2", FakeWorkspace::with_size("T2", 1, 3));
    let fixture = DirectoryFixture::with(slack, tokens(&[("T1", TOKEN), ("T2", "xoxb-2")]));
    assert_eq!(fixture.work(&fixture.worker(None)).await, 2);
    let DirectoryFixture { slack, archive, .. } = fixture;
    for (team_id, people) in [("T1", 1), ("T2", 3)] {
        let synced = archive.get(&ItemKey::directory_sync(&team(team_id))).await.unwrap().unwrap();
        assert_eq!(synced.attributes["users"], json!(people));
    }
    let used = |token: &str| slack.calls().iter().filter(|call| call.token == token).count();
    // One call for the identity of the token, one for its date and its name, and four lists; two for each channel that
    // the app is in, its bookmarks and its pins; and one for the members of each public channel.
    assert_eq!((used(TOKEN), used("xoxb-2")), (16, 9));
    assert_eq!(slack.call_count("conversations.join"), 0);
}

#[tokio::test]
async fn the_canvas_of_a_channel_is_requested_once_and_stays_after_slack_removes_it() {
    let mut workspace = FakeWorkspace::with_size("T1", 2, 0);
    let without = workspace.channels.clone();
    workspace.channels[0]["properties"] = json!({ "canvas": { "file_id": "F1" } });
    let fixture = DirectoryFixture::new(workspace.clone()).await;
    fixture.sync().await;
    assert_eq!(fixture.image_jobs().await, 1);
    assert_eq!(fixture.newest("C00000").await["canvas"], "F1");
    let jobs = receive_visible(&*fixture.queue, QueueName::Files).await;
    let Payload::File(raw) = Job::decode(&jobs[0].body).unwrap().payload else { panic!("{jobs:?}") };
    let FileJob { share, object, .. } = FileJob::decode(raw).unwrap();
    assert_eq!((share.channel.as_str(), object.id.as_str()), ("C00000", "F1"));
    // The downloader notes the share, whatever the result is.
    fixture.archive.write(&row::seen(&team("T1"), &object, Some(&share))).await.unwrap();
    for (seconds_later, channels) in [(3_600, workspace.channels.clone()), (7_200, without)] {
        fixture.slack.set_clock(START_S + seconds_later);
        fixture.slack.set_workspace(TOKEN, FakeWorkspace { channels, ..workspace.clone() });
        fixture.sync().await;
        assert_eq!(fixture.image_jobs().await, 0);
        assert_eq!(fixture.newest("C00000").await["canvas"], "F1");
    }
}
