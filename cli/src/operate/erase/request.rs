//! Resolves the arguments to the person, channel or message to erase.

use ports::archive::Archive;
use ports::archive::erasure::{ErasureFact, ErasureScope};
use reader::joined::ChannelOfTeam;
use reader::permalink::{self, SlackLink};
use reader::{find, waiting};
use slack::ids::{TeamId, Ts};
use workers::eraser::read_facts;

use super::EraseArgs;
use super::recorded::{self, ListedErasures, RecordedErasures, label};
use crate::UsageError;
use crate::plain;
use crate::read::ReadError;

/// The label of a replay of all earlier erasures.
const REPLAY: &str = "replay";

/// A resolved request.
#[derive(Debug)]
pub(super) struct EraseRequest {
    /// The scope as the facts name it: `user#…`, `channel#…`, `message#…`, or `replay`.
    pub(super) label: String,
    /// The argument as the user gave it.
    pub(super) argument: String,
    /// One fact for each workspace and each id.
    pub(super) facts: Vec<ErasureFact>,
    /// Whether the archive has no profile of the person, who may not exist.
    pub(super) is_only_an_id: bool,
    /// Why a replay may lack erasures, and what to do.
    pub(super) problem: Option<String>,
}

impl EraseRequest {
    /// Returns the workspaces without duplicates.
    pub(super) fn teams(&self) -> Vec<&TeamId> {
        let mut teams: Vec<&TeamId> = self.facts.iter().map(|fact| &fact.team).collect();
        teams.sort_unstable();
        teams.dedup();
        teams
    }
}

/// Resolves the arguments.
pub(super) async fn read(
    archive: &dyn Archive,
    args: &EraseArgs,
    recorded: Option<&RecordedErasures>,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    if let Some(user) = &args.user {
        return person(archive, args, user, until).await;
    }
    if let Some(channel) = &args.channel {
        return self::channel(archive, args, channel, None, until).await;
    }
    if let Some(words) = &args.message {
        let (channel, ts) = message_named(words)?;
        return self::channel(archive, args, &channel, Some(&ts), until).await;
    }
    let ListedErasures { mut facts, problem } =
        match (args.replay.as_ref().and_then(Option::as_ref), recorded) {
            (Some(file), _) => recorded::read(file)?,
            (None, Some(recorded)) => recorded.read()?,
            (None, None) => ListedErasures::default(),
        };
    let teams = find::teams(archive).await?;
    facts.extend(read_facts(archive, &teams).await?);
    let is_requested = |fact: &ErasureFact| args.team.as_ref().is_none_or(|team| fact.team == *team);
    facts.retain(is_requested);
    Ok(EraseRequest {
        label: REPLAY.into(),
        argument: REPLAY.into(),
        facts: latest(facts),
        is_only_an_id: false,
        problem,
    })
}

/// Keeps only the latest fact for each scope.
fn latest(facts: Vec<ErasureFact>) -> Vec<ErasureFact> {
    let mut kept: Vec<ErasureFact> = Vec::new();
    for fact in facts {
        match kept.iter_mut().find(|kept| kept.team == fact.team && kept.scope == fact.scope) {
            Some(kept) if kept.until < fact.until => kept.until = fact.until,
            Some(_) => {}
            None => kept.push(fact),
        }
    }
    kept
}

async fn person(
    archive: &dyn Archive,
    args: &EraseArgs,
    argument: &str,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    let teams = match &args.team {
        // It may have nothing but jobs that wait.
        Some(team) if waiting::is_known(archive, team).await? => vec![team.clone()],
        Some(_) | None => {
            find::requested_teams(archive, args.team.as_ref()).await.map_err(ReadError::from)?
        }
    };
    let user = find::find_person(archive, argument, &teams).await.map_err(ReadError::from)?;
    let known = find::find_people(archive, user.as_str(), teams.clone()).await?;
    let scope = ErasureScope::User(user);
    let fact = |team: TeamId| ErasureFact { team, scope: scope.clone(), until: until.clone() };
    Ok(EraseRequest {
        label: label(&scope),
        argument: argument.to_owned(),
        facts: teams.into_iter().map(fact).collect(),
        is_only_an_id: known.is_empty(),
        problem: None,
    })
}

/// Resolves a channel, or the message in it with the timestamp `ts`.
async fn channel(
    archive: &dyn Archive,
    args: &EraseArgs,
    argument: &str,
    ts: Option<&Ts>,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    let channel = find::find_channel(archive, argument, args.team.as_ref()).await.map_err(ReadError::from)?;
    let locations = channel.locations();
    if let Some(ts) = ts {
        let keys: Vec<_> = locations.iter().map(|location| location.message(ts)).collect();
        let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        if rows.iter().all(Option::is_none) {
            let channel = plain::excerpt(argument, 80);
            return Err(ReadError::UnknownMessage { channel, ts: ts.clone() }.into());
        }
    }
    let scope = |location: &ChannelOfTeam| match ts {
        Some(ts) => ErasureScope::Message(location.channel.clone(), ts.clone()),
        None => ErasureScope::Channel(location.channel.clone()),
    };
    let fact = |location: &ChannelOfTeam| ErasureFact {
        team: location.team.clone(),
        scope: scope(location),
        until: until.clone(),
    };
    Ok(EraseRequest {
        label: label(&scope(find::location_for_id(&channel, argument))),
        argument: argument.to_owned(),
        facts: locations.iter().map(fact).collect(),
        is_only_an_id: false,
        problem: None,
    })
}

/// Parses the arguments of `--message`: `CHANNEL TS`, or a link.
fn message_named(words: &[String]) -> Result<(String, Ts), UsageError> {
    let wrong = || {
        UsageError::new(
            "--message takes a channel and a timestamp such as 1620000000.000200, or a message's Slack link alone",
        )
    };
    match words {
        [link] => match SlackLink::parse(link) {
            Some(SlackLink { channel, ts: Some(ts), .. }) => Ok((channel, ts)),
            Some(_) | None => Err(wrong()),
        },
        [channel, ts] => Ok((permalink::channel(channel), permalink::ts(ts).ok_or_else(wrong)?)),
        _ => Err(wrong()),
    }
}
