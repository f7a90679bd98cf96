//! Runs processes to their end and measures their time and peak memory.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use ::tests::harness::procfs::{self, Usage};
use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::sleep;

/// Polling interval of the process's usage.
const INTERVAL: Duration = Duration::from_millis(5);

/// A process that ended successfully.
pub(crate) struct EndedProcess {
    /// The standard output.
    pub(crate) printed: String,
    /// Time from start to end.
    pub(crate) time: Duration,
}

impl EndedProcess {
    /// Returns the last line of the output as JSON.
    pub(crate) fn last_line(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(self.printed.lines().last().unwrap_or_default())?)
    }
}

/// Runs a command to its end, with an empty environment. Returns its usage shortly before the end as well.
pub(crate) async fn run_to_end(mut command: Command) -> anyhow::Result<(EndedProcess, Usage)> {
    let started = Instant::now();
    command.env_clear().kill_on_drop(true).stdout(Stdio::piped());
    let child = command.spawn().context("the process cannot be started")?;
    let pid = child.id().context("the process has ended")?;
    let mut output = std::pin::pin!(child.wait_with_output());
    let mut last: Option<Usage> = None;
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = sleep(INTERVAL) => last = procfs::usage(pid).or(last),
        }
    };
    let time = started.elapsed();
    ensure!(output.status.success(), "{:?} failed: {}", command.as_std(), output.status);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((EndedProcess { printed, time }, last.context("the process was too short")?))
}

/// Runs a command of `annalist` on a folder to its end.
pub(crate) async fn annalist(data: &Path, args: &[&str]) -> anyhow::Result<EndedProcess> {
    run(&binaries().annalist, data, args).await
}

/// Runs a command of this binary of `annalist` on a folder to its end.
pub(crate) async fn run(program: &Path, data: &Path, args: &[&str]) -> anyhow::Result<EndedProcess> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(args).arg("--data").arg(data).env_clear().kill_on_drop(true);
    let output = command.output().await.context("annalist cannot be started")?;
    let time = started.elapsed();
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(EndedProcess { printed: String::from_utf8_lossy(&output.stdout).into_owned(), time })
}
