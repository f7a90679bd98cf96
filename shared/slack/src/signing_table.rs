//! The signing secrets of an installation with several apps: the path of a request names the app.

use std::collections::{BTreeMap, HashMap};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::ids::AppId;
use crate::signature::{InvalidSecrets, Refused, SigningSecrets};

/// Maximum number of apps. Each has a workspace of its own, and an installation is made for 500.
pub const MAX_APPS: usize = 1_000;

/// The secrets of the plain path and of each app. A request costs one or two HMAC computations, whatever the
/// number of apps.
#[derive(Clone)]
pub struct SigningTable {
    plain: Option<SigningSecrets>,
    apps: HashMap<String, SigningSecrets>,
    /// Stands in for the secrets of an unknown app, so that its response takes as long as that to a wrong
    /// signature. No request is accepted because of it.
    stand_in: SigningSecrets,
}

/// The text with the secrets of apps cannot be used. No error contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSigningTable {
    #[error("it is not valid JSON at line {0}")]
    Json(usize),
    #[error("it is not a JSON object")]
    NoObject,
    #[error("it has {0} apps, and may have {MAX_APPS}")]
    TooManyApps(usize),
    /// The key itself may be a secret in the wrong place.
    #[error("a key, number {0} in their order, is not the id of an app")]
    NoApp(usize),
    #[error("the secret of {0} is neither text nor an array of the new and the old secret")]
    NoText(AppId),
    #[error("the secret of {app} cannot be one: {why}")]
    Secrets { app: AppId, why: InvalidSecrets },
}

impl SigningTable {
    /// The secrets of the plain path, if it is in use.
    pub fn new(plain: Option<SigningSecrets>) -> Self {
        Self { plain, apps: HashMap::new(), stand_in: SigningSecrets::stand_in() }
    }

    /// Adds the apps of a JSON object: `{"A0123ABCD": "secret", "A0123EFGH": ["new", "old"]}`.
    ///
    /// # Errors
    /// [`InvalidSigningTable`], and then nothing is added.
    pub fn add_apps(&mut self, text: &SecretString) -> Result<(), InvalidSigningTable> {
        let entries: BTreeMap<String, Value> =
            serde_json::from_str(text.expose_secret()).map_err(|error| {
                if error.is_data() {
                    InvalidSigningTable::NoObject
                } else {
                    InvalidSigningTable::Json(error.line())
                }
            })?;
        if entries.len() > MAX_APPS {
            return Err(InvalidSigningTable::TooManyApps(entries.len()));
        }
        let mut apps = HashMap::with_capacity(entries.len());
        for (number, (app, secrets)) in (1..).zip(&entries) {
            let app = AppId::parse(app).map_err(|_| InvalidSigningTable::NoApp(number))?;
            let listed = listed(secrets).ok_or_else(|| InvalidSigningTable::NoText(app.clone()))?;
            let secrets = SigningSecrets::parse(&listed)
                .map_err(|why| InvalidSigningTable::Secrets { app: app.clone(), why })?;
            apps.insert(app.as_str().to_owned(), secrets);
        }
        self.apps.extend(apps);
        Ok(())
    }

    /// Whether this is the text of [`Self::add_apps`], and not a secret itself.
    pub fn is_object(text: &SecretString) -> bool {
        text.expose_secret().trim_start().starts_with('{')
    }

    /// The secrets of an app, or of the plain path if there is no app.
    pub fn secrets_of(&self, app: Option<&str>) -> Option<&SigningSecrets> {
        match app {
            None => self.plain.as_ref(),
            Some(app) => self.apps.get(app),
        }
    }

    /// The number of apps with a path of their own.
    pub fn app_count(&self) -> usize {
        self.apps.len()
    }

    /// Checks a request like [`SigningSecrets::verify`], with the secrets of the app that its path names.
    ///
    /// # Errors
    /// [`Refused`]; for an app without secrets the same as for a wrong signature.
    pub fn verify(
        &self,
        app: Option<&str>,
        [timestamp, signature]: [Option<&str>; 2],
        body: &[u8],
        now_s: i64,
    ) -> Result<(), Refused> {
        match self.secrets_of(app) {
            Some(secrets) => secrets.verify(timestamp, signature, body, now_s),
            None => match self.stand_in.verify(timestamp, signature, body, now_s) {
                Ok(()) | Err(Refused::Stale { .. } | Refused::Mismatch) => Err(Refused::Mismatch),
                Err(malformed) => Err(malformed),
            },
        }
    }
}

impl From<SigningSecrets> for SigningTable {
    fn from(plain: SigningSecrets) -> Self {
        Self::new(Some(plain))
    }
}

/// One secret, or several separated by commas; `None` if it is neither text nor an array of texts.
fn listed(secrets: &Value) -> Option<SecretString> {
    let texts: Option<Vec<&str>> = match secrets {
        Value::String(text) => Some(vec![text]),
        Value::Array(texts) => texts.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    };
    Some(texts?.join(",").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_700_000_000;

    fn table(text: &str) -> Result<SigningTable, InvalidSigningTable> {
        let mut table = SigningTable::new(Some(SigningSecrets::parse(&"plain".into()).unwrap()));
        table.add_apps(&text.into()).map(|()| table)
    }

    fn verify(table: &SigningTable, app: Option<&str>, secret: &str, sent_s: i64) -> Result<(), Refused> {
        let signature = SigningSecrets::parse(&secret.into()).unwrap().sign(sent_s, b"{}");
        table.verify(app, [Some(&sent_s.to_string()), Some(&signature)], b"{}", NOW_S)
    }

    #[test]
    fn each_app_has_its_own_secrets_and_an_unknown_one_is_a_wrong_signature() {
        let table = table(r#"{"A1": "one", "A2": ["new", "old"], "A3": "next, last"}"#).unwrap();
        assert_eq!(table.app_count(), 3);
        for (app, secrets) in [
            (None, &["plain"][..]),
            (Some("A1"), &["one"]),
            (Some("A2"), &["new", "old"]),
            (Some("A3"), &["next", "last"]),
            (Some("A4"), &[]),
            (Some(""), &[]),
            (Some("a1"), &[]),
        ] {
            for secret in ["plain", "one", "new", "old", "next", "last", "stand-in"] {
                let expected = if secrets.contains(&secret) { Ok(()) } else { Err(Refused::Mismatch) };
                assert_eq!(verify(&table, app, secret, NOW_S), expected, "{app:?} {secret}");
            }
        }
        let late = NOW_S - 1_000;
        assert_eq!(verify(&table, Some("A1"), "one", late), Err(Refused::Stale { ahead_s: -1_000 }));
        for app in [Some("A1"), Some("A4"), None] {
            assert_eq!(verify(&table, app, "stand-in", late), Err(Refused::Mismatch), "{app:?}");
            assert_eq!(table.verify(app, [None, None], b"", NOW_S), Err(Refused::MissingHeader));
        }
        let only_apps = SigningTable::new(None);
        assert_eq!(verify(&only_apps, None, "plain", NOW_S), Err(Refused::Mismatch));
    }

    #[test]
    fn an_error_names_the_app_and_no_secret() {
        for (text, expected) in [
            ("", "not valid JSON at line 1"),
            ("{\n\"A1\": \"hidden\"", "not valid JSON at line 2"),
            ("[\"hidden\"]", "not a JSON object"),
            ("\"hidden\"", "not a JSON object"),
            (r#"{"hidden": "A1"}"#, "number 1 in their order"),
            (r#"{"A1": 5}"#, "the secret of A1 is neither"),
            (r#"{"A1": {"hidden": "hidden"}}"#, "the secret of A1 is neither"),
            (r#"{"A1": ["hidden", null]}"#, "the secret of A1 is neither"),
            (r#"{"A1": ["hidden", "hidden", "hidden"]}"#, "the secret of A1 cannot be one: it lists more"),
            (r#"{"A1": ""}"#, "the secret of A1 cannot be one: it is empty"),
            (r#"{"A1": []}"#, "the secret of A1 cannot be one: it is empty"),
        ] {
            let error = table(text).err().expect(text).to_string();
            assert!(error.contains(expected) && !error.contains("hidden"), "{text}: {error}");
        }
        let apps = |number: usize| {
            let apps: BTreeMap<String, &str> = (0..number).map(|app| (format!("A{app}X"), "s")).collect();
            table(&serde_json::to_string(&apps).unwrap()).map(|table| table.app_count())
        };
        assert_eq!(apps(MAX_APPS), Ok(MAX_APPS));
        assert_eq!(apps(MAX_APPS + 1), Err(InvalidSigningTable::TooManyApps(MAX_APPS + 1)));
    }
}
