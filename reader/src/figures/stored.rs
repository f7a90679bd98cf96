//! Stored reports. A stored report is only shown again if its inputs are unchanged: the versions of all days
//! up to its end, people, names, gaps, and the replies to the messages that may have the most of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::person::AuthorKind;
use rules::figures::stored_report::{KeptReport, ReportHead};
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts};

use super::inputs::ReplyCandidates;
use super::making::{MadeReport, ReportScope, ReportSources};
use super::period::Period;
use super::report::{
    Figure, FigureName, FiguresReport, Number, PersonRow, RankedChannel, Scope, TopMessage, ZoneRow,
};
use super::rollups::Rollups;
use crate::find;
use crate::joined::ChannelOfTeam;

impl ReportSources<'_> {
    /// Returns the stored report as scripts read it, exactly as stored, if it is still current.
    pub async fn stored(&self) -> Result<Option<String>, ArchiveError> {
        let id = self.scope.report_id(&self.period);
        let row = self.archive.get(&ReportHead::key(self.team, &id)).await?;
        let Some(head) = row.as_ref().and_then(ReportHead::read) else { return Ok(None) };
        if !self.is_unchanged(&head).await? {
            return Ok(None);
        }
        let keys = head.chunks(self.team, &id);
        let chunks = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        Ok(head.text(&chunks))
    }

    /// Whether the inputs of a stored report are unchanged.
    async fn is_unchanged(&self, head: &ReportHead) -> Result<bool, ArchiveError> {
        if self.stamp().as_ref() != Some(&head.stamp) {
            return Ok(false);
        }
        match ReplyCandidates::read(&head.dependencies) {
            Some(candidates) => candidates.are_current(&self.channels).await,
            None => Ok(false),
        }
    }
}

impl MadeReport {
    /// Returns the row to store. `stamp` is [`ReportSources::stamp`] before the report was made; `text` is
    /// the report as scripts read it.
    pub fn to_kept_report(&self, stamp: String, text: String, now: Timestamp) -> KeptReport {
        KeptReport {
            team: self.report.team.clone(),
            report_id: self.report.id(),
            stamp,
            dependencies: self.candidates.to_json(),
            basis: self.report.basis.clone(),
            made_at: now.to_string(),
            text,
        }
    }
}

/// A stored report in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedReport {
    /// The workspace.
    pub team: TeamId,
    /// The id of the report.
    pub report_id: String,
    /// The head row, which describes the report's inputs.
    pub head: ReportHead,
}

/// Lists the stored reports of a workspace.
pub async fn list(archive: &dyn Archive, team: &TeamId) -> Result<Vec<ListedReport>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::reports(team))).await?;
    let ids: Vec<String> = rows.into_iter().map(|row| row.key.timestamp).collect();
    let keys: Vec<_> = ids.iter().map(|id| ReportHead::key(team, id)).collect();
    let heads = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    let listed = ids.into_iter().zip(heads).filter_map(|(report_id, head)| {
        Some(ListedReport { team: team.clone(), report_id, head: ReportHead::read(head.as_ref()?)? })
    });
    Ok(listed.collect())
}

impl ListedReport {
    /// Whether the report would be shown again, because its inputs are unchanged.
    pub async fn is_current(
        &self,
        archive: &dyn Archive,
        rollups: Option<&Rollups>,
        now: Timestamp,
    ) -> Result<bool, ArchiveError> {
        let parts: Vec<&str> = self.report_id.split('/').collect();
        let (requested_scope, period) = match parts[..] {
            ["team", from, to] => (Some(ReportScope::Team), Period::parse_bounds(from, to)),
            ["channel", id, from, to] => {
                let requested_scope = match ChannelId::parse(id) {
                    Ok(channel) => {
                        let location = ChannelOfTeam { team: self.team.clone(), channel };
                        let teams = find::teams(archive).await?;
                        Some(ReportScope::Channel(find::joined_channel(archive, &location, &teams).await?))
                    }
                    Err(_) => None,
                };
                (requested_scope, Period::parse_bounds(from, to))
            }
            _ => (None, None),
        };
        let (Some(requested_scope), Some(period)) = (requested_scope, period) else { return Ok(false) };
        ReportSources::read(archive, &self.team, requested_scope, period, rollups, now)
            .await?
            .is_unchanged(&self.head)
            .await
    }
}

/// Parses the report of a workspace or a channel from its JSON for scripts; `None` if it is malformed.
pub fn read(text: &str) -> Option<FiguresReport> {
    from_json(&serde_json::from_str(text).ok()?)
}

fn from_json(stored: &Value) -> Option<FiguresReport> {
    let scope = match stored["scope"].as_str()?.split_once('/') {
        None => Scope::Team,
        Some(("channel", id)) => Scope::Channel(ChannelId::parse(id).ok()?),
        Some(_) => return None,
    };
    let figures = FigureName::ALL.into_iter().map(|name| {
        let figure = &stored["figures"][name.as_str()];
        let number = |which: &str| number(name, figure.get(which)?);
        (name, Figure { value: number("value"), previous: number("previous") })
    });
    let mut hours = [[0; 24]; 7];
    for (day, stored) in hours.iter_mut().zip(stored["weekday_hours"].as_array()?) {
        for (hour, stored) in day.iter_mut().zip(stored.as_array()?) {
            *hour = stored.as_u64()?;
        }
    }
    Some(FiguresReport {
        team: TeamId::parse(stored["team_id"].as_str()?).ok()?,
        team_name: text(stored, "team_name"),
        scope,
        scope_name: text(stored, "name"),
        period: Period::parse_bounds(stored["from"].as_str()?, stored["to"].as_str()?)?,
        basis: text(stored, "basis")?,
        figures: figures.collect(),
        channels: rows(stored, "channels", channel_row)?,
        users: rows(stored, "users", person_row)?,
        hours,
        timezones: rows(stored, "timezones", zone_row)?,
        emoji: rows(stored, "emoji", |row| Some((text(row, "name")?, count(row, "count")?)))?,
        most_reacted: rows(stored, "most_reacted", |row| top_message(row, "reactions"))?,
        most_replied: rows(stored, "most_replied", |row| top_message(row, "replies"))?,
        partners: None,
        names: BTreeMap::new(),
        incomplete_days: rows(stored, "incomplete_days", |day| day.as_str().map(str::to_owned))?,
        // Earlier versions stored none.
        expired_days: rows(stored, "expired_days", |day| day.as_str().map(str::to_owned)).unwrap_or_default(),
        is_over: stored["is_over"].as_bool()?,
    })
}

/// Parses a number. Medians and shares are real numbers even if they are whole.
fn number(name: FigureName, value: &Value) -> Option<Number> {
    if name.is_count() { value.as_u64().map(Number::Count) } else { value.as_f64().map(Number::Real) }
}

fn rows<T>(stored: &Value, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    stored[name].as_array()?.iter().map(read).collect()
}

fn text(row: &Value, name: &str) -> Option<String> {
    row[name].as_str().map(str::to_owned)
}

fn count(row: &Value, name: &str) -> Option<u64> {
    row[name].as_u64()
}

fn rank(row: &Value) -> Option<usize> {
    usize::try_from(count(row, "rank")?).ok()
}

fn channel_row(row: &Value) -> Option<RankedChannel> {
    Some(RankedChannel {
        rank: rank(row)?,
        channel: ChannelId::parse(row["channel_id"].as_str()?).ok()?,
        name: text(row, "name"),
        messages: count(row, "messages")?,
        previous: count(row, "previous_messages")?,
        words: count(row, "words")?,
        posters: count(row, "posters")?,
        share: row["share"].as_f64()?,
        cumulative_share: row["cumulative_share"].as_f64()?,
    })
}

fn person_row(row: &Value) -> Option<PersonRow> {
    let kind = row["kind"].as_str()?;
    Some(PersonRow {
        rank: rank(row)?,
        user: text(row, "user_id")?,
        name: text(row, "name"),
        kind: AuthorKind::ALL.into_iter().map(AuthorKind::as_str).find(|known| *known == kind)?,
        messages: count(row, "messages")?,
        previous: count(row, "previous_messages")?,
        words: count(row, "words")?,
        replies: count(row, "replies")?,
        reactions_received: count(row, "reactions_received")?,
        reactions_given: count(row, "reactions_given")?,
        mentions_received: count(row, "mentions_received")?,
        replies_received: count(row, "replies_received")?,
        share: row["share"].as_f64()?,
        cumulative_share: row["cumulative_share"].as_f64()?,
    })
}

fn zone_row(row: &Value) -> Option<ZoneRow> {
    let (people, messages, words) = (count(row, "people")?, count(row, "messages")?, count(row, "words")?);
    Some(ZoneRow { zone: text(row, "tz")?, people, messages, words })
}

fn top_message(row: &Value, counted: &str) -> Option<TopMessage> {
    Some(TopMessage {
        channel: ChannelId::parse(row["channel_id"].as_str()?).ok()?,
        channel_name: text(row, "channel"),
        ts: Ts::parse(row["ts"].as_str()?).ok()?,
        user: text(row, "user_id"),
        user_name: text(row, "user"),
        count: count(row, counted)?,
        permalink: text(row, "permalink")?,
    })
}
