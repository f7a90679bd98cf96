//! Checks the settings: the signing secret, the tokens and their scopes, the clock, the backend.

use slack::signature::WINDOW_S;
use slack_api::{ApiError, TokenKind};

use super::check::DoctorCheck;
use super::facts::{Facts, Secret, SlackFacts, TokenFacts, Unopened};
use crate::manifest::BOT_SCOPES;
use crate::plain;

const SECRET: &str = "signing-secret";
const TOKEN: &str = "bot-token";
const SCOPES: &str = "scopes";
const CLOCK: &str = "clock";
const ARCHIVE: &str = "archive";

/// A tenth of the window in which a signature is valid. A clock that is off by more usually drifts further.
const MAX_SKEW_S: u64 = WINDOW_S / 10;

/// The page that shows the token.
const COPY_TOKEN: &str =
    "copy the Bot User OAuth Token (xoxb-…) from api.slack.com/apps > your app > OAuth & Permissions";

/// What to do about an app that is no longer installed.
const INSTALL_AGAIN: &str = "install the app again at api.slack.com/apps > your app > Install App, and copy the new Bot User \
                             OAuth Token";

/// Where the token of the only workspace belongs.
const INTO_SETTING: &str = "into SLACK_BOT_TOKEN and start `annalist up` again";

/// Where the token of one of several workspaces belongs.
const INTO_FILE: &str =
    "into the file (SLACK_BOT_TOKENS_FILE) or secret that has the tokens, which is read again by itself";

pub(super) fn checks(facts: &Facts) -> Vec<DoctorCheck> {
    let runs = facts.ingest.ready.is_ok();
    let mut checks = vec![secret(&facts.secret, facts.socket.has_token(), runs)];
    checks.extend(tokens(&facts.slack, runs));
    checks.extend(scopes(&facts.slack));
    checks.push(clock(&facts.slack));
    checks.extend(archive(facts));
    checks
}

fn secret(secret: &Result<Option<Secret>, String>, has_app_token: bool, runs: bool) -> DoctorCheck {
    match secret {
        Err(why) => DoctorCheck::unusable_setting(SECRET, why),
        Ok(None) if has_app_token => {
            DoctorCheck::ok(SECRET, "not needed: events come over Socket Mode, and no request is accepted")
        }
        Ok(None) if runs => DoctorCheck::finding(
            SECRET,
            "SLACK_SIGNING_SECRET is not set here, and `annalist up` runs with one",
            "run `annalist doctor` with the environment that `annalist up` has",
        ),
        Ok(None) => DoctorCheck::finding(
            SECRET,
            "SLACK_SIGNING_SECRET is not set",
            "set it to the Signing Secret from api.slack.com/apps > your app > Basic Information > App Credentials; no \
             app yet: Create New App > From a manifest, and paste what `annalist manifest --url \
             https://YOUR-HOST/slack/events` prints; without a public address, set SLACK_APP_TOKEN instead (`annalist \
             manifest --socket`)",
        ),
        Ok(Some(Secret { count: 0, apps: 0, .. })) => DoctorCheck::finding(
            SECRET,
            "SLACK_SIGNING_SECRETS_FILE has no app: every request is refused",
            "add each app's id with the Signing Secret from its Basic Information page",
        ),
        Ok(Some(Secret { count, odd, apps })) => {
            let mut says = match count {
                0 => String::new(),
                1 => "one is set".to_owned(),
                _ => {
                    "two are set and both are accepted, which is for rotating: leave the old one out when Slack no longer \
                     signs with it"
                        .to_owned()
                }
            };
            if *apps > 0 {
                let and = if says.is_empty() { "" } else { ", and " };
                let of_apps = plain::counted(*apps, "app has a secret", "apps have secrets");
                says.push_str(&format!("{and}{of_apps} for a path of its own, /slack/events/A…"));
            }
            if *odd > 0 {
                says.push_str(
                    "; it is not 32 hex digits, as Slack makes them: if requests are refused (401), copy it again",
                );
            }
            DoctorCheck::ok(SECRET, says)
        }
    }
}

fn tokens(slack: &SlackFacts, runs: bool) -> Vec<DoctorCheck> {
    match slack {
        SlackFacts::Unusable(why) => vec![DoctorCheck::unusable_setting(TOKEN, why)],
        SlackFacts::NoToken(_) => {
            let next = if runs {
                format!(
                    "{COPY_TOKEN} {INTO_SETTING}; if it has one already, run `annalist doctor` with the same environment"
                )
            } else {
                format!("{COPY_TOKEN} {INTO_SETTING}; it is there once the app is installed (Install App)")
            };
            let says = "SLACK_BOT_TOKEN is not set: files are not kept, channels are not joined, and names are \
                        known only from events";
            vec![DoctorCheck::finding(TOKEN, says, next)]
        }
        SlackFacts::Tokens { total, asked } => {
            let mut checks: Vec<DoctorCheck> = asked.iter().map(token).collect();
            let left = total.saturating_sub(asked.len());
            if left > 0 {
                checks.push(DoctorCheck::skipped(
                    TOKEN,
                    format!("{left} more tokens: Slack was not asked about them"),
                ));
            }
            checks
        }
    }
}

fn token(token: &TokenFacts) -> DoctorCheck {
    let for_team = token.given_for.as_ref().map(|team| format!(" for {team}")).unwrap_or_default();
    let place = if token.given_for.is_some() { INTO_FILE } else { INTO_SETTING };
    let mistaken = |what: &str| {
        DoctorCheck::finding(TOKEN, format!("the token{for_team} is {what}"), format!("{COPY_TOKEN} {place}"))
    };
    match token.kind {
        TokenKind::User => {
            return mistaken("a user token (xoxp-…), which acts for a person and not for the app");
        }
        TokenKind::App => {
            return mistaken("an app-level token (xapp-…), which may read nothing of a workspace");
        }
        TokenKind::Refresh => return mistaken("a refresh token (xoxe-…), which only gets other tokens"),
        TokenKind::Bot | TokenKind::Other => {}
    }
    match &token.answer {
        Ok(bot) => {
            let team = bot
                .team_name
                .as_ref()
                .map_or_else(|| bot.team.to_string(), |name| format!("{name} ({})", bot.team));
            if token.given_for.as_ref().is_some_and(|given_for| *given_for != bot.team) {
                return DoctorCheck::finding(
                    TOKEN,
                    format!("the token{for_team} belongs to {team}"),
                    "give each workspace its own token",
                );
            }
            let user = bot.user.as_deref().unwrap_or("a bot without a name");
            DoctorCheck::ok(TOKEN, format!("accepted: @{user} in {team}"))
        }
        Err(error) => refused(error, &for_team, place),
    }
}

fn refused(error: &ApiError, for_team: &str, place: &str) -> DoctorCheck {
    let finding =
        |says: &str, next: &str| DoctorCheck::finding(TOKEN, format!("the token{for_team} {says}"), next);
    let (copy_token, install_again) = (format!("{COPY_TOKEN} {place}"), format!("{INSTALL_AGAIN} {place}"));
    match error {
        ApiError::Refused { error, .. } => match error.as_str() {
            "invalid_auth" => finding(
                "is unknown to Slack (invalid_auth): truncated, of a deleted app, or not allowed from this address",
                &copy_token,
            ),
            "token_revoked" => finding("was revoked (token_revoked)", &install_again),
            "account_inactive" => finding(
                "is of an app that was removed from the workspace, or of a deleted one (account_inactive)",
                &install_again,
            ),
            "token_expired" => finding(
                "has expired (token_expired): token rotation is on, and cannot be turned off again",
                "create the app anew from what `annalist manifest` prints, which leaves token rotation off",
            ),
            other => finding(&format!("was refused ({other})"), &copy_token),
        },
        ApiError::RateLimited { .. } => DoctorCheck::skipped(TOKEN, error.to_string()),
        ApiError::Unreachable { .. } => DoctorCheck::finding(
            TOKEN,
            error.to_string(),
            "let this machine reach slack.com on port 443; behind a proxy, set HTTPS_PROXY",
        ),
        ApiError::Garbled { .. } => DoctorCheck::finding(
            TOKEN,
            error.to_string(),
            "leave out --slack-api-url (SLACK_API_URL) for Slack itself",
        ),
        ApiError::NoToken(_) | ApiError::WrongToken { .. } => {
            DoctorCheck::finding(TOKEN, error.to_string(), copy_token)
        }
    }
}

fn scopes(slack: &SlackFacts) -> Vec<DoctorCheck> {
    let accepted = slack.asked().iter().filter(|token| token.answer.is_ok());
    let checks: Vec<DoctorCheck> = accepted.map(scopes_of).collect();
    if checks.is_empty() {
        vec![DoctorCheck::skipped(SCOPES, "only an accepted token has scopes")]
    } else {
        checks
    }
}

fn scopes_of(token: &TokenFacts) -> DoctorCheck {
    let Some(scopes) = &token.scopes else {
        return DoctorCheck::skipped(SCOPES, "Slack did not report the token's scopes");
    };
    let missing: Vec<String> = BOT_SCOPES
        .iter()
        .filter(|(scope, _)| !scopes.contains(*scope))
        .map(|(scope, purpose)| format!("{scope} ({purpose})"))
        .collect();
    if missing.is_empty() {
        return DoctorCheck::ok(SCOPES, format!("all {} that the manifest asks for", BOT_SCOPES.len()));
    }
    DoctorCheck::finding(
        SCOPES,
        format!("the app lacks {}", missing.join(", ")),
        "add them at api.slack.com/apps > your app > OAuth & Permissions > Bot Token Scopes, then reinstall the app to \
         the workspace at the top of that page",
    )
}

fn clock(slack: &SlackFacts) -> DoctorCheck {
    let times = match slack {
        SlackFacts::Unusable(_) => None,
        SlackFacts::NoToken(times) => *times,
        SlackFacts::Tokens { asked, .. } => asked.iter().find_map(|token| token.times),
    };
    let Some(times) = times else { return DoctorCheck::skipped(CLOCK, "Slack did not report its time") };
    let ahead_s = times.ahead_s();
    let off_s = ahead_s.unsigned_abs();
    if off_s <= MAX_SKEW_S {
        return DoctorCheck::ok(CLOCK, format!("{off_s} s from Slack's"));
    }
    let side = if ahead_s > 0 { "ahead of" } else { "behind" };
    DoctorCheck::finding(
        CLOCK,
        format!(
            "this machine's clock is {off_s} s {side} Slack's: from {WINDOW_S} s on, every event is refused"
        ),
        "synchronize it over the network: `timedatectl set-ntp true`, or chrony",
    )
}

fn archive(facts: &Facts) -> Vec<DoctorCheck> {
    let backend_flag = &facts.backend_flag;
    let archive_facts = match &facts.archive {
        Ok(archive_facts) => archive_facts,
        Err(Unopened::Missing(_)) => {
            return vec![DoctorCheck::finding(
                ARCHIVE,
                format!("there is no archive yet ({backend_flag})"),
                format!("start `annalist up {backend_flag}`, or name the folder that it uses with --data"),
            )];
        }
        Err(Unopened::Unusable(why)) => {
            return vec![DoctorCheck::finding(
                ARCHIVE,
                why.as_str(),
                "correct that, then run `annalist doctor` again",
            )];
        }
    };
    let next = if facts.on_aws {
        "`annalist provision --dry-run` lists what is missing; docs/aws.md lists what the role must be allowed to do"
    } else {
        "see `disk` below, and the log of `annalist up`"
    };
    let failed: Vec<DoctorCheck> = archive_facts
        .ports
        .iter()
        .filter_map(|(port, ready)| Some(DoctorCheck::finding(port, ready.as_ref().err()?.as_str(), next)))
        .collect();
    if failed.is_empty() {
        vec![DoctorCheck::ok(ARCHIVE, format!("queue, archive and files can be used ({backend_flag})"))]
    } else {
        failed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ports::clock::TimestampMs;
    use slack::ids::TeamId;
    use slack_api::Method;
    use slack_api::check::ClockComparison;

    use super::super::check::{self, CheckState};
    use super::*;

    fn good() -> TokenFacts {
        TokenFacts::accepted(&BOT_SCOPES.map(|(scope, _)| scope))
    }

    fn assert_check(check: &DoctorCheck, state: CheckState, expected: &[&str]) {
        for expected in expected {
            check::assert_check(check, state, expected);
        }
    }

    #[test]
    fn a_missing_secret_is_a_finding_that_names_its_page() {
        let secrets = |count, odd| Ok(Some(Secret { count, odd, apps: 0 }));
        let with_apps = |count, apps| Ok(Some(Secret { count, odd: 0, apps }));
        for (facts, runs, state, expected) in [
            (secrets(1, 0), true, CheckState::Ok, &["one is set"][..]),
            (secrets(2, 0), true, CheckState::Ok, &["two are set", "rotating"]),
            (secrets(1, 1), true, CheckState::Ok, &["32 hex digits", "401"]),
            (with_apps(0, 30), true, CheckState::Ok, &["30 apps have secrets", "/slack/events/A"]),
            (with_apps(1, 1), true, CheckState::Ok, &["one is set, and 1 app has a secret"]),
            (with_apps(0, 0), true, CheckState::Finding, &["every request is refused", "Basic Information"]),
            (
                Ok(None),
                false,
                CheckState::Finding,
                &["Basic Information", "annalist manifest", "From a manifest", "SLACK_APP_TOKEN"],
            ),
            (Ok(None), true, CheckState::Finding, &["with the environment"]),
            (Err("it lists more than two".to_owned()), false, CheckState::Finding, &["more than two"]),
        ] {
            assert_check(&secret(&facts, false, runs), state, expected);
        }
        assert_check(&secret(&Ok(None), true, true), CheckState::Ok, &["not needed", "Socket Mode"]);
        assert_check(&secret(&secrets(1, 0), true, true), CheckState::Ok, &["one is set"]);
    }

    #[test]
    fn each_failure_of_a_token_has_its_own_next_step() {
        let answered = |error: &str| {
            let (method, error) = (Method::AuthTest, error.to_owned());
            TokenFacts { answer: Err(ApiError::Refused { method, error, needed: None }), ..good() }
        };
        let failed = |error| TokenFacts { answer: Err(error), ..good() };
        let kind = |kind| TokenFacts { kind, ..good() };
        let given_for = |team: &str| TokenFacts { given_for: Some(TeamId::parse(team).unwrap()), ..good() };
        let method = Method::AuthTest;
        for (facts, state, expected) in [
            (good(), CheckState::Ok, &["@annalist in Acme (T1)"][..]),
            (kind(TokenKind::Other), CheckState::Ok, &["accepted"]),
            (given_for("T1"), CheckState::Ok, &["accepted"]),
            (given_for("T2"), CheckState::Finding, &["for T2 belongs to Acme (T1)", "its own"]),
            (kind(TokenKind::User), CheckState::Finding, &["xoxp-", "OAuth & Permissions"]),
            (kind(TokenKind::App), CheckState::Finding, &["xapp-", "OAuth & Permissions"]),
            (kind(TokenKind::Refresh), CheckState::Finding, &["xoxe-", "OAuth & Permissions"]),
            (
                answered("invalid_auth"),
                CheckState::Finding,
                &["unknown to Slack", "copy", "into SLACK_BOT_TOKEN and"],
            ),
            (
                TokenFacts { answer: answered("token_revoked").answer, ..given_for("T1") },
                CheckState::Finding,
                &["for T1 was revoked", "SLACK_BOT_TOKENS_FILE", "by itself"],
            ),
            (answered("token_revoked"), CheckState::Finding, &["was revoked", "Install App"]),
            (
                answered("account_inactive"),
                CheckState::Finding,
                &["removed from the workspace", "Install App"],
            ),
            (
                answered("token_expired"),
                CheckState::Finding,
                &["expired", "token rotation", "annalist manifest"],
            ),
            (answered("ekm_access_denied"), CheckState::Finding, &["ekm_access_denied"]),
            (
                failed(ApiError::Unreachable { method, why: "no answer in time".into() }),
                CheckState::Finding,
                &["no answer in time", "port 443"],
            ),
            (failed(ApiError::Garbled { method, why: "odd" }), CheckState::Finding, &["--slack-api-url"]),
            (
                failed(ApiError::RateLimited { method, retry_after: std::time::Duration::from_secs(7) }),
                CheckState::Skipped,
                &["7 s"],
            ),
        ] {
            assert_check(&token(&facts), state, expected);
        }
    }

    #[test]
    fn a_missing_token_and_unchecked_tokens_are_reported() {
        for (facts, runs, expected) in [
            (SlackFacts::NoToken(None), false, &["files are not kept", "Install App"][..]),
            (SlackFacts::NoToken(None), true, &["the same environment"]),
            (SlackFacts::Unusable("both set".into()), true, &["both set"]),
        ] {
            assert_check(&tokens(&facts, runs)[0], CheckState::Finding, expected);
        }
        let checks = tokens(&SlackFacts::Tokens { total: 30, asked: vec![good()] }, true);
        assert_check(&checks[1], CheckState::Skipped, &["29 more tokens"]);
    }

    #[test]
    fn missing_scopes_are_listed_with_their_purpose() {
        let with = |scopes: Option<BTreeSet<String>>| scopes_of(&TokenFacts { scopes, ..good() });
        assert_check(
            &with(good().scopes),
            CheckState::Ok,
            &[format!("all {} that", BOT_SCOPES.len()).as_str()],
        );
        assert_check(&with(None), CheckState::Skipped, &["did not report"]);
        let mut some = good().scopes.unwrap();
        some.remove("files:read");
        some.remove("emoji:read");
        some.insert("chat:write".into());
        let check = with(Some(some));
        assert_eq!(check.says, "the app lacks emoji:read (custom emoji), files:read (files)");
        assert_check(&check, CheckState::Finding, &["Bot Token Scopes", "reinstall the app"]);
        assert_eq!(scopes(&SlackFacts::NoToken(None))[0].state, CheckState::Skipped);
    }

    #[test]
    fn a_clock_may_be_half_a_minute_off() {
        let clock_at = |now_s: i64| {
            let now = TimestampMs(now_s * 1000);
            clock(&SlackFacts::NoToken(Some(ClockComparison { slack_s: 10_000, before: now, after: now })))
        };
        assert_check(&clock_at(10_030), CheckState::Ok, &["30 s"]);
        assert_check(&clock_at(9_970), CheckState::Ok, &["30 s"]);
        assert_check(&clock_at(10_031), CheckState::Finding, &["31 s ahead of", "300 s", "timedatectl"]);
        assert_check(&clock_at(9_600), CheckState::Finding, &["400 s behind"]);
        assert_check(&clock(&SlackFacts::NoToken(None)), CheckState::Skipped, &["its time"]);
    }
}
