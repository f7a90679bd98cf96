//! The members of channels: hourly of those that are private now, daily of the others.

use std::collections::BTreeSet;

use ports::archive::{ArchiveExt, key};
use process::config::slack::MembersToList;
use reader::joined::ChannelOfTeam;
use reader::memberships;
use rules::visibility::VisibilityEvidence;
use serde_json::{Value, json};
use slack::ids::Ts;
use testkit::fake_slack::{FakeWorkspace, START_S, SlackAnswer, channel, refusal};

use super::fixture::{DirectoryFixture, TOKEN, id, team, ts};

/// A workspace with the public channels `C00000` and `C00001`, and with `CPRIV`, which was public.
fn workspace() -> FakeWorkspace {
    let mut workspace = FakeWorkspace::with_size("T1", 2, 1);
    let mut private = channel("CPRIV", "secret");
    private["is_private"] = true.into();
    workspace.unlisted_channels.push(private);
    for (channel, members) in [("C00000", json!(["U2", "U1", null, 7])), ("CPRIV", json!(["U3"]))] {
        workspace.channel_members.insert(channel.into(), members.as_array().unwrap().clone());
    }
    workspace
}

async fn fixture(workspace: FakeWorkspace) -> DirectoryFixture {
    let fixture = DirectoryFixture::new(workspace).await;
    mark_private(&fixture, "CPRIV").await;
    fixture
}

/// Marks a channel that was public as private now.
async fn mark_private(fixture: &DirectoryFixture, channel: &str) {
    let clock = Ts::parse(&ts(0)).unwrap();
    for update in [
        rules::public_mark::opening(&team("T1"), &id(channel)),
        VisibilityEvidence::change(&team("T1"), &id(channel), true, &clock).update(None).unwrap(),
    ] {
        fixture.archive.write(&update).await.unwrap();
    }
}

async fn members(fixture: &DirectoryFixture, channel: &str) -> Option<Vec<String>> {
    let location = ChannelOfTeam { team: team("T1"), channel: id(channel) };
    let list = memberships::read(&*fixture.archive, &location).await.unwrap()?;
    Some(list.members.iter().map(ToString::to_string).collect())
}

fn asked(fixture: &DirectoryFixture) -> Vec<String> {
    let calls = fixture.slack.calls();
    let calls = calls.iter().filter(|call| call.method == "conversations.members");
    calls.filter_map(|call| call.parameters.get("channel").cloned()).collect()
}

#[tokio::test]
async fn members_of_private_channels_are_listed_in_every_sync_and_of_others_once_a_day() {
    let fixture = fixture(workspace()).await;
    let report = fixture.sync().await;
    assert_eq!((report.members.listed, report.members.changed, report.unlisted_private), (3, 3, 0));
    assert_eq!(members(&fixture, "C00000").await.unwrap(), ["U1", "U2"]);
    assert_eq!(members(&fixture, "CPRIV").await.unwrap(), ["U3"]);
    assert_eq!(members(&fixture, "C00001").await.unwrap(), [""; 0]);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channel_members.insert("CPRIV".into(), vec!["U4".into()]);
        workspace.channel_members.insert("C00000".into(), Vec::new());
    });
    for (seconds_later, calls) in [(3_600, 4), (7_200, 5), (86_400, 8)] {
        fixture.slack.set_clock(START_S + seconds_later);
        fixture.sync().await;
        assert_eq!(asked(&fixture).len(), calls, "after {seconds_later} s");
        assert_eq!(members(&fixture, "CPRIV").await.unwrap(), ["U4"]);
    }
    assert_eq!(members(&fixture, "C00000").await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn an_unchanged_list_is_written_only_so_that_it_does_not_age() {
    let fixture = fixture(workspace()).await;
    let head = rules::membership::head_key(&team("T1"), &id("CPRIV"));
    let clock = || fixture.archive.item(&head).unwrap().text("clock").unwrap().to_owned();
    fixture.sync().await;
    let first = clock();
    fixture.slack.set_clock(START_S + 3_600);
    assert_eq!(fixture.sync().await.members.changed, 0);
    assert_eq!(clock(), first);
    fixture.slack.set_clock(START_S + 7 * 3_600);
    assert_eq!(fixture.sync().await.members.changed, 0);
    assert!(clock() > first);
}

#[tokio::test]
async fn a_long_list_is_read_whole_and_stored_whole() {
    let mut workspace = workspace();
    let many: Vec<Value> = (0..30_000).map(|n| format!("U{n:09}").into()).collect();
    workspace.channel_members.insert("CPRIV".into(), many);
    let fixture = fixture(workspace).await;
    fixture.sync().await;
    let stored = async || fixture.rows(key::memberships(&team("T1"), &id("CPRIV"))).await.len();
    assert_eq!((members(&fixture, "CPRIV").await.unwrap().len(), stored().await), (30_000, 3));
    // A shorter one leaves no chunks.
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channel_members.insert("CPRIV".into(), vec!["U1".into()]);
    });
    fixture.slack.set_clock(START_S + 3_600);
    fixture.sync().await;
    assert_eq!((members(&fixture, "CPRIV").await.unwrap(), stored().await), (vec!["U1".to_owned()], 1));
}

#[tokio::test]
async fn a_channel_that_slack_does_not_show_keeps_its_list_and_stops_no_other() {
    let fixture = fixture(workspace()).await;
    mark_private(&fixture, "CAWAY").await;
    fixture.sync().await;
    fixture.slack.plan_answers(
        "conversations.members",
        [refusal("channel_not_found"), refusal("channel_not_found"), refusal("channel_not_found")],
    );
    fixture.slack.set_clock(START_S + 86_400);
    let report = fixture.sync().await;
    assert_eq!((report.unlisted_private, report.members.skipped, report.members.listed), (2, 3, 1));
    assert_eq!(members(&fixture, "CPRIV").await.unwrap(), ["U3"]);
    // A pause of Slack's ends the turn.
    fixture.slack.plan_answers("conversations.members", [SlackAnswer::rate_limited(600)]);
    let before = asked(&fixture).len();
    fixture.sync().await;
    assert_eq!(asked(&fixture).len(), before + 1);
}

#[tokio::test]
async fn a_missing_scope_is_reported_and_the_rest_is_synced() {
    let fixture = fixture(workspace()).await;
    let refused = json!({ "ok": false, "error": "missing_scope", "needed": "groups:read" });
    fixture.slack.refuse("conversations.members", refused);
    let report = fixture.sync().await;
    assert_eq!(report.missing_scopes, BTreeSet::from(["groups:read".to_owned()]));
    assert_eq!((report.people.listed, members(&fixture, "CPRIV").await), (1, None));
}

#[tokio::test]
async fn members_are_listed_only_of_the_channels_that_the_setting_names() {
    for (setting, expected) in
        [(MembersToList::Off, vec![]), (MembersToList::Private, vec!["CPRIV".to_owned()])]
    {
        let mut fixture = fixture(workspace()).await;
        fixture.sync = fixture.sync.with_listed_members(setting);
        fixture.sync().await;
        assert_eq!(asked(&fixture), expected);
    }
}
