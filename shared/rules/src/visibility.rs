//! Whether a channel is public now, from everything that shows it: two registers in the row of the channel's
//! public mark, `public_at` and `private_at`, each the latest time by Slack's clock at which the channel is
//! known to have been that. The later of the two is the state; at the same time, private wins.
//!
//! Both registers are maxima, so the state is a function of the set of the evidence, whatever its order. They
//! do not set the mark: what an event shows may be known before another event sets it.
//!
//! Every message of a public channel is evidence. So that it costs no write of its own, its time is rounded
//! down to the hour: then a channel has at most one such write an hour, and the rounding never makes a
//! channel public that a later event showed to be private.

use ports::archive::{Guard, Item, ItemKey, Update};
use slack::catalogue::{ChannelChange, Visibility};
use slack::ids::{ChannelId, TeamId, Ts};

use super::SlackEvent;
use ports::queue::route::Audience;

const PUBLIC_AT: &str = "public_at";
const PRIVATE_AT: &str = "private_at";

/// The times to which messages are rounded, in seconds: Slack's directory is read as often.
const ROUNDED_TO_S: i64 = 3_600;

/// Something that shows whether a channel is public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibilityEvidence {
    team: TeamId,
    channel: ChannelId,
    is_private: bool,
    clock: Ts,
    source: EvidenceSource,
}

/// What the evidence comes from, which decides on the precision of a public time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvidenceSource {
    /// An event that is rare: a change of the channel.
    Change,
    /// One of many events: a message.
    Message,
    /// A channel object in an answer of Slack's, or the list of an export.
    Object,
}

impl VisibilityEvidence {
    /// A change of the channel at this time, such as its conversion.
    pub fn change(team: &TeamId, channel: &ChannelId, is_private: bool, clock: &Ts) -> Self {
        Self::new(team, channel, is_private, clock, EvidenceSource::Change)
    }

    /// A channel object that Slack returned, as of this time.
    pub fn object(team: &TeamId, channel: &ChannelId, is_private: bool, clock: &Ts) -> Self {
        Self::new(team, channel, is_private, clock, EvidenceSource::Object)
    }

    fn new(team: &TeamId, channel: &ChannelId, is_private: bool, clock: &Ts, source: EvidenceSource) -> Self {
        Self { team: team.clone(), channel: channel.clone(), is_private, clock: clock.clone(), source }
    }

    /// What an event shows about its channel by itself. The events that are stored with the channel are read
    /// by [`ChannelEvent::evidence`](crate::channel::ChannelEvent::evidence).
    pub fn from_event(event: &SlackEvent<'_>) -> Option<Self> {
        let (is_private, source) = match event.visibility() {
            Visibility::ChannelType => shown_by_type(event)?,
            // Slack says that `C` is typically a public channel.
            Visibility::ChannelLetter if event.header.channel_type.as_deref() == Some("G") => {
                (true, EvidenceSource::Change)
            }
            Visibility::ChannelLetter
            | Visibility::ChannelObject
            | Visibility::PublicByType
            | Visibility::Archive
            | Visibility::PublicMark
            | Visibility::NoChannel => return None,
        };
        let channel = event.channel().ok()?;
        Some(Self { team: event.team.clone(), channel, is_private, clock: event.clock(), source })
    }

    /// Whether it shows the channel to be private.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// The key of the row with the registers: that of the channel's public mark.
    pub fn key(&self) -> ItemKey {
        ItemKey::public_mark(&self.team, &self.channel)
    }

    /// The one of two of the same register that contains the other.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.version(false) > self.version(false) { other } else { self }
    }

    /// The write of this evidence, given the row with the registers; `None` if the row already has it, or is
    /// erased.
    pub fn update(&self, row: Option<&Item>) -> Option<Update> {
        if row.is_some_and(Item::is_erased) {
            return None;
        }
        let register = VisibilityRegister::from_row(row);
        let version = self.version(register.private_at.is_some());
        let known = if self.is_private { &register.private_at } else { &register.public_at };
        known.as_ref().is_none_or(|known| *known < version).then(|| self.write(version))
    }

    /// The version of an event's evidence, whatever the row has.
    pub fn event_version(&self) -> String {
        self.version(false)
    }

    fn write(&self, version: String) -> Update {
        let register = if self.is_private { PRIVATE_AT } else { PUBLIC_AT };
        let guard = Guard::Greater { register: register.into(), version };
        Update { guard, ..Update::new(self.key()) }
    }

    /// A message's public time is rounded, whatever the row has, so that the register does not depend on the
    /// order. An object of Slack's is read again and again: its time is exact only if it may end a private
    /// time.
    fn version(&self, was_private: bool) -> String {
        let is_exact = self.is_private
            || match self.source {
                EvidenceSource::Change => true,
                EvidenceSource::Message => false,
                EvidenceSource::Object => was_private,
            };
        if is_exact { self.clock.padded() } else { rounded(&self.clock) }
    }
}

/// What an event with a `channel_type` shows: a conversion before the type.
fn shown_by_type(event: &SlackEvent<'_>) -> Option<(bool, EvidenceSource)> {
    let audience = Audience::from_event(&event.header);
    let is_private = match audience {
        Audience::Private => Some(true),
        Audience::Public => Some(false),
        Audience::Direct => return None,
        Audience::Untyped => None,
    };
    if let Some(is_private) = event.header.subtype.as_deref().and_then(converted) {
        return Some((is_private, EvidenceSource::Change));
    }
    Some((is_private?, EvidenceSource::Message))
}

/// Whether a message with this subtype says that its channel became private, or public.
pub fn converted(subtype: &str) -> Option<bool> {
    match ChannelChange::from_subtype(subtype)? {
        ChannelChange::MadePrivate => Some(true),
        ChannelChange::MadePublic => Some(false),
        ChannelChange::Created
        | ChannelChange::Renamed
        | ChannelChange::Archived
        | ChannelChange::Unarchived
        | ChannelChange::Deleted
        | ChannelChange::Left
        | ChannelChange::Shared
        | ChannelChange::Unshared
        | ChannelChange::IdChanged
        | ChannelChange::Topic
        | ChannelChange::Purpose
        | ChannelChange::PostingPermissions => None,
    }
}

fn rounded(clock: &Ts) -> String {
    let second = clock.micros().div_euclid(1_000_000 * ROUNDED_TO_S) * ROUNDED_TO_S;
    format!("{second:012}.000000")
}

/// What is known about whether a channel is public.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisibilityRegister {
    public_at: Option<String>,
    private_at: Option<String>,
}

impl VisibilityRegister {
    /// Reads the registers from the row of the channel's public mark.
    pub fn from_row(row: Option<&Item>) -> Self {
        let row = row.filter(|row| !row.is_erased());
        let text = |name| row.and_then(|row| row.text(name)).map(str::to_owned);
        Self { public_at: text(PUBLIC_AT), private_at: text(PRIVATE_AT) }
    }

    /// What is known together with the registers of another id of the same channel.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            public_at: self.public_at.max(other.public_at),
            private_at: self.private_at.max(other.private_at),
        }
    }

    /// Whether the channel is private now; `None` if nothing shows it.
    pub fn is_private(&self) -> Option<bool> {
        match (&self.public_at, &self.private_at) {
            (None, None) => None,
            (public_at, private_at) => Some(private_at >= public_at),
        }
    }

    /// Whether the channel is public now, and was known to be in the hour of `ts` or later: what was written
    /// then could be read by everyone.
    pub fn is_public_since(&self, ts: &Ts) -> bool {
        self.is_private() == Some(false)
            && self.public_at.as_ref().is_some_and(|public_at| *public_at >= rounded(ts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::with_event;
    use crate::public_mark::MarkState;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn ids() -> (TeamId, ChannelId) {
        (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap())
    }

    fn ts(second: u32) -> Ts {
        Ts::parse(&format!("{}.000100", 1_700_000_000 + second)).unwrap()
    }

    fn mark() -> Item {
        let (team, channel) = ids();
        let update = crate::public_mark::opening(&team, &channel);
        Item { key: update.key.clone(), attributes: update.apply(None).unwrap() }
    }

    /// The row after this evidence, as its writers write it.
    fn noted(all: &[VisibilityEvidence]) -> Item {
        let mut row = mark();
        for evidence in all {
            if let Some(update) = evidence.update(Some(&row)) {
                row.attributes = update.apply(Some(&row.attributes)).unwrap_or(row.attributes);
            }
        }
        row
    }

    fn evidence(is_private: bool, second: u32, source: EvidenceSource) -> VisibilityEvidence {
        let (team, channel) = ids();
        VisibilityEvidence::new(&team, &channel, is_private, &ts(second), source)
    }

    fn message(is_private: bool, second: u32) -> VisibilityEvidence {
        evidence(is_private, second, EvidenceSource::Message)
    }

    fn change(is_private: bool, second: u32) -> VisibilityEvidence {
        evidence(is_private, second, EvidenceSource::Change)
    }

    fn object(is_private: bool, second: u32) -> VisibilityEvidence {
        evidence(is_private, second, EvidenceSource::Object)
    }

    #[test]
    fn the_latest_evidence_decides_both_ways() {
        for (evidence, is_private) in [
            (vec![], None),
            (vec![message(false, 10)], Some(false)),
            (vec![message(false, 10), message(true, 20)], Some(true)),
            (vec![message(false, 10), change(true, 20), message(false, 15)], Some(true)),
            (vec![message(true, 20), change(false, 30)], Some(false)),
            (vec![message(true, 20), object(false, 30)], Some(false)),
            (vec![object(false, 30), object(true, 40)], Some(true)),
            // In doubt, private: at the same time, and in the hour of a message.
            (vec![change(false, 20), change(true, 20)], Some(true)),
            (vec![message(true, 20), message(false, 30)], Some(true)),
            (vec![message(true, 20), message(false, 30 + 3_600)], Some(false)),
        ] {
            let register = VisibilityRegister::from_row(Some(&noted(&evidence)));
            assert_eq!(register.is_private(), is_private, "{evidence:?}");
        }
    }

    #[test]
    fn little_is_written_for_a_channel_with_many_messages_and_nothing_sets_its_mark() {
        let update = change(true, 1).update(None).unwrap();
        let first = Item { attributes: update.apply(None).unwrap(), key: update.key };
        assert_eq!(MarkState::from_row(Some(&first)), MarkState::Unmarked);
        assert_eq!(VisibilityRegister::from_row(Some(&first)).is_private(), Some(true));
        let (team, channel) = ids();
        let opened = crate::public_mark::opening(&team, &channel).apply(Some(&first.attributes)).unwrap();
        let opened = Item { attributes: opened, ..first };
        assert_eq!(MarkState::from_row(Some(&opened)), MarkState::Public);
        let row = noted(&[message(false, 700)]);
        for repeated in [message(false, 10), message(false, 1_500), object(false, 1_500)] {
            assert_eq!(repeated.update(Some(&row)), None, "{repeated:?}");
        }
        assert!(message(false, 3_600).update(Some(&row)).is_some());
        let mut erased = mark();
        erased.attributes.insert("erased".into(), true.into());
        assert_eq!(change(true, 1).update(Some(&erased)), None);
    }

    #[test]
    fn what_was_written_later_than_any_public_evidence_is_not_known_to_be_public() {
        let public = VisibilityRegister::from_row(Some(&noted(&[message(false, 10)])));
        assert!(public.is_public_since(&ts(0)) && public.is_public_since(&ts(1_500)));
        assert!(!public.is_public_since(&ts(7_200)));
        let private = VisibilityRegister::from_row(Some(&noted(&[message(false, 10), change(true, 11)])));
        assert!(!private.is_public_since(&ts(0)));
        assert!(!VisibilityRegister::default().is_public_since(&ts(0)));
    }

    #[test]
    fn an_event_shows_what_its_type_says() {
        let shown = |event: Value| {
            let evidence = with_event(event, VisibilityEvidence::from_event);
            evidence.map(|evidence| (evidence.is_private, evidence.source))
        };
        let message = |channel_type: Value, subtype: Value| json!({ "type": "message", "channel": "C1", "channel_type": channel_type, "subtype": subtype, "ts": "5.000000" });
        let joined = |letter: &str| json!({ "type": "member_joined_channel", "channel": "C1", "channel_type": letter, "user": "U1" });
        let none = Value::Null;
        for (event, expected) in [
            (message("channel".into(), none.clone()), Some((false, EvidenceSource::Message))),
            (message("group".into(), none.clone()), Some((true, EvidenceSource::Message))),
            (message("group".into(), "message_changed".into()), Some((true, EvidenceSource::Message))),
            (
                message("channel".into(), "channel_convert_to_private".into()),
                Some((true, EvidenceSource::Change)),
            ),
            (
                message("group".into(), "channel_convert_to_public".into()),
                Some((false, EvidenceSource::Change)),
            ),
            (
                message(none.clone(), "channel_convert_to_private".into()),
                Some((true, EvidenceSource::Change)),
            ),
            (message("im".into(), none.clone()), None),
            (message(json!(["group"]), none.clone()), None),
            (message(none.clone(), none), None),
            (joined("G"), Some((true, EvidenceSource::Change))),
            (joined("C"), None),
            (json!({ "type": "user_change", "user": { "id": "U1" } }), None),
        ] {
            assert_eq!(shown(event.clone()), expected, "{event}");
        }
    }

    fn any_evidence() -> impl Strategy<Value = VisibilityEvidence> {
        (any::<bool>(), 0..20_000u32, any::<bool>()).prop_map(|(is_private, second, is_change)| {
            if is_change { change(is_private, second) } else { message(is_private, second) }
        })
    }

    proptest! {
        #[test]
        fn the_order_and_repetitions_make_no_difference(
            evidence in prop::collection::vec(any_evidence(), 1..12),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        ) {
            let expected = noted(&evidence);
            let mut disordered: Vec<_> = order.iter().map(|index| index.get(&evidence).clone()).collect();
            disordered.extend(evidence.iter().rev().cloned());
            prop_assert_eq!(noted(&disordered), expected);
        }
    }
}
