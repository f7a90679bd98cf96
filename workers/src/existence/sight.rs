//! Whether channels are public, for events that do not say so themselves.

use std::collections::{BTreeMap, HashMap};

use ports::clock::TimestampMs;
use rules::audience::Sight;
use slack::ids::{ChannelId, TeamId};
use tokio::time::Instant;

use super::ask::NO_GROUPS;
use super::entity::Entity;
use super::known::{Demand, Knowledge};
use super::weigh::{Fact, why_missing, why_unsaid};
use super::{Check, PATIENCE, Questions};

/// The channels that are asked about, each with when its event came and whether it was replayed.
pub(crate) type Unseen = BTreeMap<(TeamId, ChannelId), (TimestampMs, bool)>;

impl Check {
    /// Asks who may read these channels, and waits no longer than for a batch.
    pub(crate) async fn look_at(&self, channels: Unseen) -> HashMap<(TeamId, ChannelId), Sight> {
        let deadline = Instant::now() + PATIENCE;
        let mut sights = HashMap::new();
        let mut questions = Questions::new();
        for ((team, channel), (sent_at, replayed)) in channels {
            let entity = Entity::Channel(team.clone(), channel.clone());
            let demand = Demand { sent_at, replayed, newborn: false, former: false };
            match self.0.known.answer(&entity, &demand) {
                Some(Knowledge::Found { reach: Some(reach), .. }) => {
                    sights.insert((team, channel), sight(&entity, Fact::Found { reach: Some(reach) }));
                }
                Some(_) | None => {
                    questions.insert(entity, demand);
                }
            }
        }
        for (entity, fact) in self.find_out(questions, deadline).await {
            let sight = sight(&entity, fact);
            if let Entity::Channel(team, channel) = entity {
                sights.insert((team, channel), sight);
            }
        }
        sights
    }
}

fn sight(channel: &Entity, fact: Fact) -> Sight {
    match fact {
        Fact::Found { reach: Some(reach) } if reach.private => Sight::Private,
        Fact::Found { reach: Some(_) } => Sight::Public,
        Fact::Found { reach: None } | Fact::Later { .. } => Sight::Later,
        // The app may not see it: it is private.
        Fact::Missing(code) if code == NO_GROUPS => Sight::Private,
        Fact::Missing(code) => Sight::Unknown(why_missing(channel, &code)),
        Fact::Unsaid(why) => Sight::Unknown(why_unsaid(channel, &why)),
    }
}
