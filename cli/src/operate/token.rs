//! `annalist token`: tokens with which programs read over HTTP. `annalist sign-out`: ends sessions. Both write the
//! time of this machine's clock.

use std::io::Write;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Subcommand;
use jiff::Timestamp;
use ports::archive::{Archive, ArchiveExt, ItemKey, Query, key, query_all};
use ports::clock::Clock;
use process::config::backend::BackendArgs;
use process::config::zone::ZoneArgs;
use reader::find::{self, FindPersonError};
use reader::range::ts_from_micros;
use rules::reader_token::{PREFIX, PresentedToken, ReaderToken};
use rules::sign_out;
use serde_json::{Map, Value};
use slack::hex::to_hex;
use slack::ids::{TeamId, Ts, UserId};

use crate::plain;
use crate::read::{ReadError, team};
use crate::zone::Zone;

/// Maximum length of a token's name.
const MAX_NAME_CHARS: usize = 100;

/// `annalist token …`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, once
    Create(CreateArgs),
    /// List the tokens, without their secrets
    List(TokensArgs),
    /// Make a token invalid for good
    Revoke(RevokeArgs),
}

/// `annalist token create`.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// What the token is for
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The person as whom it reads, by id or name; without it, it reads what every reader sees
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Workspace id, if the person is in several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    /// Days after which it is invalid
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires: Option<u32>,
    #[command(flatten)]
    backend: BackendArgs,
}

/// `annalist token list`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokensArgs {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    backend: BackendArgs,
}

/// `annalist token revoke`.
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The id of the token, from `annalist token list`
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    backend: BackendArgs,
}

/// `annalist sign-out`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true))]
pub(crate) struct SignOutArgs {
    /// The person whose sessions end, by id or name
    #[arg(value_name = "USER", group = "who")]
    user: Option<String>,
    /// End the sessions of all readers
    #[arg(long, group = "who")]
    all: bool,
    /// Workspace id, if the archive holds several
    #[arg(long, value_name = "TEAM", value_parser = team)]
    team: Option<TeamId>,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

impl TokenCommand {
    pub(crate) fn backend(&self) -> &BackendArgs {
        match self {
            Self::Create(args) => &args.backend,
            Self::List(args) => &args.backend,
            Self::Revoke(args) => &args.backend,
        }
    }
}

pub(crate) async fn run(
    archive: &dyn Archive,
    clock: &dyn Clock,
    command: &TokenCommand,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(args) => create(archive, clock, args, out).await,
        TokenCommand::List(args) => list(archive, args, out).await,
        TokenCommand::Revoke(args) => revoke(archive, args, out).await,
    }
}

async fn create(
    archive: &dyn Archive,
    clock: &dyn Clock,
    args: &CreateArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let name = args.name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(char::is_control) {
        bail!("--name takes 1 to {MAX_NAME_CHARS} characters on one line");
    }
    let person = match &args.user {
        None => None,
        Some(called) => match <[_; 1]>::try_from(people(archive, called, args.team.as_ref()).await?) {
            Ok([person]) => Some(person),
            Err(_) => bail!("{called} is in several workspaces: choose one with --team"),
        },
    };
    let text = format!("{PREFIX}{}_{}", to_hex(&random::<6>()?), oidc::to_base64url(&random::<32>()?));
    let presented =
        PresentedToken::parse(&text).ok_or_else(|| anyhow!("the token that was made is not one"))?;
    let now = clock.now();
    let expires = args.expires.map(|days| ts(now.plus(Duration::from_secs(u64::from(days) * 86_400)).0));
    let token = ReaderToken::new(&presented, name, ts(now.0), expires, person);
    archive.write(&token.creation()).await?;
    Ok(writeln!(out, "{text}")?)
}

async fn list(archive: &dyn Archive, args: &TokensArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let rows = query_all(archive, Query::partition(key::reader_tokens())).await?;
    let mut tokens: Vec<ReaderToken> = rows.iter().filter_map(ReaderToken::from_row).collect();
    tokens.sort_by_key(|token| token.created.micros());
    let zone = Zone::from_args(&args.zone);
    for token in &tokens {
        if args.json {
            plain::json_line(out, &json(token))?;
            continue;
        }
        let name = reader::plain::excerpt(&token.name, MAX_NAME_CHARS);
        write!(out, "{}  {name}  made {}", token.id, zone.time(token.created.as_str()))?;
        if let Some((team, user)) = &token.person {
            write!(out, "  reads as {user} of {team}")?;
        }
        if let Some(expires) = &token.expires {
            write!(out, "  expires {}", zone.time(expires.as_str()))?;
        }
        writeln!(out, "{}", if token.is_revoked { "  revoked" } else { "" })?;
    }
    Ok(())
}

/// A token for scripts. What it does not have is missing.
fn json(token: &ReaderToken) -> Value {
    let time =
        |ts: &Ts| Value::from(Timestamp::from_microsecond(ts.micros()).unwrap_or_default().to_string());
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    set("id", token.id.as_str().into());
    set("name", token.name.as_str().into());
    if let Some((team, user)) = &token.person {
        set("as_team", team.as_str().into());
        set("as_user", user.as_str().into());
    }
    set("created", time(&token.created));
    if let Some(expires) = &token.expires {
        set("expires", time(expires));
    }
    if token.is_revoked {
        set("revoked", true.into());
    }
    object.into()
}

async fn revoke(archive: &dyn Archive, args: &RevokeArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let id = args.id.trim();
    let row = archive.get(&ItemKey::reader_token(id)).await?;
    let Some(token) = row.as_ref().and_then(ReaderToken::from_row) else {
        bail!("there is no token {}: `annalist token list` lists them", reader::plain::excerpt(id, 40));
    };
    archive.write(&ReaderToken::revocation(&token.id)).await?;
    Ok(writeln!(out, "{} is revoked. Running programs refuse it within ten seconds.", token.id)?)
}

/// Ends sessions.
pub(crate) async fn sign_out(
    archive: &dyn Archive,
    clock: &dyn Clock,
    args: &SignOutArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let now = ts(clock.now().0);
    let Some(called) = &args.user else {
        archive.write(&sign_out::update(None, &now)).await?;
        return Ok(writeln!(out, "All sessions end within a minute.")?);
    };
    for (team, user) in people(archive, called, args.team.as_ref()).await? {
        archive.write(&sign_out::update(Some((&team, &user)), &now)).await?;
        writeln!(out, "The sessions of {user} in {team} end within a minute.")?;
    }
    Ok(())
}

/// The only person with this id or name, in each of their workspaces.
async fn people(
    archive: &dyn Archive,
    called: &str,
    team: Option<&TeamId>,
) -> anyhow::Result<Vec<(TeamId, UserId)>> {
    let teams = find::requested_teams(archive, team).await.map_err(ReadError::from)?;
    let user = find::find_person(archive, called, &teams).await?;
    let mut known = find::find_people(archive, user.as_str(), teams).await?;
    known.retain(|(_, known)| *known == user);
    if known.is_empty() {
        return Err(FindPersonError::Unknown { called: user.to_string(), close: Vec::new() }.into());
    }
    Ok(known)
}

fn ts(now_ms: i64) -> Ts {
    ts_from_micros(now_ms.saturating_mul(1_000))
}

fn random<const BYTES: usize>() -> anyhow::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("there are no random numbers: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::fixture::{CliFixture, output, parsed};

    #[derive(Debug, Parser)]
    struct TestTokens {
        #[command(subcommand)]
        command: TokenCommand,
    }

    async fn typed(fixture: &CliFixture, arguments: &[&str]) -> anyhow::Result<String> {
        let arguments = ["annalist"].iter().chain(arguments);
        let TestTokens { command } = TestTokens::try_parse_from(arguments)?;
        output(async |out| run(fixture.archive(), fixture.clock(), &command, out).await).await
    }

    #[tokio::test]
    async fn a_token_is_printed_once_listed_without_its_secret_and_revoked() {
        let fixture = CliFixture::open().await;
        fixture.post("T1", "C1", "1700000000.000000", "text").await;
        fixture.person("T1", "U1", "ana").await;
        let printed =
            typed(&fixture, &["create", "--name", "ci", "--as", "ana", "--expires", "2"]).await.unwrap();
        let token = PresentedToken::parse(printed.trim_end()).unwrap();
        let secret = printed.trim_end().rsplit('_').next().unwrap();
        let other = typed(&fixture, &["create", "--name", " bot "]).await.unwrap();
        assert_ne!(printed, other);
        let rows = query_all(fixture.archive(), Query::partition(key::reader_tokens())).await.unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|row| !row.to_json().to_string().contains(secret)));

        typed(&fixture, &["revoke", token.id()]).await.unwrap();
        let listed = typed(&fixture, &["list", "--json"]).await.unwrap();
        let mut listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        listed.sort_by_key(|token| token["name"].to_string());
        assert_eq!(listed[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["created", "id", "name"]);
        assert_eq!(listed[0]["name"], "bot");
        assert_eq!(
            listed[1],
            serde_json::json!({ "id": token.id(), "name": "ci", "as_team": "T1", "as_user": "U1", "revoked": true,
                "created": "2026-11-20T12:34:56Z", "expires": "2026-11-22T12:34:56Z" })
        );
        let text = typed(&fixture, &["list", "--tz", "UTC"]).await.unwrap();
        assert!(text.contains("reads as U1 of T1") && text.contains("revoked"), "{text}");
    }

    #[tokio::test]
    async fn what_is_not_known_is_refused_in_one_line() {
        let fixture = CliFixture::open().await;
        for team in ["T1", "T2"] {
            fixture.post(team, "C1", "1700000000.000000", "text").await;
            fixture.person(team, "U1", "ana").await;
        }
        for (arguments, expected) in [
            (&["revoke", "0123456789ab"][..], "there is no token 0123456789ab"),
            (&["create", "--name", "ci", "--as", "U9"], "no person is called U9"),
            (&["create", "--name", "ci", "--as", "stranger"], "no person is called stranger"),
            (&["create", "--name", "ci", "--as", "ana"], "choose one with --team"),
            (&["create", "--name", "ci", "--as", "ana", "--team", "T3"], "T3"),
            (&["create", "--name", " "], "--name takes"),
            (&["create", "--name", "a\nb"], "--name takes"),
        ] {
            let error = typed(&fixture, arguments).await.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{arguments:?}: {error}");
        }
        assert!(typed(&fixture, &["create", "--name", "ci", "--as", "ana", "--team", "T2"]).await.is_ok());
    }

    #[tokio::test]
    async fn a_sign_out_ends_the_sessions_of_a_person_or_of_all() {
        let fixture = CliFixture::open().await;
        for team in ["T1", "T2"] {
            fixture.post(team, "C1", "1700000000.000000", "text").await;
            fixture.person(team, "U1", "ana").await;
        }
        let end = async |arguments: &[&str]| {
            let args: SignOutArgs = parsed(arguments)?;
            output(async |out| sign_out(fixture.archive(), fixture.clock(), &args, out).await).await
        };
        assert!(end(&["U9"]).await.unwrap_err().to_string().contains("no person is called U9"));
        assert!(end(&[]).await.is_err() && end(&["U1", "--all"]).await.is_err());
        assert_eq!(end(&["ana"]).await.unwrap().lines().count(), 2, "they are in two workspaces");
        let ended = async || {
            let mut ended = sign_out::SignOuts::default();
            let rows = query_all(fixture.archive(), Query::partition(key::sign_outs())).await.unwrap();
            rows.iter().for_each(|row| ended.add(row));
            let (team, user) = (TeamId::parse("T2").unwrap(), UserId::parse("U1").unwrap());
            let now_s = fixture.clock().now().seconds();
            [ended.has_ended(Some((&team, &user)), now_s), ended.has_ended(None, now_s)]
        };
        assert_eq!(ended().await, [true, false]);
        end(&["--all"]).await.unwrap();
        assert_eq!(ended().await, [true, true]);
    }
}
