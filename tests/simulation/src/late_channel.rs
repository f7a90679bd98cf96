//! A channel of which the fleet first hears during an outage of Slack. Its public message waits aside; only that
//! message shows that a private one after it is kept, so that one must wait behind it.

use std::time::Duration;

use testkit::corpus::{TEAM, event, ts, user_id};
use tokio::time::sleep;

use super::fleet::SimulationState;
use super::sender::SlackSender;

/// The channel. No other event names it.
const CHANNEL: &str = "C0LATE";

/// The event that opens it.
const OPENER: &str = "EvLateOpener";

/// The longest wait for the opener to be set aside. The private message is behind it on the queue anyway.
const MAX_SECONDS: u32 = 600;

/// Sends a public message of the channel, and a private one as soon as the public one waits aside. The check of the
/// final archive expects both. Before Slack can be asked, the channel is public again: a public message of a channel
/// that Slack shows as private may be forged, and is quarantined.
pub(super) async fn open(all: &SimulationState, sender: &SlackSender) {
    let message = |text: &str| {
        let clock = ts(all.world.true_now().0.saturating_mul(1_000));
        event::posted(CHANNEL, &event::message(&clock, &user_id(0), text))
    };
    let opener = message("the first of a late channel");
    sender.deliver_until_accepted(&event::envelope(TEAM, OPENER, &opener)).await;
    for _ in 0..MAX_SECONDS {
        sleep(Duration::from_secs(1)).await;
        if waits(all) {
            break;
        }
    }
    let private = event::with_fields(message("private by now"), [("channel_type", "group".into())]);
    sender.deliver_until_accepted(&event::envelope(TEAM, "EvLatePrivate", &private)).await;
    sleep(Duration::from_secs(1)).await;
    let opened =
        event::with_fields(message("public again"), [("subtype", "channel_convert_to_public".into())]);
    sender.deliver_until_accepted(&event::envelope(TEAM, "EvLateOpened", &opened)).await;
}

/// Whether the opener waits aside.
fn waits(all: &SimulationState) -> bool {
    all.archive.items().iter().any(|item| {
        item.key.item_id.starts_with("waiting#")
            && item.attributes.values().filter_map(|value| value.as_str()).any(|text| text.contains(OPENER))
    })
}
