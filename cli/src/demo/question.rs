//! A question to the responder, which the archive's own search answers.

use fake_slack::{FakeWorkspace, event};
use ports::clock::SharedClock;
use reader::range::ts_from_micros;
use serde_json::json;

use super::play::DemoPlayer;
use super::week::{BOT, DeliveryKind, DemoRequest, TEAM};

/// The person who asks, and the channel.
const ASKER: &str = "U0ANA";
const CHANNEL: &str = "C0GENERAL";

pub(super) const QUESTION: &str = "search release";

/// Posts the question in a message that mentions the app.
pub(super) async fn ask(slack: &DemoPlayer, clock: &SharedClock) -> anyhow::Result<()> {
    let ts = ts_from_micros(clock.now().0 * 1_000);
    let text = format!("<@{BOT}> {QUESTION}");
    let message = json!({ "type": "message", "user": ASKER, "text": text, "ts": ts.as_str(), "team": TEAM });
    let event = event::posted(CHANNEL, &message);
    let request =
        DemoRequest { kind: DeliveryKind::Event, body: event::envelope(TEAM, "EvQUESTION", &event) };
    slack.play(&[request], 1).await?;
    Ok(())
}

/// Returns the app's newest answer.
pub(super) fn answer(workspace: &FakeWorkspace) -> Option<String> {
    let posted = workspace.posted_in(CHANNEL).pop()?;
    Some(posted["text"].as_str()?.to_owned())
}
