//! The summary of a run of many seeds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use simulation::{FaultCounts, FaultKind, Finding, Invariant, SeedOutcome};

/// The sum of all seeds.
#[derive(Default)]
pub(crate) struct SeedsSummary {
    seeds: u64,
    total: FaultCounts,
    /// Number of seeds with each kind of fault.
    seeds_with: [u64; FaultKind::ALL.len()],
    findings: BTreeMap<u64, Finding>,
}

impl SeedsSummary {
    pub(crate) fn add(&mut self, seed: u64, outcome: SeedOutcome) {
        self.seeds += 1;
        self.total.add(&outcome.tally);
        for (kind, _) in FaultKind::ALL {
            self.seeds_with[kind as usize] += u64::from(outcome.tally.injected(kind) > 0);
        }
        self.findings.extend(outcome.finding.map(|finding| (seed, finding)));
    }

    /// Returns the seeds that violated an invariant.
    pub(crate) fn findings(&self) -> impl Iterator<Item = (u64, &Finding)> {
        self.findings.iter().map(|(seed, finding)| (*seed, finding))
    }

    /// Writes the table.
    pub(crate) fn write(&self, took: Duration, out: &mut dyn Write) -> io::Result<()> {
        let row = |out: &mut dyn Write, name: &str, value: String| writeln!(out, "{name:<28}{value:>12}");
        row(out, "seeds", self.seeds.to_string())?;
        row(out, "events sent", self.total.events.to_string())?;
        row(out, "  answered 200", self.total.acked.to_string())?;
        row(out, "calls of ports", self.total.steps.to_string())?;
        row(out, "outages of Slack", self.total.outages.to_string())?;
        row(out, "  for days", self.total.long_outages.to_string())?;
        writeln!(out, "\n{:<28}{:>12}{:>12}", "fault", "injected", "in seeds")?;
        for (kind, label) in FaultKind::ALL {
            let (injected, seeds) = (self.total.injected(kind), self.seeds_with[kind as usize]);
            writeln!(out, "{label:<28}{injected:>12}{seeds:>12}")?;
        }
        writeln!(out)?;
        let mut others = self.findings.len();
        for (name, invariant) in [
            ("seeds that lost something", Invariant::Lost),
            ("seeds that doubled something", Invariant::Doubled),
            ("seeds out of order", Invariant::OutOfOrder),
        ] {
            let violated = self.findings.values().filter(|finding| finding.invariant == invariant).count();
            others -= violated;
            row(out, name, violated.to_string())?;
        }
        row(out, "seeds with anything else", others.to_string())?;
        row(out, "time", format!("{:.1} s", took.as_secs_f64()))
    }
}
