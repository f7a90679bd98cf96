//! `--existence-check`.

use slack_api::Tokens;
use testkit::fake_slack::one_token;
use workers::admission::ExistenceMode;
use workers::runtime::JobOutcome;

use super::fixture::{CHANNEL, ExistenceCheckFixture, TOKEN, TS, USER, message};

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
