//! What the figures were taken on, and how much else it was doing.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ::tests::harness::binaries::binaries;
use anyhow::Context;
use tempfile::TempDir;

/// Linux reports CPU time in ticks of this length on every machine.
const TICK: Duration = Duration::from_millis(10);

/// Watches how much of the machine others take while the bench runs.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    busy: Duration,
    own: Duration,
}

impl Watch {
    /// Starts to watch.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), busy: busy(), own: own() }
    }

    /// One line about the machine since the start.
    pub(crate) fn line(&self) -> String {
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

/// The Cargo profile this program, and so the servers it measures, was built with: the name of the folder it lies in.
pub(crate) fn profile() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("the bench cannot find its own file")?;
    let folder = program.parent().and_then(Path::file_name).context("the bench lies in no folder")?;
    let profile = folder.to_string_lossy();
    Ok(if profile == "debug" { "dev".to_owned() } else { profile.into_owned() })
}

/// CPU time of everything on the machine, what a hypervisor took away included.
fn busy() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u32> =
        stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1).map(number).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).map(|ticks| TICK * *ticks).sum()
}

/// CPU time of this process and of every server it has ended.
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

/// A new folder for a server's data, on the disk that holds the target directory: a temporary folder may lie in
/// memory, where nothing is durable.
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
        // A tick of processor time, which a busy machine may take a while to give.
        while own() == Duration::ZERO {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(busy() >= own());
        assert!(Watch::start().line().contains("other processes took"));
    }
}
