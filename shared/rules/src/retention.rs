//! Retention rules: how long messages are kept, in a channel or in every channel.
//!
//! A rule is a row `retention#{team}` / `{channel}#{at}`, or `*#{at}` for every channel. Rows never change: the
//! newest of a scope is its rule, and all of them are the history. A rule removes nothing by itself: retention
//! writes an [`ports::archive::erasure::ExpiryFact`] for it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ports::archive::{Item, ItemKey, Update, key, text_attributes};
use ports::clock::TimestampMs;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};

const DAYS: &str = "days";
const UNSET: &str = "unset";
const EVERY_CHANNEL: &str = "*";

/// The longest rule, a hundred years: a longer one is a mistake in the unit.
pub const MAX_DAYS: u32 = 36_500;

/// How long messages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionPeriod {
    Days(u32),
    /// For ever.
    Forever,
    /// As in every channel that has no rule of its own.
    AsWorkspace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionRule {
    pub team: TeamId,
    /// The channel; `None` for every channel without its own rule.
    pub channel: Option<ChannelId>,
    /// How long messages are kept.
    pub period: RetentionPeriod,
    /// The user who set it, by their account name on the machine.
    pub by: Option<String>,
    pub set_at: Ts,
}

impl RetentionPeriod {
    /// Parses `90d` or `forever`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "forever" {
            return Some(Self::Forever);
        }
        let days = text.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()))?;
        let days: u32 = days.parse().ok()?;
        (1..=MAX_DAYS).contains(&days).then_some(Self::Days(days))
    }

    /// The number of days, if it ends.
    #[must_use]
    pub fn days(self) -> Option<u32> {
        match self {
            Self::Days(days) => Some(days),
            Self::Forever | Self::AsWorkspace => None,
        }
    }
}

impl RetentionRule {
    /// The update that stores it.
    #[must_use]
    pub fn update(&self) -> Update {
        let scope = self.channel.as_ref().map_or(EVERY_CHANNEL, ChannelId::as_str);
        let mut set_if_absent = text_attributes([("type", "retention"), ("team_id", self.team.as_str())]);
        set_if_absent.extend(self.channel.as_ref().map(|id| ("channel_id".to_owned(), id.as_str().into())));
        set_if_absent.extend(self.by.as_ref().map(|by| ("by".to_owned(), by.as_str().into())));
        match self.period {
            RetentionPeriod::Days(days) => drop(set_if_absent.insert(DAYS.into(), days.into())),
            RetentionPeriod::AsWorkspace => drop(set_if_absent.insert(UNSET.into(), true.into())),
            RetentionPeriod::Forever => {}
        }
        Update { set_if_absent, ..Update::new(ItemKey::retention_rule(&self.team, scope, &self.set_at)) }
    }

    /// Reads the row of a rule; `None` for any other row. A rule whose days cannot be read removes nothing.
    #[must_use]
    pub fn read(team: &TeamId, item: &Item) -> Option<Self> {
        if item.key.item_id != key::retention_rules(team) {
            return None;
        }
        let (scope, at) = item.key.timestamp.split_once('#')?;
        let channel = match scope {
            EVERY_CHANNEL => None,
            channel => Some(ChannelId::parse(channel).ok()?),
        };
        let days =
            item.attributes.get(DAYS).and_then(Value::as_u64).and_then(|days| u32::try_from(days).ok());
        let period = match days.filter(|days| (1..=MAX_DAYS).contains(days)) {
            Some(days) => RetentionPeriod::Days(days),
            None if item.has_flag(UNSET) => RetentionPeriod::AsWorkspace,
            None => RetentionPeriod::Forever,
        };
        let by = item.text("by").map(str::to_owned);
        Some(Self { team: team.clone(), channel, period, by, set_at: Ts::unpadded(at)? })
    }
}

/// The rules of a workspace that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionRules {
    by_scope: BTreeMap<Option<ChannelId>, RetentionRule>,
}

impl RetentionRules {
    /// Adds a rule, unless a newer one is known.
    pub fn insert(&mut self, rule: RetentionRule) {
        let known = self.by_scope.get(&rule.channel);
        if known.is_none_or(|known| known.set_at <= rule.set_at) {
            self.by_scope.insert(rule.channel.clone(), rule);
        }
    }

    /// The rules, that of every channel first.
    pub fn iter(&self) -> impl Iterator<Item = &RetentionRule> {
        self.by_scope.values().filter(|rule| rule.period != RetentionPeriod::AsWorkspace)
    }

    /// The channels that have a rule of their own.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelId> {
        self.iter().filter_map(|rule| rule.channel.as_ref())
    }

    /// The days for which messages of a channel are kept, or of every channel without its own rule; `None` for
    /// ever.
    #[must_use]
    pub fn days(&self, channel: Option<&ChannelId>) -> Option<u32> {
        let own = channel.and_then(|channel| self.by_scope.get(&Some(channel.clone())));
        let own = own.filter(|rule| rule.period != RetentionPeriod::AsWorkspace);
        own.or_else(|| self.by_scope.get(&None)).and_then(|rule| rule.period.days())
    }
}

impl FromIterator<RetentionRule> for RetentionRules {
    fn from_iter<I: IntoIterator<Item = RetentionRule>>(rules: I) -> Self {
        let mut known = Self::default();
        rules.into_iter().for_each(|rule| known.insert(rule));
        known
    }
}

/// The time before which messages have expired: midnight UTC, this number of days before this day.
#[must_use]
pub fn expires_before(days: u32, now: TimestampMs) -> Ts {
    let today = Timestamp::from_millisecond(now.0).unwrap_or_default().to_zoned(TimeZone::UTC).date();
    let first_kept = today.saturating_sub(jiff::Span::new().days(days));
    let midnight = first_kept.to_zoned(TimeZone::UTC).map_or(0, |midnight| midnight.timestamp().as_second());
    Ts::parse(&format!("{:010}.000000", midnight.max(0))).unwrap_or_else(|_| crate::version::zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::archive::Attributes;

    fn rule(channel: Option<&str>, period: RetentionPeriod, at: &str) -> RetentionRule {
        let channel = channel.map(|channel| ChannelId::parse(channel).unwrap());
        let (team, by) = (TeamId::parse("T1").unwrap(), Some("ana".into()));
        RetentionRule { team, channel, period, by, set_at: Ts::parse(at).unwrap() }
    }

    #[test]
    fn a_period_is_days_or_for_ever() {
        for (text, expected) in [
            ("1d", Some(RetentionPeriod::Days(1))),
            ("36500d", Some(RetentionPeriod::Days(36_500))),
            ("forever", Some(RetentionPeriod::Forever)),
            ("0d", None),
            ("36501d", None),
            ("90", None),
            ("-1d", None),
            ("+1d", None),
            ("1.5d", None),
            ("d", None),
            ("", None),
            ("forever1", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(RetentionPeriod::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn the_newest_rule_of_a_scope_is_in_force_in_any_order() {
        use RetentionPeriod::{AsWorkspace, Days, Forever};
        let mut rules = vec![
            rule(None, Days(90), "100.000000"),
            rule(None, Days(30), "300.000000"),
            rule(Some("C1"), Days(365), "200.000000"),
            rule(Some("C2"), Days(7), "200.000000"),
            rule(Some("C2"), AsWorkspace, "201.000000"),
            rule(Some("C3"), Forever, "200.000000"),
        ];
        for _ in 0..2 {
            let stored = rules.iter().map(|rule| {
                let update = rule.update();
                Item { key: update.key.clone(), attributes: update.apply(None).unwrap() }
            });
            let team = TeamId::parse("T1").unwrap();
            let read: Vec<RetentionRule> =
                stored.filter_map(|row| RetentionRule::read(&team, &row)).collect();
            assert_eq!(read, rules);
            let read: RetentionRules = read.into_iter().collect();
            let days = ["C1", "C2", "C3", "C4"].map(|id| read.days(Some(&ChannelId::parse(id).unwrap())));
            assert_eq!((days, read.days(None)), ([Some(365), Some(30), None, Some(30)], Some(30)));
            assert_eq!(read.channels().map(ChannelId::as_str).collect::<Vec<_>>(), ["C1", "C3"]);
            rules.reverse();
        }
    }

    #[test]
    fn a_row_with_hostile_days_keeps_everything() {
        let team = TeamId::parse("T1").unwrap();
        for days in
            [Value::Null, "90".into(), (-1).into(), 0.into(), u64::MAX.into(), 1.5.into(), vec![90].into()]
        {
            let attributes: Attributes = [(DAYS.to_owned(), days)].into_iter().collect();
            let set_at = Ts::parse("1.000000").unwrap();
            let row = Item { key: ItemKey::retention_rule(&team, "C1", &set_at), attributes };
            assert_eq!(RetentionRule::read(&team, &row).unwrap().period, RetentionPeriod::Forever, "{row:?}");
        }
        for timestamp in ["", "C1", "c1#1", "#", "C1#x"] {
            let row = Item { key: ItemKey::new("retention#T1", timestamp), attributes: Attributes::new() };
            assert_eq!(RetentionRule::read(&team, &row), None, "{timestamp}");
        }
    }

    #[test]
    fn messages_expire_at_midnight() {
        // 2026-11-20T12:34:56Z
        let now = TimestampMs(1_795_178_096_000);
        assert_eq!(expires_before(1, now).as_str(), "1795046400.000000");
        assert_eq!(expires_before(MAX_DAYS, now).as_str(), "0000000000.000000");
        assert_eq!(expires_before(1, TimestampMs(i64::MIN)).as_str(), "0000000000.000000");
    }
}
