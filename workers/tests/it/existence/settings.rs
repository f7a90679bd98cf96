//! `--existence-check`.

use std::time::Duration;

use process::config::existence::ExistenceMode;
use slack_api::Tokens;
use testkit::fake_slack::{SlackAnswer, one_token};
use workers::runtime::JobOutcome;

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, message};

#[tokio::test(flavor = "multi_thread")]
async fn observe_mode_stores_everything_at_once_and_still_calls_slack() {
    let fixture = ExistenceCheckFixture::with(Some(ExistenceMode::Observe), one_token(TOKEN)).await;
    fixture.slack.plan_answers("users.info", [SlackAnswer::new(503).with_delay(Duration::from_secs(2))]);
    let events = [message(CHANNEL, "U0NOBODY", TS), message("C0NOWHERE", USER, TS)];
    let outcomes = fixture.write(&events).await;
    assert_eq!(outcomes, [JobOutcome::Done, JobOutcome::Done]);
    let messages = fixture.rows().iter().filter(|row| row.key.item_id.starts_with("message#")).count();
    assert_eq!(messages, 2);
    let called = async {
        while fixture.slack.call_count("users.info") == 0
            || fixture.slack.call_count("conversations.info") == 0
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), called).await.expect("Slack is not called")
}

#[tokio::test]
async fn a_disabled_check_does_not_call_slack() {
    let off = ExistenceCheckFixture::with(Some(ExistenceMode::Off), one_token(TOKEN)).await;
    let without_token = ExistenceCheckFixture::with(None, Tokens::empty()).await;
    for fixture in [off, without_token] {
        let events = [message(CHANNEL, "U0NOBODY", TS), message("C0NOWHERE", USER, TS)];
        assert_eq!(fixture.write(&events).await, [JobOutcome::Done, JobOutcome::Done]);
        assert_eq!((fixture.slack.calls().len(), fixture.table.looked_up()), (0, 0));
    }
}
