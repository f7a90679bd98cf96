//! Emulators that need only Python.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::harness::python;

/// An emulator as a pinned set of Python packages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Package {
    /// Its name for messages.
    pub(super) name: &'static str,
    /// The folder of its environment, under `target/`.
    folder: &'static str,
    requirements: &'static str,
    script: &'static str,
    services: &'static str,
}

/// SQS, DynamoDB, S3, and the other services that tests of a stack use.
pub(super) const MINISTACK: Package = Package {
    name: "ministack 1.5.33",
    folder: "ministack",
    requirements: include_str!("ministack.txt"),
    script: concat!(include_str!("control.py"), include_str!("ministack.py")),
    services: super::SERVICES,
};

/// SQS and S3: the same release as the container's.
pub(super) const LOCALSTACK: Package = Package {
    name: "LocalStack 4.5.0 (Python package)",
    folder: "localstack",
    requirements: include_str!("localstack.txt"),
    script: concat!(include_str!("control.py"), include_str!("localstack.py")),
    // DynamoDB is a Java program that the package does not contain.
    services: "sqs,s3",
};

/// A running emulator. It ends with this process, since it reads from a pipe that only this process keeps
/// open.
#[derive(Debug)]
pub(super) struct Emulated {
    pub(super) package: Package,
    pub(super) endpoint: String,
    control: Mutex<Control>,
    _process: Child,
}

#[derive(Debug)]
struct Control {
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    ahead: Duration,
}

impl Emulated {
    /// Creates the Python environment if it does not exist, and starts the emulator in it.
    pub(super) fn start(package: Package) -> Result<Self, String> {
        let python = python::environment(package.folder, package.requirements)?;
        let mut process = Command::new(&python)
            // Isolated, so that no folder of the caller is imported as a package.
            .args(["-I", "-c", package.script])
            // The caller's Python and AWS settings must not affect the emulator.
            .env_clear()
            .env("TMPDIR", std::env::temp_dir())
            // LocalStack's package keeps a list of its plug-ins.
            .env("XDG_CACHE_HOME", python.with_file_name("cache"))
            .env("SERVICES", package.services)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", python.display()))?;
        let commands = process.stdin.take().ok_or("no pipe to the emulator")?;
        let mut answers = BufReader::new(process.stdout.take().ok_or("no pipe from the emulator")?);
        let port = line(&mut answers)?;
        let control = Mutex::new(Control { commands, answers, ahead: Duration::ZERO });
        // `localhost` by name: ministack treats a host with a dot as a custom domain of API Gateway, and
        // imports a package that only this needs.
        Ok(Self { package, endpoint: format!("http://localhost:{port}"), control, _process: process })
    }

    /// Advances its clock.
    pub(super) fn advance(&self, by: Duration) {
        let mut control = self.control.lock().expect("no thread panics while holding it");
        writeln!(control.commands, "{}", by.as_secs_f64()).expect("the emulator listens");
        assert_eq!(line(&mut control.answers).as_deref(), Ok("moved"));
        control.ahead += by;
    }

    /// The time by which its clock was advanced.
    pub(super) fn ahead(&self) -> Duration {
        self.control.lock().expect("no thread panics while holding it").ahead
    }
}

fn line(answers: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    match answers.read_line(&mut line) {
        Ok(0) => Err("the emulator ended".to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(format!("cannot read from the emulator: {error}")),
    }
}
