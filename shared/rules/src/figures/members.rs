//! The number of members of a channel: a row for each day on which Slack's directory listed the channel.
//!
//! `members#{team}#{channel}` / `{day}` is written once a day. It is not part of the channel's own rows:
//! members come and go, and each change would be a new state of the channel.

use ports::archive::{Item, ItemKey, Update, text_attributes};
use serde::Deserialize;
use serde_json::value::RawValue;
use slack::envelope;
use slack::ids::{ChannelId, TeamId, Ts};

use super::rollup::RollupDay;

const MEMBERS: &str = "members";

#[derive(Default, Deserialize)]
struct ListedMembers<'a> {
    #[serde(borrow, default)]
    num_members: Option<&'a RawValue>,
}

/// The row of the day of `clock` for a channel as Slack lists it; `None` if Slack does not report the number
/// of members.
pub fn listed(team: &TeamId, channel: &ChannelId, raw: &RawValue, clock: &Ts) -> Option<Update> {
    let listed: ListedMembers<'_> = envelope::object_or_default(raw);
    let members: u64 = listed.num_members?.get().parse().ok()?;
    let day = RollupDay::from_ts(clock)?.text();
    let texts =
        [("type", MEMBERS), ("team_id", team.as_str()), ("channel_id", channel.as_str()), ("day", &day)];
    let mut set_if_absent = text_attributes(texts);
    set_if_absent.insert(MEMBERS.into(), members.into());
    Some(Update { set_if_absent, ..Update::new(ItemKey::members(team, channel, &day)) })
}

/// The number in such a row.
pub fn count(row: &Item) -> Option<u64> {
    row.attributes.get(MEMBERS)?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_the_number_of_members_that_slack_lists() {
        let row = |raw: &str| {
            let raw = RawValue::from_string(raw.to_owned()).unwrap();
            let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
            listed(&team, &channel, &raw, &Ts::parse("1795132800.000100").unwrap())
        };
        let update = row(r#"{"id":"C1","num_members":12}"#).unwrap();
        assert_eq!(update.key, ItemKey::new("members#T1#C1", "2026-11-20"));
        let written = Item { attributes: update.apply(None).unwrap(), key: update.key };
        assert_eq!(count(&written), Some(12));
        for odd in ["{}", "[]", r#"{"num_members":null}"#, r#"{"num_members":-1}"#, r#"{"num_members":"3"}"#]
        {
            assert_eq!(row(odd), None, "{odd}");
        }
    }
}
