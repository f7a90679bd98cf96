//! Emulators that need only Python.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::harness::python;

/// An emulator as a pinned set of Python packages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Package {
    /// As people call it.
    pub(super) name: &'static str,
    /// The folder of its environment, under `target/`.
    folder: &'static str,
    requirements: &'static str,
    script: &'static str,
}

/// SQS, DynamoDB, S3, and what else a stack's tests ask for.
pub(super) const MINISTACK: Package = Package {
    name: "ministack 1.5.33",
    folder: "ministack",
    requirements: include_str!("ministack.txt"),
    script: concat!(include_str!("control.py"), include_str!("ministack.py")),
};

/// SQS and S3: the same release as the container's.
pub(super) const LOCALSTACK: Package = Package {
    name: "LocalStack 4.5.0 (Python package)",
    folder: "localstack",
    requirements: include_str!("localstack.txt"),
    script: concat!(include_str!("control.py"), include_str!("localstack.py")),
};

/// A running emulator. It ends when this process does, since it reads a pipe that only this process holds.
#[derive(Debug)]
pub(super) struct Emulated {
    pub(super) package: Package,
    pub(super) endpoint: String,
    control: Mutex<Control>,
    _process: Child,
}

#[derive(Debug)]
struct Control {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    ahead: Duration,
}

impl Emulated {
    /// Makes the Python environment if it is not there yet, and starts the emulator in it.
    pub(super) fn start(package: Package) -> Result<Self, String> {
        let python = python::environment(package.folder, package.requirements)?;
        let mut process = Command::new(&python)
            // Isolated: a folder of the caller's is no package of its.
            .args(["-I", "-c", package.script])
            // Neither the caller's Python settings nor its AWS ones mean the emulator.
            .env_clear()
            .env("TMPDIR", std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", python.display()))?;
        let orders = process.stdin.take().ok_or("no pipe to the emulator")?;
        let mut answers = BufReader::new(process.stdout.take().ok_or("no pipe from the emulator")?);
        let port = line(&mut answers)?;
        let control = Mutex::new(Control { orders, answers, ahead: Duration::ZERO });
        // By name: ministack treats a host with a dot as a custom domain at API Gateway, and looks for a package
        // that only that needs.
        Ok(Self { package, endpoint: format!("http://localhost:{port}"), control, _process: process })
    }

    /// Moves its clock.
    pub(super) fn advance(&self, by: Duration) {
        let mut control = self.control.lock().expect("no thread panics while holding it");
        writeln!(control.orders, "{}", by.as_secs_f64()).expect("the emulator listens");
        assert_eq!(line(&mut control.answers).as_deref(), Ok("moved"));
        control.ahead += by;
    }

    /// How far its clock was moved.
    pub(super) fn ahead(&self) -> Duration {
        self.control.lock().expect("no thread panics while holding it").ahead
    }
}

fn line(answers: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    match answers.read_line(&mut line) {
        Ok(0) => Err("the emulator ended".to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(format!("the emulator cannot be heard: {error}")),
    }
}
