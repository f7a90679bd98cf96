//! What is real although Slack does not know it.

use std::slice::from_ref;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{channel, refusal};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{
    CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, created, happened, message, reason, waits,
};
use testkit::deliveries::delivery;

/// Long enough for all that was confirmed to be asked about again.
const LATER: Duration = Duration::from_secs(301);

/// An event on a channel that is shared with another workspace, as its envelope says.
fn shared_envelope(event: &Value) -> String {
    let mut body: Value = serde_json::from_str(&event::envelope(TEAM, "EvShared", event)).unwrap();
    body["is_ext_shared_channel"] = true.into();
    body.to_string()
}

#[tokio::test]
async fn a_deleted_channel_that_the_archive_knows_keeps_its_end_and_its_late_messages() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.slack.change(TOKEN, |workspace| workspace.channels.retain(|listed| listed["id"] != CHANNEL));
    fixture.clock.advance(LATER);
    let late = message(CHANNEL, USER, "1700000005.000100");
    assert_eq!(fixture.write(&[late]).await, [JobOutcome::Done]);
    let ended = [happened("channel_archive", CHANNEL), happened("channel_deleted", CHANNEL)];
    assert_eq!(fixture.index(&ended).await, [JobOutcome::Done, JobOutcome::Done]);
    // The person is asked about all the same.
    let forged = message(CHANNEL, "U0NOBODY", "1700000006.000100");
    reason(&fixture.write(&[forged]).await[0]);
}

#[tokio::test]
async fn a_channel_goes_on_under_a_new_id_whether_slack_still_knows_the_old_one_or_not() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.slack.change(TOKEN, |workspace| {
        workspace.channels.retain(|listed| listed["id"] != CHANNEL);
        workspace.channels.push(channel("C0LATER", "general"));
    });
    fixture.clock.advance(LATER);
    let goes_on = json!({ "type": "channel_id_changed", "old_channel_id": CHANNEL,
        "new_channel_id": "C0LATER", "event_ts": TS });
    assert_eq!(fixture.write(from_ref(&goes_on)).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(&[goes_on]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_new_channel_that_slack_shows_a_moment_later_is_kept() {
    let fixture = ExistenceCheckFixture::new().await;
    assert!(waits(&fixture.index(&[created("C0NEW")]).await[0]));
    fixture.slack.change(TOKEN, |workspace| workspace.channels.push(channel("C0NEW", "new")));
    fixture.clock.advance(Duration::from_secs(6));
    assert_eq!(fixture.index(&[created("C0NEW")]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn people_of_another_workspace_write_where_slack_says_that_the_channel_is_shared() {
    let fixture = ExistenceCheckFixture::new().await;
    let shared = event::with(channel("C0SHARED", "partners"), [("is_ext_shared", true.into())]);
    fixture.slack.change(TOKEN, |workspace| workspace.channels.push(shared));
    let stranger =
        |channel: &str| event::with(message(channel, "U9STRANGER", TS), [("user_team", "T9PARTNER".into())]);
    let reaction = event::reaction_added("C0SHARED", TS, "U9OTHER", "eyes", "1700000003.000000");
    for told in [stranger("C0SHARED"), reaction] {
        let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&told))]).await;
        assert_eq!(outcomes, [JobOutcome::Done], "{told}");
    }
    assert_eq!(fixture.slack.called("users.info"), 0, "Slack cannot say");

    // The event's word alone opens no other channel.
    let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&stranger(CHANNEL)))]).await;
    assert!(reason(&outcomes[0]).contains("U9STRANGER"));
    // And on a shared channel the workspace's own people are asked about.
    let own = event::with(message("C0SHARED", "U0NOBODY", TS), [("user_team", TEAM.into())]);
    let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&own))]).await;
    assert!(reason(&outcomes[0]).contains("U0NOBODY"));
}

#[tokio::test]
async fn where_slack_knows_a_channel_no_more_its_row_says_whether_it_was_shared() {
    for was_shared in [false, true] {
        let fixture = ExistenceCheckFixture::new().await;
        let kind = if was_shared { "channel_shared" } else { "channel_unarchive" };
        let told = event::with(happened(kind, CHANNEL), [("connected_team_id", "T9PARTNER".into())]);
        assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
        assert_eq!(fixture.index(&[told]).await, [JobOutcome::Done]);
        fixture.slack.change(TOKEN, |workspace| workspace.channels.clear());
        fixture.clock.advance(LATER);
        let stranger = event::with(
            message(CHANNEL, "U9STRANGER", "1700000005.000100"),
            [("user_team", "T9PARTNER".into())],
        );
        let outcome = fixture.writer.handle(&[delivery(&shared_envelope(&stranger))]).await.remove(0);
        if was_shared {
            assert_eq!(outcome, JobOutcome::Done);
        } else {
            assert!(reason(&outcome).contains("U9STRANGER"), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_channel_that_became_private_where_the_app_cannot_see_it_is_kept() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    let private =
        || event::with(message(CHANNEL, USER, "1700000005.000100"), [("channel_type", "group".into())]);
    let no_scope = json!({ "ok": false, "error": "missing_scope", "needed": "groups:read", "provided": "" });
    fixture.slack.refuse("conversations.info", no_scope);
    assert_eq!(fixture.write(&[private()]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    fixture.slack.refuse("conversations.info", json!({ "ok": false, "error": "channel_not_found" }));
    assert_eq!(fixture.write(&[private()]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_channel_that_became_private_where_the_app_sees_it_keeps_what_was_said_before_and_after() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.slack.change(TOKEN, |workspace| workspace.channels[0]["is_private"] = true.into());
    fixture.clock.advance(LATER);
    let late = message(CHANNEL, USER, "1700000005.000100");
    let after = event::with(message(CHANNEL, USER, "1700000006.000100"), [("channel_type", "group".into())]);
    assert_eq!(fixture.write(&[late, after]).await, [JobOutcome::Done, JobOutcome::Done]);
    assert_eq!(fixture.index(&[happened("channel_archive", CHANNEL)]).await, [JobOutcome::Done]);
    let messages = fixture.rows().iter().filter(|row| row.key.item_id.starts_with("message#")).count();
    assert_eq!(messages, 3);
}

#[tokio::test]
async fn private_channels_that_never_were_public_cost_no_questions() {
    let fixture = ExistenceCheckFixture::new().await;
    let private = event::with(message("C0SECRET", USER, TS), [("channel_type", "group".into())]);
    let reaction = event::reaction_added("C0SECRET", TS, USER, "eyes", "1700000003.000000");
    assert_eq!(fixture.write(&[private, reaction]).await, [JobOutcome::Done, JobOutcome::Done]);
    assert_eq!((fixture.asked(), fixture.rows().len()), (0, 0));
}

#[tokio::test]
async fn the_event_of_a_person_who_left_is_stored_if_the_archive_knows_them() {
    let fixture = ExistenceCheckFixture::new().await;
    let here = event::user_change(USER, "ada", TS);
    assert_eq!(fixture.write(&[here]).await, [JobOutcome::Done]);
    fixture.slack.change(TOKEN, |workspace| workspace.members.clear());
    fixture.clock.advance(LATER);
    let mut gone = event::user_change(USER, "ada", "1700000400.000000");
    gone["user"]["deleted"] = true.into();
    assert_eq!(fixture.write(&[gone]).await, [JobOutcome::Done]);
    reason(&fixture.write(&[message(CHANNEL, USER, TS)]).await[0]);
}

#[tokio::test]
async fn slackbot_bots_and_messages_without_an_author_are_judged_by_what_they_name() {
    let fixture = ExistenceCheckFixture::new().await;
    let mut nobodys = event::message("1700000003.000100", USER, "no author");
    nobodys.as_object_mut().unwrap().remove("user");
    let outcomes = fixture
        .write(&[
            message(CHANNEL, "USLACKBOT", TS),
            event::posted(CHANNEL, &event::bot_message("1700000001.000100", "B0DEPLOY", "deploy", "done")),
            event::posted(CHANNEL, &nobodys),
            event::emoji_added("party", "https://emoji.slack-edge.com/T1/party/1.png", TS),
        ])
        .await;
    assert_eq!(outcomes, vec![JobOutcome::Done; 4]);
    assert_eq!((fixture.slack.called("users.info"), fixture.slack.called("bots.info")), (0, 1));
}

#[tokio::test]
async fn the_end_of_the_token_is_noted_although_slack_answers_nothing_after_it() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    fixture.slack.next("team.info", (0..9).map(|_| refusal("account_inactive")));
    let gone = [
        json!({ "type": "tokens_revoked", "tokens": { "bot": ["U0BOT"] }, "event_ts": TS }),
        json!({ "type": "app_uninstalled", "event_ts": TS }),
    ];
    assert_eq!(fixture.index(&gone).await, [JobOutcome::Done, JobOutcome::Done]);
    let gaps = fixture.rows().into_iter().filter(|row| row.key.item_id.starts_with("gap#")).count();
    assert!(gaps > 0, "no gap was noted");
}
