//! Pins, from Slack's list of each channel.

use ports::archive::{Archive, ItemKey, key};
use rules::project;
use serde_json::json;
use testkit::corpus::event;
use testkit::fake_slack::{FakeWorkspace, START_S};

use super::fixture::{DirectoryFixture, TOKEN, id, team};

#[tokio::test]
async fn pins_are_listed_once_and_again_after_the_app_was_away() {
    let mut workspace = FakeWorkspace::with_size("T1", 3, 0);
    workspace.channels[2]["is_member"] = false.into();
    let pinned = event::message("1700000000.000100", "U1", "read this");
    workspace.channel_history("C00000").post(&pinned);
    workspace.channel_history("C00000").set_pin("1700000000.000100", Some(("U2", 1_700_000_005)));
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.sync().await;
    let key = ItemKey::new(key::messages(&team("T1"), &id("C00000")), "1700000000.000100");
    let row = fixture.archive.get(&key).await.unwrap().unwrap();
    assert_eq!(project::message(&row), None, "it waits for its message");
    assert!(project::is_pinned(&row));
    assert_eq!(fixture.slack.call_count("pins.list"), 2, "not of a channel that the app is not in");
    fixture.sync().await;
    assert_eq!(fixture.slack.call_count("pins.list"), 2);
    for (later_s, is_member) in [(60, false), (120, true)] {
        fixture.slack.set_clock(START_S + later_s);
        fixture
            .slack
            .change_workspace(TOKEN, |workspace| workspace.channels[0]["is_member"] = is_member.into());
        fixture.sync().await;
    }
    assert_eq!(fixture.slack.call_count("pins.list"), 3);
}

#[tokio::test]
async fn an_app_without_the_scope_for_pins_syncs_everything_else() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 2, 2)).await;
    fixture
        .slack
        .refuse("pins.list", json!({ "ok": false, "error": "missing_scope", "needed": "pins:read" }));
    let report = fixture.sync().await;
    assert_eq!(report.missing_scopes.iter().collect::<Vec<_>>(), ["pins:read"]);
    assert_eq!((report.channels.changed, report.people.changed), (2, 2));
    assert_eq!(fixture.slack.call_count("pins.list"), 1, "the other channels would be refused too");
}
