//! Checks whether events arrive: a process listens, the Request URL leads to it, the app is in channels,
//! messages arrive.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use ingest::EVENTS_PATH;
use rules::gap::projection::Gap;
use slack::ids::AppId;
use slack_api::ApiError;
use slack_api::probe::{ProbeFailure, TIMEOUT};

use super::check::DoctorCheck;
use super::facts::{ChannelCounts, Facts, IngestFacts, NewestMessage, RefusedCounts, RequestUrl, SlackFacts};
use crate::plain::{self, age};

const INGEST: &str = "ingest";
const REFUSED: &str = "refused";
const REQUEST_URL: &str = "request-url";
const CHANNELS: &str = "channels";
const EVENTS: &str = "events";
const APPS: &str = "apps";

/// Slack may deliver refused events again for a day, so refusals are reported that long.
const RECENTLY_REFUSED_S: i64 = 24 * 3_600;

/// Even in the quietest workspace, people post a message within a week.
const LONGEST_SILENCE_S: i64 = 7 * 24 * 3_600;

/// An app that has sent no event for so long is listed.
const SILENT_S: i64 = 24 * 3_600;

/// Maximum number of listed apps. `annalist workspaces` shows all of them.
const MAX_LISTED: usize = 10;

/// The page where the Request URL is set and where Slack shows whether it could deliver.
const EVENT_SUBSCRIPTIONS: &str = "look at api.slack.com/apps > your app > Event Subscriptions: Enable Events is on, the \
                                   Request URL is Verified (otherwise press Retry, or verify it under App Manifest) unless \
                                   Socket Mode is on, and the bot events are those of `annalist manifest`; then write something in a channel that \
                                   the app is in";

pub(super) fn checks(facts: &Facts, now_s: i64) -> Vec<DoctorCheck> {
    let gaps = facts.archive.as_ref().ok().and_then(|archive_facts| archive_facts.gaps.as_ref().ok());
    let last_refused = gaps.and_then(|gaps| gaps.refused.as_ref());
    let mut checks = vec![
        ingest(facts, &facts.ingest),
        refused(&facts.ingest, last_refused, now_s, &facts.backend_flag),
        request_url(&facts.request_url, facts.socket.has_token()),
    ];
    let backend_flag = &facts.backend_flag;
    let join = match &facts.archive {
        Ok(_) => format!("`annalist sync {backend_flag}` joins them all"),
        Err(_) => format!("`annalist up {backend_flag}` joins them all once it runs"),
    };
    checks.extend(channels(&facts.slack, &join));
    checks.push(events(facts, now_s));
    let apps = facts.archive.as_ref().ok().map(|archive_facts| &archive_facts.apps);
    checks.extend(apps.and_then(|apps| silent_apps(apps, now_s)));
    checks
}

fn ingest(facts: &Facts, ingest: &IngestFacts) -> DoctorCheck {
    let (address, backend_flag) = (ingest.address, &facts.backend_flag);
    let Err(failure) = &ingest.ready else {
        return DoctorCheck::ok(INGEST, format!("ready for events on {address}"));
    };
    match failure {
        ProbeFailure::Unreachable(_) | ProbeFailure::Timeout if facts.on_aws => DoctorCheck::skipped(
            INGEST,
            format!(
                "nothing answers on {address}; it may run elsewhere, and --url tests the path that Slack uses"
            ),
        ),
        ProbeFailure::Unreachable(_) => DoctorCheck::finding(
            INGEST,
            format!("nothing listens on {address}"),
            format!("start `annalist up {backend_flag}`, or name the address it listens on with --listen"),
        ),
        ProbeFailure::Timeout => DoctorCheck::finding(
            INGEST,
            format!("{address} does not answer within {} s", TIMEOUT.as_secs()),
            "check the log of `annalist up`",
        ),
        ProbeFailure::Status { code: 503 } => DoctorCheck::finding(
            INGEST,
            format!("the process on {address} cannot accept an event now"),
            "check the log of `annalist up`: it says why",
        ),
        ProbeFailure::Status { .. }
        | ProbeFailure::Refused { .. }
        | ProbeFailure::Redirect { .. }
        | ProbeFailure::NotEchoed
        | ProbeFailure::NotAUrl
        | ProbeFailure::Tls(_) => DoctorCheck::finding(
            INGEST,
            format!("something other than annalist listens on {address}"),
            "name the address that `annalist up` listens on with --listen",
        ),
    }
}

/// Checks for refused requests. The archive has gaps for requests that Slack signed but whose time was wrong;
/// only the running process counts requests that were signed with another secret.
fn refused(ingest: &IngestFacts, last: Option<&Gap>, now_s: i64, backend_flag: &str) -> DoctorCheck {
    let ended_s = last.and_then(|gap| gap.to.as_ref()).map(|to| to.micros() / 1_000_000);
    let is_recent = ended_s.is_some_and(|ended_s| now_s - ended_s < RECENTLY_REFUSED_S);
    let mismatch = ingest.refused.as_ref().map_or(0, |refused| refused.mismatch);
    let mut findings = Vec::new();
    if mismatch > 0 {
        findings.push((
            format!("{} since annalist started: signed with another secret", requests(mismatch)),
            "compare SLACK_SIGNING_SECRET, or the app's secret in SLACK_SIGNING_SECRETS_FILE, with the Signing Secret under \
             Basic Information, and start `annalist up` again with the right one (the file is read again by itself); if they \
             are the same, the requests are not from Slack"
                .to_owned(),
        ));
    }
    if is_recent {
        findings.push((
            "requests that Slack had signed were refused within a day: their time differed from this machine's clock"
                .to_owned(),
            format!(
                "keep the system clock correct (NTP); Slack delivers again for a day if Delayed Events is on, and \
                 `annalist gaps {backend_flag}` lists the times"
            ),
        ));
    }
    if !findings.is_empty() {
        let (found, next): (Vec<_>, Vec<_>) = findings.into_iter().unzip();
        return DoctorCheck::finding(REFUSED, found.join("; "), next.join("; "));
    }
    match &ingest.refused {
        Ok(RefusedCounts { stale: 0, .. }) => {
            DoctorCheck::ok(REFUSED, "no request was signed with another secret since annalist started")
        }
        Ok(RefusedCounts { stale, .. }) => DoctorCheck::ok(
            REFUSED,
            format!(
                "{} because of their time since annalist started, the last more than a day ago",
                requests(*stale)
            ),
        ),
        Err(_) => DoctorCheck::skipped(
            REFUSED,
            "no metrics endpoint answers: name its address with --metrics-listen to see whether requests are refused",
        ),
    }
}

fn requests(number: u64) -> String {
    format!("{} refused", plain::counted(number, "request was", "requests were"))
}

fn request_url(request_url: &RequestUrl, has_app_token: bool) -> DoctorCheck {
    match request_url {
        RequestUrl::NotGiven | RequestUrl::NoSecret if has_app_token => {
            DoctorCheck::skipped(REQUEST_URL, "Slack needs none: events come over Socket Mode")
        }
        RequestUrl::NotGiven => DoctorCheck::skipped(
            REQUEST_URL,
            format!("give --url https://YOUR-HOST{EVENTS_PATH} to test the path that Slack uses"),
        ),
        RequestUrl::NoSecret => {
            DoctorCheck::skipped(REQUEST_URL, "without a signing secret for its path nothing can be signed")
        }
        RequestUrl::Probed { url, answer: Ok(took) } => DoctorCheck::ok(
            REQUEST_URL,
            format!("a signed challenge to {url} came back in {} ms", took.as_millis()),
        ),
        RequestUrl::Probed { url, answer: Err(failure) } => {
            let (says, next) = describe_failure(failure);
            DoctorCheck::finding(REQUEST_URL, format!("{url}: {says}"), next)
        }
    }
}

/// Describes a failure of the Request URL, and the next step.
fn describe_failure(failure: &ProbeFailure) -> (String, String) {
    let (says, next) = match failure {
        ProbeFailure::NotAUrl => ("it is not a URL".to_owned(), "give the whole address with --url"),
        ProbeFailure::Redirect { to } => {
            return (
                format!("it redirects to {to}"),
                format!("use {to} as Request URL, or answer without a redirect"),
            );
        }
        ProbeFailure::Refused { why } => (
            format!("annalist refused the request (401): {why}"),
            "if it is the secret, start `annalist up` with the same SLACK_SIGNING_SECRET as here, the one under Basic \
             Information, and let no proxy change the body; if it is the time, set the clock of both machines",
        ),
        ProbeFailure::Status { code: code @ (401 | 403) } => (
            format!("something in front of annalist requires a login (HTTP {code})"),
            "let this path pass without one: Slack's signature is the login",
        ),
        ProbeFailure::Status { code: code @ (404 | 405) } => (
            format!("there is nothing for events at this path (HTTP {code})"),
            "use the path /slack/events, and let the proxy pass it on unchanged",
        ),
        ProbeFailure::Status { code: code @ (502..=504) } => (
            format!("the server there reaches no annalist that accepts events (HTTP {code})"),
            "start `annalist up`, and let the proxy or tunnel pass to the address it listens on (--listen)",
        ),
        ProbeFailure::Status { code } => {
            (format!("HTTP {code}"), "check the log of the proxy, and of `annalist up`")
        }
        ProbeFailure::NotEchoed => (
            "it answers, but not with the challenge".to_owned(),
            "something other than annalist answers there: let the proxy pass this path to it",
        ),
        ProbeFailure::Tls(why) => (
            format!("the encryption fails: {why}"),
            "serve https with a certificate of a public authority, its intermediate certificates included",
        ),
        ProbeFailure::Timeout => (
            format!("no answer within {} s, and Slack waits no longer", TIMEOUT.as_secs()),
            "open the port to the internet, and let the proxy pass to the address that `annalist up` listens on",
        ),
        ProbeFailure::Unreachable(why) => (
            format!("no connection: {why}"),
            "let the name lead to the proxy or tunnel, and open its port to the internet",
        ),
    };
    (says, next.to_owned())
}

fn channels(slack: &SlackFacts, join: &str) -> Vec<DoctorCheck> {
    let listed = slack.asked().iter().filter_map(|token| token.channels.as_ref());
    let mut checks: Vec<DoctorCheck> = listed
        .map(|channels| match channels {
            Ok(channels) => joined(*channels, join),
            Err(error) => unlisted(error),
        })
        .collect();
    if checks.is_empty() {
        checks.push(DoctorCheck::skipped(
            CHANNELS,
            "without a token it is unknown which channels the app is in: invite it to each that is to be kept, /invite @annalist",
        ));
    }
    checks
}

fn joined(channels: ChannelCounts, join: &str) -> DoctorCheck {
    let ChannelCounts { listed, joined, more } = channels;
    let first = if more { "the first " } else { "" };
    let channel_count = format!("{first}{}", plain::counted(listed, "public channel", "public channels"));
    match joined {
        _ if listed == 0 => DoctorCheck::ok(CHANNELS, "the workspace has no public channel"),
        0 => DoctorCheck::finding(
            CHANNELS,
            format!("the app is in none of {channel_count}: no messages arrive"),
            format!("{join}; or invite the app in Slack to those to be kept: /invite @annalist"),
        ),
        _ if joined < listed => DoctorCheck::ok(
            CHANNELS,
            format!(
                "the app is in {joined} of {channel_count}; messages in the others do not arrive, and {join}"
            ),
        ),
        _ => DoctorCheck::ok(CHANNELS, format!("the app is in all of {channel_count}")),
    }
}

fn unlisted(error: &ApiError) -> DoctorCheck {
    match error {
        ApiError::RateLimited { retry_after, .. } => {
            let pause_s = retry_after.max(&Duration::from_secs(1)).as_secs();
            DoctorCheck::skipped(CHANNELS, format!("Slack asks to retry in {pause_s} s"))
        }
        ApiError::Refused { .. }
        | ApiError::Unreachable { .. }
        | ApiError::Garbled { .. }
        | ApiError::NoToken(_)
        | ApiError::WrongToken { .. } => DoctorCheck::skipped(CHANNELS, error.to_string()),
    }
}

fn events(facts: &Facts, now_s: i64) -> DoctorCheck {
    let Ok(archive_facts) = &facts.archive else {
        return DoctorCheck::skipped(EVENTS, "there is no archive to check");
    };
    let waiting = archive_facts.status.as_ref().ok().and_then(|status| status.queues.first());
    let waiting = waiting.map_or(0, |queue| queue.waiting + queue.in_flight);
    match &archive_facts.newest {
        Err(why) => DoctorCheck::skipped(EVENTS, why.as_str()),
        Ok(newest) => arrived(*newest, waiting, now_s),
    }
}

fn arrived(newest: NewestMessage, waiting: u64, now_s: i64) -> DoctorCheck {
    match newest.ts_s {
        None if waiting > 0 => DoctorCheck::ok(
            EVENTS,
            format!("{} to be stored, the first", plain::counted(waiting, "event", "events")),
        ),
        None => DoctorCheck::finding(EVENTS, "no message has ever arrived", EVENT_SUBSCRIPTIONS),
        Some(ts_s) => {
            let ago_s = now_s.saturating_sub(ts_s).max(0);
            let says = format!(
                "the newest message in {} is {} old",
                plain::counted(newest.channels, "channel", "channels"),
                age(ago_s.unsigned_abs())
            );
            if ago_s > LONGEST_SILENCE_S && waiting == 0 {
                DoctorCheck::finding(EVENTS, says, EVENT_SUBSCRIPTIONS)
            } else {
                DoctorCheck::ok(EVENTS, says)
            }
        }
    }
}

/// The apps that have sent no event for a day; `None` if there is none. The newest message of all channels does not show
/// that one app of several sends nothing.
fn silent_apps(apps: &Result<BTreeMap<AppId, i64>, String>, now_s: i64) -> Option<DoctorCheck> {
    let apps = match apps {
        Ok(apps) => apps,
        Err(why) => return Some(DoctorCheck::skipped(APPS, why.as_str())),
    };
    let ago = apps.iter().map(|(app, last_s)| (now_s.saturating_sub(*last_s), app));
    let mut silent: Vec<(i64, &AppId)> = ago.filter(|(ago_s, _)| *ago_s > SILENT_S).collect();
    silent.sort_by_key(|(ago_s, _)| Reverse(*ago_s));
    let (longest_s, _) = *silent.first()?;
    let listed = silent.iter().take(MAX_LISTED);
    let listed: Vec<String> =
        listed.map(|(ago_s, app)| format!("{app} for {}", age(ago_s.unsigned_abs()))).collect();
    let and_more = if silent.len() > MAX_LISTED { ", …" } else { "" };
    let says = format!(
        "{} of {} sent no event for a day: {}{and_more}",
        silent.len(),
        plain::counted(apps.len(), "app", "apps"),
        listed.join(", ")
    );
    Some(if apps.len() > 1 && longest_s > LONGEST_SILENCE_S {
        DoctorCheck::finding(APPS, says, EVENT_SUBSCRIPTIONS)
    } else {
        DoctorCheck::ok(APPS, says)
    })
}

#[cfg(test)]
mod tests {
    use rules::gap::GapReason;
    use slack::ids::Ts;
    use slack_api::Method;

    use super::super::check::{CheckState, assert_check};
    use super::*;

    #[test]
    fn each_failure_of_the_request_url_has_its_own_next_step() {
        let status = |code| ProbeFailure::Status { code };
        for (failure, expected) in [
            (ProbeFailure::Refused { why: "it is so".into() }, "(401): it is so"),
            (ProbeFailure::Refused { why: "it is so".into() }, "the same SLACK_SIGNING_SECRET"),
            (status(401), "requires a login"),
            (status(403), "requires a login"),
            (status(404), "/slack/events"),
            (status(405), "/slack/events"),
            (status(502), "start `annalist up`"),
            (status(503), "start `annalist up`"),
            (status(504), "start `annalist up`"),
            (status(418), "HTTP 418"),
            (
                ProbeFailure::Redirect { to: "https://b.example/".into() },
                "use https://b.example/ as Request URL",
            ),
            (ProbeFailure::NotEchoed, "something other than annalist"),
            (ProbeFailure::Tls("invalid peer certificate".into()), "certificate of a public authority"),
            (ProbeFailure::Timeout, "within 3 s"),
            (ProbeFailure::Unreachable("dns error".into()), "dns error"),
            (ProbeFailure::NotAUrl, "whole address"),
        ] {
            let asked =
                RequestUrl::Probed { url: "https://a.example/slack/events".into(), answer: Err(failure) };
            assert_check(&request_url(&asked, false), CheckState::Finding, expected);
        }
        let took = Ok(Duration::from_millis(40));
        let asked = RequestUrl::Probed { url: "https://a.example/".into(), answer: took };
        assert_check(&request_url(&asked, true), CheckState::Ok, "40 ms");
        assert_check(&request_url(&RequestUrl::NotGiven, false), CheckState::Skipped, "--url");
        assert_check(&request_url(&RequestUrl::NoSecret, false), CheckState::Skipped, "signing secret");
        assert_check(&request_url(&RequestUrl::NoSecret, true), CheckState::Skipped, "Socket Mode");
    }

    #[test]
    fn refused_requests_are_a_finding_if_recent_or_signed_with_another_secret() {
        const NOW_S: i64 = 1_700_000_000;
        let check_for = |counts, last_s: Option<i64>| {
            let address = ([127, 0, 0, 1], 3000).into();
            let ingest = IngestFacts { address, ready: Ok(()), refused: counts, connections: None };
            let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
            let gap = last_s.map(|last_s| Gap {
                from: ts(last_s - 60),
                to: Some(ts(last_s)),
                channel: None,
                reason: GapReason::Refused,
                reported_at: None,
            });
            refused(&ingest, gap.as_ref(), NOW_S, "--data d")
        };
        let counts = |mismatch, stale| Ok(RefusedCounts { mismatch, stale });
        let (unknown, day_ago_s) = (Err(ProbeFailure::Timeout), NOW_S - 90_000);
        for (counts, last_s, state, expected) in [
            (counts(0, 0), None, CheckState::Ok, "no request"),
            (counts(0, 2), Some(NOW_S - 3_600), CheckState::Finding, "NTP"),
            (counts(0, 2), Some(NOW_S + 3_600), CheckState::Finding, "`annalist gaps --data d`"),
            (unknown.clone(), Some(NOW_S - 3_600), CheckState::Finding, "clock"),
            (counts(0, 2), Some(day_ago_s), CheckState::Ok, "2 requests were refused because of their time"),
            (counts(1, 0), None, CheckState::Finding, "1 request was refused"),
            (counts(1, 0), None, CheckState::Finding, "SLACK_SIGNING_SECRET"),
            (counts(4, 2), Some(NOW_S - 3_600), CheckState::Finding, "4 requests were refused"),
            (counts(4, 2), Some(NOW_S - 3_600), CheckState::Finding, "; requests that Slack had signed"),
            (counts(4, 2), Some(NOW_S - 3_600), CheckState::Finding, "SLACK_SIGNING_SECRET"),
            (counts(4, 2), Some(NOW_S - 3_600), CheckState::Finding, "; keep the system clock correct"),
            (unknown, None, CheckState::Skipped, "--metrics-listen"),
        ] {
            assert_check(&check_for(counts, last_s), state, expected);
        }
    }

    #[test]
    fn only_an_app_that_is_in_no_channel_is_a_finding() {
        let check_for = |listed, joined_count, more| {
            joined(ChannelCounts { listed, joined: joined_count, more }, "`annalist sync` joins them")
        };
        assert_check(&check_for(0, 0, false), CheckState::Ok, "no public channel");
        assert_check(&check_for(6, 0, false), CheckState::Finding, "/invite @annalist");
        assert_check(&check_for(6, 0, false), CheckState::Finding, "`annalist sync` joins them; or invite");
        assert_check(&check_for(999, 0, true), CheckState::Finding, "none of the first 999");
        assert_check(&check_for(6, 2, false), CheckState::Ok, "2 of 6");
        assert_check(&check_for(6, 6, false), CheckState::Ok, "all of 6 public channels");
        assert_check(&check_for(1, 1, false), CheckState::Ok, "all of 1 public channel");
        let method = Method::ConversationsList;
        let pause = ApiError::RateLimited { method, retry_after: Duration::from_secs(30) };
        assert_check(&unlisted(&pause), CheckState::Skipped, "in 30 s");
        let scope = ApiError::Refused { method, error: "missing_scope".into(), needed: None };
        assert_check(&unlisted(&scope), CheckState::Skipped, "missing_scope");
        assert_check(&channels(&SlackFacts::NoToken(None), "")[0], CheckState::Skipped, "/invite @annalist");
    }

    #[test]
    fn apps_without_an_event_for_a_day_are_listed_and_a_finding_if_others_send_and_they_are_silent_for_a_week()
     {
        const NOW_S: i64 = 1_700_000_000;
        let check_for = |ago_s: &[i64]| {
            let app = |index: usize| AppId::parse(&format!("A{index:04}")).unwrap();
            let apps = ago_s.iter().enumerate().map(|(index, ago_s)| (app(index), NOW_S - ago_s)).collect();
            silent_apps(&Ok(apps), NOW_S)
        };
        const HOUR_S: i64 = 3_600;
        assert_eq!(check_for(&[]), None);
        assert_eq!(check_for(&[0, 24 * HOUR_S, -HOUR_S]), None);
        let two = check_for(&[25 * HOUR_S, 30 * HOUR_S, HOUR_S]).unwrap();
        assert_check(
            &two,
            CheckState::Ok,
            "2 of 3 apps sent no event for a day: A0001 for 30 h, A0000 for 25 h",
        );
        let week = 7 * 24 * HOUR_S + 1;
        assert_check(&check_for(&[week, HOUR_S]).unwrap(), CheckState::Finding, "A0000 for 7 d");
        // The only one: the newest message shows it.
        assert_check(&check_for(&[week]).unwrap(), CheckState::Ok, "1 of 1 app ");
        assert_check(&check_for(&[week; 11]).unwrap(), CheckState::Finding, "A0009 for 7 d, …");
        assert_check(&silent_apps(&Err("away".into()), NOW_S).unwrap(), CheckState::Skipped, "away");
    }

    #[test]
    fn silence_is_a_finding_if_no_message_ever_arrived_and_after_a_week() {
        const NOW_S: i64 = 1_700_000_000;
        let silent = NOW_S - LONGEST_SILENCE_S;
        for (ts_s, waiting, state, expected) in [
            (None, 0, CheckState::Finding, "Event Subscriptions"),
            (None, 2, CheckState::Ok, "2 events to be stored"),
            (Some(NOW_S - 60), 0, CheckState::Ok, "in 3 channels is 60 s old"),
            (Some(NOW_S + 60), 0, CheckState::Ok, "0 s old"),
            (Some(silent), 0, CheckState::Ok, "7 d"),
            (Some(silent - 1), 0, CheckState::Finding, "Retry"),
            (Some(silent - 1), 9, CheckState::Ok, "7 d"),
        ] {
            assert_check(&arrived(NewestMessage { ts_s, channels: 3 }, waiting, NOW_S), state, expected);
        }
    }
}
