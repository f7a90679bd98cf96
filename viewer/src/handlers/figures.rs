//! Handler for the figures of a week or a month.

use axum::extract::Query;
use jiff::Timestamp;
use maud::{Markup, html};
use reader::figures::excerpts;
use reader::figures::making::{self, ReportScope};
use reader::figures::period::{Period, PeriodError};
use reader::figures::rollups::Rollups;
use reader::find;
use serde::Deserialize;
use slack::ids::TeamId;

use super::cached::{activity, menu};
use super::{LINKS, PageResult, Visit, framed};
use crate::answer::PageError;
use crate::links::SitePage;
use crate::pages;
use crate::pages::layout::MainPane;

/// Selects a workspace, and a week or a month.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FiguresParams {
    week: Option<String>,
    month: Option<String>,
    team: Option<String>,
}

/// The unit of the periods on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeriodUnit {
    Week,
    Month,
}

impl PeriodUnit {
    /// Returns the requested period: by default the last one that is over.
    fn period(self, requested: Option<&str>, now: Timestamp) -> Result<Period, PeriodError> {
        match (self, requested) {
            (Self::Week, Some(week)) => Period::week(week),
            (Self::Week, None) => Ok(Period::last_week(now)),
            (Self::Month, Some(month)) => Period::month(month),
            (Self::Month, None) => Ok(Period::last_month(now)),
        }
    }

    /// Returns the period of this unit that a time is in.
    fn period_with(self, micros: i64) -> Period {
        match self {
            Self::Week => Period::week_with(micros),
            Self::Month => Period::month_with(micros),
        }
    }

    /// The name of the parameter and of the form's field, which is also the field's type.
    fn as_str(self) -> &'static str {
        match self {
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Week => "Week",
            Self::Month => "Month",
        }
    }

    /// An example and the pattern of the field, for browsers that show it as a field of text.
    fn placeholder_and_pattern(self) -> (&'static str, &'static str) {
        match self {
            Self::Week => ("2026-W46", "[0-9]{4}-W[0-9]{2}"),
            Self::Month => ("2026-11", "[0-9]{4}-[0-9]{2}"),
        }
    }
}

/// `/stats`
pub(crate) async fn figures(state: Visit, Query(params): Query<FiguresParams>) -> PageResult {
    let now = Timestamp::from_millisecond(state.clock.now().0).unwrap_or_default();
    let (unit, requested) = match (params.week.as_deref(), params.month.as_deref()) {
        (Some(_), Some(_)) => return Err(PageError::Invalid("Choose a week or a month, not both.".into())),
        (None, Some(month)) => (PeriodUnit::Month, Some(month)),
        (week, None) => (PeriodUnit::Week, week),
    };
    let requested = requested.filter(|requested| !requested.is_empty());
    let period = unit.period(requested, now).map_err(|error| PageError::Invalid(error.to_string()))?;
    let teams = find::teams(&*state.archive).await?;
    let requested_team = params.team.as_deref();
    if teams.is_empty() && requested_team.is_none() {
        let main =
            html! { div class="plain-page" { h1 { "Figures" } p { "There is nothing to count yet." } } };
        return framed(&menu(&state, None).await?, "Figures", Some(SitePage::Figures), MainPane::Page, main);
    }
    let team =
        teams.iter().find(|team| requested_team.is_none_or(|requested_team| team.as_str() == requested_team));
    let team = team.ok_or_else(|| PageError::missing("This workspace is not in the archive."))?;
    let archive = &*state.archive;
    let rollups = Rollups::read(archive, state.index.changes(), team).await?;
    let menu = menu(&state, None).await?;
    let oldest = pages::home::oldest(&menu, &*activity(&state).await?);
    let has_earlier = oldest.is_none_or(|oldest| oldest.micros() < period.from());
    let mut report =
        making::make_report(archive, team, ReportScope::Team, period, rollups.as_ref(), now).await?;
    excerpts::add(archive, &mut report).await?;
    let chosen = ChosenPeriod { unit, period, team, teams: &teams, has_earlier, now };
    let main = html! {
        div class="plain-page" {
            (chosen.form())
            (pages::figures::report_figures(&report, Some(&LINKS)))
        }
    };
    framed(&menu, "Figures", Some(SitePage::Figures), MainPane::Page, main)
}

/// The period and workspace that are shown, and how to choose others.
struct ChosenPeriod<'a> {
    unit: PeriodUnit,
    period: Period,
    team: &'a TeamId,
    teams: &'a [TeamId],
    /// Whether the archive has messages before the period.
    has_earlier: bool,
    now: Timestamp,
}

impl ChosenPeriod<'_> {
    fn form(&self) -> Markup {
        let Self { unit, period, team, teams, has_earlier, now } = *self;
        let before = self.address(unit, period.previous()).filter(|_| has_earlier);
        let after = self.address(unit, period.next());
        let (name, (placeholder, pattern)) = (unit.as_str(), unit.placeholder_and_pattern());
        html! {
            form class="week-form" action="/stats" method="get" {
                @for other in [PeriodUnit::Week, PeriodUnit::Month] {
                    @if other == unit { b { (other.label()) } } @else {
                        @let last = (period.to() - 1).min(now.as_microsecond());
                        a href=[self.address(other, other.period_with(last))] { (other.label()) }
                    }
                }
                span class="spread" {}
                @if let Some(before) = before { a rel="prev" href=(before) { (unit.label()) " before" } }
                @if let Some(after) = after { a rel="next" href=(after) { (unit.label()) " after" } }
                input id=(name) name=(name) type=(name) aria-label=(unit.label()) placeholder=(placeholder) pattern=(pattern)
                    value=(period.short_name());
                @if teams.len() > 1 {
                    label for="team" { "Workspace" }
                    select id="team" name="team" {
                        @for known in teams { option selected[known == team] { (known) } }
                    }
                }
                button type="submit" { "Show" }
            }
        }
    }

    /// The address of the page of a period; `None` if the period is in the future.
    fn address(&self, unit: PeriodUnit, period: Period) -> Option<String> {
        let has_begun = period.from() <= self.now.as_microsecond() && period.from() >= 0;
        let team = if self.teams.len() > 1 { format!("&team={}", self.team) } else { String::new() };
        has_begun.then(|| format!("/stats?{}={}{team}", unit.as_str(), period.short_name()))
    }
}
