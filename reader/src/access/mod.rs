//! Who reads the archive, and what they see of it.
//!
//! A [`Reader`] is made once for each request. [`VisibleArchive`] is the archive that this reader gets: it does
//! not have the channels that their [`Sight`] hides.

mod private;
mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slack::ids::{ChannelId, TeamId, UserId};

pub use private::{MembershipCounts, PrivateChannels};
pub use visible::VisibleArchive;

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The name by which logs call the reader: an id, or the name that a proxy or provider gives.
    pub label: String,
    /// How the reader was recognised.
    pub via: Via,
    /// The person in Slack, if it is known.
    pub person: Option<(TeamId, UserId)>,
    /// What the reader sees.
    pub sight: Sight,
}

/// How a reader was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// By nothing: everyone who reaches the listener is the operator.
    Open,
    Password,
    /// By a header of a proxy.
    Header,
    /// By the session of a sign-in.
    Session,
    Token,
}

impl Via {
    /// Its name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Password => "password",
            Self::Header => "header",
            Self::Session => "session",
            Self::Token => "token",
        }
    }
}

impl Reader {
    /// The key under which the calls of this reader are counted: a token or a person counts alone, all others
    /// together.
    pub fn counted_as(&self) -> String {
        match (&self.person, self.via) {
            (Some((team, user)), _) => format!("{team}/{user}"),
            (None, Via::Token | Via::Header | Via::Session) => {
                format!("{} {}", self.via.as_str(), self.label)
            }
            (None, Via::Open | Via::Password) => String::new(),
        }
    }
}

/// What a reader sees of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sight {
    Everything,
    /// Everything but these channels.
    Without(Arc<HiddenChannels>),
}

/// The channels that a reader does not see, under every id and in every workspace that they have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HiddenChannels(BTreeMap<TeamId, BTreeSet<ChannelId>>);

impl HiddenChannels {
    pub fn contains(&self, team: &TeamId, channel: &ChannelId) -> bool {
        self.0.get(team).is_some_and(|channels| channels.contains(channel))
    }

    /// The hidden channels, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&TeamId, &ChannelId)> {
        self.0.iter().flat_map(|(team, channels)| channels.iter().map(move |channel| (team, channel)))
    }

    /// Whether no channel is hidden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(TeamId, ChannelId)> for HiddenChannels {
    fn from_iter<I: IntoIterator<Item = (TeamId, ChannelId)>>(channels: I) -> Self {
        let mut hidden = Self::default();
        for (team, channel) in channels {
            hidden.0.entry(team).or_default().insert(channel);
        }
        hidden
    }
}

impl Sight {
    /// The hidden channels; `None` for a reader who sees everything.
    pub fn hidden(&self) -> Option<&Arc<HiddenChannels>> {
        match self {
            Self::Everything => None,
            Self::Without(hidden) => Some(hidden),
        }
    }
}
