//! Who makes a request: from what the request presents to a person who may read.

use std::sync::Arc;
use std::time::Duration;

use ports::archive::{Archive, ArchiveError, ItemKey, Query, key, query_all};
use ports::clock::Clock;
use ports::recent::Recent;
use reader::access::Via;
use reader::find;
use rules::account::AccountStatus;
use rules::reader_token::{PresentedToken, ReaderToken};
use rules::sign_out::SignOuts;
use slack::ids::{TeamId, UserId};
use tokio::time::Instant;

use super::people::{NamedPerson, PeopleSettings};
use super::session::{Session, SessionOwner};

/// The time within which a person who has left is out.
const PERSON_AGE: Duration = Duration::from_secs(60);

/// The time within which a revoked token is out.
const TOKEN_AGE: Duration = Duration::from_secs(10);

/// Maximum number of remembered values of a kind: of people, more than read in a minute.
const MAX_RECENT: usize = 10_000;

/// What a request presents, before any row is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presented {
    /// Nothing, on a listener without a guard.
    Nothing,
    /// The cookie of the password.
    Password,
    /// A name, from a proxy.
    Name(String),
    Session(Session),
    Token(PresentedToken),
}

/// Who makes a request, before it is determined what they see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    /// The name by which logs call them.
    pub(crate) label: String,
    /// How they were recognised.
    pub(crate) via: Via,
    /// The person in Slack, if it is known.
    pub(crate) person: Option<(TeamId, UserId)>,
    pub(crate) sees_everything: bool,
}

/// Why a person may not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
    /// No such person, yet.
    #[error("You are not known to this archive yet. Try again in an hour.")]
    Unknown,
    /// No such workspace.
    #[error("This archive does not keep your workspace.")]
    UnknownWorkspace,
    /// The person is a guest.
    #[error("Guests may not read this archive.")]
    Guest,
    /// The person is a bot, has left, or belongs elsewhere.
    #[error("This account may not read this archive.")]
    Refused,
    /// The setting names people in several workspaces.
    #[error("You are in several workspaces of this archive: its operator must say which one is yours.")]
    SeveralWorkspaces,
    /// The provider names someone who is not in the file of people.
    #[error("You are not among the people who may read this archive: ask its operator.")]
    NotListed,
}

/// Why no reader was identified.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// The person may not read.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    #[error("the session has ended")]
    SessionEnded,
    #[error("the token is not valid")]
    WrongToken,
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// The rows that decide who may read, as they were a short time ago.
pub(crate) struct Admissions {
    archive: Arc<dyn Archive>,
    people: PeopleSettings,
    teams: Recent<(), Vec<TeamId>>,
    accounts: Recent<(TeamId, UserId), AccountStatus>,
    sign_outs: Recent<(), Arc<SignOuts>>,
    tokens: Recent<String, ReaderToken>,
}

impl Admissions {
    /// The rows of this archive.
    pub(crate) fn new(archive: Arc<dyn Archive>, people: PeopleSettings) -> Self {
        Self {
            archive,
            people,
            teams: Recent::new(PERSON_AGE, MAX_RECENT),
            accounts: Recent::new(PERSON_AGE, MAX_RECENT),
            sign_outs: Recent::new(PERSON_AGE, MAX_RECENT),
            tokens: Recent::new(TOKEN_AGE, MAX_RECENT),
        }
    }

    pub(crate) fn people(&self) -> &PeopleSettings {
        &self.people
    }

    /// Returns who presents this.
    pub(crate) async fn identify(
        &self,
        presented: Presented,
        clock: &dyn Clock,
    ) -> Result<RequestIdentity, IdentityError> {
        match presented {
            Presented::Nothing => {
                let (label, via) = ("operator".to_owned(), Via::Open);
                Ok(RequestIdentity { label, via, person: None, sees_everything: true })
            }
            Presented::Password => Ok(self.identity("password".to_owned(), Via::Password, None)),
            Presented::Name(name) => {
                let person = match self.people.find(&name).await {
                    Some(person) => Some(self.admit(&person).await?),
                    None => None,
                };
                Ok(self.identity(name, Via::Header, person))
            }
            Presented::Session(session) => self.identify_session(session).await,
            Presented::Token(token) => self.identify_token(&token, clock.now().seconds()).await,
        }
    }

    fn identity(&self, label: String, via: Via, person: Option<(TeamId, UserId)>) -> RequestIdentity {
        let sees_everything = person.as_ref().is_some_and(|(team, user)| self.people.is_admin(team, user));
        RequestIdentity { label, via, person, sees_everything }
    }

    async fn identify_session(&self, session: Session) -> Result<RequestIdentity, IdentityError> {
        let (label, person) = match session.owner {
            SessionOwner::Person(team, user) => {
                let named = NamedPerson { team: Some(team), user: user.clone() };
                (user.to_string(), Some(self.admit(&named).await?))
            }
            SessionOwner::Name(name) => {
                let person = self.people.find(&name).await.ok_or(NotAdmitted::NotListed)?;
                (name, Some(self.admit(&person).await?))
            }
            SessionOwner::Admitted(name) => {
                let person = match self.people.find(&name).await {
                    Some(person) => Some(self.admit(&person).await?),
                    None => None,
                };
                (name, person)
            }
        };
        let signed_out = self.sign_outs().await?;
        if signed_out.has_ended(person.as_ref().map(|(team, user)| (team, user)), session.signed_in_s) {
            return Err(IdentityError::SessionEnded);
        }
        Ok(self.identity(label, Via::Session, person))
    }

    async fn identify_token(
        &self,
        presented: &PresentedToken,
        now_s: i64,
    ) -> Result<RequestIdentity, IdentityError> {
        let token = self.token(presented.id()).await?.filter(|token| token.admits(presented, now_s));
        let token = token.ok_or(IdentityError::WrongToken)?;
        let Some((team, user)) = token.person else {
            return Ok(self.identity(token.name, Via::Token, None));
        };
        let named = NamedPerson { team: Some(team), user };
        let person = self.admit(&named).await.map_err(|error| match error {
            IdentityError::Archive(error) => IdentityError::Archive(error),
            IdentityError::NotAdmitted(_) | IdentityError::SessionEnded | IdentityError::WrongToken => {
                IdentityError::WrongToken
            }
        })?;
        Ok(self.identity(person.1.to_string(), Via::Token, Some(person)))
    }

    /// Returns the person whom a setting, a session or a token names, if they may read.
    pub(crate) async fn admit(&self, named: &NamedPerson) -> Result<(TeamId, UserId), IdentityError> {
        let teams = self.teams(named.team.as_ref()).await?;
        if teams.is_empty() {
            return Err(NotAdmitted::UnknownWorkspace.into());
        }
        let mut known = Vec::new();
        for team in teams {
            let status = self.account(&team, &named.user).await?;
            if status != AccountStatus::Unknown {
                known.push((team, status));
            }
        }
        let (team, status) = match <[_; 1]>::try_from(known) {
            Ok([only]) => only,
            Err(known) if known.is_empty() => return Err(NotAdmitted::Unknown.into()),
            Err(_) => return Err(NotAdmitted::SeveralWorkspaces.into()),
        };
        match status {
            AccountStatus::Member | AccountStatus::MemberElsewhere => Ok((team, named.user.clone())),
            AccountStatus::Guest if self.people.are_guests_admitted => Ok((team, named.user.clone())),
            AccountStatus::Guest => Err(NotAdmitted::Guest.into()),
            AccountStatus::Stranger
            | AccountStatus::Bot
            | AccountStatus::Left
            | AccountStatus::Unreadable => Err(NotAdmitted::Refused.into()),
            AccountStatus::Unknown => Err(NotAdmitted::Unknown.into()),
        }
    }

    /// The workspaces of the archive, or this one of them.
    async fn teams(&self, named: Option<&TeamId>) -> Result<Vec<TeamId>, ArchiveError> {
        let selected = |mut teams: Vec<TeamId>| {
            teams.retain(|team| named.is_none_or(|named| named == team));
            teams
        };
        let recent = self.teams.find(&()).map(selected).unwrap_or_default();
        if !recent.is_empty() {
            return Ok(recent);
        }
        let read_at = Instant::now();
        let teams = find::teams(&*self.archive).await?;
        Ok(selected(self.teams.keep((), read_at, teams)))
    }

    async fn account(&self, team: &TeamId, user: &UserId) -> Result<AccountStatus, ArchiveError> {
        let key = (team.clone(), user.clone());
        if let Some(status) = self.accounts.find(&key) {
            return Ok(status);
        }
        let read_at = Instant::now();
        let row = self.archive.get(&ItemKey::user(team, user)).await?;
        let status = AccountStatus::from_row(team, row.as_ref());
        Ok(self.accounts.keep(key, read_at, status))
    }

    async fn sign_outs(&self) -> Result<Arc<SignOuts>, ArchiveError> {
        if let Some(sign_outs) = self.sign_outs.find(&()) {
            return Ok(sign_outs);
        }
        let read_at = Instant::now();
        let mut sign_outs = SignOuts::default();
        let rows = query_all(&*self.archive, Query::partition(key::sign_outs())).await?;
        rows.iter().for_each(|row| sign_outs.add(row));
        Ok(self.sign_outs.keep((), read_at, Arc::new(sign_outs)))
    }

    /// The token with this id. One that is not known is looked for each time, so that a new one is valid at once.
    async fn token(&self, id: &str) -> Result<Option<ReaderToken>, ArchiveError> {
        if let Some(token) = self.tokens.find(&id.to_owned()) {
            return Ok(Some(token));
        }
        let read_at = Instant::now();
        let row = self.archive.get(&ItemKey::reader_token(id)).await?;
        let token = row.as_ref().and_then(ReaderToken::from_row);
        Ok(token.map(|token| self.tokens.keep(id.to_owned(), read_at, token)))
    }
}
