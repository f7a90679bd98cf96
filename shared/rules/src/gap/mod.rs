//! Gaps: intervals in which events may have been lost.
//!
//! The stored rows are facts, each from one event, so any order of events leaves the same rows:
//!
//! * `app_rate_limited`: a minute without events, <https://docs.slack.dev/reference/events/app_rate_limited>
//! * `channel_left`, `group_left`: the app is no longer in the channel; [`joined`]: it returned
//! * `tokens_revoked`, `app_uninstalled`, `team_access_revoked`: the app has no access any more;
//!   `team_access_granted`: it has access again, <https://docs.slack.dev/reference/events/team_access_granted>
//! * `grid_migration_started`, `grid_migration_finished`: the workspace moved to Enterprise Grid,
//!   <https://docs.slack.dev/reference/events/grid_migration_started>
//! * [`run`]: the intervals in which an ingest accepted events; between them is downtime
//! * [`dropped`]: an operator removed an event from quarantine; [`dropped_in_hour`]: the event was only
//!   counted there, or cannot be read
//! * [`refused`]: requests were refused although Slack had signed them: this machine's clock differs from
//!   Slack's, or the event could not be queued
//! * `channel_history_changed`, `group_history_changed`: Slack changed many messages of a channel at once,
//!   <https://docs.slack.dev/reference/events/channel_history_changed>
//!
//! [`projection`] derives from these facts what readers see. [`closing`] determines which gaps history has
//! filled, and which spans of history must still be read.

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
use ports::archive::{Guard, Item, ItemKey, Update, text_attributes};
use slack::catalogue::{ChannelChange, EventRule, GapKind};
use slack::envelope::{self, text_or_none};
use slack::ids::{ChannelId, TeamId, Ts};

/// The channel in the key of a gap of the whole workspace.
pub const ALL_CHANNELS: &str = "all";

/// Why events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapReason {
    /// No ingest was running to accept them.
    Downtime,
    /// Slack withheld them because there were too many.
    RateLimited,
    /// The app was not in the channel.
    Left,
    /// The app was uninstalled, or its token revoked.
    Revoked,
    /// An operator removed an event from quarantine, or it was only counted there.
    Dropped,
    /// Requests were refused: Slack had signed them, but by this machine's clock they were too old or too
    /// new, or ingest could not queue the event even at Slack's last retry.
    Refused,
    /// Slack changed many messages at once, without an event for each.
    HistoryChanged,
    /// Slack moved the workspace to Enterprise Grid.
    Migration,
}

impl GapReason {
    pub const ALL: [Self; 8] = [
        Self::Downtime,
        Self::RateLimited,
        Self::Left,
        Self::Revoked,
        Self::Dropped,
        Self::Refused,
        Self::HistoryChanged,
        Self::Migration,
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
            Self::Migration => "migration",
        }
    }

    /// Whether an event may be missing at the exact end of the gap. Other gaps end with an event that was
    /// accepted.
    fn misses_its_end(self) -> bool {
        match self {
            Self::Dropped | Self::Refused | Self::HistoryChanged => true,
            Self::Downtime | Self::RateLimited | Self::Left | Self::Revoked | Self::Migration => false,
        }
    }

    /// Whether several gaps of one channel may begin at the same time: then their keys contain their ends.
    fn has_end_in_key(self) -> bool {
        match self {
            Self::Dropped | Self::Refused | Self::HistoryChanged => true,
            Self::Downtime | Self::RateLimited | Self::Left | Self::Revoked | Self::Migration => false,
        }
    }
}

/// A gap with a row of its own.
struct GapRow<'a> {
    team: &'a TeamId,
    /// `None` for a gap of every channel.
    channel: Option<ChannelId>,
    reason: GapReason,
    from: Ts,
    /// `None` if its end is not known.
    to: Option<Ts>,
}

impl GapRow<'_> {
    /// The update of the gap's row: the same event always makes the same row.
    fn update(self) -> Update {
        let channel = self.channel.as_ref().map_or(ALL_CHANNELS, ChannelId::as_str);
        let reason = self.reason.as_str();
        let mut timestamp = format!("{channel}#{}#{reason}", self.from);
        if let Some(to) = self.to.as_ref().filter(|_| self.reason.has_end_in_key()) {
            timestamp.push_str(&format!("#{to}"));
        }
        let key = ItemKey::gap(self.team, &timestamp);
        let mut set_if_absent = text_attributes([
            ("type", "gap"),
            ("team_id", self.team.as_str()),
            ("reason", reason),
            ("from", self.from.as_str()),
        ]);
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

/// The gap of the minute that an `app_rate_limited` envelope names.
///
/// # Errors
/// [`Malformed`] if it does not name a minute.
pub fn rate_limited(team: &TeamId, envelope: &RawValue) -> Result<Update, Malformed> {
    let missing = || Malformed::Missing { event: "app_rate_limited", field: "minute_rate_limited" };
    let body: RateLimited<'_> = envelope::object_or_default(envelope);
    let minute_s: u64 =
        body.minute_rate_limited.and_then(|raw| raw.get().parse().ok()).ok_or_else(missing)?;
    let second = |second: u64| Ts::parse(&format!("{second}.000000"));
    let from = second(minute_s)?;
    let to = Some(second(minute_s.saturating_add(60))?);
    Ok(GapRow { team, channel: None, reason: GapReason::RateLimited, from, to }.update())
}

#[derive(Deserialize)]
struct RefusedTimeFact {
    team_id: TeamId,
    from: Ts,
    to: Ts,
}

/// The gap in which requests were refused, as ingest reports it, and the workspace whose events are missing.
///
/// # Errors
/// [`Malformed`] if a field is missing or malformed, or the interval ends before it begins.
pub fn refused(time: &RawValue) -> Result<(TeamId, Update), Malformed> {
    let RefusedTimeFact { team_id: team, from, to } = read_job("refused", time)?;
    if to < from {
        return Err(Malformed::Job("refused"));
    }
    let gap = GapRow { team: &team, channel: None, reason: GapReason::Refused, from, to: Some(to) }.update();
    Ok((team, gap))
}

#[derive(Default, Deserialize)]
struct HistoryChanged<'a> {
    #[serde(borrow, default, deserialize_with = "text_or_none")]
    latest: Option<Cow<'a, str>>,
}

/// The register with the time at which Slack reported a change: only history that was read later contains the
/// change.
const REPORTED_AT: &str = "told";

/// The gap of a history that Slack changed: the channel's messages up to `latest` may differ now. Slack's own
/// example names no channel: then the gap is about every channel.
fn history_changed(event: &SlackEvent<'_>) -> Result<Update, Malformed> {
    let missing = Malformed::Missing { event: "history_changed", field: "latest" };
    let HistoryChanged { latest } = envelope::object_or_default(event.raw);
    let latest = Ts::parse(&latest.ok_or(missing)?)?;
    // The changes are not later than the event that reports them.
    let clock = event.clock();
    let latest = if clock == version::zero() { latest } else { latest.min(clock.clone()) };
    let channel = event.header.channel().map(|channel| ChannelId::parse(&channel)).transpose()?;
    // The channel's own beginning is not in the event.
    let (from, to) = (version::zero(), Some(latest));
    let gap = GapRow { team: &event.team, channel, reason: GapReason::HistoryChanged, from, to }.update();
    Ok(Update { guard: Guard::Greater { register: REPORTED_AT.into(), version: clock.padded() }, ..gap })
}

/// The facts about gaps in an event: the gaps that it opens, or the sign that ends one.
///
/// # Errors
/// [`Malformed`] if the event's channel is missing or malformed.
pub fn facts(event: &SlackEvent<'_>) -> Result<Vec<Update>, Malformed> {
    let gap = |team: &TeamId, channel, reason| {
        GapRow { team, channel, reason, from: event.clock(), to: None }.update()
    };
    let of_workspace = |reason| vec![gap(&event.team, None, reason)];
    Ok(match event.rule() {
        Some(EventRule::Channel(ChannelChange::Left)) => {
            vec![gap(&event.team, Some(event.channel()?), GapReason::Left)]
        }
        Some(EventRule::Gap(GapKind::TokensRevoked)) if !revokes_bot(event.raw) => Vec::new(),
        Some(EventRule::Gap(GapKind::TokensRevoked | GapKind::Uninstalled)) => {
            of_workspace(GapReason::Revoked)
        }
        Some(EventRule::Gap(GapKind::HistoryChanged)) => vec![history_changed(event)?],
        Some(EventRule::Gap(GapKind::MigrationStarted)) => of_workspace(GapReason::Migration),
        Some(EventRule::Gap(GapKind::MigrationFinished)) => {
            vec![GapEnd::MigrationFinished.update(&event.team, &event.clock())]
        }
        Some(EventRule::Gap(GapKind::AccessRevoked)) => {
            accessible_teams(event).iter().map(|team| gap(team, None, GapReason::Revoked)).collect()
        }
        Some(EventRule::Gap(GapKind::AccessGranted)) => {
            let teams = accessible_teams(event);
            teams.iter().map(|team| GapEnd::AccessGranted.update(team, &event.clock())).collect()
        }
        // The request that reports it has no event: see [`rate_limited`].
        Some(EventRule::Gap(GapKind::RateLimited)) => Vec::new(),
        Some(_) | None => Vec::new(),
    })
}

/// A sign that ends gaps, in a row of its own between those of the gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapEnd {
    /// The workspace's migration finished.
    MigrationFinished,
    /// The app may access the workspace again.
    AccessGranted,
}

impl GapEnd {
    const fn as_str(self) -> &'static str {
        match self {
            Self::MigrationFinished => "migration_finished",
            Self::AccessGranted => "access_granted",
        }
    }

    fn update(self, team: &TeamId, at: &Ts) -> Update {
        let key = ItemKey::gap(team, &format!("{ALL_CHANNELS}#{at}#{}", self.as_str()));
        let set_if_absent = text_attributes([
            ("type", "gap_end"),
            ("team_id", team.as_str()),
            ("ends", self.as_str()),
            ("to", at.as_str()),
        ]);
        Update { set_if_absent, ..Update::new(key) }
    }

    /// The times of these signs among the rows of gaps.
    pub fn times(self, rows: &[Item]) -> Vec<Ts> {
        let rows = rows.iter().filter(|row| row.text("ends") == Some(self.as_str()));
        rows.filter_map(|row| Ts::parse(row.text("to")?).ok()).collect()
    }
}

/// Maximum number of workspaces that are read from one event: more than Slack names in one.
const MAX_TEAMS: usize = 1_000;

#[derive(Default, Deserialize)]
struct AccessChange<'a> {
    #[serde(borrow, default)]
    team_ids: Option<&'a RawValue>,
}

/// The workspaces whose access changed: those that the event lists, otherwise the event's own.
fn accessible_teams(event: &SlackEvent<'_>) -> Vec<TeamId> {
    let AccessChange { team_ids } = envelope::object_or_default(event.raw);
    let listed = team_ids.and_then(|raw| serde_json::from_str::<Vec<Value>>(raw.get()).ok());
    let listed = listed.unwrap_or_default().into_iter().take(MAX_TEAMS);
    let mut teams: Vec<TeamId> = listed.filter_map(|team| TeamId::parse(team.as_str()?).ok()).collect();
    if teams.is_empty() {
        teams.push(event.team.clone());
    }
    teams
}

/// The mark that the app joined a channel, from an event about the app itself: routing sends no other user's
/// join here.
///
/// # Errors
/// [`Malformed`] if the channel is missing or malformed.
pub fn joined(event: &SlackEvent<'_>) -> Result<Option<Update>, Malformed> {
    if event.rule() != Some(EventRule::Joined) {
        return Ok(None);
    }
    Ok(Some(Update::mark(ItemKey::joined(&event.team, &event.channel()?, &event.clock()))))
}

/// The gap of an event that an operator removed from quarantine.
pub fn dropped(team: &TeamId, channel: Option<ChannelId>, clock: Ts) -> Update {
    GapRow { team, channel, reason: GapReason::Dropped, from: clock.clone(), to: Some(clock) }.update()
}

const HOUR_MICROS: i64 = 3_600 * 1_000_000;

/// The gap of an event of which only the approximate time is known, in microseconds since the Unix epoch: the
/// whole hour, in every channel. All such events of an hour share one row.
pub fn dropped_in_hour(team: &TeamId, micros: i64) -> Update {
    let from = micros - micros.rem_euclid(HOUR_MICROS);
    let hour = Interval { from, to: from + HOUR_MICROS };
    let (from, to) = (hour.from_ts(), Some(hour.to_ts()));
    GapRow { team, channel: None, reason: GapReason::Dropped, from, to }.update()
}

/// Whether the bot's token was revoked: a revoked user token opens no gap. An event without tokens is treated
/// as a revocation of the bot's.
pub(crate) fn revokes_bot(raw: &RawValue) -> bool {
    let event = envelope::parse_value(raw.get()).unwrap_or_default();
    match event.pointer("/tokens/bot") {
        Some(Value::Array(bot)) => !bot.is_empty(),
        Some(_) | None => event.pointer("/tokens/oauth").is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::with_event;
    use slack::envelope::Envelope;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn all_facts(event: &str) -> Result<Vec<Update>, Malformed> {
        let body = format!(r#"{{"team_id":"T1","event_time":1700000000,"event":{event}}}"#);
        facts(&SlackEvent::read(&Envelope::peek(body.as_bytes()).unwrap()).unwrap())
    }

    fn opened(event: &str) -> Result<Option<Update>, Malformed> {
        all_facts(event).map(|mut facts| facts.pop())
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
    fn an_interval_of_refused_requests_is_a_gap_of_its_workspace() {
        let reported = |from: &str, to: &str| {
            refused(&raw(&format!(r#"{{"team_id":"T1","from":"{from}","to":"{to}"}}"#)))
        };
        let (team, gap) = reported("5.000000", "9.000100").unwrap();
        assert_eq!(team.as_str(), "T1");
        assert_eq!(gap.key, ItemKey::new("gap#T1", "all#5.000000#refused#9.000100"));
        assert_eq!(gap.set_if_absent["to"], "9.000100");
        assert!(reported("5.000000", "5.000000").is_ok());
        for (from, to) in [("5.000000", "4.999999"), ("soon", "9.000000"), ("5.000000", "")] {
            assert!(reported(from, to).is_err(), "{from} {to}");
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
        // As in Slack's reference.
        let anywhere = opened(r#"{"type":"group_history_changed","latest":"9.000100"}"#).unwrap().unwrap();
        assert_eq!(anywhere.key.timestamp, "all#0.000000#history_changed#9.000100");
        // Reported again: history that was read before the last report does not count.
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
        let event = r#"{"type":"member_joined_channel","user":"U1","channel":"C1","event_ts":"7.000000"}"#;
        let mark = with_event(event, joined).unwrap().unwrap();
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
    fn events_dropped_within_an_hour_share_a_gap_apart_from_that_of_a_single_event() {
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

    #[test]
    fn a_migration_and_access_leave_facts_for_each_workspace() {
        let keys = |event: &str| -> Vec<String> {
            let facts = all_facts(event).unwrap();
            facts.into_iter().map(|fact| format!("{} {}", fact.key.item_id, fact.key.timestamp)).collect()
        };
        assert_eq!(
            keys(r#"{"type":"grid_migration_started","enterprise_id":"E1"}"#),
            ["gap#T1 all#1700000000.000000#migration"]
        );
        assert_eq!(
            keys(r#"{"type":"grid_migration_finished","enterprise_id":"E1"}"#),
            ["gap#T1 all#1700000000.000000#migration_finished"]
        );
        assert_eq!(
            keys(r#"{"type":"team_access_revoked","team_ids":["T1","T2",7,"t#"],"event_ts":"5.000000"}"#),
            ["gap#T1 all#5.000000#revoked", "gap#T2 all#5.000000#revoked"]
        );
        for own in ["null", "[]", r#""T2""#, "[null]", "{}"] {
            assert_eq!(
                keys(&format!(r#"{{"type":"team_access_granted","team_ids":{own},"event_ts":"5.000000"}}"#)),
                ["gap#T1 all#5.000000#access_granted"]
            );
        }
        let many =
            format!(r#"{{"type":"team_access_revoked","team_ids":[{}"T2"]}}"#, r#""T2","#.repeat(5_000));
        assert_eq!(all_facts(&many).unwrap().len(), MAX_TEAMS);
    }
}
