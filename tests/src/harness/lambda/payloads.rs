//! Invocation payloads as AWS documents them, with the variable parts filled in.
//!
//! * <https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads>
//! * <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html#example-fifo-queue-message-event>

use std::collections::BTreeMap;

use aws_sdk_sqs::types::Message;
use serde_json::{Map, Value, json};

/// A request as a Function URL passes it: header names in lower case, several values of one header joined by
/// commas.
#[derive(Debug, Clone)]
pub struct FunctionUrlRequest {
    method: &'static str,
    path: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    is_base64: bool,
}

impl FunctionUrlRequest {
    /// A `POST` request with a text body.
    pub fn post(path: &str, body: &str) -> Self {
        Self { method: "POST", body: Some(body.to_owned()), ..Self::get(path) }
    }

    /// A `GET` request.
    pub fn get(path: &str) -> Self {
        let headers = BTreeMap::new();
        Self { method: "GET", path: path.to_owned(), headers, body: None, is_base64: false }
    }

    /// Changes the path.
    #[must_use]
    pub fn to_path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_ascii_lowercase(), value.to_owned());
        self
    }

    /// Passes the body as bytes, as Lambda does if the content type is not text.
    #[must_use]
    pub fn as_bytes(mut self) -> Self {
        self.is_base64 = true;
        self
    }

    /// The payload of the invocation.
    pub fn payload(&self) -> Value {
        let mut headers = self.headers.clone();
        for (name, value) in [
            ("host", "abcdefghijklmnop.lambda-url.eu-central-1.on.aws"),
            ("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)"),
            ("x-amzn-tls-version", "TLSv1.3"),
            ("x-amzn-trace-id", "Root=1-5eb33c07-de25b420912dee103a5db434"),
            ("x-forwarded-for", "3.94.92.68"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-proto", "https"),
            ("content-type", "application/json"),
        ] {
            headers.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        let host = headers["host"].clone();
        let mut payload = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": self.path,
            "rawQueryString": "",
            "headers": headers,
            "requestContext": {
                "accountId": "anonymous",
                "apiId": "abcdefghijklmnop",
                "domainName": host,
                "domainPrefix": "abcdefghijklmnop",
                "http": {
                    "method": self.method,
                    "path": self.path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": "3.94.92.68",
                    "userAgent": "Slackbot 1.0 (+https://api.slack.com/robots)",
                },
                "requestId": "e1506fd5-9e7b-434f-bd42-4f8fa224b599",
                "routeKey": "$default",
                "stage": "$default",
                "time": "21/Nov/2026:10:15:30 +0000",
                "timeEpoch": 1_795_256_130_000_i64,
            },
            "isBase64Encoded": self.is_base64 && self.body.is_some(),
        });
        if let Some(body) = &self.body {
            let body = if self.is_base64 { base64(body.as_bytes()) } else { body.clone() };
            payload["body"] = body.into();
        }
        payload
    }
}

/// The HTTP response that a Function URL creates from a function's result.
#[derive(Debug)]
pub struct Response {
    pub status: u64,
    /// The headers, with names in lower case.
    pub headers: Map<String, Value>,
    pub body: String,
}

impl Response {
    pub(super) fn read(answer: &Value) -> Self {
        let status = answer["statusCode"].as_u64().unwrap_or_else(|| panic!("{answer} has no status"));
        assert_ne!(answer["isBase64Encoded"], true, "{answer} should be text");
        Self {
            status,
            headers: answer["headers"].as_object().cloned().unwrap_or_default(),
            body: answer["body"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// Messages as Lambda's poller passes them.
pub fn sqs_event(queue_arn: &str, messages: &[Message]) -> Value {
    let records: Vec<Value> = messages
        .iter()
        .map(|message| {
            let attributes: Map<String, Value> = message
                .attributes()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_str().into()))
                .collect();
            let own: Map<String, Value> = message
                .message_attributes()
                .into_iter()
                .flatten()
                .map(|(name, value)| {
                    let value = json!({
                        "stringValue": value.string_value(), "binaryValue": null, "stringListValues": [],
                        "binaryListValues": [], "dataType": value.data_type(),
                    });
                    (name.clone(), value)
                })
                .collect();
            json!({
                "messageId": message.message_id(),
                "receiptHandle": message.receipt_handle(),
                "body": message.body(),
                "attributes": attributes,
                "messageAttributes": own,
                "md5OfBody": message.md5_of_body(),
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": "eu-central-1",
            })
        })
        .collect();
    json!({ "Records": records })
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three
            .iter()
            .enumerate()
            .fold(0_u32, |bits, (index, byte)| bits | u32::from(*byte) << (16 - 8 * index));
        for index in 0..4 {
            let sign = ALPHABET[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= three.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_known_encodings() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
