//! How far the reading of a workspace's history is.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use serde_json::Value;
use slack::ids::{TeamId, Ts};

/// The row `meta#{team}` / `history`. Both counts are made from the facts at each turn, never incremented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryProgress {
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
    /// When the latest turn began, by Slack's clock.
    pub turn: Ts,
}

/// A reading without a turn for this long has ended before its time: `annalist up` was stopped, or reads only gaps
/// now. A turn takes a minute, and Slack asks for pauses of minutes at most.
const LONGEST_TURN_S: i64 = 3_600;

/// Whether something is left to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryState {
    /// History is being read.
    Reading,
    /// Everything that Slack shows was read.
    Done,
    /// Nothing is left but what Slack refuses to show.
    Refused,
    /// Something is left, and no process reads it.
    Off,
}

impl HistoryState {
    /// The state for people and scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Off => "off",
        }
    }
}

impl HistoryProgress {
    /// The state at this time, in seconds since the Unix epoch.
    pub fn state(&self, now_s: i64) -> HistoryState {
        let is_over = now_s.saturating_sub(self.turn.micros() / 1_000_000) > LONGEST_TURN_S;
        match self.read.saturating_add(self.unreadable) {
            all if all < self.channels && is_over => HistoryState::Off,
            all if all < self.channels => HistoryState::Reading,
            _ if self.unreadable > 0 => HistoryState::Refused,
            _ => HistoryState::Done,
        }
    }

    /// The updates of the row after the turn with the number `n`: the counts of the latest turn stay, and the oldest
    /// message of all.
    pub fn updates(&self, n: u32) -> Vec<Update> {
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
            guard: Guard::Greater {
                register: "version".into(),
                version: format!("{}#{n:010}", self.turn.padded()),
            },
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
            turn: Ts::unpadded(row.text("version")?.split_once('#')?.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_keeps_the_counts_of_the_latest_turn_and_the_oldest_message() {
        let progress = |turn: &str, read, since: &str| HistoryProgress {
            team: TeamId::parse("T1").unwrap(),
            mode: "all".to_owned(),
            channels: 3,
            read,
            unreadable: 0,
            is_restricted: read == 1,
            since: Some(Ts::parse(since).unwrap()),
            turn: Ts::parse(turn).unwrap(),
        };
        let first = (progress("1700000000.000000", 1, "1600000000.000000"), 0);
        let second = (progress("1700000000.000000", 2, "1650000000.000000"), 1);
        for turns in [[&first, &second], [&second, &first]] {
            let mut attributes = Attributes::new();
            for (progress, n) in turns {
                for update in progress.updates(*n) {
                    attributes = update.apply(Some(&attributes)).unwrap_or(attributes);
                }
            }
            let row = Item { key: ItemKey::history_progress(&first.0.team), attributes };
            let expected = HistoryProgress { since: first.0.since.clone(), ..second.0.clone() };
            assert_eq!(HistoryProgress::read(&first.0.team, &row), Some(expected));
        }
    }

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
            turn: Ts::parse("1700000000.000000").unwrap(),
        };
        for (progress, expected) in [
            (progress(0, 0, 0), HistoryState::Done),
            (progress(3, 2, 0), HistoryState::Reading),
            (progress(3, 3, 0), HistoryState::Done),
            (progress(3, 2, 1), HistoryState::Refused),
            (progress(3, 1, 1), HistoryState::Reading),
        ] {
            assert_eq!(progress.state(1_700_003_600), expected, "{progress:?}");
            let ends = if expected == HistoryState::Reading { HistoryState::Off } else { expected };
            assert_eq!(progress.state(1_700_003_601), ends, "{progress:?}");
        }
    }
}
