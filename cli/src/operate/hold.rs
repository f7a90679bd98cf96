//! `annalist hold`: keeps messages from retention and from `erase`, as for a legal case.

use std::io::Write;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::{ArgGroup, Subcommand};
use ports::archive::erasure::{ErasureFact, ErasureFacts, ErasureScope, HoldFact, HoldRelease, HoldScope};
use ports::archive::{Archive, ArchiveExt, ItemKey};
use ports::clock::Clock;
use process::config::backend::{Backend, BackendArgs};
use reader::range::ts_from_micros;
use rules::message::rfc3339;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use workers::eraser::find_held;

use super::date::date;
use super::scope::{self, ScopeArgs};
use crate::UsageError;
use crate::failure::say;
use crate::plain;
use crate::read::channel_name;

/// Maximum length of a reason: it is repeated in every message about the hold.
const MAX_REASON_CHARS: usize = 300;

/// `annalist hold …`.
#[derive(Debug, Subcommand)]
pub(crate) enum HoldCommand {
    /// Keep what a person wrote, what is in a channel, or a whole workspace
    Set(SetHoldArgs),
    /// List the holds
    List(ListHoldsArgs),
    /// End a hold: from the next night on, retention applies again
    Release(ReleaseHoldArgs),
}

/// `annalist hold set`.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["user", "channel", "workspace"])))]
pub(crate) struct SetHoldArgs {
    /// What this person wrote: by id or name; with --channel, only what they wrote there
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// What was written in this channel: by id or name
    #[arg(long, value_name = "CHANNEL", value_parser = channel_name)]
    channel: Option<String>,
    /// Everything in the workspace
    #[arg(long, conflicts_with_all = ["user", "channel"])]
    workspace: bool,
    /// Only messages from this time on: 2026-11-20 (midnight UTC) or 2026-11-20T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = date)]
    from: Option<Ts>,
    /// Only messages before this time
    #[arg(long, value_name = "TIME", value_parser = date)]
    to: Option<Ts>,
    /// Why, such as the number of a case
    #[arg(long, value_name = "TEXT", value_parser = reason())]
    reason: String,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist hold list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListHoldsArgs {
    /// Also those that were released
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: ScopeArgs,
}

/// `annalist hold release`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseHoldArgs {
    /// The hold, as `list` names it
    id: String,
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = reason())]
    reason: String,
    #[command(flatten)]
    common: ScopeArgs,
}

fn reason() -> impl TypedValueParser<Value = String> {
    NonEmptyStringValueParser::new().try_map(|text| {
        let is_reason = !text.trim().is_empty() && text.chars().count() <= MAX_REASON_CHARS;
        if is_reason { Ok(text) } else { Err("a reason has between 1 and 300 characters") }
    })
}

impl HoldCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Set(args) => &args.common.backend,
            Self::List(args) => &args.common.backend,
            Self::Release(args) => &args.common.backend,
        }
    }
}

/// Sets, lists or releases holds.
pub(crate) async fn run(
    backend: &Backend,
    clock: &dyn Clock,
    command: &HoldCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = backend.archive();
    let now = ts_from_micros(clock.now().0.saturating_mul(1_000));
    match command {
        HoldCommand::Set(args) => set(backend, args, &now, out).await,
        HoldCommand::List(args) => {
            for team in scope::teams(&*archive, args.common.team.as_ref()).await? {
                let facts = ErasureFacts::load(&*archive, &team).await?;
                let shown = facts.holds(&team).iter().filter(|hold| args.all || hold.release.is_none());
                for hold in shown {
                    print(out, hold, args.common.json)?;
                }
            }
            Ok(())
        }
        HoldCommand::Release(args) => release(backend, args, now, out).await,
    }
}

async fn set(backend: &Backend, args: &SetHoldArgs, now: &Ts, out: &mut dyn Write) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    let (from, to) = (args.from.clone(), args.to.clone());
    if from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to) {
        return Err(UsageError::new("--from must be before --to").into());
    }
    let (teams, user) = match &args.user {
        Some(user) => {
            let (teams, user) = scope::person(archive, user, args.common.team.as_ref()).await?;
            (teams, Some(user))
        }
        None => (scope::teams(archive, args.common.team.as_ref()).await?, None),
    };
    let places: Vec<(TeamId, Option<ChannelId>)> = match &args.channel {
        Some(channel) => {
            let places = scope::channel(archive, channel, args.common.team.as_ref()).await?;
            places.into_iter().map(|place| (place.team, Some(place.channel))).collect()
        }
        None => teams.into_iter().map(|team| (team, None)).collect(),
    };
    for (team, channel) in places {
        let hold = HoldFact {
            team,
            id: format!("{:08x}", fastrand::u32(..)),
            scope: HoldScope { user: user.clone(), channel, from: from.clone(), to: to.clone() },
            reason: args.reason.clone(),
            by: process::config::system_user(),
            set_at: now.clone(),
            release: None,
            is_swept: false,
        };
        archive.write(&hold.update()).await?;
        print(out, &hold, args.common.json)?;
    }
    wait_for_writers(backend).await;
    Ok(())
}

async fn release(
    backend: &Backend,
    args: &ReleaseHoldArgs,
    now: Ts,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let archive = &*backend.archive();
    for team in scope::teams(archive, args.common.team.as_ref()).await? {
        let facts = ErasureFacts::load(archive, &team).await?;
        let Some(hold) = facts.holds(&team).iter().find(|hold| hold.id == args.id) else { continue };
        if let Some(release) = &hold.release {
            anyhow::bail!("the hold {} was released on {}", hold.id, day(&release.at));
        }
        let by = process::config::system_user();
        let release = HoldRelease { at: now, reason: args.reason.clone(), by };
        archive.write(&hold.release(&release)).await?;
        wait_for_writers(backend).await;
        return print(out, &HoldFact { release: Some(release), ..hold.clone() }, args.common.json);
    }
    let id = plain::excerpt(&args.id, 40);
    anyhow::bail!("there is no hold {id}: annalist hold list --all shows every hold")
}

/// The object of a hold.
fn as_json(hold: &HoldFact) -> Value {
    let HoldFact { team, id, scope, reason, by, set_at, release, is_swept: _ } = hold;
    json!({
        "id": id,
        "team_id": team,
        "user_id": scope.user,
        "channel_id": scope.channel,
        "from": scope.from,
        "to": scope.to,
        "reason": reason,
        "by": by,
        "set_at": rfc3339(set_at),
        "released_at": release.as_ref().map(|release| rfc3339(&release.at)),
        "released_by": release.as_ref().and_then(|release| release.by.clone()),
        "release_reason": release.as_ref().map(|release| release.reason.clone()),
    })
}

fn print(out: &mut dyn Write, hold: &HoldFact, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(plain::json_line(out, &as_json(hold))?);
    }
    let HoldScope { user, channel, from, to } = &hold.scope;
    let mut what = match (user, channel) {
        (Some(user), Some(channel)) => format!("{user} in {channel}"),
        (Some(user), None) => user.to_string(),
        (None, Some(channel)) => channel.to_string(),
        (None, None) => "everything".to_owned(),
    };
    what.push_str(&format!(" of {}", hold.team));
    for (word, time) in [("from", from), ("before", to)] {
        if let Some(time) = time {
            what.push_str(&format!(", {word} {}", rfc3339(time)));
        }
    }
    let by = hold.by.as_deref().map_or_else(String::new, |by| format!(" by {}", plain::excerpt(by, 40)));
    let reason = plain::excerpt(&hold.reason, MAX_REASON_CHARS);
    let released = hold.release.as_ref().map_or_else(String::new, |release| {
        let reason = plain::excerpt(&release.reason, MAX_REASON_CHARS);
        format!("; released {}: \"{reason}\"", day(&release.at))
    });
    Ok(writeln!(out, "{}  {what}  \"{reason}\", since {}{by}{released}", hold.id, day(&hold.set_at))?)
}

/// The day of a time, in UTC.
fn day(ts: &Ts) -> String {
    rfc3339(ts).chars().take(10).collect()
}

/// Why `annalist erase` refuses a scope.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} is on hold {id} (\"{reason}\", since {since}): release it first with annalist hold release {id}"
)]
pub(crate) struct OnHold {
    what: String,
    id: String,
    reason: String,
    since: String,
}

/// On AWS, waits until every writer has read the facts. In a folder, writers see them at once.
pub(super) async fn wait_for_writers(backend: &Backend) {
    let wait = backend.writers_know_after();
    if !wait.is_zero() {
        say(&format!("waiting {} s until every writer knows of it", wait.as_secs()));
        tokio::time::sleep(wait).await;
    }
}

/// Returns the hold that keeps something of what an erasure covers; `what` is its scope in words.
pub(crate) async fn hold_on(
    archive: &dyn Archive,
    fact: &ErasureFact,
    what: &str,
) -> anyhow::Result<Option<OnHold>> {
    let facts = ErasureFacts::load(archive, &fact.team).await?;
    let holds = facts.holds(&fact.team).iter().filter(|hold| hold.release.is_none());
    let mut is_possible = false;
    for hold in holds {
        is_possible = true;
        if is_of_scope(archive, hold, fact).await? {
            return Ok(Some(on_hold(hold, what)));
        }
    }
    if !is_possible {
        return Ok(None);
    }
    // Another scope, which may have rows in common.
    let held = find_held(archive, fact, &facts).await?;
    Ok(held.map(|hold| on_hold(&hold, what)))
}

/// Whether a hold is about what an erasure covers, whatever rows there are.
async fn is_of_scope(archive: &dyn Archive, hold: &HoldFact, fact: &ErasureFact) -> anyhow::Result<bool> {
    let HoldScope { user, channel, .. } = &hold.scope;
    Ok(match &fact.scope {
        ErasureScope::User(erased) => channel.is_none() && user.as_ref().is_none_or(|user| user == erased),
        ErasureScope::Channel(erased) => {
            user.is_none() && channel.as_ref().is_none_or(|channel| channel == erased)
        }
        ErasureScope::Message(channel, ts) => {
            let row = archive.get(&ItemKey::message(&fact.team, channel, ts)).await?;
            let author = row.as_ref().and_then(rules::message::author);
            hold.keeps(channel.as_str(), ts.as_str(), author)
        }
    })
}

fn on_hold(hold: &HoldFact, what: &str) -> OnHold {
    OnHold {
        what: plain::excerpt(what, 80),
        id: hold.id.clone(),
        reason: plain::excerpt(&hold.reason, MAX_REASON_CHARS),
        since: day(&hold.set_at),
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
