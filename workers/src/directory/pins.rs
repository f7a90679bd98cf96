//! The pins of the channels that the app is in. <https://docs.slack.dev/reference/methods/pins.list>
//!
//! Slack lists the pins of one channel per call, so each channel is asked about once, and again after the app
//! was away from it: meanwhile no event reported a pin. A listed pin has clock 0, so every event wins over it.

use std::collections::HashSet;

use ports::archive::{Guard, ItemKey, Query, Update, key, query_all};
use rules::pin;
use serde::Deserialize;
use serde_json::Value;
use slack::ids::{ChannelId, Ts};
use slack_api::{ApiError, Method};

use super::sync::{MISSING_SCOPE, write};
use super::{DirectorySync, SyncError, SyncReport};

/// Maximum number of channels per sync: as many calls as the rate limit of the method permits at once. The
/// next sync continues with the others.
const MAX_CHANNELS: usize = 20;

/// Maximum number of pins read from one answer. Slack permits 100 in a channel.
const MAX_PINS: usize = 1_000;

/// The register of a channel: when its pins were listed, or when the app was found to be away.
const STATE: &str = "state";
const LISTED: &str = "listed";
const AWAY: &str = "away";

#[derive(Deserialize)]
struct ListedPins {
    items: Vec<Value>,
}

impl DirectorySync {
    /// Lists the pins of channels that were not asked about since the app joined them.
    pub(super) async fn sync_pins(&self, clock: &Ts, report: &SyncReport) -> Result<(), SyncError> {
        let team = &report.team;
        let rows = query_all(&*self.archive, Query::partition(key::pin_lists(team))).await?;
        let listed = rows.iter().filter(|row| row.text(STATE).is_some_and(|state| state.ends_with(LISTED)));
        let listed: HashSet<&str> = listed.map(|row| row.key.timestamp.as_str()).collect();
        let is_listed = |channel: &&ChannelId| listed.contains(channel.as_str());
        let state = |channel: &ChannelId, state: &str| Update {
            guard: Guard::Greater { register: STATE.into(), version: format!("{}/{state}", clock.padded()) },
            ..Update::new(ItemKey::pin_list(team, channel))
        };
        let away = report.to_join.iter().filter(is_listed).map(|channel| vec![state(channel, AWAY)]);
        write(&*self.archive, &away.collect::<Vec<_>>()).await?;
        for channel in report.joined.iter().filter(|channel| !is_listed(channel)).take(MAX_CHANNELS) {
            let items = match self.api.call(team, Method::PinsList, &[("channel", channel.as_str())]).await {
                Ok(reply) => reply.read::<ListedPins>().map(|pins| pins.items).unwrap_or_default(),
                Err(error @ ApiError::Refused { .. }) if error.refusal_code() == Some(MISSING_SCOPE) => {
                    return Err(error.into());
                }
                // Slack refuses this channel; another sync would be refused too.
                Err(ApiError::Refused { .. } | ApiError::Garbled { .. }) => Vec::new(),
                Err(error @ (ApiError::RateLimited { .. } | ApiError::Unreachable { .. })) => {
                    tracing::debug!(%team, %error, "pins are listed by the next sync");
                    return Ok(());
                }
                Err(error @ (ApiError::NoToken(_) | ApiError::WrongToken { .. })) => return Err(error.into()),
            };
            let pins = items.iter().take(MAX_PINS).filter_map(pin::in_list);
            let pins: Vec<Vec<Update>> =
                pins.map(|(ts, pin)| pin.updates(team, channel, &ts).into()).collect();
            write(&*self.archive, &pins).await?;
            // Only once the pins are stored.
            write(&*self.archive, &[vec![state(channel, LISTED)]]).await?;
        }
        Ok(())
    }
}
