//! A hash of the data that a report was made from. It changes if anything that the report shows may have
//! changed.

use sha2::{Digest, Sha256};

use rules::figures::person::PersonFacts;
use slack::hex::to_hex;

use super::counting::CountedChannel;
use super::people::People;
use super::period::Period;
use super::report::{FigureName, FiguresReport, Number, Scope, TopMessage};

/// The version of the report format; change it if the content of reports changes.
const FORMAT: &str = "4";

/// The hash while it is computed. The stamp of a report's inputs is computed in the same way.
pub(super) struct Basis(Sha256);

impl Basis {
    pub(super) fn new(scope: &Scope, period: &Period) -> Self {
        let mut basis = Self(Sha256::new());
        basis.part(FORMAT);
        basis.part(&scope.id());
        period.bounds().iter().for_each(|bound| basis.part(bound));
        basis
    }

    pub(super) fn part(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    pub(super) fn counted(&mut self, counted: &CountedChannel) {
        self.part(counted.channel.as_str());
        for (root_ts, author) in &counted.root_authors {
            self.part(&format!("{root_ts} {author}"));
        }
        for (day, figures) in &counted.days {
            self.part(&format!("{day} {:x}", figures.basis));
        }
    }

    /// Adds what a report shows of people.
    pub(super) fn people(&mut self, people: &People) {
        for (id, PersonFacts { kind, name, tz, offset_minutes }) in people.iter() {
            self.part(id);
            self.part(kind.as_str());
            self.part(name.as_deref().unwrap_or_default());
            self.part(tz.as_deref().unwrap_or_default());
            self.part(&format!("{offset_minutes:?}"));
        }
    }

    /// Adds the messages with the most replies; replies may be later than the period.
    pub(super) fn replied(&mut self, most_replied: &[TopMessage]) {
        for message in most_replied {
            self.part(&format!("{} {}", message.permalink, message.count));
        }
    }

    /// Adds the other content of the report: channel names, first-time posters, the trend, incomplete days.
    pub(super) fn shown(&mut self, report: &FiguresReport) {
        for row in &report.channels {
            self.part(row.name.as_deref().unwrap_or_default());
        }
        let new = report.figure(FigureName::FirstTimePosters);
        let count = |number: Option<Number>| number.map(Number::as_f64);
        self.part(&format!("{:?} {:?}", count(new.value), count(new.previous)));
        report.trend.iter().for_each(|counted| self.part(&counted.messages.to_string()));
        report.incomplete_days.iter().chain(&report.expired_days).for_each(|day| self.part(day));
        self.part(report.team_name.as_deref().unwrap_or_default());
        self.part(if report.is_over { "over" } else { "not over" });
    }

    pub(super) fn finish(self) -> String {
        to_hex(&self.0.finalize())
    }
}
