//! Detects whether AWS Lambda or Fargate started this process.

use super::{APP_TOKEN, ConfigError};

/// Lambda sets this variable to the address of its Runtime API.
/// <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>
const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";

/// Whether this process is a Lambda function.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn on_lambda() -> bool {
    std::env::var_os(RUNTIME_API).is_some_and(|address| !address.is_empty())
}

/// ECS tells each container of which kind its task is.
/// <https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-task-defs.html>
const EXECUTION_ENVIRONMENT: &str = "AWS_EXECUTION_ENV";

/// Whether this process is in a container on Fargate, whose output is a log of CloudWatch.
#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
pub fn on_fargate() -> bool {
    std::env::var_os(EXECUTION_ENVIRONMENT).is_some_and(|environment| environment == "AWS_ECS_FARGATE")
}

/// Refuses an app-level token on Lambda, which keeps no connection open.
///
/// # Errors
/// If there is one.
pub fn refuse_app_token() -> Result<(), ConfigError> {
    if on_lambda() && super::text(APP_TOKEN).is_some() { Err(ConfigError::AppTokenOnLambda) } else { Ok(()) }
}
