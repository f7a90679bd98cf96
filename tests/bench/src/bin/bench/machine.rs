//! The machine of the measurements, and its load from other processes.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use anyhow::Context;
use tempfile::TempDir;

/// Linux reports CPU time in ticks of this length on every machine.
const TICK: Duration = Duration::from_millis(10);

/// Measures the CPU share of other processes while the bench runs.
#[derive(Debug)]
pub(crate) struct LoadMonitor {
    started: Instant,
    busy: Duration,
    own: Duration,
}

impl LoadMonitor {
    /// Starts the measurement.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), busy: busy(), own: own() }
    }

    /// Returns one line about the machine and its load since the start.
    pub(crate) fn summary_line(&self) -> String {
        let cores = available_parallelism().map_or(0, usize::from);
        let elapsed = self.started.elapsed();
        let others = (busy() - self.busy).saturating_sub(own() - self.own);
        let others_percent = others.as_secs_f64() / (elapsed.as_secs_f64() * cores as f64) * 100.0;
        format!(
            "{cores} cores ({}), Linux {}; other processes took {others_percent:.0} % of it during the {:.0} s",
            cpu_model(),
            fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            elapsed.as_secs_f64()
        )
    }
}

/// Returns the Cargo profile of this program and of the servers it measures: the name of the program's
/// folder.
pub(crate) fn profile() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("the bench cannot find its own file")?;
    let folder = program.parent().and_then(Path::file_name).context("the bench lies in no folder")?;
    let profile = folder.to_string_lossy();
    Ok(if profile == "debug" { "dev".to_owned() } else { profile.into_owned() })
}

/// Returns the CPU time of all processes on the machine, including time stolen by a hypervisor.
fn busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u32> =
        stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1).map(number).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    [0, 1, 2, 5, 6, 7].iter().filter_map(|index| fields.get(*index)).map(|ticks| TICK * *ticks).sum()
}

/// Returns the CPU time of this process and of every server that it has ended.
fn own() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_ascii_whitespace().skip(11).take(4).map(|ticks| TICK * number(ticks)).sum()
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_default()
}

fn cpu_model() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or("unknown CPU", |model| model.trim_start_matches([' ', '\t', ':'])).to_owned()
}

/// Creates a folder for a server's data on the disk of the target directory. The default temporary folder may
/// be in memory, which is not durable.
pub(crate) fn data_folder() -> anyhow::Result<TempDir> {
    let target = binaries().annalist.parent().context("a program lies in a folder")?;
    tempfile::tempdir_in(target).context("cannot make a folder for data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_at_least_as_busy_as_this_process() {
        let mut sum = 0_u64;
        // Wait for one tick of CPU time, which may take a while on a busy machine.
        while own() == Duration::ZERO {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(busy() >= own());
        assert!(LoadMonitor::start().summary_line().contains("other processes took"));
    }
}
