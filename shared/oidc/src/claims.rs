//! The claims of an ID token. The token comes from the token endpoint over TLS, which stands in place of its
//! signature (OpenID Connect Core 3.1.3.7, 6): a token that comes in another way is never looked at.

use serde_json::{Map, Value};

use crate::from_base64url;
use crate::issuer::Issuer;

/// The difference between the clocks of a provider and of this machine.
const CLOCK_SKEW_S: i64 = 60;

/// The age of an ID token. It is made when the browser's code arrives, some seconds before.
const MAX_AGE_S: i64 = 600;

/// The claims with which Slack says who signs in.
const SLACK_TEAM: &str = "https://slack.com/team_id";
const SLACK_USER: &str = "https://slack.com/user_id";

/// What an ID token must say.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedClaims<'a> {
    /// The provider, as its discovery document writes it.
    pub issuer: &'a str,
    /// Our id at the provider.
    pub client_id: &'a str,
    /// The random text of this sign-in.
    pub nonce: &'a str,
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// Why an ID token does not count. None of its content is part of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// It is not a signed token with an object of claims.
    #[error("the ID token cannot be read")]
    Unreadable,
    /// Another provider made it.
    #[error("the ID token is of another issuer")]
    Issuer,
    /// It is for another client.
    #[error("the ID token is for another client")]
    Audience,
    /// It is expired, or does not say when it expires.
    #[error("the ID token is expired")]
    Expired,
    /// It was not made just now.
    #[error("the ID token was not issued just now: compare the clock of this machine")]
    IssuedAt,
    /// It belongs to another sign-in.
    #[error("the ID token belongs to another sign-in")]
    Nonce,
    /// It names no person.
    #[error("the ID token names no subject")]
    Subject,
}

/// What a provider says about a person.
#[derive(Debug, Clone, PartialEq)]
pub struct IdTokenClaims(Map<String, Value>);

impl IdTokenClaims {
    /// Reads and checks an ID token.
    ///
    /// # Errors
    /// [`IdTokenError`], the first thing that is wrong.
    pub fn check(id_token: &str, expected: &ExpectedClaims<'_>) -> Result<Self, IdTokenError> {
        let mut parts = id_token.split('.');
        let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(IdTokenError::Unreadable);
        };
        let claims = from_base64url(claims).ok_or(IdTokenError::Unreadable)?;
        let claims: Map<String, Value> =
            serde_json::from_slice(&claims).map_err(|_| IdTokenError::Unreadable)?;
        let claims = Self(claims);
        if claims.text("iss") != Some(expected.issuer) {
            return Err(IdTokenError::Issuer);
        }
        if !claims.is_for(expected.client_id) {
            return Err(IdTokenError::Audience);
        }
        if claims.time_s("exp").is_none_or(|expires| expires <= expected.now_s - CLOCK_SKEW_S) {
            return Err(IdTokenError::Expired);
        }
        if claims
            .time_s("iat")
            .is_none_or(|issued| issued.abs_diff(expected.now_s) > MAX_AGE_S.unsigned_abs())
        {
            return Err(IdTokenError::IssuedAt);
        }
        if claims.text("nonce") != Some(expected.nonce) {
            return Err(IdTokenError::Nonce);
        }
        if claims.text("sub").is_none() {
            return Err(IdTokenError::Subject);
        }
        Ok(claims)
    }

    /// Whether the token is for this client, alone or as the party that others let sign in.
    fn is_for(&self, client_id: &str) -> bool {
        let azp = self.0.get("azp");
        let is_ours = azp.is_some_and(|azp| azp == client_id);
        match self.0.get("aud") {
            Some(Value::String(audience)) => audience == client_id && (azp.is_none() || is_ours),
            Some(Value::Array(audiences)) => {
                audiences.iter().any(|audience| audience == client_id)
                    && (is_ours || audiences.len() == 1 && azp.is_none())
            }
            Some(_) | None => false,
        }
    }

    /// A time, which may have a fraction.
    fn time_s(&self, name: &str) -> Option<i64> {
        let time = self.0.get(name)?;
        #[expect(clippy::cast_possible_truncation, reason = "seconds, and a cast of a float saturates")]
        time.as_i64().or_else(|| time.as_f64().map(|seconds| seconds as i64))
    }

    /// A claim that is a text other than the empty one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The name of the person by this claim. An address that the provider has not verified names no person.
    pub fn user_name(&self, claim: &str) -> Option<&str> {
        let verified = self.0.get("email_verified");
        let is_unverified = verified.is_some_and(|verified| *verified == false || verified == "false");
        if claim == "email" && is_unverified { None } else { self.text(claim) }
    }

    /// The ids of the workspace and the user, if the provider is Slack: another one could claim to be anybody. A
    /// provider on this machine may stand in for Slack.
    pub fn slack_ids(&self) -> Option<(&str, &str)> {
        let issuer: Issuer = self.text("iss")?.parse().ok()?;
        if !issuer.is_slack() && !issuer.is_loopback_http() {
            return None;
        }
        Some((self.text(SLACK_TEAM)?, self.text(SLACK_USER)?))
    }

    /// Whether a claim has this value, or is a list that contains it.
    pub fn has(&self, claim: &str, value: &str) -> bool {
        let is_value = |found: &Value| match found {
            Value::String(text) => text == value,
            Value::Bool(_) | Value::Number(_) => {
                serde_json::from_str::<Value>(value).is_ok_and(|value| value == *found)
            }
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        };
        match self.0.get(claim) {
            Some(Value::Array(list)) => list.iter().any(is_value),
            Some(found) => is_value(found),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::to_base64url;

    const NOW_S: i64 = 1_800_000_000;

    const EXPECTED: ExpectedClaims<'_> =
        ExpectedClaims { issuer: "https://slack.com", client_id: "7.8", nonce: "n-1", now_s: NOW_S };

    fn whole() -> Value {
        json!({
            "iss": "https://slack.com", "aud": "7.8", "sub": "U1", "nonce": "n-1",
            "exp": NOW_S + 300, "iat": NOW_S, "https://slack.com/team_id": "T1", "https://slack.com/user_id": "U1",
        })
    }

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", to_base64url(claims.to_string().as_bytes()))
    }

    fn check(changes: &Value) -> Result<IdTokenClaims, IdTokenError> {
        let mut claims = whole();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            }
        }
        IdTokenClaims::check(&token(&claims), &EXPECTED)
    }

    #[test]
    fn an_id_token_counts_if_it_is_of_the_provider_for_us_and_of_this_sign_in() {
        for changes in [
            json!({}),
            json!({ "aud": ["7.8"] }),
            json!({ "aud": ["7.8", "9"], "azp": "7.8" }),
            json!({ "azp": "7.8" }),
            json!({ "exp": NOW_S - 59 }),
            json!({ "exp": 1_800_000_300.5 }),
            json!({ "iat": NOW_S - 600 }),
            json!({ "iat": NOW_S + 600 }),
        ] {
            assert_eq!(check(&changes).unwrap().slack_ids(), Some(("T1", "U1")), "{changes}");
        }
        for (changes, error) in [
            (json!({ "iss": "https://evil.example" }), IdTokenError::Issuer),
            (json!({ "iss": "https://slack.com/" }), IdTokenError::Issuer),
            (json!({ "iss": null }), IdTokenError::Issuer),
            (json!({ "iss": ["https://slack.com"] }), IdTokenError::Issuer),
            (json!({ "aud": "9" }), IdTokenError::Audience),
            (json!({ "aud": null }), IdTokenError::Audience),
            (json!({ "aud": [] }), IdTokenError::Audience),
            (json!({ "aud": { "7.8": true } }), IdTokenError::Audience),
            (json!({ "aud": ["7.8", "9"] }), IdTokenError::Audience),
            (json!({ "aud": ["7.8", "9"], "azp": "9" }), IdTokenError::Audience),
            (json!({ "aud": ["9"], "azp": "7.8" }), IdTokenError::Audience),
            (json!({ "azp": "9" }), IdTokenError::Audience),
            (json!({ "azp": ["7.8"] }), IdTokenError::Audience),
            (json!({ "exp": NOW_S - 60 }), IdTokenError::Expired),
            (json!({ "exp": null }), IdTokenError::Expired),
            (json!({ "exp": "never" }), IdTokenError::Expired),
            (json!({ "iat": NOW_S - 601 }), IdTokenError::IssuedAt),
            (json!({ "iat": NOW_S + 601 }), IdTokenError::IssuedAt),
            (json!({ "iat": i64::MIN }), IdTokenError::IssuedAt),
            (json!({ "iat": null }), IdTokenError::IssuedAt),
            (json!({ "nonce": "n-2" }), IdTokenError::Nonce),
            (json!({ "nonce": null }), IdTokenError::Nonce),
            (json!({ "nonce": 1 }), IdTokenError::Nonce),
            (json!({ "sub": null }), IdTokenError::Subject),
            (json!({ "sub": "" }), IdTokenError::Subject),
            (json!({ "sub": 7 }), IdTokenError::Subject),
        ] {
            assert_eq!(check(&changes).unwrap_err(), error, "{changes}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_token_is_unreadable() {
        let claims = to_base64url(whole().to_string().as_bytes());
        let list = to_base64url(b"[]");
        for text in [
            String::new(),
            "..".to_owned(),
            claims.clone(),
            format!("e30.{claims}"),
            format!("e30.{claims}.a.b.c"),
            format!("e30.{claims}=.a"),
            format!("e30.{list}.a"),
            format!("e30.{}.a", to_base64url(&[0xff; 8])),
            format!("e30.{}.a", to_base64url("[".repeat(100_000).as_bytes())),
        ] {
            assert_eq!(IdTokenClaims::check(&text, &EXPECTED).unwrap_err(), IdTokenError::Unreadable);
        }
    }

    #[test]
    fn a_claim_has_a_value_alone_or_in_a_list() {
        let claims =
            check(&json!({ "hd": "example.org", "groups": ["staff", 7, null, ["x"]], "ok": true })).unwrap();
        for (claim, value, has) in [
            ("hd", "example.org", true),
            ("hd", "example", false),
            ("groups", "staff", true),
            ("groups", "7", true),
            ("groups", "x", false),
            ("groups", "null", false),
            ("ok", "true", true),
            ("other", "", false),
        ] {
            assert_eq!(claims.has(claim, value), has, "{claim} {value}");
        }
        let email = |verified: Value| {
            let claims = check(&json!({ "email": "ana@example.org", "email_verified": verified })).unwrap();
            claims.user_name("email").map(ToOwned::to_owned)
        };
        assert_eq!(email(json!(true)).as_deref(), Some("ana@example.org"));
        assert_eq!(email(Value::Null).as_deref(), Some("ana@example.org"));
        assert_eq!([email(json!(false)), email(json!("false"))], [None, None]);
        assert_eq!(claims.user_name("sub"), Some("U1"));
        assert!(check(&json!({ "https://slack.com/team_id": 5 })).unwrap().slack_ids().is_none());
    }

    #[test]
    fn slack_alone_says_who_a_person_is_in_slack() {
        for (issuer, is_trusted) in [
            ("https://slack.com", true),
            ("http://127.0.0.1:9000", true),
            ("https://accounts.example", false),
            ("https://slack.com.evil.example", false),
            ("https://slack.com/tenant", false),
        ] {
            let mut claims = whole();
            claims["iss"] = issuer.into();
            let claims =
                IdTokenClaims::check(&token(&claims), &ExpectedClaims { issuer, ..EXPECTED }).unwrap();
            assert_eq!(claims.slack_ids().is_some(), is_trusted, "{issuer}");
        }
    }
}
