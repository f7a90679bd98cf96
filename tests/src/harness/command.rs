//! Runs the `annalist` command to its end.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::binaries::binaries;
use super::environment::ProgramEnvironment;
use super::secrets;

/// Longer than any command that ends by itself takes, on a machine that is busy compiling. On AWS, `status`
/// alone takes a minute to report that the queues are idle.
const DEADLINE: Duration = Duration::from_secs(150);

/// The result of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// The program and its arguments.
    pub command: String,
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// The output of a command that must have succeeded.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts that the command ended with this code, printed nothing on standard output, and explained it on
    /// standard error in one line that contains this text and nothing that a terminal would obey.
    ///
    /// # Panics
    /// If an assertion fails.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, expected: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stderr.contains(expected), "{expected:?} is not in {self:?}");
        assert!(!self.stderr.trim_end().contains(char::is_control), "{self:?}");
    }
}

/// Runs `annalist` with these arguments and without any setting from the environment.
///
/// # Panics
/// If it does not end.
pub async fn annalist(args: &[&str]) -> CommandOutput {
    annalist_with(args, &[]).await
}

/// Runs `annalist` with these arguments and these variables alone.
///
/// # Panics
/// If it does not end.
pub async fn annalist_with(args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    run(&binaries().annalist, args, variables).await
}

/// Runs a program to its end with these arguments and these variables alone.
///
/// # Panics
/// If it does not end.
pub async fn run(program: &Path, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(variables.iter().copied());
    finish(command).await
}

/// Runs `annalist` in this environment with these arguments and no other variables.
///
/// # Panics
/// If it does not end.
pub async fn annalist_at(environment: &(impl ProgramEnvironment + ?Sized), args: &[&str]) -> CommandOutput {
    let mut command = Command::new(&binaries().annalist);
    command.args(args).env_clear();
    environment.configure(&mut command);
    finish(command).await
}

async fn finish(mut command: Command) -> CommandOutput {
    command.kill_on_drop(true);
    let description =
        format!("{} {:?}", command.as_std().get_program().display(), command.as_std().get_args());
    let output = timeout(DEADLINE, command.output())
        .await
        .unwrap_or_else(|_| panic!("{description} does not end"))
        .expect("a program that was built can be started");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    secrets::assert_no_secret(&description, &stdout);
    secrets::assert_no_secret(&description, &stderr);
    CommandOutput { command: description, code: output.status.code(), stdout, stderr }
}

/// Runs a command that must succeed and returns the JSON values it prints, one per line.
///
/// # Panics
/// If it fails or prints anything else.
pub async fn json_lines(environment: &(impl ProgramEnvironment + ?Sized), args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json"]].concat();
    let outcome = annalist_at(environment, &args).await;
    assert_eq!(outcome.code, Some(0), "annalist {args:?}: {}", outcome.stderr);
    outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect()
}

/// `annalist status --json`.
///
/// # Panics
/// If it fails or prints anything else.
pub async fn status(environment: &(impl ProgramEnvironment + ?Sized)) -> Value {
    let mut lines = json_lines(environment, &["status"]).await;
    assert_eq!(lines.len(), 1, "status --json is one object");
    lines.remove(0)
}

/// Waits until `annalist status` reports that no job is waiting or being handled.
///
/// # Panics
/// If it is not idle at the deadline.
pub async fn wait_until_idle(environment: &(impl ProgramEnvironment + ?Sized), deadline: Duration) -> Value {
    let until = Instant::now() + deadline;
    loop {
        let status = status(environment).await;
        if status["idle"] == true {
            return status;
        }
        assert!(Instant::now() < until, "not idle after {deadline:?}: {status}");
        // The workers cannot notify this process, so it polls.
        sleep(Duration::from_millis(50)).await;
    }
}
