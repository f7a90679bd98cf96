//! A started program: its address, its log, and the ways it ends.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::binaries::binaries;
use super::environment::ProgramEnvironment;
use super::procfs::{self, Usage};
use super::secrets;

/// The signing secret of every started program.
pub const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
/// Maximum time for a program to start, on a machine that is busy compiling.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum time for a program to end: the units in `deploy/` then kill it.
const END_DEADLINE: Duration = Duration::from_secs(30);
/// Number of log lines that are kept for a failure's message.
const LOG_LINES: usize = 200;

/// Number of first log lines that are always kept: they contain the addresses on which a process listens.
const FIRST_LINES: usize = 20;

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Log,
    output: Log,
}

/// A program that listens.
#[derive(Debug)]
pub struct ServerProcess {
    /// The program.
    pub process: Process,
    /// The address on which it listens.
    pub address: SocketAddr,
}

#[derive(Debug, Clone, Default)]
struct Log {
    lines: Arc<Mutex<VecDeque<String>>>,
    grown: Arc<Notify>,
    /// The kind of the first secret in the log, and its line.
    leak: Arc<OnceLock<(&'static str, String)>>,
}

impl Log {
    fn push(&self, line: String) {
        if let Some(secret) = secrets::find_secret(&line) {
            self.leak.get_or_init(|| (secret, line.clone()));
        }
        {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == LOG_LINES {
                lines.remove(FIRST_LINES);
            }
            lines.push_back(line);
        }
        self.grown.notify_waiters();
    }

    async fn wait_until(&self, matches: impl Fn(&str) -> bool) {
        loop {
            let mut grown = std::pin::pin!(self.grown.notified());
            // Register before the check, so that no line in between is missed.
            grown.as_mut().enable();
            if matches(&self.text()) {
                return;
            }
            grown.await;
        }
    }

    fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Starts `annalist up` and waits until it listens.
pub async fn up(environment: &(impl ProgramEnvironment + ?Sized)) -> ServerProcess {
    up_with(environment, &[]).await
}

/// Starts `annalist up` with these flags and waits until it listens.
pub async fn up_with(environment: &(impl ProgramEnvironment + ?Sized), flags: &[&str]) -> ServerProcess {
    let args = [&["up", "--listen", "127.0.0.1:0"], flags].concat();
    listening(&binaries().annalist, &args, environment).await
}

/// Starts `annalist view` with these flags and waits until it listens.
pub async fn view(environment: &(impl ProgramEnvironment + ?Sized), flags: &[&str]) -> ServerProcess {
    let args = [&["view", "--viewer-listen", "127.0.0.1:0"], flags].concat();
    listening(&binaries().annalist, &args, environment).await
}

/// Starts `annalist up` without waiting for it: it is at an unknown stage of its startup.
pub fn starting_up(environment: &(impl ProgramEnvironment + ?Sized)) -> Process {
    let mut command = Command::new(&binaries().annalist);
    command.args(["up", "--listen", "127.0.0.1:0"]);
    environment.configure(&mut command);
    Process::spawn_until(&mut command, listening_address).0
}

/// Starts `ingest` and waits until it listens.
pub async fn ingest(environment: &(impl ProgramEnvironment + ?Sized)) -> ServerProcess {
    listening(&binaries().ingest, &["--listen", "127.0.0.1:0"], environment).await
}

/// Starts a `message-writer` and waits until it works.
pub async fn message_writer(environment: &(impl ProgramEnvironment + ?Sized)) -> Process {
    worker_process("message-writer", environment).await
}

/// Starts a `channel-indexer` and waits until it works.
pub async fn channel_indexer(environment: &(impl ProgramEnvironment + ?Sized)) -> Process {
    worker_process("channel-indexer", environment).await
}

/// Starts the worker with this name and waits until it works.
pub async fn worker_process(name: &str, environment: &(impl ProgramEnvironment + ?Sized)) -> Process {
    let mut command = Command::new(binaries().worker(name));
    environment.configure(&mut command);
    worker(&mut command).await
}

/// Starts a worker and waits until it logs that it is working.
///
/// # Panics
/// If it does not within [`START_DEADLINE`]; the message contains its log.
pub async fn worker(command: &mut Command) -> Process {
    let (process, line) = Process::spawn_until(command, |line| (line["message"] == "working").then_some(()));
    process.wait_for_start(line).await.0
}

async fn listening(
    program: &Path,
    args: &[&str],
    environment: &(impl ProgramEnvironment + ?Sized),
) -> ServerProcess {
    let mut command = Command::new(program);
    command.args(args);
    environment.configure(&mut command);
    serve(&mut command).await
}

/// Starts a program and waits until it logs where it listens: a line of JSON on standard error whose
/// `message` is `listening` and that has an `address`.
///
/// # Panics
/// If it does not within [`START_DEADLINE`]; the message contains its log.
pub async fn serve(command: &mut Command) -> ServerProcess {
    let (process, address) = Process::spawn_until(command, listening_address);
    let (process, address) = process.wait_for_start(address).await;
    ServerProcess { process, address }
}

impl Process {
    /// Starts a program without waiting until it has started.
    pub fn start(command: &mut Command) -> Self {
        Self::spawn_until(command, |_| None::<()>).0
    }

    /// Starts a program; the receiver gets the first value that `parse_line` returns for a line of its log.
    fn spawn_until<T: Send + 'static>(
        command: &mut Command,
        parse_line: impl Fn(&Value) -> Option<T> + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let program = command.as_std().get_program().to_owned();
        let name = Path::new(&program).file_name().map_or_else(String::new, lossy);
        let elsewhere = ["SLACK_SIGNING_SECRET_ARN", "SLACK_SIGNING_SECRETS_FILE", "SLACK_APP_TOKEN"];
        let verifies_elsewhere = |name| elsewhere.iter().any(|elsewhere| name == *elsewhere);
        if !command.as_std().get_envs().any(|(name, _)| verifies_elsewhere(name)) {
            command.env("SLACK_SIGNING_SECRET", SIGNING_SECRET);
        }
        if !command.as_std().get_envs().any(|(name, _)| name == "ANNALIST_LOG") {
            command.env("ANNALIST_LOG", "info");
        }
        // Otherwise history would bring what tests expect from events.
        if !command.as_std().get_envs().any(|(name, _)| name == "ANNALIST_BACKFILL") {
            command.env("ANNALIST_BACKFILL", "gaps");
        }
        let mut child = command
            .env("ANNALIST_METRICS_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let log = Log::default();
        let stderr = child.stderr.take().expect("standard error is piped");
        let output = Log::default();
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is piped")).lines();
        let printed = output.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                printed.push(line);
            }
        });
        let (found, line) = oneshot::channel();
        let sink = log.clone();
        tokio::spawn(async move {
            let mut found = Some(found);
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let json: Option<Value> = serde_json::from_str(&line).ok();
                sink.push(line);
                if let Some(it) = json.as_ref().and_then(&parse_line)
                    && let Some(found) = found.take()
                {
                    // The caller that started the program may have given up.
                    found.send(it).ok();
                }
            }
        });
        (Self { name, child, log, output }, line)
    }

    /// Waits for the log line which shows that it has started.
    async fn wait_for_start<T>(self, line: oneshot::Receiver<T>) -> (Self, T) {
        match timeout(START_DEADLINE, line).await {
            Ok(Ok(it)) => (self, it),
            Ok(Err(_)) | Err(_) => panic!("{} does not start:\n{}", self.name, self.log()),
        }
    }

    /// Its process id.
    ///
    /// # Panics
    /// Once it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("{} has ended:\n{}", self.name, self.log()))
    }

    /// The address at which it serves metrics.
    ///
    /// # Panics
    /// If it does not.
    pub async fn metrics_address(&self) -> SocketAddr {
        self.logged_address("metrics listening").await
    }

    /// The address in the log line with this message.
    ///
    /// # Panics
    /// If there is no such line within [`START_DEADLINE`].
    pub async fn logged_address(&self, message: &str) -> SocketAddr {
        self.wait_for_log(message, START_DEADLINE).await;
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut matching = lines.filter(|line| line["message"] == message);
        let address = matching.find_map(|line| line["address"].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("{} logs no address with {message:?}:\n{log}", self.name))
    }

    /// The latest lines of its log.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// The latest lines of its standard output.
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Waits until its log contains this text.
    ///
    /// # Panics
    /// If it does not before the deadline; the message contains its log.
    pub async fn wait_for_log(&self, what: &str, deadline: Duration) {
        if timeout(deadline, self.log.wait_until(|text| text.contains(what))).await.is_err() {
            panic!("{} does not log {what:?}:\n{}", self.name, self.log());
        }
    }

    /// Waits until its standard output contains this text.
    ///
    /// # Panics
    /// As [`Process::wait_for_log`].
    pub async fn wait_for_output(&self, what: &str, deadline: Duration) {
        self.wait_for_output_that(|text| text.contains(what), deadline).await;
    }

    /// Waits until its standard output matches.
    ///
    /// # Panics
    /// As [`Process::wait_for_log`].
    pub async fn wait_for_output_that(&self, matches: impl Fn(&str) -> bool, deadline: Duration) {
        if timeout(deadline, self.output.wait_until(matches)).await.is_err() {
            panic!("{} does not print the expected output:\n{}\n{}", self.name, self.output(), self.log());
        }
    }

    /// The resources that it has used so far.
    ///
    /// # Panics
    /// Once it has ended.
    pub fn usage(&self) -> Usage {
        procfs::usage(self.pid()).unwrap_or_else(|| panic!("{} has ended:\n{}", self.name, self.log()))
    }

    /// Ends it without warning, as the kernel does when memory runs out.
    ///
    /// # Panics
    /// If it has already ended, which means that it crashed.
    pub async fn sigkill(mut self) {
        let ended = self.child.try_wait().expect("a child can be waited for");
        assert!(ended.is_none(), "{} ended by itself ({ended:?}):\n{}", self.name, self.log());
        self.child.kill().await.expect("a running child can be killed");
    }

    /// Ends it with SIGTERM, which must succeed.
    ///
    /// # Panics
    /// If it still runs after [`END_DEADLINE`], or reports a failure.
    pub async fn stop(mut self) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()), "{} cannot be signalled", self.name);
        match timeout(END_DEADLINE, self.child.wait()).await {
            Ok(ended) => {
                let status = ended.expect("a child can be waited for");
                assert!(status.success(), "{} ended with {status}:\n{}", self.name, self.log());
            }
            Err(_) => panic!("{} still runs after {END_DEADLINE:?}:\n{}", self.name, self.log()),
        }
    }
}

impl Process {
    /// Ends it like [`Process::stop`], after which its standard output must contain this text.
    ///
    /// # Panics
    /// As [`Process::stop`], or if its output lacks the text.
    pub async fn stop_after_output(self, what: &str) {
        let output = self.output.clone();
        self.stop().await;
        if timeout(END_DEADLINE, output.wait_until(|text| text.contains(what))).await.is_err() {
            panic!("{what:?} is not in the output:\n{}", output.text());
        }
    }
}

/// Panics if any line of the program contained a secret.
impl Drop for Process {
    fn drop(&mut self) {
        let leaks = [self.log.leak.get(), self.output.leak.get()];
        if let Some((secret, line)) = leaks.into_iter().flatten().next()
            && !std::thread::panicking()
        {
            panic!("{} shows {secret}: {line}", self.name);
        }
    }
}

fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn listening_address(line: &Value) -> Option<SocketAddr> {
    if line["message"] != "listening" {
        return None;
    }
    line["address"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listening_line_names_the_address() {
        let address = |line: &str| listening_address(&serde_json::from_str(line).unwrap());
        let found = address(r#"{"level":"INFO","message":"listening","address":"127.0.0.1:41"}"#);
        assert_eq!(found, Some(SocketAddr::from(([127, 0, 0, 1], 41))));
        for line in [
            r#"{"message":"metrics listening","address":"127.0.0.1:41"}"#,
            r#"{"message":"listening"}"#,
            r#""listening""#,
        ] {
            assert_eq!(address(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn a_program_that_ends_before_it_listens_is_an_error() {
        let mut dies = Command::new("sh");
        dies.args(["-c", "echo no such luck >&2"]);
        let started = tokio::spawn(async move { serve(&mut dies).await.address });
        let failure = started.await.unwrap_err().into_panic();
        let message = failure.downcast_ref::<String>().unwrap();
        assert!(message.contains("does not start"), "{message}");

        let mut listens = Command::new("sh");
        listens.args([
            "-c",
            r#"echo '{"message":"listening","address":"127.0.0.1:9"}' >&2; exec cat /dev/zero"#,
        ]);
        let server = serve(&mut listens).await;
        assert_eq!(server.address.port(), 9);
        server.process.sigkill().await;
    }
}
