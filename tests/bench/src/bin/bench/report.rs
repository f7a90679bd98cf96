//! The report: Markdown tables ready for `BENCHMARKS.md`.

use std::time::Duration;

use ::tests::harness::procfs::Usage;
use reader::numbers::grouped;

/// A goal and its measured figure.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    what: &'static str,
    measured: String,
    limit: String,
    met: bool,
}

impl Goal {
    /// A goal with a lower limit.
    pub(crate) fn at_least(what: &'static str, measured: f64, limit: f64, unit: &str) -> Self {
        Self {
            what,
            measured: format!("{}{unit}", figure(measured)),
            limit: format!("≥ {}{unit}", figure(limit)),
            met: measured >= limit,
        }
    }

    /// A goal with an upper limit.
    pub(crate) fn at_most(what: &'static str, measured: f64, limit: f64, unit: &str) -> Self {
        Self {
            what,
            measured: format!("{}{unit}", figure(measured)),
            limit: format!("≤ {}{unit}", figure(limit)),
            met: measured <= limit,
        }
    }
}

/// The table and goals of one measurement.
#[derive(Debug, Clone)]
pub(crate) struct BenchSection {
    /// The heading.
    pub(crate) title: &'static str,
    /// The method, in a sentence or two.
    pub(crate) method: String,
    /// The header of the table.
    pub(crate) columns: &'static [&'static str],
    /// The rows of the table.
    pub(crate) rows: Vec<Vec<String>>,
    /// The goals that the figures are compared with.
    pub(crate) goals: Vec<Goal>,
}

/// All measurements of a run.
#[derive(Debug, Default)]
pub(crate) struct BenchReport {
    /// The sections in the order of printing.
    pub(crate) sections: Vec<BenchSection>,
}

impl BenchReport {
    /// Returns the report as Markdown. `machine` describes the machine, `command` has the arguments of `cargo
    /// run`.
    pub(crate) fn markdown(&self, machine: &str, command: &str) -> String {
        let mut text = format!("Machine: {machine}.\nCommand: `cargo run {command}`\n");
        let goals: Vec<_> = self
            .sections
            .iter()
            .flat_map(|section| &section.goals)
            .map(|goal| {
                let verdict = if goal.met { "met" } else { "**falls short**" };
                vec![goal.what.to_owned(), goal.measured.clone(), goal.limit.clone(), verdict.to_owned()]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(&["goal", "measured", "limit", ""], &goals));
        for section in &self.sections {
            text.push_str(&format!("\n### {}\n\n{}\n\n", section.title, section.method));
            text.push_str(&table(section.columns, &section.rows));
        }
        text
    }
}

fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// Returns the median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.as_slice() {
        [] => f64::NAN,
        odd if odd.len() % 2 == 1 => odd[middle],
        even => f64::midpoint(even[middle - 1], even[middle]),
    }
}

/// Returns the median of one figure of several runs.
pub(crate) fn median_of<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}

/// Returns a row: a label and its figures.
pub(crate) fn row(what: impl Into<String>, figures: &[f64]) -> Vec<String> {
    std::iter::once(what.into()).chain(figures.iter().copied().map(figure)).collect()
}

/// The throughput, CPU time and memory of a process that handled many events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunCost {
    /// Events per second.
    pub(crate) per_second: f64,
    /// CPU time per event in microseconds.
    pub(crate) cpu_us: f64,
    /// Peak memory.
    pub(crate) peak_mib: f64,
}

impl RunCost {
    /// Computes the cost for this number of events.
    pub(crate) fn for_events(events: usize, time: Duration, usage: &Usage) -> Self {
        let events = events as f64;
        Self {
            per_second: events / time.as_secs_f64(),
            cpu_us: usage.cpu.as_secs_f64() * 1e6 / events,
            peak_mib: mib(usage.peak_rss_kib),
        }
    }

    /// Returns the median of each figure.
    pub(crate) fn median(runs: &[Self]) -> Self {
        Self {
            per_second: median_of(runs, |run| run.per_second),
            cpu_us: median_of(runs, |run| run.cpu_us),
            peak_mib: median_of(runs, |run| run.peak_mib),
        }
    }

    /// Returns a row with all three figures.
    pub(crate) fn row(&self, what: impl Into<String>) -> Vec<String> {
        row(what, &[self.per_second, self.cpu_us, self.peak_mib])
    }
}

/// Measured durations, sorted.
#[derive(Debug, Clone)]
pub(crate) struct SortedTimes(Vec<Duration>);

impl SortedTimes {
    pub(crate) fn from_unsorted(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the number of durations.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the percentile in milliseconds: the smallest duration that is at least as long as this share
    /// of all.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(index).copied().map_or(f64::NAN, ms)
    }

    /// Returns the 50th and 95th percentile and the maximum.
    pub(crate) fn summary(&self) -> [f64; 3] {
        [50, 95, 100].map(|percent| self.percentile(percent))
    }
}

/// Formats a figure with about three significant digits.
pub(crate) fn figure(figure: f64) -> String {
    match figure.abs() {
        // `grouped` takes no sign.
        _ if figure >= 1000.0 => grouped(figure.round() as u64),
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Converts KiB to MiB.
pub(crate) fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_significant_digits() {
        assert_eq!(
            [1_234_567.0, 1000.0, 123.4, 12.34, 0.3].map(figure),
            ["1,234,567", "1,000", "123", "12.3", "0.30"]
        );
    }

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
    }

    #[test]
    fn a_percentile_is_a_measured_value() {
        let times = SortedTimes::from_unsorted((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(times.percentile(50), 100.0);
        assert_eq!(times.percentile(99), 198.0);
        assert_eq!(SortedTimes::from_unsorted(vec![Duration::from_millis(1)]).percentile(99), 1.0);
        assert!(SortedTimes::from_unsorted(Vec::new()).percentile(50).is_nan());
    }

    #[test]
    fn a_missed_goal_is_marked_in_the_report() {
        let section = BenchSection {
            title: "x",
            method: "m".into(),
            columns: &["a"],
            rows: vec![vec!["1".into()]],
            goals: vec![Goal::at_least("fast", 2.0, 3.0, " ×"), Goal::at_most("small", 2.0, 3.0, " MiB")],
        };
        let text = BenchReport { sections: vec![section] }.markdown("m", "x");
        assert!(text.contains("| fast | 2.00 × | ≥ 3.00 × | **falls short** |"), "{text}");
        assert!(text.contains("| small | 2.00 MiB | ≤ 3.00 MiB | met |"), "{text}");
    }
}
