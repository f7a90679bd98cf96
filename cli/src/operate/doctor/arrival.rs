//! Whether events arrive: a process listens, the Request URL leads there, the app is in channels, messages come.

use std::time::Duration;

use ingest::EVENTS_PATH;
use rules::gap::projection::Gap;
use slack_api::ApiError;
use slack_api::probe::{ProbeFailure, TIMEOUT};

use super::check::{DoctorCheck, counted};
use super::facts::{ChannelCounts, Facts, IngestFacts, NewestMessage, RefusedCounts, RequestUrl, SlackFacts};
use crate::operate::status::age;

const INGEST: &str = "ingest";
const REFUSED: &str = "refused";
const REQUEST_URL: &str = "request-url";
const CHANNELS: &str = "channels";
const EVENTS: &str = "events";

/// Slack may deliver what was refused for a day, and for that time it is worth knowing.
const REFUSED_LATELY_S: i64 = 24 * 3_600;

/// Even in the quietest workspace, a message is written within a week.
const LONGEST_SILENCE_S: i64 = 7 * 24 * 3_600;

/// Where Slack is told where to deliver, and says whether it could.
const EVENT_SUBSCRIPTIONS: &str = "look at api.slack.com/apps > your app > Event Subscriptions: Enable Events is on, the \
                                   Request URL is Verified (else press Retry, or verify it under App Manifest), and the \
                                   bot events are those of `annalist manifest`; then write something in a channel that \
                                   the app is in";

pub(super) fn checks(facts: &Facts, now_s: i64) -> Vec<DoctorCheck> {
    let gaps = facts.archive.as_ref().ok().and_then(|archive_facts| archive_facts.gaps.as_ref().ok());
    let last_refused = gaps.and_then(|gaps| gaps.refused.as_ref());
    let mut checks = vec![
        ingest(facts, &facts.ingest),
        refused(&facts.ingest, last_refused, now_s, &facts.place),
        request_url(&facts.request_url),
    ];
    let place = &facts.place;
    let join = match &facts.archive {
        Ok(_) => format!("`annalist sync {place}` joins them all"),
        Err(_) => format!("`annalist up {place}` joins them all once it runs"),
    };
    checks.extend(channels(&facts.slack, &join));
    checks.push(events(facts, now_s));
    checks
}

fn ingest(facts: &Facts, ingest: &IngestFacts) -> DoctorCheck {
    let (address, place) = (ingest.address, &facts.place);
    let Err(failure) = &ingest.ready else {
        return DoctorCheck::ok(INGEST, format!("ready for events on {address}"));
    };
    match failure {
        ProbeFailure::Unreachable(_) | ProbeFailure::Timeout if facts.on_aws => DoctorCheck::skipped(
            INGEST,
            format!(
                "nothing answers on {address}; it may run elsewhere, and --url tries the way that Slack takes"
            ),
        ),
        ProbeFailure::Unreachable(_) => DoctorCheck::finding(
            INGEST,
            format!("nothing listens on {address}"),
            format!("start `annalist up {place}`, or name the address it listens on with --listen"),
        ),
        ProbeFailure::Timeout => DoctorCheck::finding(
            INGEST,
            format!("{address} does not answer within {} s", TIMEOUT.as_secs()),
            "look into the log of `annalist up`",
        ),
        ProbeFailure::Status { code: 503 } => DoctorCheck::finding(
            INGEST,
            format!("what listens on {address} cannot take an event now"),
            "look into the log of `annalist up`: it says why",
        ),
        ProbeFailure::Status { .. }
        | ProbeFailure::Refused { .. }
        | ProbeFailure::Redirect { .. }
        | ProbeFailure::NotEchoed
        | ProbeFailure::NotAUrl
        | ProbeFailure::Tls(_) => DoctorCheck::finding(
            INGEST,
            format!("something else than annalist listens on {address}"),
            "name the address that `annalist up` listens on with --listen",
        ),
    }
}

/// Requests that were refused. That Slack's own were for their time is in the archive; that some were signed with another
/// secret is nowhere but in the running process.
fn refused(ingest: &IngestFacts, last: Option<&Gap>, now_s: i64, place: &str) -> DoctorCheck {
    let ended_s = last.and_then(|gap| gap.to.as_ref()).map(|to| to.micros() / 1_000_000);
    if ended_s.is_some_and(|ended_s| now_s - ended_s < REFUSED_LATELY_S) {
        return DoctorCheck::finding(
            REFUSED,
            "requests that Slack had signed were refused within a day: their time was another by this machine's clock",
            format!(
                "let the system keep its clock right (NTP); Slack delivers again for a day if Delayed Events is on, and \
                 `annalist gaps {place}` lists the times"
            ),
        );
    }
    match &ingest.refused {
        Ok(RefusedCounts { mismatch: 0, stale: 0 }) => {
            DoctorCheck::ok(REFUSED, "no request was signed with another secret since annalist started")
        }
        Ok(RefusedCounts { mismatch: 0, stale }) => DoctorCheck::ok(
            REFUSED,
            format!("{} for the time since annalist started, the last more than a day ago", requests(*stale)),
        ),
        Ok(RefusedCounts { mismatch, .. }) => DoctorCheck::finding(
            REFUSED,
            format!("{} since annalist started: signed with another secret", requests(*mismatch)),
            "compare SLACK_SIGNING_SECRET with the Signing Secret under Basic Information, and start `annalist up` again \
             with the right one; if they are the same, they are not from Slack",
        ),
        Err(_) => DoctorCheck::skipped(
            REFUSED,
            "no metrics answer: name their address with --metrics-listen to see whether requests are refused",
        ),
    }
}

fn requests(number: u64) -> String {
    match number {
        1 => "1 request was refused".to_owned(),
        number => format!("{number} requests were refused"),
    }
}

fn request_url(request_url: &RequestUrl) -> DoctorCheck {
    match request_url {
        RequestUrl::NotGiven => DoctorCheck::skipped(
            REQUEST_URL,
            format!("give --url https://YOUR-HOST{EVENTS_PATH} to try the way that Slack takes"),
        ),
        RequestUrl::NoSecret => {
            DoctorCheck::skipped(REQUEST_URL, "without a signing secret nothing can be signed")
        }
        RequestUrl::Asked { url, answer: Ok(took) } => DoctorCheck::ok(
            REQUEST_URL,
            format!("a signed challenge to {url} came back in {} ms", took.as_millis()),
        ),
        RequestUrl::Asked { url, answer: Err(failure) } => {
            let (says, next) = explained(failure);
            DoctorCheck::finding(REQUEST_URL, format!("{url}: {says}"), next)
        }
    }
}

/// What went wrong on the way that Slack takes.
fn explained(failure: &ProbeFailure) -> (String, String) {
    let (says, next) = match failure {
        ProbeFailure::NotAUrl => ("it is no URL".to_owned(), "give the whole address with --url"),
        ProbeFailure::Redirect { to } => {
            return (
                format!("it sends on to {to}"),
                format!("use {to} as Request URL, or answer without a redirect"),
            );
        }
        ProbeFailure::Refused { why } => (
            format!("annalist refused the request (401): {why}"),
            "if it is the secret, start `annalist up` with the same SLACK_SIGNING_SECRET as here, the one under Basic \
             Information, and let no proxy change the body; if it is the time, set the clock of both machines",
        ),
        ProbeFailure::Status { code: code @ (401 | 403) } => (
            format!("something before annalist wants a login (HTTP {code})"),
            "let this path pass without one: Slack's signature is the login",
        ),
        ProbeFailure::Status { code: code @ (404 | 405) } => (
            format!("there is nothing for events at this path (HTTP {code})"),
            "let the path be /slack/events, and the proxy hand it on as it is",
        ),
        ProbeFailure::Status { code: code @ (502..=504) } => (
            format!("what answers there reaches no annalist that takes events (HTTP {code})"),
            "start `annalist up`, and let the proxy or tunnel pass to the address it listens on (--listen)",
        ),
        ProbeFailure::Status { code } => {
            (format!("HTTP {code}"), "look into the log of the proxy, and of `annalist up`")
        }
        ProbeFailure::NotEchoed => (
            "it answers, and not with the challenge".to_owned(),
            "something else than annalist answers there: let the proxy pass this path to it",
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
    let asked = match slack {
        SlackFacts::Tokens { asked, .. } => asked.as_slice(),
        SlackFacts::Unusable(_) | SlackFacts::NoToken(_) => &[],
    };
    let mut checks = Vec::new();
    for token in asked {
        match &token.channels {
            Some(Ok(channels)) => checks.push(joined(*channels, join)),
            Some(Err(error)) => checks.push(unlisted(error)),
            None => {}
        }
    }
    if checks.is_empty() {
        checks.push(DoctorCheck::skipped(
            CHANNELS,
            "only with a token can be seen which the app is in: invite it to each that is to be kept, /invite @annalist",
        ));
    }
    checks
}

fn joined(channels: ChannelCounts, join: &str) -> DoctorCheck {
    let ChannelCounts { listed, joined, more } = channels;
    let first = if more { "the first " } else { "" };
    let of = format!("{first}{}", counted(listed, "public channel"));
    match joined {
        _ if listed == 0 => DoctorCheck::ok(CHANNELS, "the workspace has no public channel"),
        0 => DoctorCheck::finding(
            CHANNELS,
            format!("the app is in none of {of}: nothing that is written arrives"),
            format!("{join}; or invite the app in Slack to those to be kept: /invite @annalist"),
        ),
        _ if joined < listed => DoctorCheck::ok(
            CHANNELS,
            format!("the app is in {joined} of {of}; messages in the others do not arrive, and {join}"),
        ),
        _ => DoctorCheck::ok(CHANNELS, format!("the app is in all of {of}")),
    }
}

fn unlisted(error: &ApiError) -> DoctorCheck {
    match error {
        ApiError::RateLimited { retry_after, .. } => {
            let pause_s = retry_after.max(&Duration::from_secs(1)).as_secs();
            DoctorCheck::skipped(CHANNELS, format!("Slack wants to be asked again in {pause_s} s"))
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
        return DoctorCheck::skipped(EVENTS, "there is no archive to look into");
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
        None if waiting > 0 => {
            DoctorCheck::ok(EVENTS, format!("{} to be stored, the first", counted(waiting, "event")))
        }
        None => DoctorCheck::finding(EVENTS, "no message has ever arrived", EVENT_SUBSCRIPTIONS),
        Some(ts_s) => {
            let ago_s = now_s.saturating_sub(ts_s).max(0);
            let says = format!(
                "the newest message in {} channels is {} old",
                newest.channels,
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

#[cfg(test)]
mod tests {
    use rules::gap::Reason;
    use slack::ids::Ts;
    use slack_api::Method;

    use super::super::check::{CheckState, says};
    use super::*;

    #[test]
    fn each_way_in_which_the_request_url_fails_is_told_apart() {
        let status = |code| ProbeFailure::Status { code };
        for (failure, expected) in [
            (ProbeFailure::Refused { why: "it is so".into() }, "(401): it is so"),
            (ProbeFailure::Refused { why: "it is so".into() }, "the same SLACK_SIGNING_SECRET"),
            (status(401), "wants a login"),
            (status(403), "wants a login"),
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
            (ProbeFailure::NotEchoed, "something else than annalist"),
            (ProbeFailure::Tls("invalid peer certificate".into()), "certificate of a public authority"),
            (ProbeFailure::Timeout, "within 3 s"),
            (ProbeFailure::Unreachable("dns error".into()), "dns error"),
            (ProbeFailure::NotAUrl, "whole address"),
        ] {
            let asked =
                RequestUrl::Asked { url: "https://a.example/slack/events".into(), answer: Err(failure) };
            says(&request_url(&asked), CheckState::Finding, expected);
        }
        let took = Ok(Duration::from_millis(40));
        let asked = RequestUrl::Asked { url: "https://a.example/".into(), answer: took };
        says(&request_url(&asked), CheckState::Ok, "40 ms");
        says(&request_url(&RequestUrl::NotGiven), CheckState::Skipped, "--url");
        says(&request_url(&RequestUrl::NoSecret), CheckState::Skipped, "signing secret");
    }

    #[test]
    fn refused_requests_are_a_finding_if_slack_signed_them_lately_or_another_secret_did() {
        const NOW_S: i64 = 1_700_000_000;
        let of = |counts, last_s: Option<i64>| {
            let ingest =
                IngestFacts { address: ([127, 0, 0, 1], 3000).into(), ready: Ok(()), refused: counts };
            let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
            let gap = last_s.map(|last_s| Gap {
                from: ts(last_s - 60),
                to: Some(ts(last_s)),
                channel: None,
                reason: Reason::Refused,
                told: None,
            });
            refused(&ingest, gap.as_ref(), NOW_S, "--data d")
        };
        let counts = |mismatch, stale| Ok(RefusedCounts { mismatch, stale });
        says(&of(counts(0, 0), None), CheckState::Ok, "no request");
        says(&of(counts(0, 2), Some(NOW_S - 3_600)), CheckState::Finding, "NTP");
        says(&of(counts(0, 2), Some(NOW_S + 3_600)), CheckState::Finding, "`annalist gaps --data d`");
        says(&of(Err(ProbeFailure::Timeout), Some(NOW_S - 3_600)), CheckState::Finding, "clock");
        says(&of(counts(0, 2), Some(NOW_S - 90_000)), CheckState::Ok, "2 requests were refused for the time");
        says(&of(counts(1, 0), None), CheckState::Finding, "1 request was refused");
        says(&of(counts(1, 0), None), CheckState::Finding, "SLACK_SIGNING_SECRET");
        says(&of(Err(ProbeFailure::Timeout), None), CheckState::Skipped, "--metrics-listen");
    }

    #[test]
    fn an_app_that_is_in_no_channel_is_a_finding_and_one_that_is_in_some_is_not() {
        let of = |listed, in_them, more| {
            joined(ChannelCounts { listed, joined: in_them, more }, "`annalist sync` joins them")
        };
        says(&of(0, 0, false), CheckState::Ok, "no public channel");
        says(&of(6, 0, false), CheckState::Finding, "/invite @annalist");
        says(&of(6, 0, false), CheckState::Finding, "`annalist sync` joins them; or invite");
        says(&of(999, 0, true), CheckState::Finding, "none of the first 999");
        says(&of(6, 2, false), CheckState::Ok, "2 of 6");
        says(&of(6, 6, false), CheckState::Ok, "all of 6 public channels");
        says(&of(1, 1, false), CheckState::Ok, "all of 1 public channel");
        let method = Method::ConversationsList;
        let pause = ApiError::RateLimited { method, retry_after: Duration::from_secs(30) };
        says(&unlisted(&pause), CheckState::Skipped, "in 30 s");
        let scope = ApiError::Refused { method, error: "missing_scope".into(), needed: None };
        says(&unlisted(&scope), CheckState::Skipped, "missing_scope");
        says(&channels(&SlackFacts::NoToken(None), "")[0], CheckState::Skipped, "/invite @annalist");
    }

    #[test]
    fn silence_is_a_finding_from_the_first_day_and_after_a_week() {
        const NOW_S: i64 = 1_700_000_000;
        let newest = |ts_s| NewestMessage { ts_s, channels: 3 };
        says(&arrived(newest(None), 0, NOW_S), CheckState::Finding, "Event Subscriptions");
        says(&arrived(newest(None), 2, NOW_S), CheckState::Ok, "2 events to be stored");
        says(&arrived(newest(Some(NOW_S - 60)), 0, NOW_S), CheckState::Ok, "in 3 channels is 60 s old");
        says(&arrived(newest(Some(NOW_S + 60)), 0, NOW_S), CheckState::Ok, "0 s old");
        says(&arrived(newest(Some(NOW_S - LONGEST_SILENCE_S)), 0, NOW_S), CheckState::Ok, "7 d");
        says(&arrived(newest(Some(NOW_S - LONGEST_SILENCE_S - 1)), 0, NOW_S), CheckState::Finding, "Retry");
        says(&arrived(newest(Some(NOW_S - LONGEST_SILENCE_S - 1)), 9, NOW_S), CheckState::Ok, "7 d");
    }
}
