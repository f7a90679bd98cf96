//! Channels that continue under another id, and public marks that were wrong.

use std::slice::from_ref;
use std::time::Duration;

use ports::archive::{Archive, ArchiveExt, Item, ItemKey};
use rules::public_mark::{self, MarkState};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::fake_slack::channel;
use workers::runtime::{JobOutcome, Worker};

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, channel_event, jobs, message, reason};

const LATER: &str = "1700000009.000000";

fn id_changed(old: &str, new: &str) -> Value {
    json!({ "type": "channel_id_changed", "old_channel_id": old, "new_channel_id": new, "event_ts": LATER })
}

fn private_message(channel: &str, ts: &str) -> Value {
    event::with_fields(message(channel, USER, ts), [("channel_type", "group".into())])
}

/// A fixture with a known public channel, and a private one that Slack shows the app.
async fn with_a_private_channel() -> ExistenceCheckFixture {
    let fixture = ExistenceCheckFixture::new().await;
    assert_eq!(fixture.write(&[message(CHANNEL, USER, TS)]).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(&[channel_event("channel_unarchive", CHANNEL)]).await, [JobOutcome::Done]);
    let secret = event::with_fields(channel("C0SECRET", "secret"), [("is_private", true.into())]);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(secret));
    fixture
}

fn remove_channel(fixture: &ExistenceCheckFixture, id: &str) {
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.retain(|listed| listed["id"] != id));
    fixture.clock.advance(Duration::from_millis(1));
}

fn mark(channel: &str) -> ItemKey {
    ItemKey::public_mark(&TeamId::parse(TEAM).unwrap(), &ChannelId::parse(channel).unwrap())
}

#[tokio::test]
async fn no_event_opens_a_private_channel_by_naming_it_as_the_new_id_of_a_public_one() {
    for old_is_gone in [false, true] {
        let fixture = with_a_private_channel().await;
        if old_is_gone {
            remove_channel(&fixture, CHANNEL);
        }
        let before = fixture.rows();
        let forged = id_changed(CHANNEL, "C0SECRET");
        for outcomes in [fixture.write(from_ref(&forged)).await, fixture.index(from_ref(&forged)).await] {
            let why = reason(&outcomes[0]);
            assert!(why.contains("C0SECRET") && why.contains("as private"), "{why}");
        }
        assert_eq!(fixture.write(&[private_message("C0SECRET", LATER)]).await, [JobOutcome::Done], "dropped");
        assert_eq!(fixture.rows(), before, "{old_is_gone}");
    }
}

#[tokio::test]
async fn a_channel_that_slack_still_shows_under_its_old_id_has_not_moved() {
    for new_is_public in [false, true] {
        let fixture = with_a_private_channel().await;
        if new_is_public {
            assert_eq!(fixture.write(&[message("C0RANDOM", USER, TS)]).await, [JobOutcome::Done]);
            assert_eq!(
                fixture.index(&[channel_event("channel_unarchive", "C0RANDOM")]).await,
                [JobOutcome::Done]
            );
        }
        let forged = id_changed(CHANNEL, "C0RANDOM");
        let before = fixture.rows();
        for outcomes in [fixture.write(from_ref(&forged)).await, fixture.index(from_ref(&forged)).await] {
            let why = reason(&outcomes[0]);
            assert!(why.contains(CHANNEL) && why.contains("still shows"), "{why}");
        }
        assert_eq!(fixture.rows(), before, "{new_is_public}");
    }
}

#[tokio::test]
async fn a_repeated_id_change_is_done() {
    let fixture = with_a_private_channel().await;
    remove_channel(&fixture, CHANNEL);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(channel("C0LATER", "general")));
    let moved = id_changed(CHANNEL, "C0LATER");
    // With each of Slack's answers, the channel is known to be public.
    let stored = || {
        let rows = fixture.rows().into_iter().map(|mut row| {
            row.attributes.remove("public_at");
            row
        });
        rows.collect::<Vec<_>>()
    };
    let mut rows = None;
    for _ in 0..2 {
        assert_eq!(fixture.write(from_ref(&moved)).await, [JobOutcome::Done]);
        assert_eq!(fixture.index(from_ref(&moved)).await, [JobOutcome::Done]);
        assert_eq!(*rows.get_or_insert_with(stored), stored());
        // The confirmations expire, and Slack is called again.
        fixture.clock.advance(Duration::from_secs(301));
    }
    // By then the archive also has messages under the new id.
    assert_eq!(fixture.write(&[message("C0LATER", USER, LATER)]).await, [JobOutcome::Done]);
    assert_eq!(fixture.write(from_ref(&moved)).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(from_ref(&moved)).await, [JobOutcome::Done]);
}

#[tokio::test]
async fn a_recent_confirmation_of_the_old_id_is_not_used() {
    let fixture = with_a_private_channel().await;
    remove_channel(&fixture, CHANNEL);
    fixture.slack.change_workspace(TOKEN, |workspace| workspace.channels.push(channel("C0LATER", "general")));
    let moved = id_changed(CHANNEL, "C0LATER");
    assert_eq!(fixture.write(from_ref(&moved)).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(from_ref(&moved)).await, [JobOutcome::Done]);
    assert_eq!(fixture.write(&[private_message("C0LATER", LATER)]).await, [JobOutcome::Done]);
    assert!(
        fixture
            .rows()
            .iter()
            .any(|row| row.key.item_id.ends_with("#C0LATER") && row.key.item_id.starts_with("message#"))
    );
}

#[tokio::test]
async fn a_private_channel_that_gets_another_id_is_not_asked_about() {
    let fixture = ExistenceCheckFixture::new().await;
    let moved = id_changed("C0SECRET", "C0HIDDEN");
    assert_eq!(fixture.write(from_ref(&moved)).await, [JobOutcome::Done]);
    assert_eq!(fixture.index(&[moved]).await, [JobOutcome::Done]);
    assert_eq!((fixture.rows(), fixture.lookup_calls()), (vec![], 0));
}

#[tokio::test]
async fn a_mark_that_a_person_took_back_confirms_nothing_until_slack_shows_the_channel_as_public() {
    let fixture = with_a_private_channel().await;
    // Rows of a private channel, as an earlier version wrote them.
    let opened = jobs(&[event::posted("C0SECRET", &event::message(TS, USER, "secret"))]);
    let unchecked =
        workers::message_writer::MessageWriter::new(fixture.archive.clone(), fixture.queue.clone());
    assert_eq!(unchecked.handle(&opened).await, [JobOutcome::Done]);
    let indexer = workers::channel_indexer::ChannelIndexer::new(fixture.archive.clone(), None);
    assert_eq!(
        indexer.handle(&jobs(&[channel_event("channel_unarchive", "C0SECRET")])).await,
        [JobOutcome::Done]
    );
    let (team, id) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C0SECRET").unwrap());
    let at = Ts::parse("1700000005.000000").unwrap();
    fixture.archive.write(&public_mark::withdrawal(&team, &id, &at)).await.unwrap();

    let before = fixture.rows();
    let claimed = message("C0SECRET", USER, LATER);
    assert!(reason(&fixture.write(from_ref(&claimed)).await[0]).contains("as private"));
    let archived = channel_event("channel_archive", "C0SECRET");
    assert!(reason(&fixture.index(&[archived]).await[0]).contains("as private"));
    let unshared = json!({ "type": "channel_unshared", "channel": "C0SECRET", "event_ts": LATER });
    assert_eq!(fixture.index(&[unshared]).await, [JobOutcome::Done], "dropped");
    let private = private_message("C0SECRET", "1700000010.000000");
    assert_eq!(fixture.write(from_ref(&private)).await, [JobOutcome::Done], "dropped");
    assert_eq!(fixture.rows(), before);

    fixture.slack.change_workspace(TOKEN, |workspace| {
        workspace.channels.last_mut().unwrap()["is_private"] = false.into()
    });
    fixture.clock.advance(Duration::from_secs(301));
    assert_eq!(fixture.write(&[claimed, private]).await, [JobOutcome::Done, JobOutcome::Done]);
    let row: Option<Item> = fixture.archive.get(&mark("C0SECRET")).await.unwrap();
    assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Public);
    let messages = |row: &&Item| row.key.item_id == format!("message#{TEAM}#C0SECRET");
    assert_eq!(fixture.rows().iter().filter(messages).count(), 3);
}
