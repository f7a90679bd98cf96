//! The table of routes, and the parameters of a call.

use std::num::NonZeroUsize;

use process::config::backend::BackendArgs;
use process::config::zone::{NamedZone, ZoneArgs};
use reader::permalink;
use slack::ids::{TeamId, Ts};

use super::error::ApiError;
use crate::plain;
use crate::read::{ReadArgs, TimeBound, team};
use crate::zone::Zone;

/// Maximum number of characters of a value that are repeated in an error.
const MAX_SHOWN_CHARS: usize = 80;

/// A route and its parameters.
#[derive(Debug)]
pub(super) struct ApiRoute {
    /// The last part of its address.
    pub(super) name: &'static str,
    pub(super) command: ApiCommand,
    /// The parameters without which there is no answer.
    pub(super) required: &'static [&'static str],
    /// Its other parameters.
    pub(super) optional: &'static [&'static str],
    pub(super) limit: Limit,
}

/// The command that a route runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiCommand {
    Channels,
    Channel,
    Messages,
    Thread,
    Revisions,
    Users,
    Search,
    Files,
}

/// How many lines an answer has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Without `limit`; `None` for all.
    pub(super) default: Option<usize>,
    pub(super) max: usize,
}

const MESSAGES: Limit = Limit { default: Some(200), max: 1_000 };
const HITS: Limit = Limit { default: Some(20), max: 100 };
/// The size of the body bounds these.
const WHOLE: Limit = Limit { default: None, max: 1_000_000 };

pub(super) static ROUTES: [ApiRoute; 8] = [
    route("channels", ApiCommand::Channels, &[], &[], WHOLE),
    route("channel", ApiCommand::Channel, &["channel"], &[], WHOLE),
    route("messages", ApiCommand::Messages, &["channel"], &["since", "until", WITH_NAMES], MESSAGES),
    route("thread", ApiCommand::Thread, &["channel", "ts"], &["until", WITH_NAMES], MESSAGES),
    route("revisions", ApiCommand::Revisions, &["channel", "ts"], &["skip", WITH_NAMES], MESSAGES),
    route("users", ApiCommand::Users, &[], &[], WHOLE),
    route("search", ApiCommand::Search, &["q"], &["include_deleted", "before"], HITS),
    route("files", ApiCommand::Files, &[], &["channel", WITH_NAMES], WHOLE),
];

/// The parameter for names, as `--with-names`.
pub(super) const WITH_NAMES: &str = "with_names";

/// The parameters of every route.
pub(super) const COMMON: [&str; 2] = ["team", "limit"];

const fn route(
    name: &'static str,
    command: ApiCommand,
    required: &'static [&'static str],
    optional: &'static [&'static str],
    limit: Limit,
) -> ApiRoute {
    ApiRoute { name, command, required, optional, limit }
}

/// The parameters of a call, as they were given.
#[derive(Debug)]
pub(super) struct ApiCall {
    asked: Vec<(String, String)>,
    pub(super) limit: Option<usize>,
    pub(super) team: Option<TeamId>,
}

impl ApiCall {
    pub(super) fn read(route: &ApiRoute, asked: Vec<(String, String)>) -> Result<Self, ApiError> {
        let known = || route.required.iter().chain(route.optional).chain(&COMMON);
        for (index, (name, _)) in asked.iter().enumerate() {
            let shown = plain::excerpt(name, MAX_SHOWN_CHARS);
            if !known().any(|known| known == name) {
                let all = known().copied().collect::<Vec<_>>().join(", ");
                return Err(ApiError::invalid(format!(
                    "there is no parameter {shown}: this route has {all}"
                )));
            }
            if asked[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(ApiError::invalid(format!("the parameter {shown} comes twice")));
            }
        }
        let mut call = Self { asked, limit: route.limit.default, team: None };
        for name in route.required {
            if call.text(name).is_none_or(|value| value.trim().is_empty()) {
                return Err(ApiError::invalid(format!("the parameter {name} is missing")));
            }
        }
        if let Some(limit) = call.text("limit") {
            let max = route.limit.max;
            let read = limit.parse().ok().filter(|limit| (1..=max).contains(limit));
            let why = || unlike("limit", &format!("a number from 1 to {max}"), limit);
            call.limit = Some(read.ok_or_else(why)?);
        }
        call.team = call.parsed("team", team)?;
        Ok(call)
    }

    /// The value of a parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.asked.iter().find(|(asked, _)| asked == name).map(|(_, value)| value.as_str())
    }

    /// The channel of a call that has one.
    pub(super) fn channel(&self) -> String {
        permalink::channel(self.text("channel").unwrap_or_default())
    }

    pub(super) fn ts(&self, name: &str) -> Result<Option<Ts>, ApiError> {
        self.parsed(name, |text| {
            permalink::ts(text).ok_or("a message's timestamp is such as 1620000000.000200")
        })
    }

    pub(super) fn time(&self, name: &str) -> Result<Option<TimeBound>, ApiError> {
        self.parsed(name, TimeBound::parse)
    }

    pub(super) fn number(&self, name: &str, max: usize) -> Result<Option<usize>, ApiError> {
        let expected = format!("a number up to {max}");
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number <= max);
        number.map(Some).ok_or_else(|| unlike(name, &expected, text))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(unlike(name, "true or false", other)),
        }
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        parse(text).map(Some).map_err(|why| unlike(name, why, text))
    }

    /// The arguments of a command for this many lines.
    pub(super) fn read_args(&self, backend: &BackendArgs, zone: &Zone, limit: Option<usize>) -> ReadArgs {
        let named = NamedZone { name: zone.name().to_owned(), zone: zone.time_zone().clone() };
        ReadArgs {
            backend: backend.clone(),
            json: true,
            limit: limit.and_then(NonZeroUsize::new),
            team: self.team.clone(),
            zone: ZoneArgs { tz: Some(named) },
            is_for_site: true,
        }
    }

    /// The query of an address with the same parameters, but this value.
    pub(super) fn query_with(&self, name: &str, value: &str) -> String {
        let kept = self.asked.iter().filter(|(asked, _)| asked != name);
        let all = kept.map(|(name, value)| (name.as_str(), value.as_str())).chain([(name, value)]);
        all.map(|(name, value)| format!("{name}={}", plain::query_value(value))).collect::<Vec<_>>().join("&")
    }
}

fn unlike(name: &str, expected: &str, given: &str) -> ApiError {
    let given = plain::excerpt(given, MAX_SHOWN_CHARS);
    ApiError::invalid(format!("{name} cannot be {given:?}: {expected}"))
}
