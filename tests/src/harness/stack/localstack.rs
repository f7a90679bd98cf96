//! LocalStack in a container, if there is Docker.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// From the last line of community releases that start without a token. `localstack/compose.yaml` has the
/// same tag.
pub(super) const TAG: &str = "4.5.0";
/// The port on which it listens in the container.
const PORT: &str = "4566";
/// Maximum time to start. A busy machine needs half of this.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running container. It is removed when this process ends, however it ends.
#[derive(Debug)]
pub(super) struct LocalStack {
    pub(super) endpoint: String,
    _remover: Child,
}

impl LocalStack {
    /// Starts a container and waits until it is healthy; the error tells why it cannot start.
    #[expect(
        clippy::disallowed_methods,
        reason = "Docker gives no signal when the program in a container answers"
    )]
    pub(super) fn start() -> Result<Self, String> {
        docker(&["info", "--format", "{{.ServerVersion}}"])?;
        let image = format!("localstack/localstack:{TAG}");
        // It checks no credentials: only this machine may reach it.
        let published = format!("127.0.0.1::{PORT}");
        let services = "SERVICES=sqs,dynamodb,s3,cloudformation";
        let id = docker(&["run", "--detach", "--publish", &published, "--env", services, &image])?;
        let remover = remover(&id).map_err(|error| error.to_string())?;
        let address = docker(&["port", &id, PORT])?;
        let started = Instant::now();
        while !is_healthy(&address) {
            if started.elapsed() > START_TIMEOUT {
                return Err(format!(
                    "LocalStack does not answer: {}",
                    docker(&["logs", "--tail", "20", &id])?
                ));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(Self { endpoint: format!("http://{address}"), _remover: remover })
    }

    pub(super) fn tag(&self) -> &'static str {
        TAG
    }
}

/// Runs `docker` and returns what it prints, or why it fails.
fn docker(arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new("docker").args(arguments).output().map_err(|error| format!("docker: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("docker {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim()))
}

/// Whether its health endpoint answers 200.
fn is_healthy(address: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut connection = TcpStream::connect(address)?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            connection,
            "GET /_localstack/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
        )?;
        let mut status = [0; "HTTP/1.1 200".len()];
        connection.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

/// A shell that removes the container as soon as this process no longer holds its standard input.
fn remover(id: &str) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", "cat > /dev/null; docker rm --force --volumes \"$0\" > /dev/null", id])
        .stdin(Stdio::piped())
        .spawn()
}
