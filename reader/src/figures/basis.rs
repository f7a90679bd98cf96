//! What a report was made from, as one hash: it changes if anything that the report shows may have changed.

use sha2::{Digest, Sha256};

use rules::figures::person::PersonFacts;
use slack::hex::to_hex;

use super::counting::{CountedChannel, People};
use super::period::Period;
use super::report::{FigureName, FiguresReport, Number, Scope, TopMessage};

/// Another one for each change of what a report contains.
pub(super) const FORMAT: &str = "3";

/// A hash that is being made.
pub(super) struct Basis(Sha256);

impl Basis {
    pub(super) fn new(scope: &Scope, period: &Period) -> Self {
        let mut basis = Self(Sha256::new());
        basis.part(FORMAT);
        basis.part(&scope.id());
        period.bounds().iter().for_each(|bound| basis.part(bound));
        basis
    }

    fn part(&mut self, text: &str) {
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

    pub(super) fn people(&mut self, people: &People) {
        hash_people(people, &mut |text| self.part(text));
    }

    /// Replies may be later than the period.
    pub(super) fn replied(&mut self, most_replied: &[TopMessage]) {
        for message in most_replied {
            self.part(&format!("{} {}", message.permalink, message.count));
        }
    }

    /// What else is shown: names of channels, who is new, which days are incomplete.
    pub(super) fn shown(&mut self, report: &FiguresReport) {
        for row in &report.channels {
            self.part(row.name.as_deref().unwrap_or_default());
        }
        let new = report.figure(FigureName::FirstTimePosters);
        let count = |number: Option<Number>| number.map(Number::real);
        self.part(&format!("{:?} {:?}", count(new.value), count(new.previous)));
        report.incomplete_days.iter().for_each(|day| self.part(day));
        self.part(report.team_name.as_deref().unwrap_or_default());
        self.part(if report.is_over { "over" } else { "not over" });
    }

    pub(super) fn finish(self) -> String {
        to_hex(&self.0.finalize())
    }
}

/// What a report shows of people, part by part.
pub(super) fn hash_people(people: &People, part: &mut impl FnMut(&str)) {
    for (id, PersonFacts { kind, name, tz, offset_minutes }) in people.iter() {
        part(id);
        part(kind.as_str());
        part(name.as_deref().unwrap_or_default());
        part(tz.as_deref().unwrap_or_default());
        part(&format!("{offset_minutes:?}"));
    }
}
