//! A processor behind HTTP: it receives the question as JSON and responds with `{"text":"…"}` or
//! `{"skip":true}`.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::client::{self, ProcessorUrl};
use crate::{Answer, MAX_ANSWER_BYTES, Processor, ProcessorError, Prompt};

/// An HTTP endpoint that answers questions.
pub struct HttpProcessor {
    client: Client,
    url: ProcessorUrl,
    token: Option<SecretString>,
}

#[derive(Deserialize)]
struct ProcessorReply {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    skip: bool,
}

impl HttpProcessor {
    /// A processor at this URL, with its bearer token and the timeout of a response.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn new(url: ProcessorUrl, token: Option<SecretString>, timeout: Duration) -> Result<Self, String> {
        Ok(Self { client: client::build_client(&url, timeout)?, url, token })
    }
}

#[async_trait]
impl Processor for HttpProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        let request = self.client.post(self.url.url()).header(CONTENT_TYPE, "application/json");
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        let body = client::send_request(request.body(prompt.json())).await?;
        let invalid_reply = || {
            ProcessorError::Permanent(r#"the processor's answer is not {"text":"…"} or {"skip":true}"#.into())
        };
        // Serde would read an array as a struct, field by field.
        let object = body.trim_ascii_start().starts_with(b"{").then_some(&body).ok_or_else(invalid_reply)?;
        let reply: ProcessorReply = serde_json::from_slice(object).map_err(|_| invalid_reply())?;
        match reply {
            ProcessorReply { skip: true, .. } => Ok(Answer::Skip),
            ProcessorReply { text: Some(text), .. } if text.len() <= MAX_ANSWER_BYTES => {
                Answer::from_text(text)
            }
            ProcessorReply { text: Some(_), .. } => {
                Err(ProcessorError::Permanent("the processor's answer is longer than 256 KiB".into()))
            }
            ProcessorReply { text: None, .. } => Err(invalid_reply()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wiremock::matchers::any;
    use wiremock::{Mock, MockServer, ResponseTemplate};

    use super::*;
    use crate::anthropic::{AnthropicProcessor, AnthropicSettings};

    async fn server(response: ResponseTemplate) -> MockServer {
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(response).mount(&server).await;
        server
    }

    async fn answer(response: ResponseTemplate) -> Result<Answer, ProcessorError> {
        let server = server(response).await;
        let timeout = Duration::from_millis(500);
        let processor = HttpProcessor::new(server.uri().parse().unwrap(), None, timeout).unwrap();
        processor.answer(&Prompt::default()).await
    }

    /// The outcome in a word.
    fn outcome(answer: &Result<Answer, ProcessorError>) -> &'static str {
        match answer {
            Ok(Answer::Text(_)) => "text",
            Ok(Answer::Skip) => "skip",
            Err(ProcessorError::Transient { after: Some(_), .. }) => "after a pause",
            Err(ProcessorError::Transient { after: None, .. }) => "later",
            Err(ProcessorError::Permanent(_)) => "never",
        }
    }

    #[tokio::test]
    async fn a_slow_a_failing_and_an_invalid_response_are_distinguished() {
        let status = ResponseTemplate::new;
        let json = |body: serde_json::Value| status(200).set_body_json(body);
        for (response, expected) in [
            (json(json!({ "text": "so" })), "text"),
            (json(json!({ "skip": true })), "skip"),
            (json(json!({ "text": "so", "more": [1] })), "text"),
            (json(json!({ "text": " " })), "never"),
            (json(json!({ "text": 7 })), "never"),
            (json(json!({})), "never"),
            (json(json!(["text"])), "never"),
            (status(200).set_body_string("so"), "never"),
            (status(200).set_body_bytes(vec![0xff; 10]), "never"),
            (json(json!({ "text": "x".repeat(MAX_ANSWER_BYTES + 1) })), "never"),
            (status(200).set_body_bytes(vec![b' '; 3 * MAX_ANSWER_BYTES]), "never"),
            (status(204), "never"),
            (status(302).insert_header("location", "/elsewhere"), "never"),
            (status(400), "never"),
            (status(401), "never"),
            (status(408), "later"),
            (status(425), "later"),
            (status(429).insert_header("retry-after", "7"), "after a pause"),
            (status(429).insert_header("retry-after", "soon"), "later"),
            (status(500), "later"),
            (status(529), "later"),
            (json(json!({ "text": "late" })).set_delay(Duration::from_secs(5)), "later"),
        ] {
            let shown = format!("{response:?}").chars().take(200).collect::<String>();
            let answer = answer(response).await;
            assert_eq!(outcome(&answer), expected, "{shown}: {answer:?}");
        }
        let unreachable =
            HttpProcessor::new("http://127.0.0.1:9/".parse().unwrap(), None, Duration::from_secs(5));
        assert_eq!(outcome(&unreachable.unwrap().answer(&Prompt::default()).await), "later");
    }

    #[tokio::test]
    async fn a_model_that_declines_or_is_cut_off_still_produces_an_answer() {
        let block = |text: &str| json!([{ "type": "text", "text": text }]);
        for (body, expected) in [
            (json!({ "content": block("so"), "stop_reason": "end_turn" }), Some("so")),
            (json!({ "content": block("so"), "stop_reason": "max_tokens" }), Some("so…")),
            (json!({ "content": [], "stop_reason": "refusal" }), Some("The model declines to answer this.")),
            (json!({ "content": [], "stop_reason": "end_turn" }), None),
            (json!({ "content": "so" }), None),
            (json!([]), None),
        ] {
            let server = server(ResponseTemplate::new(200).set_body_json(&body)).await;
            let settings = AnthropicSettings {
                base_url: server.uri().parse().unwrap(),
                key: "k".into(),
                model: "m".into(),
                system_prompt: Some("Be brief.".into()),
                timeout: Duration::from_secs(5),
            };
            let answer = AnthropicProcessor::new(settings).unwrap().answer(&Prompt::default()).await;
            let expected = expected.map(|text| Answer::Text(text.into()));
            assert_eq!(answer.as_ref().ok(), expected.as_ref(), "{body}: {answer:?}");
        }
    }
}
