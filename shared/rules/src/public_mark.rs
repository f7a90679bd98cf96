//! The mark of a channel that was public at some time: `meta#{team}#public` / `{channel}`.
//!
//! A mark stands as soon as its row is there. A person may take it back: `forgotten` is when, a register that grows. A public
//! event that is later than that sets it again, and says which taking back it answers: `reopened` holds that one's time and
//! grows too. The state is a function of both, in whatever order they were written. Every row that is written has `opened`:
//! the first write needs to read nothing, and each one after it is rejected and so reads what is there.

use ports::archive::{Guard, Item, ItemKey, Update};
use slack::ids::{ChannelId, TeamId, Ts};

const OPENED: &str = "opened";
const FORGOTTEN: &str = "forgotten";
const REOPENED: &str = "reopened";

/// What a mark says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MarkState {
    /// Nothing: the channel was never seen to be public.
    #[default]
    Unmarked,
    /// The channel is public, or was.
    Public,
    /// The mark was wrong: a person took it back.
    Forgotten,
}

impl MarkState {
    /// What the row of a mark says.
    pub fn of(row: Option<&Item>) -> Self {
        let Some(row) = row.filter(|row| !row.is_erased()) else { return Self::Unmarked };
        match (row.text(FORGOTTEN), row.text(REOPENED)) {
            (None, _) => Self::Public,
            (Some(forgotten), Some(reopened)) if forgotten <= reopened => Self::Public,
            (Some(_), _) => Self::Forgotten,
        }
    }
}

/// A mark as it was read, and as public events that follow change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicMark {
    state: MarkState,
    /// When a person took it back.
    forgotten: Option<String>,
}

impl PublicMark {
    /// Of a channel that is public, or was.
    pub fn public() -> Self {
        Self { state: MarkState::Public, forgotten: None }
    }

    /// What the row of a mark says.
    pub fn of(row: Option<&Item>) -> Self {
        let forgotten = row.and_then(|row| row.text(FORGOTTEN)).map(str::to_owned);
        Self { state: MarkState::of(row), forgotten }
    }

    /// What it says.
    pub fn state(&self) -> MarkState {
        self.state
    }

    /// Sets it as [`opened`] does for an event of this clock.
    pub fn open(&mut self, clock: &Ts) {
        let is_later = self.forgotten.as_ref().is_none_or(|forgotten| clock.padded() > *forgotten);
        if self.state == MarkState::Unmarked || is_later {
            self.state = MarkState::Public;
        }
    }
}

/// What an event writes that shows its channel to be public, before anything is read. Where it is applied, the mark stands;
/// where it is rejected, there is a row already, which [`opened`] looks at.
pub fn opening(team: &TeamId, channel: &ChannelId) -> Update {
    let guard = Guard::Unchanged { register: OPENED.into(), expected: None, version: "true".into() };
    Update { guard, ..Update::mark(ItemKey::public_mark(team, channel)) }
}

/// What an event of this clock that shows its channel to be public writes, given the mark's row; `None` where the row says
/// so already, or the event is older than what a person said.
pub fn opened(team: &TeamId, channel: &ChannelId, row: Option<&Item>, clock: &Ts) -> Option<Update> {
    match MarkState::of(row) {
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

/// What a person writes who takes the mark back at this time.
pub fn taken_back(team: &TeamId, channel: &ChannelId, at: &Ts) -> Update {
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
    fn a_mark_that_was_taken_back_is_set_again_by_a_later_public_event_only() {
        let (team, channel) = ids();
        let open = |row: Option<Item>, clock: &str| match opened(&team, &channel, row.as_ref(), &ts(clock)) {
            Some(update) => after(row, &update),
            None => row,
        };
        let row = open(None, "1.000000");
        assert_eq!(MarkState::of(row.as_ref()), MarkState::Public);
        // A row that was taken back first is not opened unread.
        let first = after(None, &taken_back(&team, &channel, &ts("20.000000")));
        for there in [&first, &row] {
            let attributes = there.as_ref().map(|row| &row.attributes);
            assert_eq!(opening(&team, &channel).apply(attributes), None);
        }
        let row = after(row, &taken_back(&team, &channel, &ts("20.000000")));
        assert_eq!(row, first);
        assert_eq!(MarkState::of(row.as_ref()), MarkState::Forgotten);
        for late in ["3.000000", "20.000000"] {
            assert_eq!(open(row.clone(), late), row, "{late}");
        }
        let row = open(row, "100.000000");
        assert_eq!(MarkState::of(row.as_ref()), MarkState::Public);
        // An earlier taking back that comes late changes nothing, a later one does.
        let row = after(row, &taken_back(&team, &channel, &ts("10.000000")));
        assert_eq!(MarkState::of(row.as_ref()), MarkState::Public);
        let row = after(row, &taken_back(&team, &channel, &ts("101.000000")));
        assert_eq!(MarkState::of(row.as_ref()), MarkState::Forgotten);
        assert_eq!(MarkState::of(None), MarkState::Unmarked);
    }
}
