//! The report: Markdown tables ready for `BENCHMARKS.md`.

use std::time::Duration;

/// A goal and what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    what: &'static str,
    measured: String,
    limit: String,
    met: bool,
}

impl Goal {
    /// Met by a figure that is large enough.
    pub(crate) fn at_least(what: &'static str, measured: f64, limit: f64, unit: &str) -> Self {
        Self {
            what,
            measured: format!("{}{unit}", figure(measured)),
            limit: format!("≥ {}{unit}", figure(limit)),
            met: measured >= limit,
        }
    }

    /// Met by a figure that is small enough.
    pub(crate) fn at_most(what: &'static str, measured: f64, limit: f64, unit: &str) -> Self {
        Self {
            what,
            measured: format!("{}{unit}", figure(measured)),
            limit: format!("≤ {}{unit}", figure(limit)),
            met: measured <= limit,
        }
    }
}

/// One measurement's table and goals.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Its heading.
    pub(crate) title: &'static str,
    /// What was done, in a sentence or two.
    pub(crate) method: String,
    /// The table's first row.
    pub(crate) columns: &'static [&'static str],
    /// Its other rows.
    pub(crate) rows: Vec<Vec<String>>,
    /// The goals that the figures are compared with.
    pub(crate) goals: Vec<Goal>,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sections: Vec<Section>,
}

impl Report {
    /// Adds a measurement.
    pub(crate) fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The report as Markdown; `machine` says what it was measured on, `command` are the arguments of `cargo run`.
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

/// The middle one of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.as_slice() {
        [] => f64::NAN,
        odd if odd.len() % 2 == 1 => odd[middle],
        even => f64::midpoint(even[middle - 1], even[middle]),
    }
}

/// A figure with as many digits as it deserves.
pub(crate) fn figure(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1000.0 => thousands(figure),
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Memory in MiB.
pub(crate) fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_they_deserve() {
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
    fn a_goal_that_is_missed_says_so() {
        let section = Section {
            title: "x",
            method: "m".into(),
            columns: &["a"],
            rows: vec![vec!["1".into()]],
            goals: vec![Goal::at_least("fast", 2.0, 3.0, " ×"), Goal::at_most("small", 2.0, 3.0, " MiB")],
        };
        let text = Report { sections: vec![section] }.markdown("m", "x");
        assert!(text.contains("| fast | 2.00 × | ≥ 3.00 × | **falls short** |"), "{text}");
        assert!(text.contains("| small | 2.00 MiB | ≤ 3.00 MiB | met |"), "{text}");
    }
}
