//! What a provider says about itself in its discovery document.

use reqwest::Url;
use serde_json::{Map, Value};

use crate::issuer::Issuer;

/// The endpoints of a provider, and what they accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDocument {
    /// The issuer as the provider writes it, which its ID tokens repeat.
    pub issuer: String,
    /// Where a browser goes to sign in.
    pub authorization_endpoint: Url,
    /// Where a code becomes an ID token.
    pub token_endpoint: Url,
    /// Whether the token endpoint takes the client's secret in the form; otherwise in the header.
    pub takes_secret_in_form: bool,
    /// Whether the provider compares a code challenge.
    pub has_code_challenges: bool,
}

impl ProviderDocument {
    /// Reads a discovery document of this issuer.
    ///
    /// # Errors
    /// What is wrong with it, without any of its content.
    pub fn parse(body: &[u8], issuer: &Issuer) -> Result<Self, &'static str> {
        let document: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| "its discovery document is not a JSON object")?;
        let named = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if !issuer.is(named) {
            return Err("its discovery document names another issuer");
        }
        let endpoint = |name: &str| {
            document.get(name).and_then(Value::as_str).and_then(|address| issuer.allowed(address))
        };
        let lists = |name: &str, value: &str| {
            let list = document.get(name).and_then(Value::as_array);
            list.is_some_and(|list| list.iter().any(|listed| listed == value))
        };
        Ok(Self {
            issuer: named.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")
                .ok_or("its discovery document has no https authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")
                .ok_or("its discovery document has no https token_endpoint")?,
            takes_secret_in_form: lists("token_endpoint_auth_methods_supported", "client_secret_post"),
            has_code_challenges: lists("code_challenge_methods_supported", "S256"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_must_be_of_the_issuer_and_name_encrypted_endpoints() {
        let issuer: Issuer = "slack".parse().unwrap();
        let parse = |document: &Value| ProviderDocument::parse(document.to_string().as_bytes(), &issuer);
        let whole = json!({
            "issuer": "https://slack.com",
            "authorization_endpoint": "https://slack.com/openid/connect/authorize",
            "token_endpoint": "https://slack.com/api/openid.connect.token",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        });
        let found = parse(&whole).unwrap();
        assert_eq!(found.authorization_endpoint.as_str(), "https://slack.com/openid/connect/authorize");
        assert!(found.takes_secret_in_form && !found.has_code_challenges);
        for (field, value, error) in [
            ("issuer", json!("https://evil.example"), "another issuer"),
            ("issuer", json!(["https://slack.com"]), "another issuer"),
            ("issuer", Value::Null, "another issuer"),
            ("authorization_endpoint", json!("http://slack.com/a"), "authorization_endpoint"),
            ("authorization_endpoint", json!("javascript:alert(1)"), "authorization_endpoint"),
            ("authorization_endpoint", json!({}), "authorization_endpoint"),
            ("token_endpoint", json!("http://127.0.0.1/token"), "token_endpoint"),
            ("token_endpoint", Value::Null, "token_endpoint"),
        ] {
            let mut document = whole.clone();
            document[field] = value.clone();
            assert!(parse(&document).unwrap_err().contains(error), "{field} {value}");
        }
        for (field, value) in [
            ("token_endpoint_auth_methods_supported", json!("client_secret_post")),
            ("token_endpoint_auth_methods_supported", json!([["client_secret_post"], 1, null])),
            ("code_challenge_methods_supported", json!(["plain"])),
        ] {
            let mut document = whole.clone();
            document["token_endpoint_auth_methods_supported"] = Value::Null;
            document[field] = value;
            let found = parse(&document).unwrap();
            assert!(!found.takes_secret_in_form && !found.has_code_challenges, "{document}");
        }
        for body in [&b""[..], b"[]", b"null", b"<html>", &[0xff; 9]] {
            assert!(ProviderDocument::parse(body, &issuer).is_err());
        }
    }
}
