//! Bookmarks, read once a day.

use std::collections::BTreeSet;

use reader::bookmarks;
use reader::joined::ChannelOfTeam;
use serde_json::json;
use testkit::fake_slack::{FakeWorkspace, START_S, SlackAnswer, bookmark, refusal};

use super::fixture::{DirectoryFixture, TOKEN, id, team};

#[tokio::test]
async fn bookmarks_are_read_once_a_day_and_a_removed_one_is_marked() {
    let mut workspace = FakeWorkspace::with_size("T1", 2, 1);
    let wiki = bookmark("Bk1", "Wiki", "https://example.com/");
    workspace
        .bookmarks
        .insert("C00000".into(), vec![wiki.clone(), bookmark("Bk2", "Plan", "javascript:x"), json!({})]);
    let fixture = DirectoryFixture::new(workspace).await;
    let stored = async || {
        let location = ChannelOfTeam { team: team("T1"), channel: id("C00000") };
        bookmarks::bookmarks(&*fixture.archive, &location).await.unwrap()
    };
    let report = fixture.sync().await.bookmarks;
    assert_eq!((report.listed, report.changed, report.skipped), (3, 2, 1));
    let before = stored().await;
    assert_eq!(before[0], json!({ "id": "Bk1", "title": "Wiki", "link": "https://example.com/" }));
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.bookmarks.insert("C00000".into(), vec![wiki]);
    });
    // Another process asks for nothing again before the day is over.
    for (seconds_later, calls) in [(3_600, 2), (86_399, 2), (86_400, 4)] {
        assert_eq!(stored().await, before);
        fixture.slack.set_clock(START_S + seconds_later);
        fixture.sync().await;
        assert_eq!(fixture.slack.call_count("bookmarks.list"), calls, "after {seconds_later} s");
    }
    assert_eq!(
        stored().await[1],
        json!({ "id": "Bk2", "title": "Plan", "link": "javascript:x", "removed": true })
    );
}

#[tokio::test(start_paused = true)]
async fn a_sync_reads_the_bookmarks_of_a_part_of_the_channels_and_the_next_ones_read_the_rest() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 45, 1)).await;
    // One channel fails on its own; a pause of Slack's ends the turn.
    fixture.slack.plan_answers("bookmarks.list", [refusal("channel_not_found")]);
    let mut asked = BTreeSet::new();
    for (turn, channels) in [20, 40, 45, 45].into_iter().enumerate() {
        fixture.slack.set_clock(START_S + 3_600 * i64::try_from(turn).unwrap());
        fixture.sync().await;
        let calls = fixture.slack.calls();
        asked.extend(calls.iter().filter_map(|call| call.parameters.get("channel_id").cloned()));
        assert_eq!((asked.len(), fixture.slack.call_count("bookmarks.list")), (channels, channels));
    }
    fixture.slack.set_clock(START_S + 86_400);
    fixture.slack.plan_answers("bookmarks.list", [SlackAnswer::rate_limited(600)]);
    fixture.sync().await;
    assert_eq!(fixture.slack.call_count("bookmarks.list"), 46);
}

#[tokio::test]
async fn without_the_scope_no_bookmarks_are_read_and_the_rest_is_synced() {
    let fixture = DirectoryFixture::new(FakeWorkspace::with_size("T1", 3, 2)).await;
    fixture.slack.refuse("bookmarks.list", json!({ "ok": false, "error": "missing_scope" }));
    let report = fixture.sync().await;
    assert_eq!(report.missing_scopes.iter().collect::<Vec<_>>(), ["bookmarks:read"]);
    assert_eq!((report.people.changed, fixture.slack.call_count("bookmarks.list")), (2, 1));
}
