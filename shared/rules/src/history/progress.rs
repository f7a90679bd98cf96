//! How far the reading of a workspace's history is.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use serde_json::Value;
use slack::ids::{TeamId, Ts};

/// The row `meta#{team}` / `history`. Both counts are made from the facts at each turn, never incremented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryProgress {
    /// The workspace.
    pub team: TeamId,
    /// What is read, as the setting names it.
    pub mode: String,
    /// The channels that are kept.
    pub channels: u64,
    /// Of them, those with nothing left to read.
    pub read: u64,
    /// Those that Slack refuses to show.
    pub unreadable: u64,
    /// Whether Slack shows this app 15 messages a minute only.
    pub is_restricted: bool,
    /// The oldest message that was read, in any turn.
    pub since: Option<Ts>,
}

/// Whether something is left to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryState {
    /// History is being read.
    Reading,
    /// Everything that Slack shows was read.
    Done,
    /// Nothing is left but what Slack refuses to show.
    Refused,
}

impl HistoryState {
    /// The state for people and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

impl HistoryProgress {
    /// The state.
    pub fn state(&self) -> HistoryState {
        match self.read.saturating_add(self.unreadable) {
            all if all < self.channels => HistoryState::Reading,
            _ if self.unreadable > 0 => HistoryState::Refused,
            _ => HistoryState::Done,
        }
    }

    /// The updates of the row after the turn with the number `n` that began at `at`, by Slack's clock: the counts of
    /// the latest turn stay, and the oldest message of all.
    pub fn updates(&self, at: &Ts, n: u32) -> Vec<Update> {
        let key = || ItemKey::history_progress(&self.team);
        let identity = || text_attributes([("type", "history"), ("team_id", self.team.as_str())]);
        let mut set = Attributes::new();
        let counts = [("channels", self.channels), ("read", self.read), ("unreadable", self.unreadable)];
        set.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
        set.insert("mode".into(), self.mode.as_str().into());
        if self.is_restricted {
            set.insert("restricted".into(), true.into());
        }
        let counted = Update {
            guard: Guard::Greater { register: "version".into(), version: format!("{}#{n:010}", at.padded()) },
            remove: if self.is_restricted { Vec::new() } else { vec!["restricted"] },
            set,
            set_if_absent: identity(),
            ..Update::new(key())
        };
        let since = self.since.as_ref().map(|since| Update {
            guard: Guard::Less { register: "since".into(), version: since.padded() },
            set_if_absent: identity(),
            ..Update::new(key())
        });
        std::iter::once(counted).chain(since).collect()
    }

    /// Reads the row; `None` if no turn has ended yet.
    pub fn read(team: &TeamId, row: &Item) -> Option<Self> {
        let count = |name: &str| row.attributes.get(name).and_then(Value::as_u64);
        Some(Self {
            team: team.clone(),
            mode: row.text("mode")?.to_owned(),
            channels: count("channels")?,
            read: count("read")?,
            unreadable: count("unreadable")?,
            is_restricted: row.has_flag("restricted"),
            since: row.text("since").and_then(Ts::unpadded),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_from_the_counts() {
        let progress = |channels, read, unreadable| HistoryProgress {
            team: TeamId::parse("T1").unwrap(),
            mode: "all".to_owned(),
            channels,
            read,
            unreadable,
            is_restricted: false,
            since: None,
        };
        for (progress, expected) in [
            (progress(0, 0, 0), HistoryState::Done),
            (progress(3, 2, 0), HistoryState::Reading),
            (progress(3, 3, 0), HistoryState::Done),
            (progress(3, 2, 1), HistoryState::Refused),
            (progress(3, 1, 1), HistoryState::Reading),
        ] {
            assert_eq!(progress.state(), expected, "{progress:?}");
        }
    }
}
