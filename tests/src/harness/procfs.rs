//! Reads the resource usage of a process from Linux's `/proc`.

use std::fs;
use std::time::Duration;

/// Linux reports CPU time in ticks of this length on every machine.
const TICK: Duration = Duration::from_millis(10);

/// The resources that a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads, in user and kernel mode.
    pub cpu: Duration,
    /// Current resident memory.
    pub rss_kib: u64,
    /// Peak resident memory.
    pub peak_rss_kib: u64,
}

/// Reads the usage of a process; `None` once it is gone, or if there is no `/proc`.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Usage { cpu: cpu(&stat)?, rss_kib: kib(&status, "VmRSS:")?, peak_rss_kib: kib(&status, "VmHWM:")? })
}

/// The command line of a process.
pub fn command_line(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// The running child processes of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let ids = |listed: String| -> Vec<u32> {
        listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    listed.flat_map(ids).collect()
}

/// The program's name is in parentheses and may contain anything, so fields are counted from the last
/// parenthesis.
fn cpu(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u32 = fields.nth(11)?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

fn kib(status: &str, label: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_after_any_program_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5 6 7";
        assert_eq!(cpu(stat), Some(Duration::from_secs(2)));
        assert_eq!(kib("Name:\tx\nVmRSS:\t    1234 kB\n", "VmRSS:"), Some(1234));
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = usage(std::process::id()).unwrap();
        assert!(usage.rss_kib > 0 && usage.peak_rss_kib >= usage.rss_kib);
        assert_eq!(super::usage(u32::MAX), None);
        assert!(!command_line(std::process::id()).is_empty());
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
