//! What the figures were taken on.

use std::fs;
use std::thread::available_parallelism;

use ::tests::harness::binaries::binaries;
use anyhow::Context;
use tempfile::TempDir;

/// One line about the machine.
pub(crate) fn line() -> String {
    let cores = available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown CPU", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cores} cores ({model}), Linux {}, load average {load} at the end", kernel.trim())
}

/// A new folder for a server's data, on the disk that holds the target directory: a temporary folder may lie in
/// memory, where nothing is durable.
pub(crate) fn data_folder() -> anyhow::Result<TempDir> {
    let target = binaries().annalist.parent().context("a program lies in a folder")?;
    tempfile::tempdir_in(target).context("cannot make a folder for data")
}
