//! Gaps: times in which events may have been lost.
//!
//! What is stored are facts, each from one event, so any order of events leaves the same rows:
//!
//! * `app_rate_limited`: a minute without events, <https://docs.slack.dev/reference/events/app_rate_limited>
//! * `channel_left`, `group_left`: the app is no longer in the channel; [`joined`]: it came back
//! * `tokens_revoked`, `app_uninstalled`: the app may ask for nothing any more
//! * [`run`]: when an ingest was there to take events; what lies between is downtime
//! * [`dropped`]: a person removed an event from quarantine; [`dropped_in_hour`]: or it was only counted, or cannot be read
//! * [`refused`]: requests were refused although Slack had signed them
//! * `channel_history_changed`, `group_history_changed`: Slack changed many messages of a channel at once,
//!   <https://docs.slack.dev/reference/events/channel_history_changed>
//!
//! What readers see is made of these facts by [`projection`]; [`closing`] says which gaps history has filled since, and
//! what is still to be asked of it.

pub mod closing;
pub mod coverage;
pub mod projection;
pub mod run;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Malformed, SlackEvent, read_job, version};
use crate::interval::Interval;
use ports::archive::key::gaps;
use ports::archive::{Attributes, Guard, ItemKey, Update};
use slack::catalogue::{ChannelChange, EventRule, GapKind};
use slack::envelope::{self, text_or_none};
use slack::ids::{ChannelId, TeamId, Ts};

/// Stands for the channel where the whole workspace is meant.
pub const ALL_CHANNELS: &str = "all";

/// Why events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No ingest was there to take them.
    Downtime,
    /// Slack held them back: there were too many.
    RateLimited,
    /// The app was not in the channel.
    Left,
    /// The app was uninstalled, or its token revoked.
    Revoked,
    /// A person removed an event from quarantine, or it was only counted there.
    Dropped,
    /// Slack had signed them, and by this machine's clock they came at another time.
    Refused,
    /// Slack changed many messages at once, without an event for each.
    HistoryChanged,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Downtime,
        Self::RateLimited,
        Self::Left,
        Self::Revoked,
        Self::Dropped,
        Self::Refused,
        Self::HistoryChanged,
    ];

    /// The reason as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Downtime => "downtime",
            Self::RateLimited => "rate_limited",
            Self::Left => "left",
            Self::Revoked => "revoked",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::HistoryChanged => "history_changed",
        }
    }

    /// Whether an event may be missing at the very end of the gap. The others end with an event that was taken.
    fn misses_its_end(self) -> bool {
        match self {
            Self::Dropped | Self::Refused | Self::HistoryChanged => true,
            Self::Downtime | Self::RateLimited | Self::Left | Self::Revoked => false,
        }
    }

    /// Whether several gaps of one channel may begin at the same time: their ends tell them apart then.
    fn is_told_apart_by_its_end(self) -> bool {
        match self {
            Self::Dropped | Self::Refused | Self::HistoryChanged => true,
            Self::Downtime | Self::RateLimited | Self::Left | Self::Revoked => false,
        }
    }
}

/// A time without events, as a row of its own.
struct GapRow<'a> {
    team: &'a TeamId,
    /// `None` where every channel is meant.
    channel: Option<ChannelId>,
    reason: Reason,
    from: Ts,
    /// `None` where its end is not known.
    to: Option<Ts>,
}

impl GapRow<'_> {
    /// One row per gap; the same event always makes the same one.
    fn update(self) -> Update {
        let channel = self.channel.as_ref().map_or(ALL_CHANNELS, ChannelId::as_str);
        let reason = self.reason.as_str();
        let mut place = format!("{channel}#{}#{reason}", self.from);
        if let Some(to) = self.to.as_ref().filter(|_| self.reason.is_told_apart_by_its_end()) {
            place.push_str(&format!("#{to}"));
        }
        let key = ItemKey::new(gaps(self.team), place);
        let mut set_if_absent: Attributes = [
            ("type", "gap"),
            ("team_id", self.team.as_str()),
            ("reason", reason),
            ("from", self.from.as_str()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
        set_if_absent.extend(self.channel.map(|channel| ("channel_id".to_owned(), channel.as_str().into())));
        set_if_absent.extend(self.to.map(|to| ("to".to_owned(), to.as_str().into())));
        Update { set_if_absent, ..Update::new(key) }
    }
}

#[derive(Default, Deserialize)]
struct RateLimited<'a> {
    #[serde(borrow, default)]
    minute_rate_limited: Option<&'a RawValue>,
}

/// The minute that an `app_rate_limited` envelope names.
///
/// # Errors
/// [`Malformed`] where it names none.
pub fn rate_limited(team: &TeamId, envelope: &RawValue) -> Result<Update, Malformed> {
    let missing = || Malformed::Missing { event: "app_rate_limited", field: "minute_rate_limited" };
    let body: RateLimited<'_> = envelope::object(envelope);
    let minute_s: u64 =
        body.minute_rate_limited.and_then(|raw| raw.get().parse().ok()).ok_or_else(missing)?;
    let second = |second: u64| Ts::parse(&format!("{second}.000000"));
    let from = second(minute_s)?;
    let to = Some(second(minute_s.saturating_add(60))?);
    Ok(GapRow { team, channel: None, reason: Reason::RateLimited, from, to }.update())
}

#[derive(Deserialize)]
struct RefusedTimeFact {
    team_id: TeamId,
    from: Ts,
    to: Ts,
}

/// The time in which requests were refused, as ingest reports it, and the workspace that misses them.
///
/// # Errors
/// [`Malformed`] if a part of it is missing or malformed, or it ends before it begins.
pub fn refused(time: &RawValue) -> Result<(TeamId, Update), Malformed> {
    let RefusedTimeFact { team_id: team, from, to } = read_job("refused", time)?;
    if to < from {
        return Err(Malformed::Job("refused"));
    }
    let gap = GapRow { team: &team, channel: None, reason: Reason::Refused, from, to: Some(to) }.update();
    Ok((team, gap))
}

#[derive(Default, Deserialize)]
struct HistoryChanged<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    latest: Option<Cow<'a, str>>,
}

/// When Slack told of a change, a register: only what was read of the history since then has the change in it.
const TOLD: &str = "told";

/// The gap of a history that Slack changed: what was kept of the channel up to `latest` may be other now. Slack's own
/// example names no channel: then every channel is meant.
fn history_changed(event: &SlackEvent<'_>) -> Result<Update, Malformed> {
    let missing = Malformed::Missing { event: "history_changed", field: "latest" };
    let HistoryChanged { latest } = envelope::object(event.raw);
    let latest = Ts::parse(&latest.ok_or(missing)?)?;
    // Nothing was changed after the event that reports it.
    let clock = event.clock();
    let latest = if clock == version::zero() { latest } else { latest.min(clock.clone()) };
    let channel = event.header.channel().map(|channel| ChannelId::parse(&channel)).transpose()?;
    // The channel's own beginning is not in the event.
    let (from, to) = (version::zero(), Some(latest));
    let gap = GapRow { team: &event.team, channel, reason: Reason::HistoryChanged, from, to }.update();
    Ok(Update { guard: Guard::Greater { register: TOLD.into(), version: clock.padded() }, ..gap })
}

/// The gap an event opens, if it is one that does.
///
/// # Errors
/// [`Malformed`] where the channel it is about is missing or malformed.
pub fn opened_by(event: &SlackEvent<'_>) -> Result<Option<Update>, Malformed> {
    let gap = |channel, reason| {
        GapRow { team: &event.team, channel, reason, from: event.clock(), to: None }.update()
    };
    Ok(match event.rule() {
        Some(EventRule::Channel(ChannelChange::Left)) => Some(gap(Some(event.channel()?), Reason::Left)),
        Some(EventRule::Gap(GapKind::TokensRevoked)) => {
            revokes_bot(event.raw).then(|| gap(None, Reason::Revoked))
        }
        Some(EventRule::Gap(GapKind::Uninstalled)) => Some(gap(None, Reason::Revoked)),
        Some(EventRule::Gap(GapKind::HistoryChanged)) => Some(history_changed(event)?),
        // The request that says it carries no event: see [`rate_limited`].
        Some(EventRule::Gap(GapKind::RateLimited)) => None,
        Some(_) | None => None,
    })
}

/// That the app came into a channel, by an event about the app itself: routing sends no other one's here.
///
/// # Errors
/// [`Malformed`] where the channel is missing or malformed.
pub fn joined(event: &SlackEvent<'_>) -> Result<Option<Update>, Malformed> {
    if event.rule() != Some(EventRule::Joined) {
        return Ok(None);
    }
    Ok(Some(Update::mark(ItemKey::joined(&event.team, &event.channel()?, &event.clock()))))
}

/// The gap of an event that a person removed from quarantine.
pub fn dropped(team: &TeamId, channel: Option<ChannelId>, clock: Ts) -> Update {
    GapRow { team, channel, reason: Reason::Dropped, from: clock.clone(), to: Some(clock) }.update()
}

const HOUR_MICROS: i64 = 3_600 * 1_000_000;

/// The gap of an event of which it is known about when it happened, in microseconds since the Unix epoch, and no more: the
/// whole hour, in every channel. However many there are, they leave one row per hour.
pub fn dropped_in_hour(team: &TeamId, micros: i64) -> Update {
    let from = micros - micros.rem_euclid(HOUR_MICROS);
    let hour = Interval { from, to: from + HOUR_MICROS };
    let (from, to) = (hour.from_ts(), Some(hour.to_ts()));
    GapRow { team, channel: None, reason: Reason::Dropped, from, to }.update()
}

/// A person's token may be revoked without harm: only the bot's counts. An event that does not say is taken to mean it.
fn revokes_bot(raw: &RawValue) -> bool {
    let event = envelope::value(raw.get()).unwrap_or_default();
    match event.pointer("/tokens/bot") {
        Some(Value::Array(bot)) => !bot.is_empty(),
        Some(_) | None => event.pointer("/tokens/oauth").is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slack::envelope::Envelope;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn opened(event: &str) -> Result<Option<Update>, Malformed> {
        let body = format!(r#"{{"team_id":"T1","event_time":1700000000,"event":{event}}}"#);
        opened_by(&SlackEvent::read(&Envelope::peek(body.as_bytes()).unwrap()).unwrap())
    }

    #[test]
    fn a_rate_limited_minute_has_a_beginning_and_an_end() {
        let team = TeamId::parse("T1").unwrap();
        let update = rate_limited(&team, &raw(r#"{"minute_rate_limited":1518467820}"#)).unwrap();
        assert_eq!(update.key, ItemKey::new("gap#T1", "all#1518467820.000000#rate_limited"));
        assert_eq!(update.set_if_absent["to"], "1518467880.000000");
        for hostile in [
            "{}",
            r#"{"minute_rate_limited":"x"}"#,
            r#"{"minute_rate_limited":-1}"#,
            r#"{"minute_rate_limited":99999999999999999999}"#,
            "[]",
        ] {
            assert!(rate_limited(&team, &raw(hostile)).is_err(), "{hostile}");
        }
        assert!(rate_limited(&team, &raw(r#"{"minute_rate_limited":18446744073709551615}"#)).is_err());
    }

    #[test]
    fn a_refused_time_is_a_gap_of_its_workspace_whatever_its_end() {
        let told = |from: &str, to: &str| {
            refused(&raw(&format!(r#"{{"team_id":"T1","from":"{from}","to":"{to}"}}"#)))
        };
        let (team, gap) = told("5.000000", "9.000100").unwrap();
        assert_eq!(team.as_str(), "T1");
        assert_eq!(gap.key, ItemKey::new("gap#T1", "all#5.000000#refused#9.000100"));
        assert_eq!(gap.set_if_absent["to"], "9.000100");
        assert!(told("5.000000", "5.000000").is_ok());
        for (from, to) in [("5.000000", "4.999999"), ("soon", "9.000000"), ("5.000000", "")] {
            assert!(told(from, to).is_err(), "{from} {to}");
        }
        for hostile in ["{}", "[]", "7", r#"{"team_id":"t#","from":"5.000000","to":"6.000000"}"#] {
            assert!(refused(&raw(hostile)).is_err(), "{hostile}");
        }
    }

    #[test]
    fn a_changed_history_is_a_gap_up_to_its_latest_change() {
        let in_channel = r#"{"type":"channel_history_changed","channel":"C1","latest":"9.000100","ts":"11.000000",
            "event_ts":"11.000000"}"#;
        let gap = opened(in_channel).unwrap().unwrap();
        assert_eq!(gap.key.timestamp, "C1#0.000000#history_changed#9.000100");
        assert_eq!(
            (&gap.set_if_absent["to"], &gap.set_if_absent["channel_id"]),
            (&"9.000100".into(), &"C1".into())
        );
        // As Slack's reference has it.
        let anywhere = opened(r#"{"type":"group_history_changed","latest":"9.000100"}"#).unwrap().unwrap();
        assert_eq!(anywhere.key.timestamp, "all#0.000000#history_changed#9.000100");
        // Told again: what was read before the last time does not count.
        let again = in_channel.replace("11.000000", "12.000000");
        let rows =
            [opened(&again).unwrap().unwrap(), gap].into_iter().fold(None, |row: Option<_>, update| {
                assert_eq!(update.key.timestamp, "C1#0.000000#history_changed#9.000100");
                update.apply(row.as_ref()).or(row)
            });
        assert_eq!(rows.unwrap()["told"], "000000000012.000000");
        let later = in_channel.replace("9.000100", "999999999999.000000");
        assert_eq!(opened(&later).unwrap().unwrap().set_if_absent["to"], "11.000000");
        assert!(opened(r#"{"type":"channel_history_changed","channel":"C1"}"#).is_err());
        assert!(opened(r#"{"type":"channel_history_changed","channel":"c#","latest":"9.000100"}"#).is_err());
    }

    #[test]
    fn a_join_is_a_mark_and_a_dropped_event_a_gap_of_its_own() {
        let body = r#"{"team_id":"T1","event":{"type":"member_joined_channel","user":"U1","channel":"C1",
            "event_ts":"7.000000"}}"#;
        let event = SlackEvent::read(&Envelope::peek(body.as_bytes()).unwrap()).unwrap();
        let mark = joined(&event).unwrap().unwrap();
        assert_eq!(mark.key, ItemKey::new("meta#T1#joined#C1", "000000000007.000000"));
        let team = TeamId::parse("T1").unwrap();
        let gap = dropped(&team, Some(ChannelId::parse("C1").unwrap()), Ts::parse("7.000000").unwrap());
        assert_eq!(gap.key, ItemKey::new("gap#T1", "C1#7.000000#dropped#7.000000"));
        assert_eq!(
            (&gap.set_if_absent["from"], &gap.set_if_absent["to"]),
            (&"7.000000".into(), &"7.000000".into())
        );
    }

    #[test]
    fn whatever_is_dropped_within_an_hour_is_one_gap_beside_that_of_a_single_event() {
        let team = TeamId::parse("T1").unwrap();
        let hour = dropped_in_hour(&team, 1_700_000_000_123_456);
        assert_eq!(hour.key, ItemKey::new("gap#T1", "all#1699999200.000000#dropped#1700002800.000000"));
        for within in [1_699_999_200_000_000, 1_700_002_799_999_999] {
            assert_eq!(dropped_in_hour(&team, within), hour);
        }
        assert_ne!(dropped_in_hour(&team, 1_700_002_800_000_000), hour);
        let single = dropped(&team, None, Ts::parse("1699999200.000000").unwrap());
        assert_ne!(single.key, hour.key, "it would hide the rest of the hour");
    }

    #[test]
    fn leaving_a_channel_and_losing_the_token_open_gaps() {
        let left =
            opened(r#"{"type":"channel_left","channel":"C1","event_ts":"5.000100"}"#).unwrap().unwrap();
        assert_eq!(left.key.timestamp, "C1#5.000100#left");
        assert!(!left.set_if_absent.contains_key("to"));
        let revoked = opened(r#"{"type":"tokens_revoked","tokens":{"bot":["U1"]}}"#).unwrap().unwrap();
        assert_eq!(revoked.key.timestamp, "all#1700000000.000000#revoked");
        assert!(opened(r#"{"type":"app_uninstalled"}"#).unwrap().is_some());
        assert!(opened(r#"{"type":"tokens_revoked"}"#).unwrap().is_some());
        assert!(opened(r#"{"type":"tokens_revoked","tokens":{"oauth":["U1"],"bot":[]}}"#).unwrap().is_none());
        assert!(opened(r#"{"type":"tokens_revoked","tokens":{"oauth":["U1"]}}"#).unwrap().is_none());
        let half = r#"{"type":"tokens_revoked","note":"\ud83d","tokens":{"oauth":["U1"]}}"#;
        assert!(opened(half).unwrap().is_none());
        assert!(opened(r#"{"type":"channel_rename","channel":{"id":"C1"}}"#).unwrap().is_none());
        assert!(opened(r#"{"type":"channel_left"}"#).is_err());
    }
}
