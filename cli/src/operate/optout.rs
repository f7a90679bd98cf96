//! `annalist optout`: what a person writes, or what is written in a channel, is not stored from now on.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{ArgGroup, Subcommand};
use ports::archive::erasure::{OptOutFact, OptOutScope};
use ports::archive::{Archive, ArchiveExt, Query, key, query_all};
use ports::clock::Clock;
use process::config::backend::{Backend, BackendArgs};
use reader::range::ts_from_micros;
use rules::message::rfc3339;
use serde_json::json;
use slack::ids::{TeamId, Ts};

use super::hold::wait_for_writers;
use super::scope::{self, ScopeArgs};
use crate::plain;
use crate::read::channel_name;

/// `annalist optout …`.
#[derive(Debug, Subcommand)]
pub(crate) enum OptOutCommand {
    /// Store nothing more of a person, or of a channel; what is stored already stays: `annalist erase` removes it
    Add(OptOutArgs),
    /// List who opted out, and when
    List(ListOptOutsArgs),
    /// Store what is written from now on; what was written meanwhile stays out
    Remove(OptOutArgs),
}

/// `annalist optout add` and `remove`.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).args(["user", "channel"])))]
pub(crate) struct OptOutArgs {
    /// A person, by id or name
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A channel, by id or name
    #[arg(long, value_name = "CHANNEL", value_parser = channel_name)]
    channel: Option<String>,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist optout list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListOptOutsArgs {
    #[command(flatten)]
    common: ScopeArgs,
}

impl OptOutCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Add(args) | Self::Remove(args) => &args.common.backend,
            Self::List(args) => &args.common.backend,
        }
    }
}

/// Records, lists or ends opting out.
pub(crate) async fn run(
    backend: &Backend,
    clock: &dyn Clock,
    command: &OptOutCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = backend.archive();
    let (args, is_out) = match command {
        OptOutCommand::Add(args) => (args, true),
        OptOutCommand::Remove(args) => (args, false),
        OptOutCommand::List(args) => {
            for team in scope::teams(&*archive, args.common.team.as_ref()).await? {
                for period in periods(&*archive, &team).await? {
                    period.print(out, args.common.json)?;
                }
            }
            return Ok(());
        }
    };
    let scopes: Vec<(TeamId, OptOutScope)> = match (&args.user, &args.channel) {
        (Some(user), _) => {
            let (teams, user) = scope::person(&*archive, user, args.common.team.as_ref()).await?;
            teams.into_iter().map(|team| (team, OptOutScope::User(user.clone()))).collect()
        }
        (None, channel) => {
            let called = channel.as_deref().unwrap_or_default();
            let places = scope::channel(&*archive, called, args.common.team.as_ref()).await?;
            places.into_iter().map(|place| (place.team, OptOutScope::Channel(place.channel))).collect()
        }
    };
    let at = ts_from_micros(clock.now().0.saturating_mul(1_000));
    for (team, scope) in scopes {
        let before = periods(&*archive, &team).await?;
        let of_scope = |period: &&OutPeriod| period.scope == scope && period.until.is_none();
        let is_changed = before.iter().any(|period| of_scope(&period)) != is_out;
        if is_changed {
            let (at, by) = (at.clone(), process::config::system_user());
            let fact = OptOutFact { team: team.clone(), scope: scope.clone(), at, is_out, by };
            archive.write(&fact.update()).await?;
        }
        let after = periods(&*archive, &team).await?;
        match after.iter().rfind(|period| period.scope == scope) {
            Some(period) => period.print(out, args.common.json)?,
            None => anyhow::bail!("{} of {team} has not opted out", id_of(&scope)),
        }
    }
    wait_for_writers(backend).await;
    Ok(())
}

/// A period in which a person or a channel is out.
struct OutPeriod {
    team: TeamId,
    scope: OptOutScope,
    since: Ts,
    until: Option<Ts>,
    by: Option<String>,
}

/// Returns the periods of a workspace, those of one scope in the order of time.
async fn periods(archive: &dyn Archive, team: &TeamId) -> anyhow::Result<Vec<OutPeriod>> {
    let rows = query_all(archive, Query::partition(key::erasures(team))).await?;
    let mut facts: BTreeMap<OptOutScope, Vec<OptOutFact>> = BTreeMap::new();
    for fact in rows.iter().filter_map(OptOutFact::read) {
        facts.entry(fact.scope.clone()).or_default().push(fact);
    }
    let mut periods: Vec<OutPeriod> = Vec::new();
    for (scope, mut facts) in facts {
        facts.sort_by(|a, b| a.at.cmp(&b.at));
        for fact in facts {
            let open = periods.last_mut().filter(|last| last.scope == scope && last.until.is_none());
            match (open, fact.is_out) {
                (Some(open), false) => open.until = Some(fact.at),
                (None, true) => periods.push(OutPeriod {
                    team: team.clone(),
                    scope: scope.clone(),
                    since: fact.at,
                    until: None,
                    by: fact.by,
                }),
                (Some(_), true) | (None, false) => {}
            }
        }
    }
    Ok(periods)
}

fn id_of(scope: &OptOutScope) -> &str {
    match scope {
        OptOutScope::User(user) => user.as_str(),
        OptOutScope::Channel(channel) => channel.as_str(),
    }
}

impl OutPeriod {
    fn print(&self, out: &mut dyn Write, json: bool) -> anyhow::Result<()> {
        let Self { team, scope, since, until, by } = self;
        let (user, channel) = match scope {
            OptOutScope::User(user) => (Some(user), None),
            OptOutScope::Channel(channel) => (None, Some(channel)),
        };
        if json {
            let line = json!({ "team_id": team, "user_id": user, "channel_id": channel, "since": since,
                "until": until, "by": by });
            return Ok(plain::json_line(out, &line)?);
        }
        let by =
            by.as_deref().map_or_else(String::new, |by| format!(", recorded by {}", plain::excerpt(by, 40)));
        let until = until.as_ref().map_or_else(String::new, |until| format!(" until {}", rfc3339(until)));
        Ok(writeln!(out, "{} of {team} is out since {}{until}{by}", id_of(scope), rfc3339(since))?)
    }
}

#[cfg(test)]
#[path = "optout_tests.rs"]
mod tests;
