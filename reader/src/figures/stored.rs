//! Stored reports. A stored report is only shown again if its inputs are unchanged: the versions of all days
//! up to its end, people, names, gaps, and the replies to the messages that may have the most of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError, Query, key, query_all};
use rules::figures::stored_report::{KeptReport, ReportHead};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId};

use super::inputs::ReplyCandidates;
use super::making::{MadeReport, ReportScope, ReportSources};
use super::period::Period;
use super::report::{Figure, FigureName, FiguresReport, Number, PeriodMessages, Scope};
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
    pub team: TeamId,
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
    Some(FiguresReport {
        team: TeamId::parse(stored["team_id"].as_str()?).ok()?,
        team_name: text(stored, "team_name"),
        scope,
        scope_name: text(stored, "name"),
        period: Period::parse_bounds(stored["from"].as_str()?, stored["to"].as_str()?)?,
        basis: text(stored, "basis")?,
        figures: figures.collect(),
        trend: rows::<StoredPeriod>(stored, "trend")?
            .into_iter()
            .map(StoredPeriod::read)
            .collect::<Option<_>>()?,
        channels: rows(stored, "channels")?,
        users: rows(stored, "users")?,
        hours: serde_json::from_value(stored["weekday_hours"].clone()).ok()?,
        timezones: rows(stored, "timezones")?,
        emoji: rows::<StoredEmoji>(stored, "emoji")?.into_iter().map(|row| (row.name, row.count)).collect(),
        most_reacted: rows(stored, "most_reacted")?,
        most_replied: rows(stored, "most_replied")?,
        partners: None,
        names: BTreeMap::new(),
        incomplete_days: rows(stored, "incomplete_days")?,
        // Earlier versions stored none.
        expired_days: rows(stored, "expired_days").unwrap_or_default(),
        is_over: stored["is_over"].as_bool()?,
    })
}

/// Parses a number. Medians and shares are real numbers even if they are whole.
fn number(name: FigureName, value: &Value) -> Option<Number> {
    if name.is_count() { value.as_u64().map(Number::Count) } else { value.as_f64().map(Number::Real) }
}

fn rows<T: DeserializeOwned>(stored: &Value, name: &str) -> Option<Vec<T>> {
    serde_json::from_value(stored[name].clone()).ok()
}

fn text(stored: &Value, name: &str) -> Option<String> {
    stored[name].as_str().map(str::to_owned)
}

#[derive(Deserialize)]
struct StoredPeriod {
    from: String,
    to: String,
    messages: u64,
}

impl StoredPeriod {
    fn read(self) -> Option<PeriodMessages> {
        let period = Period::parse_bounds(&self.from, &self.to)?;
        Some(PeriodMessages { period, messages: self.messages })
    }
}

#[derive(Deserialize)]
struct StoredEmoji {
    name: String,
    count: u64,
}
