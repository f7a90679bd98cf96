//! Plays AWS Lambda: starts a program as a function does, hands it invocations, and takes what it answers.
//!
//! * [`runtime_api`] is what the program talks to.
//! * [`payloads`] are invocations as AWS documents them.
//! * [`poller`] is an event source mapping: from a queue to a function, and back to the queue what it could not do.

pub mod payloads;
pub mod poller;
pub mod runtime_api;

use std::path::Path;
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use super::place::ProgramEnvironment;
use super::process::Process;
use runtime_api::{Invocation, RuntimeApi};

/// How long a function may take to answer on a machine that is busy compiling.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program that Lambda started.
pub struct RunningFunction {
    /// The program.
    pub process: Process,
    api: RuntimeApi,
}

impl RunningFunction {
    /// Starts a program as Lambda does: without arguments, with everything in its environment.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn start(program: &Path, place: &(impl ProgramEnvironment + ?Sized)) -> Self {
        let mut command = Command::new(program);
        place.lead(&mut command);
        Self::start_command(command).await
    }

    /// The same with a command that knows where it works.
    ///
    /// # Panics
    /// As [`RunningFunction::start`].
    pub async fn start_command(mut command: Command) -> Self {
        let api = RuntimeApi::start().await;
        command
            .env("AWS_LAMBDA_RUNTIME_API", api.address().to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "annalist-test")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST");
        Self { process: Process::start(&mut command), api }
    }

    /// Hands over an invocation that must be over by then; the function's answer, or what it says went wrong.
    ///
    /// # Errors
    /// The error the function reports to Lambda.
    ///
    /// # Panics
    /// If it answers nothing in a long time.
    pub async fn invoke(&self, payload: &Value, time_left: Duration) -> Result<Value, Value> {
        let deadline = SystemClock.now().plus(time_left);
        let answer = self.api.hand_over(Invocation { payload: payload.to_string(), deadline });
        match timeout(time_left + TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => panic!("the function does not answer:\n{}", self.process.log()),
        }
    }

    /// Hands over a request of a Function URL; its status, headers and body.
    ///
    /// # Panics
    /// If the function answers no response.
    pub async fn request(&self, payload: &Value) -> payloads::Response {
        let answer = self.invoke(payload, Duration::from_secs(10)).await;
        payloads::Response::read(&answer.unwrap_or_else(|error| panic!("the function failed: {error}")))
    }
}
