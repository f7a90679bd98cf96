//! The mark of a channel that was public at some time: `meta#{team}#public` / `{channel}`.
//!
//! A channel is marked as soon as the row has `seen`; the row also has the registers of
//! [`visibility`](crate::visibility), which may come first. An operator can withdraw the mark: `forgotten` is the time
//! of the withdrawal, a register that only grows. A later public event sets the mark again: its register
//! `reopened`, which only grows too, contains the time of the withdrawal that it overrides. The state is a
//! function of both registers, whatever the order of the writes. Every row has `opened`: the first write
//! needs no read, and each later one is rejected, so that its writer reads the row.

use ports::archive::{Guard, Item, ItemKey, Update};
use slack::ids::{ChannelId, TeamId, Ts};

/// The attribute of every [`Update::mark`].
const SEEN: &str = "seen";
const OPENED: &str = "opened";
const FORGOTTEN: &str = "forgotten";
const REOPENED: &str = "reopened";

/// The state of a public mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MarkState {
    /// The channel was never seen to be public.
    #[default]
    Unmarked,
    /// The channel is public, or was.
    Public,
    /// The mark was wrong: an operator withdrew it.
    Forgotten,
}

impl MarkState {
    /// Reads the state from the row of a mark.
    pub fn from_row(row: Option<&Item>) -> Self {
        let Some(row) = row.filter(|row| !row.is_erased() && row.has_flag(SEEN)) else {
            return Self::Unmarked;
        };
        match (row.text(FORGOTTEN), row.text(REOPENED)) {
            (None, _) => Self::Public,
            (Some(forgotten), Some(reopened)) if forgotten <= reopened => Self::Public,
            (Some(_), _) => Self::Forgotten,
        }
    }
}

/// A mark as it was read, updated by the public events that follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicMark {
    state: MarkState,
    /// When an operator withdrew it.
    forgotten: Option<String>,
}

impl PublicMark {
    /// The mark of a channel that is public, or was.
    pub fn public() -> Self {
        Self { state: MarkState::Public, forgotten: None }
    }

    /// Reads a mark from its row.
    pub fn from_row(row: Option<&Item>) -> Self {
        let forgotten = row.and_then(|row| row.text(FORGOTTEN)).map(str::to_owned);
        Self { state: MarkState::from_row(row), forgotten }
    }

    pub fn state(&self) -> MarkState {
        self.state
    }

    /// Sets the mark as [`opened`] does for an event of this clock.
    pub fn open(&mut self, clock: &Ts) {
        let is_later = self.forgotten.as_ref().is_none_or(|forgotten| clock.padded() > *forgotten);
        if self.state == MarkState::Unmarked || is_later {
            self.state = MarkState::Public;
        }
    }
}

/// The write of an event that shows its channel to be public, before anything is read. If it is applied, the
/// mark is set; if it is rejected, a row exists, and the caller passes it to [`opened`].
pub fn opening(team: &TeamId, channel: &ChannelId) -> Update {
    let guard = Guard::Unchanged { register: OPENED.into(), expected: None, version: "true".into() };
    Update { guard, ..Update::mark(ItemKey::public_mark(team, channel)) }
}

/// The write of an event of this clock that shows its channel to be public, given the mark's row. `None` if
/// the mark is already set, or if the event is not later than the withdrawal.
pub fn opened(team: &TeamId, channel: &ChannelId, row: Option<&Item>, clock: &Ts) -> Option<Update> {
    match MarkState::from_row(row) {
        MarkState::Unmarked => Some(opening(team, channel)),
        MarkState::Public => None,
        MarkState::Forgotten => {
            let forgotten = row?.text(FORGOTTEN)?;
            let guard = Guard::Greater { register: REOPENED.into(), version: forgotten.to_owned() };
            let key = ItemKey::public_mark(team, channel);
            (clock.padded().as_str() > forgotten).then(|| Update { guard, ..Update::mark(key) })
        }
    }
}

/// The write that withdraws the mark at this time.
pub fn withdrawal(team: &TeamId, channel: &ChannelId, at: &Ts) -> Update {
    let guard = Guard::Greater { register: FORGOTTEN.into(), version: at.padded() };
    let mut update = Update { guard, ..Update::mark(ItemKey::public_mark(team, channel)) };
    update.set_if_absent.insert(OPENED.into(), "true".into());
    update
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> Ts {
        Ts::parse(text).unwrap()
    }

    fn ids() -> (TeamId, ChannelId) {
        (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap())
    }

    fn after(row: Option<Item>, update: &Update) -> Option<Item> {
        match update.apply(row.as_ref().map(|row| &row.attributes)) {
            Some(attributes) => Some(Item { key: update.key.clone(), attributes }),
            None => row,
        }
    }

    #[test]
    fn only_a_later_public_event_sets_a_withdrawn_mark_again() {
        let (team, channel) = ids();
        let open = |row: Option<Item>, clock: &str| match opened(&team, &channel, row.as_ref(), &ts(clock)) {
            Some(update) => after(row, &update),
            None => row,
        };
        let row = open(None, "1.000000");
        assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Public);
        // The write that reads nothing does not set a mark that was withdrawn first.
        let first = after(None, &withdrawal(&team, &channel, &ts("20.000000")));
        for existing in [&first, &row] {
            let attributes = existing.as_ref().map(|row| &row.attributes);
            assert_eq!(opening(&team, &channel).apply(attributes), None);
        }
        let row = after(row, &withdrawal(&team, &channel, &ts("20.000000")));
        assert_eq!(row, first);
        assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Forgotten);
        for late in ["3.000000", "20.000000"] {
            assert_eq!(open(row.clone(), late), row, "{late}");
        }
        let row = open(row, "100.000000");
        assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Public);
        // An earlier withdrawal that arrives late changes nothing, a later one does.
        let row = after(row, &withdrawal(&team, &channel, &ts("10.000000")));
        assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Public);
        let row = after(row, &withdrawal(&team, &channel, &ts("101.000000")));
        assert_eq!(MarkState::from_row(row.as_ref()), MarkState::Forgotten);
        assert_eq!(MarkState::from_row(None), MarkState::Unmarked);
    }
}
