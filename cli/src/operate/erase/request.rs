//! What is to be erased: whom, which channel or which message the command line means.

use ports::archive::Archive;
use ports::archive::erasure::{ErasureFact, ErasureScope};
use reader::find;
use reader::permalink::{self, SlackLink};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use workers::eraser::facts_of;

use super::EraseArgs;
use super::recorded::{self, RecordedErasures};
use crate::UsageError;
use crate::plain;
use crate::read::ReadError;

/// Stands for everything that was erased before.
const REPLAY: &str = "replay";

/// What is to be erased.
#[derive(Debug)]
pub(super) struct EraseRequest {
    /// As the facts name it: `user#…`, `channel#…`, `message#…`, or `replay`.
    pub(super) label: String,
    /// As the user named it.
    pub(super) called: String,
    /// One for each workspace and each id.
    pub(super) facts: Vec<ErasureFact>,
    /// Whether nothing shows yet that there is such a person.
    pub(super) is_only_an_id: bool,
}

impl EraseRequest {
    /// The workspaces, each once.
    pub(super) fn teams(&self) -> Vec<&TeamId> {
        let mut teams: Vec<&TeamId> = self.facts.iter().map(|fact| &fact.team).collect();
        teams.sort_unstable();
        teams.dedup();
        teams
    }
}

/// A scope as facts and records name it.
pub(super) fn label(scope: &ErasureScope) -> String {
    match scope {
        ErasureScope::User(user) => format!("user#{user}"),
        ErasureScope::Channel(channel) => format!("channel#{channel}"),
        ErasureScope::Message(channel, ts) => format!("message#{channel}#{ts}"),
    }
}

/// The scope of this name.
pub(super) fn scope(label: &str) -> Option<ErasureScope> {
    let (kind, id) = label.split_once('#')?;
    match kind {
        "user" => Some(ErasureScope::User(UserId::parse(id).ok()?)),
        "channel" => Some(ErasureScope::Channel(ChannelId::parse(id).ok()?)),
        "message" => {
            let (channel, ts) = id.split_once('#')?;
            Some(ErasureScope::Message(ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?))
        }
        _ => None,
    }
}

/// Looks up what the command line names.
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
        return self::channel(archive, args, channel, until).await;
    }
    if let Some(words) = &args.message {
        let (channel, ts) = message_named(words)?;
        return message(archive, args, &channel, &ts, until).await;
    }
    let mut facts = match (args.replay.as_ref().and_then(Option::as_ref), recorded) {
        (Some(file), _) => recorded::read(file)?,
        (None, Some(recorded)) => recorded.read()?,
        (None, None) => Vec::new(),
    };
    let teams = find::teams(archive).await?;
    facts.extend(facts_of(archive, &teams).await?);
    let is_asked_for = |fact: &ErasureFact| args.team.as_ref().is_none_or(|team| fact.team == *team);
    facts.retain(is_asked_for);
    Ok(EraseRequest {
        label: REPLAY.into(),
        called: REPLAY.into(),
        facts: latest(facts),
        is_only_an_id: false,
    })
}

/// Of facts with one scope, the last one.
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
    called: &str,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    let teams = find::teams_asked_for(archive, args.team.as_ref()).await.map_err(ReadError::from)?;
    let user = find::person(archive, called, &teams).await?;
    let known = find::people(archive, user.as_str(), teams.clone()).await?;
    let scope = ErasureScope::User(user);
    let fact = |team: TeamId| ErasureFact { team, scope: scope.clone(), until: until.clone() };
    Ok(EraseRequest {
        label: label(&scope),
        called: called.to_owned(),
        facts: teams.into_iter().map(fact).collect(),
        is_only_an_id: known.is_empty(),
    })
}

async fn channel(
    archive: &dyn Archive,
    args: &EraseArgs,
    called: &str,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    let channel = find::channel(archive, called, args.team.as_ref()).await.map_err(ReadError::from)?;
    let named = find::named(&channel, called).channel.clone();
    let fact = |place: &reader::joined::ChannelOfTeam| ErasureFact {
        team: place.team.clone(),
        scope: ErasureScope::Channel(place.channel.clone()),
        until: until.clone(),
    };
    Ok(EraseRequest {
        label: label(&ErasureScope::Channel(named)),
        called: called.to_owned(),
        facts: channel.places().iter().map(fact).collect(),
        is_only_an_id: false,
    })
}

async fn message(
    archive: &dyn Archive,
    args: &EraseArgs,
    called: &str,
    ts: &Ts,
    until: &Ts,
) -> anyhow::Result<EraseRequest> {
    let channel = find::channel(archive, called, args.team.as_ref()).await.map_err(ReadError::from)?;
    let places = channel.places();
    let keys: Vec<_> = places.iter().map(|place| place.message(ts)).collect();
    let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
    if rows.iter().all(Option::is_none) {
        return Err(ReadError::UnknownMessage { channel: plain::excerpt(called, 80), ts: ts.clone() }.into());
    }
    let named = find::named(&channel, called).channel.clone();
    let fact = |place: &reader::joined::ChannelOfTeam| ErasureFact {
        team: place.team.clone(),
        scope: ErasureScope::Message(place.channel.clone(), ts.clone()),
        until: until.clone(),
    };
    Ok(EraseRequest {
        label: label(&ErasureScope::Message(named, ts.clone())),
        called: called.to_owned(),
        facts: places.iter().map(fact).collect(),
        is_only_an_id: false,
    })
}

/// The channel and the message that these words name: `CHANNEL TS`, or a link.
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
