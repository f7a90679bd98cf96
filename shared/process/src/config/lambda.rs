//! Detects whether AWS Lambda started this process.

use super::{APP_TOKEN, ConfigError};

/// Lambda sets this variable to the address of its Runtime API.
/// <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>
const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";

/// Whether this process is a Lambda function.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn on_lambda() -> bool {
    std::env::var_os(RUNTIME_API).is_some_and(|address| !address.is_empty())
}

/// Refuses an app-level token on Lambda, which keeps no connection open.
///
/// # Errors
/// If there is one.
pub fn refuse_app_token() -> Result<(), ConfigError> {
    if on_lambda() && super::text(APP_TOKEN).is_some() { Err(ConfigError::AppTokenOnLambda) } else { Ok(()) }
}
