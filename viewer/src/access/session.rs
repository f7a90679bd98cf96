//! The session of a browser that signed in. Its cookie carries all of it, so that every process accepts it and
//! none stores it.

use serde::{Deserialize, Serialize};
use slack::ids::{TeamId, UserId};

use super::cookies::SealingKey;

/// The version of the cookie.
const VERSION: &str = "v1.";

/// The life of a cookie, which a page renews.
const COOKIE_LIFE_S: i64 = 24 * 3_600;

/// The age at which a page renews a cookie.
const RENEWAL_AGE_S: i64 = 3_600;

const SESSION_LIFE_S: i64 = 30 * 24 * 3_600;

/// The difference between the clocks of two processes.
const CLOCK_SKEW_S: i64 = 60;

/// Who signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SessionOwner {
    /// A person of a workspace, whom Slack names.
    Person(TeamId, UserId),
    /// A name that another provider gives; the file of people says who that is.
    Name(String),
    /// A name that may read without being a person in Slack, because of a claim that was required.
    Admitted(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    pub(crate) owner: SessionOwner,
    pub(crate) signed_in_s: i64,
    issued_s: i64,
}

impl Session {
    /// The session of someone who signs in now.
    pub(crate) fn new(owner: SessionOwner, now_s: i64) -> Self {
        Self { owner, signed_in_s: now_s, issued_s: now_s }
    }

    /// The value of its cookie.
    pub(crate) fn cookie(&self, key: &SealingKey) -> String {
        format!("{VERSION}{}", key.seal(self))
    }

    /// The session of a cookie; `None` if the cookie is forged, or the session is over.
    pub(crate) fn from_cookie(value: &str, key: &SealingKey, now_s: i64) -> Option<Self> {
        let session: Self = key.open(value.strip_prefix(VERSION)?)?;
        let Self { signed_in_s, issued_s, .. } = session;
        let is_in_order = signed_in_s <= issued_s && issued_s <= now_s.saturating_add(CLOCK_SKEW_S);
        (is_in_order && session.remaining_s(now_s) > 0).then_some(session)
    }

    /// How long the cookie is valid.
    pub(crate) fn remaining_s(&self, now_s: i64) -> i64 {
        let cookie_s = self.issued_s.saturating_add(COOKIE_LIFE_S).saturating_sub(now_s);
        let session_s = self.signed_in_s.saturating_add(SESSION_LIFE_S).saturating_sub(now_s);
        cookie_s.min(session_s)
    }

    /// The same session with a new cookie, if the old one is due.
    pub(crate) fn renewed(&self, now_s: i64) -> Option<Self> {
        let is_due = now_s.saturating_sub(self.issued_s) > RENEWAL_AGE_S;
        is_due.then(|| Self { issued_s: now_s, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SealingKey = SealingKey([7; 32]);
    const NOW_S: i64 = 1_800_000_000;
    const DAY_S: i64 = 24 * 3_600;

    fn ana() -> SessionOwner {
        SessionOwner::Person(TeamId::parse("T1").unwrap(), UserId::parse("U1").unwrap())
    }

    fn is_valid(signed_in_s: i64, issued_s: i64, now_s: i64) -> bool {
        let session = Session { owner: ana(), signed_in_s, issued_s };
        Session::from_cookie(&session.cookie(&KEY), &KEY, now_s) == Some(session)
    }

    #[test]
    fn a_session_lives_a_day_after_its_cookie_and_thirty_after_its_sign_in() {
        for (signed_in_s, issued_s, now_s, expected) in [
            (NOW_S, NOW_S, NOW_S, true),
            (NOW_S, NOW_S, NOW_S + DAY_S - 1, true),
            (NOW_S, NOW_S, NOW_S + DAY_S, false),
            (NOW_S, NOW_S + 29 * DAY_S, NOW_S + 30 * DAY_S - 1, true),
            (NOW_S, NOW_S + 29 * DAY_S + 1, NOW_S + 30 * DAY_S, false),
            // Another process has a clock that is a minute ahead.
            (NOW_S + 60, NOW_S + 60, NOW_S, true),
            (NOW_S + 61, NOW_S + 61, NOW_S, false),
            (NOW_S + 1, NOW_S, NOW_S + 1, false),
            (i64::MIN, NOW_S, NOW_S, false),
            (NOW_S, i64::MAX, NOW_S, false),
        ] {
            assert_eq!(is_valid(signed_in_s, issued_s, now_s), expected, "{signed_in_s} {issued_s} {now_s}");
        }
    }

    #[test]
    fn a_cookie_is_renewed_after_an_hour_and_keeps_the_time_of_the_sign_in() {
        let session = Session::new(ana(), NOW_S);
        assert_eq!(session.remaining_s(NOW_S), DAY_S);
        assert_eq!(session.renewed(NOW_S + 3_600), None);
        let renewed = session.renewed(NOW_S + 3_601).unwrap();
        assert_eq!((renewed.signed_in_s, renewed.issued_s), (NOW_S, NOW_S + 3_601));
        let late = Session { issued_s: NOW_S + 29 * DAY_S + DAY_S / 2, ..session };
        assert_eq!(late.remaining_s(late.issued_s), DAY_S / 2, "the session ends before the cookie");
    }

    #[test]
    fn another_text_is_no_session() {
        let session = Session::new(SessionOwner::Name("ana@example.org".to_owned()), NOW_S);
        let cookie = session.cookie(&KEY);
        assert_eq!(Session::from_cookie(&cookie, &KEY, NOW_S), Some(session.clone()));
        assert_eq!(Session::from_cookie(&cookie, &SealingKey([8; 32]), NOW_S), None);
        for text in
            ["", "v1.", &cookie[3..], &cookie.replace("v1.", "v2."), &format!("v1.{cookie}"), "annalist"]
        {
            assert_eq!(Session::from_cookie(text, &KEY, NOW_S), None, "{text}");
        }
        for payload in [
            serde_json::json!({}),
            serde_json::json!([ana(), NOW_S, NOW_S, 1]),
            serde_json::json!({ "owner": { "person": ["t1", "U1"] }, "signed_in_s": NOW_S, "issued_s": NOW_S }),
            serde_json::json!({ "owner": ana(), "signed_in_s": NOW_S, "issued_s": NOW_S, "admin": true }),
        ] {
            let cookie = format!("v1.{}", KEY.seal(&payload));
            assert_eq!(Session::from_cookie(&cookie, &KEY, NOW_S), None, "{payload}");
        }
    }
}
