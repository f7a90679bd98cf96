//! The requests to a provider. Only its own addresses are called, and no redirect is followed, which could send
//! the client's secret to another host.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::AUTHORIZATION;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::claims::{ExpectedClaims, IdTokenClaims, IdTokenError};
use crate::discovery::ProviderDocument;
use crate::issuer::Issuer;
use crate::to_base64url;

/// The time for the requests of one step of a sign-in. The page of the sign-in has ten seconds.
const TIME_LIMIT: Duration = Duration::from_secs(8);

/// The age of a discovery document at which it is read again.
const DOCUMENT_AGE: Duration = Duration::from_secs(3_600);

/// Maximum size of an answer: a document has some kilobytes, an ID token with many groups some more.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// This client at a provider.
pub struct OidcSettings {
    /// The provider.
    pub issuer: Issuer,
    /// Our id at the provider.
    pub client_id: String,
    /// Our secret at the provider.
    pub client_secret: SecretString,
    /// The address to which the provider sends a browser back.
    pub redirect_uri: String,
    /// What the provider is asked for, with spaces.
    pub scope: String,
}

/// The random texts of one sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInSecrets {
    /// Comes back with the browser.
    pub state: String,
    /// Comes back in the ID token.
    pub nonce: String,
    /// The provider gets its hash first, and then itself.
    pub verifier: String,
}

/// Why a sign-in fails. None of the provider's text and no secret is part of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// It does not answer, or fails.
    #[error("the provider cannot be used: {0}")]
    Unavailable(String),
    /// It refuses the code.
    #[error("the provider refused the code of a sign-in: {0}")]
    Refused(String),
    /// It says what does not count.
    #[error(transparent)]
    Claims(#[from] IdTokenError),
}

/// A client of a provider.
pub struct OidcClient {
    settings: OidcSettings,
    http: OnceLock<Result<Client, String>>,
    document: Mutex<Option<(Instant, Arc<ProviderDocument>)>>,
}

impl OidcClient {
    /// A client with these settings. It calls nothing before the first sign-in.
    pub fn new(settings: OidcSettings) -> Self {
        Self { settings, http: OnceLock::new(), document: Mutex::default() }
    }

    pub fn settings(&self) -> &OidcSettings {
        &self.settings
    }

    /// A key for this purpose that only this client can have.
    pub fn derived_key(&self, purpose: &str) -> [u8; 32] {
        let OidcSettings { issuer, client_id, client_secret, .. } = &self.settings;
        // As JSON, so that no two inputs run together.
        let input = Value::from([purpose, issuer.without_slash(), client_id].map(Value::from).to_vec());
        // A shorter key is padded with zeros to a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&Sha256::digest(client_secret.expose_secret().as_bytes()));
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(input.to_string().as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The address at which a browser signs in.
    pub async fn authorization_address(&self, secrets: &SignInSecrets) -> Result<String, OidcError> {
        let document = in_time(self.document()).await?;
        let mut address = document.authorization_endpoint.clone();
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.settings.redirect_uri)
            .append_pair("scope", &self.settings.scope)
            .append_pair("state", &secrets.state)
            .append_pair("nonce", &secrets.nonce);
        if document.has_code_challenges {
            let challenge = to_base64url(&Sha256::digest(secrets.verifier.as_bytes()));
            query.append_pair("code_challenge", &challenge).append_pair("code_challenge_method", "S256");
        }
        drop(query);
        Ok(address.into())
    }

    /// Returns what the provider says about the person whose browser brought this code.
    pub async fn exchange(
        &self,
        code: &str,
        secrets: &SignInSecrets,
        now_s: i64,
    ) -> Result<IdTokenClaims, OidcError> {
        let (document, id_token) = in_time(self.id_token(code, secrets)).await?;
        let expected = ExpectedClaims {
            issuer: &document.issuer,
            client_id: &self.settings.client_id,
            nonce: &secrets.nonce,
            now_s,
        };
        Ok(IdTokenClaims::check(&id_token, &expected)?)
    }

    async fn id_token(
        &self,
        code: &str,
        secrets: &SignInSecrets,
    ) -> Result<(Arc<ProviderDocument>, String), OidcError> {
        let document = self.document().await?;
        let OidcSettings { client_id, client_secret, redirect_uri, .. } = &self.settings;
        let mut form =
            vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect_uri)];
        if document.has_code_challenges {
            form.push(("code_verifier", &secrets.verifier));
        }
        let request = self.http()?.post(document.token_endpoint.clone());
        let request = if document.takes_secret_in_form {
            form.extend([
                ("client_id", client_id.as_str()),
                ("client_secret", client_secret.expose_secret()),
            ]);
            request
        } else {
            request.header(
                AUTHORIZATION,
                basic(&document.token_endpoint, client_id, client_secret.expose_secret()),
            )
        };
        let (status, body) = send_request(request.form(&form)).await?;
        if status != StatusCode::OK {
            return Err(refused_or_unavailable(status));
        }
        let answer: Map<String, Value> = serde_json::from_slice(&body)
            .map_err(|_| OidcError::Unavailable("its answer is not a JSON object".to_owned()))?;
        // Slack answers 200 to a wrong code, too.
        if answer.get("ok") == Some(&Value::Bool(false)) || answer.contains_key("error") {
            return Err(OidcError::Refused("it answered with an error".to_owned()));
        }
        match answer.get("id_token") {
            Some(Value::String(id_token)) => Ok((document, id_token.clone())),
            Some(_) | None => Err(OidcError::Unavailable("its answer has no ID token".to_owned())),
        }
    }

    /// The discovery document, which is read again after an hour. Only one request reads it at a time.
    async fn document(&self) -> Result<Arc<ProviderDocument>, OidcError> {
        let mut known = self.document.lock().await;
        if let Some((read_at, document)) = &*known
            && read_at.elapsed() < DOCUMENT_AGE
        {
            return Ok(Arc::clone(document));
        }
        let issuer = &self.settings.issuer;
        let (status, body) = send_request(self.http()?.get(issuer.discovery_address())).await?;
        if status != StatusCode::OK {
            return Err(OidcError::Unavailable(format!(
                "it answered HTTP {} when asked for its discovery document",
                status.as_u16()
            )));
        }
        let document = ProviderDocument::parse(&body, issuer)
            .map_err(|why| OidcError::Unavailable(why.to_owned()))
            .map(Arc::new)?;
        *known = Some((Instant::now(), Arc::clone(&document)));
        Ok(document)
    }

    /// The client, which is made when it is first needed: it loads the certificates of the system.
    fn http(&self) -> Result<&Client, OidcError> {
        let build = || build_client(self.settings.issuer.is_loopback_http());
        self.http.get_or_init(build).as_ref().map_err(|why| OidcError::Unavailable(why.clone()))
    }
}

async fn in_time<T>(step: impl Future<Output = Result<T, OidcError>>) -> Result<T, OidcError> {
    let late = |_| OidcError::Unavailable("no answer in time".to_owned());
    timeout(TIME_LIMIT, step).await.map_err(late)?
}

fn refused_or_unavailable(status: StatusCode) -> OidcError {
    let why = format!("it answered HTTP {}", status.as_u16());
    if status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429) {
        OidcError::Refused(why)
    } else {
        OidcError::Unavailable(why)
    }
}

/// The header of a client: both texts are encoded as in a form (RFC 6749 2.3.1).
fn basic(endpoint: &Url, client_id: &str, client_secret: &str) -> String {
    let encoded = |text: &str| {
        let mut url = endpoint.clone();
        url.set_query(None);
        url.query_pairs_mut().append_key_only(text);
        url.query().unwrap_or_default().to_owned()
    };
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(client_secret))))
}

async fn send_request(request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), OidcError> {
    let unreachable = |error: reqwest::Error| OidcError::Unavailable(error.without_url().to_string());
    let mut response = request.send().await.map_err(unreachable)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(OidcError::Unavailable("its answer is longer than 256 KiB".to_owned()));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

/// A provider on this machine is called without encryption: no proxy may see the requests.
fn build_client(is_on_this_machine: bool) -> Result<Client, String> {
    let provider = rustls::crypto::ring::default_provider();
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // If another thread was faster, its provider is the same.
        drop(provider.install_default().map_err(Arc::unwrap_or_clone));
    }
    let builder = Client::builder()
        .connect_timeout(TIME_LIMIT)
        .redirect(Policy::none())
        .user_agent(concat!("annalist/", env!("CARGO_PKG_VERSION")));
    let builder = if is_on_this_machine { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| error.without_url().to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wiremock::matchers::{method, path};
    use wiremock::{Mock, MockServer, Request, ResponseTemplate};

    use super::*;

    const NOW_S: i64 = 1_800_000_000;
    const SECRET: &str = "hidden word&";

    fn secrets() -> SignInSecrets {
        let [state, nonce, verifier] = ["state-1", "nonce-1", "verifier-1"].map(ToOwned::to_owned);
        SignInSecrets { state, nonce, verifier }
    }

    fn client(server: &MockServer, client_secret: &str) -> OidcClient {
        OidcClient::new(OidcSettings {
            issuer: server.uri().parse().unwrap(),
            client_id: "7.8".to_owned(),
            client_secret: client_secret.into(),
            redirect_uri: "https://archive.example/login/callback".to_owned(),
            scope: "openid profile".to_owned(),
        })
    }

    /// A provider whose token endpoint answers this; `more` is added to its document.
    async fn provider(more: &Value, answer: impl Fn(&str) -> ResponseTemplate) -> MockServer {
        let server = MockServer::start().await;
        let mut document = json!({
            "issuer": server.uri(),
            "authorization_endpoint": format!("{}/authorize?tenant=1", server.uri()),
            "token_endpoint": format!("{}/token", server.uri()),
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Mock::given(path("/.well-known/openid-configuration"))
            .respond_with(ResponseTemplate::new(200).set_body_json(document))
            .expect(0..=1)
            .mount(&server)
            .await;
        Mock::given(method("POST"))
            .and(path("/token"))
            .respond_with(answer(&server.uri()))
            .mount(&server)
            .await;
        server
    }

    fn id_token(issuer: &str) -> String {
        let claims = json!({
            "iss": issuer, "aud": "7.8", "sub": "U1", "nonce": "nonce-1", "exp": NOW_S + 300, "iat": NOW_S,
        });
        format!("e30.{}.c2ln", to_base64url(claims.to_string().as_bytes()))
    }

    async fn token_request(server: &MockServer) -> Request {
        let requests = server.received_requests().await.unwrap();
        requests.into_iter().find(|request| request.url.path() == "/token").unwrap()
    }

    #[tokio::test]
    async fn a_code_becomes_claims_and_the_document_is_read_once() {
        let right = |issuer: &str| {
            ResponseTemplate::new(200).set_body_json(json!({
                "ok": true, "access_token": "xoxp-1", "id_token": id_token(issuer),
            }))
        };
        let in_form = json!({ "token_endpoint_auth_methods_supported": ["client_secret_post"] });
        let server = provider(&in_form, right).await;
        let slack_like = client(&server, SECRET);
        let address = Url::parse(&slack_like.authorization_address(&secrets()).await.unwrap()).unwrap();
        assert_eq!(
            address.query().unwrap(),
            "tenant=1&response_type=code&client_id=7.8&redirect_uri=https%3A%2F%2Farchive.example%2Flogin%2Fcallback\
             &scope=openid+profile&state=state-1&nonce=nonce-1"
        );
        let claims = slack_like.exchange("code-1", &secrets(), NOW_S).await.unwrap();
        assert_eq!(claims.text("sub"), Some("U1"));
        let request = token_request(&server).await;
        assert_eq!(
            String::from_utf8_lossy(&request.body),
            "grant_type=authorization_code&code=code-1&redirect_uri=https%3A%2F%2Farchive.example%2Flogin%2Fcallback\
             &client_id=7.8&client_secret=hidden+word%26"
        );
        assert!(!request.headers.contains_key("authorization"));

        let server = provider(&json!({ "code_challenge_methods_supported": ["S256"] }), right).await;
        let other = client(&server, SECRET);
        let address = other.authorization_address(&secrets()).await.unwrap();
        // Of "verifier-1".
        let challenge = to_base64url(&Sha256::digest(b"verifier-1"));
        assert!(
            address.ends_with(&format!("&code_challenge={challenge}&code_challenge_method=S256")),
            "{address}"
        );
        other.exchange("code-1", &secrets(), NOW_S).await.unwrap();
        let request = token_request(&server).await;
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(body.ends_with("&code_verifier=verifier-1") && !body.contains("hidden"), "{body}");
        let expected = format!("Basic {}", STANDARD.encode("7.8:hidden+word%26"));
        assert_eq!(request.headers["authorization"], expected.as_str());
    }

    #[tokio::test]
    async fn a_provider_that_refuses_fails_or_lies_makes_no_claims() {
        let status = ResponseTemplate::new;
        let json_answer = |body: Value| ResponseTemplate::new(200).set_body_json(body);
        for (answer, expected) in [
            (status(400).set_body_json(json!({ "error": "invalid_grant" })), "refused"),
            (status(401), "refused"),
            (json_answer(json!({ "ok": false, "error": "invalid_code" })), "refused"),
            (json_answer(json!({ "error": "invalid_grant" })), "refused"),
            (status(302).insert_header("location", "https://evil.example/"), "unavailable"),
            (status(429), "unavailable"),
            (status(500), "unavailable"),
            (json_answer(json!({ "ok": true })), "unavailable"),
            (json_answer(json!({ "id_token": ["a.b.c"] })), "unavailable"),
            (json_answer(json!([])), "unavailable"),
            (status(200).set_body_string("<html>hidden word</html>"), "unavailable"),
            (status(200).set_body_bytes(vec![b' '; MAX_BODY_BYTES + 1]), "unavailable"),
            (json_answer(json!({ "id_token": "a.b.c" })), "claims"),
            (json_answer(json!({ "id_token": id_token("https://evil.example") })), "claims"),
        ] {
            let server = provider(&json!({}), |_| answer.clone()).await;
            let error = client(&server, SECRET).exchange("code-1", &secrets(), NOW_S).await.unwrap_err();
            let kind = match &error {
                OidcError::Refused(_) => "refused",
                OidcError::Unavailable(_) => "unavailable",
                OidcError::Claims(_) => "claims",
            };
            assert_eq!(kind, expected, "{error}");
            for hidden in ["hidden", "code-1", "verifier-1", "nonce-1", "state-1"] {
                assert!(
                    !error.to_string().contains(hidden) && !format!("{error:?}").contains(hidden),
                    "{error}"
                );
            }
        }
        let server = provider(&json!({ "issuer": "https://evil.example" }), |_| status(200)).await;
        let error = client(&server, SECRET).authorization_address(&secrets()).await.unwrap_err();
        assert!(matches!(&error, OidcError::Unavailable(why) if why.contains("another issuer")), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_hangs_costs_a_limited_time() {
        let late = in_time(std::future::pending::<Result<(), OidcError>>()).await;
        assert_eq!(late, Err(OidcError::Unavailable("no answer in time".to_owned())));
    }

    #[tokio::test]
    async fn a_derived_key_depends_on_its_purpose_and_on_every_setting() {
        let server = MockServer::start().await;
        let first = client(&server, SECRET);
        let key = first.derived_key("session");
        let mut other_id = client(&server, SECRET);
        other_id.settings.client_id = "9".to_owned();
        assert_eq!(client(&server, SECRET).derived_key("session"), key);
        for other in [
            first.derived_key("sign-in"),
            client(&server, "another").derived_key("session"),
            client(&MockServer::start().await, SECRET).derived_key("session"),
            other_id.derived_key("session"),
        ] {
            assert_ne!(other, key);
        }
    }
}
