//! Events that an attacker with the signing secret could sign: invented entities get no row.

use std::slice::from_ref;
use std::time::Duration;

use ports::clock::TimestampMs;
use ports::queue::Delivery;
use ports::queue::waiting::WaitCause;
use serde_json::{Value, json};
use slack_api::{BotToken, Tokens};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::{self, FakeWorkspace, START_S, tokens};
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{
    CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, aside, channel_event, created, jobs, message, reason,
    waits,
};
use testkit::deliveries::delivery;

/// The app's own user, as the envelopes of the corpus name it.
const APP: &str = "U0ANNALIST";

/// Events for the message-writer, each with an entity that Slack does not know.
fn invented() -> Vec<(Value, &'static str)> {
    let real = event::message(TS, USER, "real");
    let edit = event::edited(&real, "1700000009.000000", "edited");
    let by_nobody = event::with_fields(edit.clone(), [("user", "U0NOBODY".into())]);
    let later = "1700000009.000000";
    vec![
        (message(CHANNEL, "U0NOBODY", TS), "user U0NOBODY"),
        (message("C0NOWHERE", USER, TS), "channel C0NOWHERE"),
        (event::changed(CHANNEL, &real, &by_nobody, later), "user U0NOBODY"),
        (event::changed(CHANNEL, &by_nobody, &edit, later), "user U0NOBODY"),
        (event::deleted(CHANNEL, &by_nobody, later), "user U0NOBODY"),
        (event::replied(CHANNEL, &by_nobody, later, later), "user U0NOBODY"),
        (event::posted(CHANNEL, &event::bot_message(TS, "B0NOBODY", "bot", "hi")), "bot B0NOBODY"),
        (event::user_change("U0NOBODY", "invented", TS), "user U0NOBODY"),
        (event::team_join("U0NOBODY", "invented", TS), "user U0NOBODY"),
        // A real subtype does not make the channel real.
        (
            event::with_fields(
                message("C0NOWHERE", USER, TS),
                [("subtype", "channel_convert_to_private".into()), ("channel_type", "group".into())],
            ),
            "channel C0NOWHERE",
        ),
    ]
}

#[tokio::test]
async fn an_event_of_an_invented_person_bot_or_channel_is_quarantined_and_writes_no_row() {
    for (forged, expected) in invented() {
        let fixture = ExistenceCheckFixture::new().await;
        let outcomes = fixture.write(from_ref(&forged)).await;
        let why = reason(&outcomes[0]);
        assert!(why.contains(expected) && why.contains("not_found"), "{forged}: {why}");
        assert!(!why.contains('\n') && why.contains("replay"), "{why}");
        assert_eq!(fixture.rows(), [], "{forged}");
        assert!(fixture.table.rows().is_empty(), "{forged}");
    }
}

#[tokio::test]
async fn an_event_of_an_invented_workspace_is_set_aside_and_says_how_to_add_it() {
    for tokens in [fake_slack::one_token(TOKEN), tokens(&[(TEAM, TOKEN)])] {
        let fixture = ExistenceCheckFixture::with(None, tokens).await;
        let body = event::envelope("T0NOWHERE", "Ev1", &message(CHANNEL, USER, TS));
        let outcomes = fixture.writer.handle(&[delivery(&body)]).await;
        let (cause, why) = aside(&outcomes[0]);
        assert!(why.contains("T0NOWHERE") && why.contains("SLACK_BOT_TOKENS_FILE"), "{why}");
        assert!(matches!(cause, WaitCause::NoToken | WaitCause::Token), "{cause}");
        let minute = json!({ "type": "app_rate_limited", "team_id": "T0NOWHERE",
            "minute_rate_limited": 1_700_000_040, "api_app_id": "A1" });
        let outcomes = fixture.indexer.handle(&[delivery(&minute.to_string())]).await;
        assert!(aside(&outcomes[0]).1.contains("T0NOWHERE"));
        assert_eq!(fixture.rows(), []);
    }
}

#[tokio::test]
async fn an_invented_channel_gets_no_row_from_any_channel_event() {
    for forged in [
        channel_event("channel_deleted", "C0NOWHERE"),
        channel_event("channel_archive", "C0NOWHERE"),
        json!({ "type": "channel_rename", "channel": { "id": "C0NOWHERE", "name": "x" }, "event_ts": TS }),
        json!({ "type": "channel_id_changed", "old_channel_id": CHANNEL, "new_channel_id": "C0NOWHERE",
            "event_ts": TS }),
    ] {
        let fixture = ExistenceCheckFixture::new().await;
        // The real channel is confirmed, which must not admit an invented one.
        assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
        let before = fixture.rows();
        let outcomes = fixture.index(from_ref(&forged)).await;
        assert!(reason(&outcomes[0]).contains("channel C0NOWHERE"), "{forged}");
        assert_eq!(fixture.rows(), before, "{forged}");
    }
}

#[tokio::test]
async fn a_new_channel_may_be_unknown_for_a_minute_and_no_longer() {
    let fixture = ExistenceCheckFixture::new().await;
    let outcomes = fixture.index(&[created("C0NEW")]).await;
    assert!(waits(&outcomes[0]), "{outcomes:?}");
    fixture.clock.advance(Duration::from_secs(61));
    let outcomes = fixture.index(&[created("C0NEW")]).await;
    assert!(reason(&outcomes[0]).contains("channel C0NEW"));
    assert_eq!(fixture.rows(), []);
}

#[tokio::test]
async fn an_id_that_slack_could_not_have_made_costs_no_call() {
    let fixture = ExistenceCheckFixture::new().await;
    for hostile in ["u0ada", "U0ADA#C1", "U/../X"] {
        let outcomes = fixture.write(&[message(CHANNEL, hostile, TS)]).await;
        assert!(reason(&outcomes[0]).contains("shape"), "{outcomes:?}");
    }
    assert_eq!((fixture.lookup_calls(), fixture.rows().len()), (0, 0));
}

#[tokio::test]
async fn a_forged_event_does_not_open_its_channel_for_later_events() {
    let fixture = ExistenceCheckFixture::new().await;
    let private = event::with_fields(
        message("C0SECRET", USER, "1700000002.000100"),
        [("channel_type", "group".into())],
    );
    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.push(fake_slack::channel("C0SECRET", "secret"));
    });
    // It claims that a private channel is public, in the name of an invented person.
    let outcomes = fixture.write(&[message("C0SECRET", "U0NOBODY", TS), private]).await;
    assert!(reason(&outcomes[0]).contains("U0NOBODY"));
    assert_eq!(outcomes[1], JobOutcome::Done, "dropped");
    assert_eq!(fixture.rows(), []);
}

/// Adds a private channel that Slack shows the app, as after an invitation.
fn add_private_channel(fixture: &ExistenceCheckFixture) {
    let secret = event::with_fields(fake_slack::channel("C0SECRET", "secret"), [("is_private", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(secret));
}

/// A message as Slack sends it from a private channel.
fn private_message(ts: &str) -> Value {
    event::with_fields(message("C0SECRET", USER, ts), [("channel_type", "group".into())])
}

#[tokio::test]
async fn no_event_opens_a_private_channel_by_calling_it_public() {
    let converted =
        event::with_fields(private_message(TS), [("subtype", "channel_convert_to_private".into())]);
    for forged in [message("C0SECRET", USER, TS), converted] {
        let fixture = ExistenceCheckFixture::new().await;
        add_private_channel(&fixture);
        let outcomes = fixture.write(&[forged.clone(), private_message("1700000001.000100")]).await;
        let why = reason(&outcomes[0]);
        assert!(why.contains("C0SECRET") && why.contains("as private"), "{forged}: {why}");
        assert_eq!(outcomes[1], JobOutcome::Done, "dropped");
        // The same in a process that has only the shared cache.
        let outcomes = fixture.another().handle(&jobs(from_ref(&forged))).await;
        assert!(reason(&outcomes[0]).contains("as private"), "{forged}");
        assert_eq!((fixture.rows(), fixture.table.rows().len()), (vec![], 0), "{forged}");
    }
    for forged in [created("C0SECRET"), channel_event("channel_archive", "C0SECRET")] {
        let fixture = ExistenceCheckFixture::new().await;
        add_private_channel(&fixture);
        assert!(reason(&fixture.index(from_ref(&forged)).await[0]).contains("as private"), "{forged}");
        assert_eq!(fixture.rows(), [], "{forged}");
    }
}

#[tokio::test]
async fn a_join_of_the_app_to_a_private_or_invented_channel_is_not_stored() {
    let joined = |channel: &str, user: &str, letter: Option<&str>| {
        json!({ "type": "member_joined_channel", "channel": channel, "user": user, "channel_type": letter,
            "event_ts": TS })
    };
    let fixture = ExistenceCheckFixture::new().await;
    add_private_channel(&fixture);
    fixture
        .slack
        .change_workspace(TOKEN, |workspace| workspace.members.push(fake_slack::person(APP, "annalist")));
    for letter in [Some("C"), Some("c"), None] {
        for (channel, expected) in [("C0SECRET", "as private"), ("C0NOWHERE", "channel C0NOWHERE")] {
            let forged = joined(channel, APP, letter);
            let outcomes = fixture.index(from_ref(&forged)).await;
            assert!(reason(&outcomes[0]).contains(expected), "{forged}: {outcomes:?}");
        }
    }
    let private = joined("C0SECRET", APP, Some("G"));
    assert_eq!(fixture.index(&[private]).await, [JobOutcome::Done], "dropped");
    assert_eq!(fixture.rows(), []);

    let real = joined(CHANNEL, APP, Some("C"));
    assert_eq!(fixture.index(&[real]).await, [JobOutcome::Done]);
    assert!(fixture.rows().iter().any(|row| row.key.item_id == format!("meta#{TEAM}#joined#{CHANNEL}")));
}

#[tokio::test]
async fn a_reaction_writes_only_to_the_channel_that_is_checked() {
    let reaction = event::reaction_added(CHANNEL, TS, USER, "eyes", TS);
    for other in ["C0NOWHERE", "C0SECRET", "C0RANDOM"] {
        let on = |channel: &str| {
            let item = json!({ "type": "message", "channel": channel, "ts": TS });
            event::with_fields(reaction.clone(), [("item", item), ("channel_type", "channel".into())])
        };
        let fixture = ExistenceCheckFixture::new().await;
        add_private_channel(&fixture);
        let stated = event::with_fields(on(other), [("channel", CHANNEL.into())]);
        assert!(reason(&fixture.write(&[stated]).await[0]).contains("two channels"), "{other}");
        let outcomes = fixture.write(&[on(other)]).await;
        // Only the channel that is real and public is accepted.
        assert_eq!(outcomes[0] == JobOutcome::Done, other == "C0RANDOM", "{other}: {outcomes:?}");
        assert_eq!(fixture.rows().is_empty(), other != "C0RANDOM", "{other}");
    }
    let fixture = ExistenceCheckFixture::new().await;
    let same =
        event::with_fields(reaction, [("channel", CHANNEL.into()), ("channel_type", "channel".into())]);
    assert_eq!(fixture.write(&[same]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn an_event_from_the_future_is_quarantined_before_it_writes_anything() {
    let far = "999999999999.999999";
    let real = event::message(TS, USER, "real");
    let sent = |event: &Value| Delivery {
        sent_at: TimestampMs(START_S * 1_000),
        ..delivery(&event::envelope(TEAM, "Ev1", event))
    };
    let fixture = ExistenceCheckFixture::new().await;
    for forged in [
        event::user_change(USER, "pwned", far),
        event::reaction_removed(CHANNEL, TS, USER, "eyes", far),
        message(CHANNEL, USER, far),
        event::changed(CHANNEL, &real, &event::edited(&real, far, "forged"), "1700000001.000000"),
    ] {
        let outcomes = fixture.writer.handle(&[sent(&forged)]).await;
        assert!(reason(&outcomes[0]).contains("later than the event itself came"), "{forged}: {outcomes:?}");
    }
    let renamed =
        json!({ "type": "channel_rename", "channel": { "id": CHANNEL, "name": "pwned" }, "event_ts": far });
    let outcomes = fixture.indexer.handle(&[sent(&renamed)]).await;
    assert!(reason(&outcomes[0]).contains("event_ts 999999999999.999999"), "{outcomes:?}");
    assert_eq!((fixture.lookup_calls(), fixture.rows()), (0, vec![]));
    // A later replay is accepted, so a wrong local clock loses nothing.
    let early = sent(&message(CHANNEL, USER, "1700000400.000000"));
    let replayed = Delivery { sent_at: TimestampMs((START_S + 400) * 1_000), ..early.clone() };
    reason(&fixture.writer.handle(&[early]).await[0]);
    assert_eq!(fixture.writer.handle(&[replayed]).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn real_events_are_stored_even_if_others_in_the_batch_are_forged() {
    let fixture = ExistenceCheckFixture::new().await;
    let outcomes = fixture
        .write(&[
            message(CHANNEL, USER, TS),
            message(CHANNEL, "U0NOBODY", "1700000001.000100"),
            message(CHANNEL, "U0BOB", "1700000002.000100"),
            event::reaction_added(CHANNEL, TS, "U0BOB", "eyes", "1700000003.000000"),
        ])
        .await;
    reason(&outcomes[1]);
    assert_eq!([&outcomes[0], &outcomes[2], &outcomes[3]], [&JobOutcome::Done; 3]);
    let rows = fixture.rows();
    let messages = rows.iter().filter(|row| row.key.item_id.starts_with("message#")).count();
    assert_eq!(messages, 2, "{rows:?}");
}

#[tokio::test]
async fn a_token_of_another_workspace_confirms_nothing() {
    let tokens = Tokens::one(BotToken::parse("xoxb-2").unwrap());
    let fixture = ExistenceCheckFixture::with(None, tokens).await;
    fixture.slack.set_workspace("xoxb-2", FakeWorkspace::new("T2"));
    let outcomes = fixture.write(&[message(CHANNEL, USER, TS)]).await;
    let (cause, why) = aside(&outcomes[0]);
    assert!(cause == WaitCause::NoToken && why.contains(TEAM), "{cause}: {why}");
    assert_eq!(fixture.rows(), []);
}
