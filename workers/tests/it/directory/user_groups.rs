//! User groups, from Slack's list.

use std::time::Duration;

use ports::archive::key;
use reader::user_groups;
use serde_json::json;
use testkit::fake_slack::{FakeWorkspace, START_S, SlackAnswer, refusal, user_group};
use testkit::faults::{CallFault, FaultPlan, PortMethod};

use super::fixture::{DirectoryFixture, TOKEN, team};

#[tokio::test]
async fn user_groups_are_stored_with_their_members_and_only_written_when_they_change() {
    let mut workspace = FakeWorkspace::with_size("T1", 1, 3);
    let mut old = user_group("S2", "old", &[], 1_650_000_000);
    old["date_delete"] = 1_650_000_000.into();
    let far = user_group("S9", "far", &[], START_S + 86_400);
    workspace.user_groups = vec![
        user_group("S1", "oncall", &["U00001", "U00000"], 1_600_000_000),
        old,
        far,
        json!({ "id": 7 }),
        json!(null),
    ];
    let fixture = DirectoryFixture::new(workspace).await;
    let groups = async || user_groups::user_groups(&*fixture.archive, &team("T1")).await.unwrap();
    let report = fixture.sync().await.user_groups;
    assert_eq!((report.listed, report.changed, report.skipped), (5, 2, 3));
    let stored = groups().await;
    assert_eq!(
        (&stored[0]["handle"], &stored[0]["members"]),
        (&json!("oncall"), &json!(["U00000", "U00001"]))
    );
    assert_eq!((&stored[1]["handle"], &stored[1]["deleted"]), (&json!("old"), &json!(true)));

    fixture.slack.set_clock(START_S + 3_600);
    fixture.writes();
    assert_eq!(fixture.sync().await.user_groups.changed, 0);
    assert_eq!(fixture.writes(), 1);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        // A group that Slack does not list any more stays.
        workspace.user_groups = vec![user_group("S1", "duty", &["U00002"], START_S)];
    });
    assert_eq!(fixture.sync().await.user_groups.changed, 1);
    let stored = groups().await;
    assert_eq!((&stored[0]["handle"], &stored[0]["members"]), (&json!("duty"), &json!(["U00002"])));
    assert_eq!(stored[0]["names_history"], json!(["Group duty", "Group oncall"]));
    assert_eq!(stored.len(), 2);
}

#[tokio::test]
async fn a_list_of_user_groups_that_slack_refuses_or_cuts_fails_nothing_else() {
    let mut workspace = FakeWorkspace::with_size("T1", 1, 1);
    workspace.user_groups = vec![user_group("S1", "oncall", &["U00000"], 1_600_000_000)];
    let fixture = DirectoryFixture::new(workspace).await;
    fixture.slack.plan_answers("usergroups.list", [refusal("plan_upgrade_required")]);
    assert_eq!(fixture.sync().await.user_groups.listed, 0);
    let missing = json!({ "ok": false, "error": "missing_scope" });
    fixture.slack.plan_answers("usergroups.list", [SlackAnswer::json(&missing)]);
    assert!(fixture.sync().await.missing_scopes.contains("usergroups:read"));
    // Longer than any accepted response: the list without members is read instead.
    let long = json!({ "ok": true, "usergroups": [], "filling": "x".repeat(17 * 1024 * 1024) });
    fixture.slack.plan_answers("usergroups.list", [SlackAnswer::json(&long)]);
    assert_eq!(fixture.sync().await.user_groups.changed, 1);
    let groups = user_groups::user_groups(&*fixture.archive, &team("T1")).await.unwrap();
    assert_eq!((&groups[0]["handle"], &groups[0]["members"]), (&json!("oncall"), &json!([])));
}

/// An eraser finds the rows of a person as a member by the groups.
#[tokio::test]
async fn no_member_is_stored_whose_group_is_not() {
    let mut stored = 0;
    // From some write on, only one succeeds.
    for (first_failing, succeeding) in (1..12).flat_map(|first| (first..first + 7).map(move |at| (first, at)))
    {
        let mut workspace = FakeWorkspace::with_size("T1", 0, 0);
        workspace.user_groups = vec![user_group("S1", "oncall", &["U00000", "U00001"], 1_600_000_000)];
        let fixture = DirectoryFixture::new(workspace).await;
        let plan = FaultPlan::none()
            .with_rule(PortMethod::Write, succeeding..=succeeding, CallFault::Delay(Duration::ZERO))
            .with_rule(PortMethod::Write, first_failing..=u64::MAX, CallFault::FailBefore);
        fixture.failing_sync(plan).sync(&team("T1")).await;
        let members = fixture.rows("usergroupmember#T1#S1".to_owned()).await;
        let groups = fixture.rows(key::user_groups(&team("T1"))).await;
        assert!(members.is_empty() || !groups.is_empty(), "{first_failing} {succeeding}: {members:?}");
        stored += members.len();
    }
    assert!(stored > 0, "no member was ever stored");
}
