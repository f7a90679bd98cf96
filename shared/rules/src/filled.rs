//! The parts of the channels' history that were read, and the parts that could not be: facts that only grow.
//!
//! * `filled#{team}` / `{channel}#{to padded}`: the channel was read from `from` to before `to`, its threads
//!   included. `from` is a minimum: pages come newest first, so it is the progress of a backfill, the point
//!   at which the backfill continues after a crash, and the fact that closes a gap. It is written after the
//!   rows that it claims.
//! * `unreadable#{team}` / `{channel}#{from padded}`: history older than `from` could not be read, and why:
//!   `reason` if Slack's plan hides it permanently, `refused` with the time of Slack's last refusal.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::interval::Interval;

const FROM: &str = "from";
const REASON: &str = "reason";
const REFUSED: &str = "refused";
const SOURCE: &str = "source";

/// The source from which a span was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanSource {
    /// Slack's history, through its Web API.
    History,
    /// An export.
    Import,
}

impl SpanSource {
    /// All sources.
    pub const ALL: [Self; 2] = [Self::History, Self::Import];

    /// The source as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Import => "import",
        }
    }
}

/// Why Slack does not show a part of a channel's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreadableReason {
    /// Slack's plan hides history that is this old.
    PlanLimit,
    /// The app is not in the channel.
    NotInChannel,
    /// The channel does not exist, or Slack does not show it to the app.
    NotFound,
    /// The token lacks the scope.
    MissingScope,
}

impl UnreadableReason {
    pub const ALL: [Self; 4] = [Self::PlanLimit, Self::NotInChannel, Self::NotFound, Self::MissingScope];

    /// The reason as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingScope => "missing_scope",
            Self::NotFound => "not_found",
            Self::NotInChannel => "not_in_channel",
            Self::PlanLimit => "plan_limit",
        }
    }
}

/// The fact that a channel was read from `from` to before `to`, its threads included.
///
/// `to` must not be later than the start of the reading: messages written later cannot be in it. `to` stays
/// the same while the reading continues, and `from` goes down.
pub fn filled_update(team: &TeamId, channel: &ChannelId, from: &Ts, to: &Ts, source: SpanSource) -> Update {
    let guard = Guard::Less { register: FROM.into(), version: from.padded() };
    let mut set_if_absent = identity("filled", team, channel);
    set_if_absent.insert("to".into(), to.as_str().into());
    set_if_absent.insert(SOURCE.into(), source.as_str().into());
    Update { guard, set_if_absent, ..Update::new(ItemKey::filled(team, channel, to)) }
}

/// The fact that Slack's plan hides history older than `from`: the oldest ts that Slack still returned, or
/// the requested newest ts if it returned nothing.
pub fn plan_limit_update(team: &TeamId, channel: &ChannelId, from: &Ts) -> Update {
    let version = UnreadableReason::PlanLimit.as_str().into();
    unreadable(team, channel, from, Guard::Greater { register: REASON.into(), version })
}

/// The fact that Slack refused at `asked`, by its clock, to return history older than `from`, the requested
/// newest ts. The latest refusal stays.
pub fn refusal_update(
    team: &TeamId,
    channel: &ChannelId,
    from: &Ts,
    reason: UnreadableReason,
    asked: &Ts,
) -> Update {
    let version = format!("{}/{}", asked.padded(), reason.as_str());
    unreadable(team, channel, from, Guard::Greater { register: REFUSED.into(), version })
}

fn unreadable(team: &TeamId, channel: &ChannelId, from: &Ts, guard: Guard) -> Update {
    let mut set_if_absent = identity("unreadable", team, channel);
    set_if_absent.insert(FROM.into(), from.as_str().into());
    Update { guard, set_if_absent, ..Update::new(ItemKey::unreadable(team, channel, from)) }
}

fn identity(kind: &str, team: &TeamId, channel: &ChannelId) -> Attributes {
    text_attributes([("type", kind), ("team_id", team.as_str()), ("channel_id", channel.as_str())])
}

/// An interval of a channel's history that was read completely.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilledSpan {
    pub channel: ChannelId,
    /// Its inclusive start.
    pub from: Ts,
    /// Its exclusive end.
    pub to: Ts,
    /// The source from which it was read.
    pub source: SpanSource,
}

impl FilledSpan {
    pub fn interval(&self) -> Interval {
        Interval { from: self.from.micros(), to: self.to.micros() }
    }
}

/// The spans that these rows of `filled#{team}` claim. Rows that this version does not understand, and rows
/// with an empty span, are skipped.
pub fn spans(rows: &[Item]) -> Vec<FilledSpan> {
    let span = |row: &Item| {
        let (channel, to) = channel_and_time(row)?;
        let from = Ts::unpadded(row.text(FROM)?)?;
        let source = row.text(SOURCE)?;
        let source = SpanSource::ALL.into_iter().find(|known| known.as_str() == source)?;
        (from < to).then_some(FilledSpan { channel, from, to, source })
    };
    rows.iter().filter_map(span).collect()
}

/// A part of a channel's history that could not be read: everything older than `from`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableBefore {
    pub channel: ChannelId,
    /// Its exclusive end.
    pub from: Ts,
    pub reason: UnreadableReason,
    /// When Slack last refused; `None` for the plan's limit, and for rows of earlier versions.
    pub refused_at: Option<Ts>,
}

/// The facts in these rows of `unreadable#{team}`. A row that this version does not understand is skipped.
pub fn unreadables(rows: &[Item]) -> Vec<UnreadableBefore> {
    let reason = |text: &str| UnreadableReason::ALL.into_iter().find(|known| known.as_str() == text);
    let facts = |row: &Item| {
        let (channel, from) = channel_and_time(row)?;
        let refused = row.text(REFUSED).and_then(|refused| refused.split_once('/'));
        let refused = refused.and_then(|(asked, why)| Some((reason(why)?, Some(Ts::unpadded(asked)?))));
        // Earlier versions stored no time.
        let other = row.text(REASON).and_then(reason).map(|reason| (reason, None));
        let other = other.filter(|(reason, _)| refused.is_none() || *reason == UnreadableReason::PlanLimit);
        let fact = move |(reason, asked)| UnreadableBefore {
            channel: channel.clone(),
            from: from.clone(),
            reason,
            refused_at: asked,
        };
        Some(refused.into_iter().chain(other).map(fact))
    };
    rows.iter().filter_map(facts).flatten().collect()
}

/// The channel and the time in a fact's key.
fn channel_and_time(row: &Item) -> Option<(ChannelId, Ts)> {
    if row.is_erased() {
        return None;
    }
    let (channel, time) = row.key.timestamp.split_once('#')?;
    Some((ChannelId::parse(channel).ok()?, Ts::unpadded(time)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::fixture::{channel, team, ts};
    use crate::interval::Cover;

    /// The rows after these updates.
    fn rows(updates: &[Update]) -> Vec<Item> {
        let mut rows: BTreeMap<ItemKey, Attributes> = BTreeMap::new();
        for update in updates {
            if let Some(attributes) = update.apply(rows.get(&update.key)) {
                rows.insert(update.key.clone(), attributes);
            }
        }
        rows.into_iter().map(|(key, attributes)| Item { key, attributes }).collect()
    }

    fn fact(reason: UnreadableReason, refused_at: Option<Ts>) -> UnreadableBefore {
        UnreadableBefore { channel: channel("C1"), from: ts(7), reason, refused_at }
    }

    fn read(from: i64, to: i64, source: SpanSource) -> Update {
        filled_update(&team(), &channel("C1"), &ts(from), &ts(to), source)
    }

    #[test]
    fn a_reading_is_one_row_whose_start_goes_down_as_text() {
        let zero = Ts::parse("0.000000").unwrap();
        let long_ago = filled_update(&team(), &channel("C1"), &zero, &ts(50), SpanSource::History);
        let rows = rows(&[read(40, 50, SpanSource::History), long_ago, read(9, 50, SpanSource::History)]);
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(row.key, ItemKey::new("filled#T1", "C1#000000000050.000000"));
        let expected = serde_json::json!({ "type": "filled", "team_id": "T1", "channel_id": "C1", "to": "50.000000",
            "from": "000000000000.000000", "source": "history" });
        assert_eq!(Value::Object(row.attributes.clone()), expected);
        let span = FilledSpan { channel: channel("C1"), from: zero, to: ts(50), source: SpanSource::History };
        assert_eq!(spans(&rows), [span]);
    }

    #[test]
    fn an_unreadable_row_keeps_the_plan_limit_and_the_latest_refusal() {
        let refused = |reason, asked| refusal_update(&team(), &channel("C1"), &ts(7), reason, &ts(asked));
        let mut updates = [
            refused(UnreadableReason::NotInChannel, 8),
            plan_limit_update(&team(), &channel("C1"), &ts(7)),
            refused(UnreadableReason::MissingScope, 90),
            refused(UnreadableReason::NotFound, 10),
        ];
        for _ in 0..updates.len() {
            updates.rotate_left(1);
            let rows = rows(&updates);
            assert_eq!(rows[0].key, ItemKey::new("unreadable#T1", "C1#000000000007.000000"));
            let expected =
                [fact(UnreadableReason::MissingScope, Some(ts(90))), fact(UnreadableReason::PlanLimit, None)];
            assert_eq!(unreadables(&rows), expected);
        }
    }

    #[test]
    fn a_refusal_of_an_earlier_version_has_no_time_until_slack_is_asked_again() {
        let mut earlier = plan_limit_update(&team(), &channel("C1"), &ts(7)).apply(None).unwrap();
        earlier.insert(REASON.into(), "not_in_channel".into());
        let key = ItemKey::unreadable(&team(), &channel("C1"), &ts(7));
        let row = Item { key, attributes: earlier };
        assert_eq!(unreadables(std::slice::from_ref(&row)), [fact(UnreadableReason::NotInChannel, None)]);
        let asked = refusal_update(&team(), &channel("C1"), &ts(7), UnreadableReason::NotFound, &ts(9))
            .apply(Some(&row.attributes));
        let row = Item { attributes: asked.unwrap(), ..row };
        assert_eq!(unreadables(&[row]), [fact(UnreadableReason::NotFound, Some(ts(9)))]);
    }

    #[test]
    fn odd_rows_are_skipped() {
        let mut good = rows(&[read(1, 5, SpanSource::Import)]);
        for odd in [
            ("C1#soon", "from", "000000000001.000000"),
            ("c1#000000000005.000000", "from", "000000000001.000000"),
            ("C1", "from", "000000000001.000000"),
            ("C1#000000000005.000000", "from", "soon"),
            ("C1#000000000005.000000", "from", "000000000005.000000"),
            ("C1#000000000005.000000", "source", "elsewhere"),
        ] {
            let mut row = good[0].clone();
            row.key.timestamp = odd.0.into();
            row.attributes.insert(odd.1.into(), odd.2.into());
            assert_eq!((spans(std::slice::from_ref(&row)), unreadables(&[row])), (vec![], vec![]), "{odd:?}");
        }
        good[0].attributes.insert("erased".into(), true.into());
        assert_eq!(spans(&good), []);
    }

    proptest! {
        /// Pages of several readings, each written once or more, in any order.
        #[test]
        fn any_order_of_facts_gives_the_same_cover(
            facts in prop::collection::vec((0_i64..60, prop::sample::select(vec![20_i64, 40, 60])), 1..30),
            again in 0_usize..30,
            seed in any::<u64>(),
        ) {
            let update = |(from, to): &(i64, i64)| read(*from, *to, SpanSource::History);
            let updates: Vec<Update> = facts.iter().map(update).collect();
            let mut shuffled: Vec<Update> =
                updates.iter().chain(updates.iter().take(again)).cloned().collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let expected = rows(&updates);
            prop_assert_eq!(&rows(&shuffled), &expected);
            let covered = |spans: Vec<FilledSpan>| Cover::from_intervals(spans.iter().map(FilledSpan::interval));
            // The cover is exactly the facts that were written, even if the start in a row has gone down
            // since.
            let all = facts.iter().map(|(from, to)| Interval { from: from * 1_000_000, to: to * 1_000_000 });
            prop_assert_eq!(covered(spans(&expected)), Cover::from_intervals(all));
        }
    }
}
