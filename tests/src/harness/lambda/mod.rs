//! Simulates AWS Lambda: starts a program as a function, sends it invocations, and receives its results.
//!
//! * [`runtime_api`] is the HTTP API that the program calls.
//! * [`payloads`] are invocations as AWS documents them.
//! * [`poller`] is an event source mapping: it passes messages from a queue to a function and leaves failed
//!   ones on the queue.

pub mod payloads;
pub mod poller;
pub mod runtime_api;

use std::path::Path;
use std::time::Duration;

use ports::clock::{Clock, SystemClock};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use super::environment::ProgramEnvironment;
use super::process::Process;
use runtime_api::{Invocation, RuntimeApi};

/// Time that a function may need beyond its deadline on a machine that is busy compiling.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program that runs as a Lambda function.
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
    pub async fn start(program: &Path, environment: &(impl ProgramEnvironment + ?Sized)) -> Self {
        let mut command = Command::new(program);
        environment.configure(&mut command);
        let api = RuntimeApi::start().await;
        command
            .env("AWS_LAMBDA_RUNTIME_API", api.address().to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "annalist-test")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST");
        Self { process: Process::start(&mut command), api }
    }

    /// Sends an invocation with this time left, and returns the function's result.
    ///
    /// # Errors
    /// The error the function reports to Lambda.
    ///
    /// # Panics
    /// If there is no result after the deadline and [`TIMEOUT`].
    pub async fn invoke(&self, payload: &Value, time_left: Duration) -> Result<Value, Value> {
        let deadline = SystemClock.now().plus(time_left);
        let answer = self.api.queue_invocation(Invocation { payload: payload.to_string(), deadline });
        match timeout(time_left + TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => panic!("the function does not answer:\n{}", self.process.log()),
        }
    }

    /// Sends a Function URL request, and returns its response.
    ///
    /// # Panics
    /// If the function returns an error or no response.
    pub async fn request(&self, payload: &Value) -> payloads::Response {
        let answer = self.invoke(payload, Duration::from_secs(10)).await;
        payloads::Response::read(&answer.unwrap_or_else(|error| panic!("the function failed: {error}")))
    }
}
