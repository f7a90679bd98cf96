//! Events that are accepted although Slack does not confirm them.

use std::slice::from_ref;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::corpus::event::{EnvelopeShape, PARTNER};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{channel, refusal};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{
    CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, channel_event, created, message, reason, waits,
};
use testkit::deliveries::delivery;

/// Long enough for all confirmations to expire.
const LATER: Duration = Duration::from_secs(301);

/// The envelope of an event in a channel that is shared with another workspace.
fn shared_envelope(event: &Value) -> String {
    let mut body: Value = serde_json::from_str(&event::envelope(TEAM, "EvShared", event)).unwrap();
    body["is_ext_shared_channel"] = true.into();
    body.to_string()
}

#[tokio::test]
async fn late_events_of_a_deleted_channel_that_the_archive_knows_are_stored() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture
        .slack
        .change_workspace(TOKEN, |workspace| workspace.channels.retain(|listed| listed["id"] != CHANNEL));
    fixture.clock.advance(LATER);
    let late = message(CHANNEL, USER, "1700000005.000100");
    assert_eq!(fixture.write(&[late]).await, [JobOutcome::Done]);
    let ended = [channel_event("channel_archive", CHANNEL), channel_event("channel_deleted", CHANNEL)];
    assert_eq!(fixture.index(&ended).await, [JobOutcome::Done, JobOutcome::Done]);
    // The person is still checked.
    let forged = message(CHANNEL, "U0NOBODY", "1700000006.000100");
    reason(&fixture.write(&[forged]).await[0]);
}

#[tokio::test]
async fn a_channel_continues_under_a_new_id_when_slack_no_longer_knows_the_old_one() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.retain(|listed| listed["id"] != CHANNEL);
        workspace.channels.push(channel("C0LATER", "general"));
    });
    fixture.clock.advance(LATER);
    let id_change = json!({ "type": "channel_id_changed", "old_channel_id": CHANNEL,
        "new_channel_id": "C0LATER", "event_ts": TS });
    assert_eq!(fixture.write(from_ref(&id_change)).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(&[id_change]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_new_channel_that_slack_shows_a_moment_later_is_kept() {
    let fixture = ExistenceCheckFixture::new().await;
    assert!(waits(&fixture.index(&[created("C0NEW")]).await[0]));
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(channel("C0NEW", "new")));
    fixture.clock.advance(Duration::from_secs(6));
    assert_eq!(fixture.index(&[created("C0NEW")]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn people_of_another_workspace_may_write_if_slack_reports_the_channel_as_shared() {
    let fixture = ExistenceCheckFixture::new().await;
    let shared = event::with_fields(channel("C0SHARED", "partners"), [("is_ext_shared", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(shared));
    let stranger = |channel: &str| {
        event::with_fields(message(channel, "U9STRANGER", TS), [("user_team", "T9PARTNER".into())])
    };
    let reaction = event::reaction_added("C0SHARED", TS, "U9OTHER", "eyes", "1700000003.000000");
    for payload in [stranger("C0SHARED"), reaction] {
        let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&payload))]).await;
        assert_eq!(outcomes, [JobOutcome::Done], "{payload}");
    }
    assert_eq!(fixture.slack.call_count("users.info"), 0, "Slack cannot confirm them");

    // The envelope alone does not make another channel shared.
    let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&stranger(CHANNEL)))]).await;
    assert!(reason(&outcomes[0]).contains("U9STRANGER"));
    // In a shared channel, the workspace's own people are still checked.
    let own = event::with_fields(message("C0SHARED", "U0NOBODY", TS), [("user_team", TEAM.into())]);
    let outcomes = fixture.writer.handle(&[delivery(&shared_envelope(&own))]).await;
    assert!(reason(&outcomes[0]).contains("U0NOBODY"));
}

#[tokio::test]
async fn both_sides_of_a_shared_channel_are_stored_in_the_workspace_of_the_installation() {
    let fixture = ExistenceCheckFixture::new().await;
    let shared = event::with_fields(channel("C0SHARED", "partners"), [("is_ext_shared", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(shared));
    let mut written = 0;
    for shape in EnvelopeShape::ALL {
        let by = |user: &str, team: &str, micros: usize| {
            event::with_fields(
                message("C0SHARED", user, &format!("1700000000.{micros:06}")),
                [("team", team.into())],
            )
        };
        // Slack names the author's workspace in one field, in three, or in none.
        let theirs = event::with_fields(
            by("U0PARTNER1", PARTNER, written + 2),
            [("user_team", PARTNER.into()), ("source_team", PARTNER.into())],
        );
        let events = [by(USER, TEAM, written + 1), theirs, by("U0PARTNER2", PARTNER, written + 3)];
        let jobs = events.map(|event| delivery(&shape.apply(&event::envelope(TEAM, "EvShared", &event))));
        assert_eq!(fixture.writer.handle(&jobs).await, [const { JobOutcome::Done }; 3], "{shape:?}");
        written += 3;
    }
    let rows = fixture.rows();
    let stored = rows.iter().filter(|row| row.key.item_id == format!("message#{TEAM}#C0SHARED"));
    assert_eq!(stored.count(), written);
    assert!(!rows.iter().any(|row| row.key.item_id.contains(PARTNER)), "{rows:?}");
    // People of the partner are only believed in its channels.
    let forged = event::with_fields(message(CHANNEL, "U0PARTNER1", TS), [("team", PARTNER.into())]);
    let forged = EnvelopeShape::Partner.apply(&event::envelope(TEAM, "EvForged", &forged));
    assert!(reason(&fixture.writer.handle(&[delivery(&forged)]).await[0]).contains("U0PARTNER1"));
}

#[tokio::test]
async fn the_row_of_a_channel_that_slack_no_longer_knows_shows_whether_it_was_shared() {
    for was_shared in [false, true] {
        let fixture = ExistenceCheckFixture::new().await;
        let kind = if was_shared { "channel_shared" } else { "channel_unarchive" };
        let sharing_event =
            event::with_fields(channel_event(kind, CHANNEL), [("connected_team_id", "T9PARTNER".into())]);
        assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
        assert_eq!(fixture.index(&[sharing_event]).await, [JobOutcome::Done]);
        fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.clear());
        fixture.clock.advance(LATER);
        let stranger = event::with_fields(
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
async fn a_channel_that_became_private_and_invisible_to_the_app_is_kept() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    let private = || {
        event::with_fields(message(CHANNEL, USER, "1700000005.000100"), [("channel_type", "group".into())])
    };
    let no_scope = json!({ "ok": false, "error": "missing_scope", "needed": "groups:read", "provided": "" });
    fixture.slack.refuse("conversations.info", no_scope);
    assert_eq!(fixture.write(&[private()]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    fixture.slack.refuse("conversations.info", json!({ "ok": false, "error": "channel_not_found" }));
    assert_eq!(fixture.write(&[private()]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_channel_that_became_private_and_visible_to_the_app_keeps_old_and_new_messages() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels[0]["is_private"] = true.into());
    fixture.clock.advance(LATER);
    let late = message(CHANNEL, USER, "1700000005.000100");
    let after =
        event::with_fields(message(CHANNEL, USER, "1700000006.000100"), [("channel_type", "group".into())]);
    assert_eq!(fixture.write(&[late, after]).await, [JobOutcome::Done, JobOutcome::Done]);
    assert_eq!(fixture.index(&[channel_event("channel_archive", CHANNEL)]).await, [JobOutcome::Done]);
    let messages = fixture.rows().iter().filter(|row| row.key.item_id.starts_with("message#")).count();
    assert_eq!(messages, 3);
}

#[tokio::test]
async fn private_channels_that_never_were_public_cost_no_calls() {
    let fixture = ExistenceCheckFixture::new().await;
    let private = event::with_fields(message("C0SECRET", USER, TS), [("channel_type", "group".into())]);
    let reaction = event::reaction_added("C0SECRET", TS, USER, "eyes", "1700000003.000000");
    assert_eq!(fixture.write(&[private, reaction]).await, [JobOutcome::Done, JobOutcome::Done]);
    assert_eq!((fixture.lookup_calls(), fixture.rows().len()), (0, 0));
}

#[tokio::test]
async fn the_event_of_a_person_who_left_is_stored_if_the_archive_knows_them() {
    let fixture = ExistenceCheckFixture::new().await;
    let here = event::user_change(USER, "ada", TS);
    assert_eq!(fixture.write(&[here]).await, [JobOutcome::Done]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.members.clear());
    fixture.clock.advance(LATER);
    let mut gone = event::user_change(USER, "ada", "1700000400.000000");
    gone["user"]["deleted"] = true.into();
    assert_eq!(fixture.write(&[gone]).await, [JobOutcome::Done]);
    reason(&fixture.write(&[message(CHANNEL, USER, TS)]).await[0]);
}

#[tokio::test]
async fn slackbot_bots_and_messages_without_an_author_are_checked_by_the_ids_they_contain() {
    let fixture = ExistenceCheckFixture::new().await;
    let mut authorless = event::message("1700000003.000100", USER, "no author");
    authorless.as_object_mut().unwrap().remove("user");
    let outcomes = fixture
        .write(&[
            message(CHANNEL, "USLACKBOT", TS),
            event::posted(CHANNEL, &event::bot_message("1700000001.000100", "B0DEPLOY", "deploy", "done")),
            event::posted(CHANNEL, &authorless),
            event::emoji_added("party", "https://emoji.slack-edge.com/T1/party/1.png", TS),
        ])
        .await;
    assert_eq!(outcomes, vec![JobOutcome::Done; 4]);
    assert_eq!((fixture.slack.call_count("users.info"), fixture.slack.call_count("bots.info")), (0, 1));
    let rows = fixture.rows();
    let bots = rows.iter().filter(|row| row.key.item_id.starts_with("bot#"));
    let names: Vec<_> = bots.map(|row| (row.key.timestamp.as_str(), row.text("name").unwrap())).collect();
    assert_eq!(names, [("B0DEPLOY", "a bot")], "the answer about a bot has its name");
}

#[tokio::test]
async fn a_revoked_token_is_stored_as_a_gap_although_slack_refuses_every_call() {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    fixture.clock.advance(LATER);
    fixture.slack.plan_answers("team.info", (0..9).map(|_| refusal("account_inactive")));
    let gone = [
        json!({ "type": "tokens_revoked", "tokens": { "bot": ["U0BOT"] }, "event_ts": TS }),
        json!({ "type": "app_uninstalled", "event_ts": TS }),
    ];
    assert_eq!(fixture.index(&gone).await, [JobOutcome::Done, JobOutcome::Done]);
    let gaps = fixture.rows().into_iter().filter(|row| row.key.item_id.starts_with("gap#")).count();
    assert!(gaps > 0, "no gap was noted");
}
