//! Problems: parts of an export that could not be stored, or that are malformed, one line each.

use std::collections::BTreeMap;

/// Lines of one kind for one path, so that an export full of malformed data does not produce a line for each
/// element.
const MAX_LINES: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The zip, or a list of people or channels in it, cannot be read, or not to its end.
    BrokenZip,
    /// An entry is larger than anything that Slack exports.
    TooLarge,
    /// A day cannot be read, or not to its end; messages before the break are stored.
    BrokenDay,
    /// A message cannot be read.
    BrokenMessage,
    /// A folder belongs to no public channel, or to two.
    UnknownFolder,
    /// A message's author is not among the people; a placeholder is stored.
    UnknownUser,
    /// A timestamp does not have Slack's format, or is later than now.
    BadTime,
    /// A message occurs twice; both copies count.
    Duplicate,
}

impl ProblemKind {
    /// The printed name of the kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BrokenZip => "broken_zip",
            Self::TooLarge => "too_large",
            Self::BrokenDay => "broken_day",
            Self::BrokenMessage => "broken_message",
            Self::UnknownFolder => "unknown_folder",
            Self::UnknownUser => "unknown_user",
            Self::BadTime => "bad_time",
            Self::Duplicate => "duplicate",
        }
    }

    /// Whether it means that something is missing in the archive.
    #[must_use]
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::UnknownUser | Self::Duplicate)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub kind: ProblemKind,
    /// The path in the zip: untrusted text.
    pub path: String,
    /// A description, which may contain untrusted text.
    pub detail: String,
    /// The number of items not stored because of it: messages if they can be counted, otherwise files of the
    /// zip.
    pub skipped: u64,
}

impl Problem {
    /// A problem that skips one item if its kind is a loss.
    pub fn new(kind: ProblemKind, path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind, path: path.into(), detail: detail.into(), skipped: u64::from(kind.is_loss()) }
    }
}

/// Counts the problems of one path, and limits the reported ones of each kind.
#[derive(Debug, Default)]
pub(crate) struct PathProblems {
    path: String,
    counts: BTreeMap<ProblemKind, u64>,
}

impl PathProblems {
    /// No problems yet.
    pub(crate) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), counts: BTreeMap::new() }
    }

    /// Adds a problem; returns it if it should be reported now.
    pub(crate) fn add(&mut self, kind: ProblemKind, detail: impl Into<String>) -> Option<Problem> {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        (*count <= MAX_LINES).then(|| Problem::new(kind, self.path.clone(), detail))
    }

    /// Whether something is missing in the archive.
    pub(crate) fn has_loss(&self) -> bool {
        self.counts.keys().any(|kind| kind.is_loss())
    }

    /// One summary problem for each kind that exceeded the limit.
    pub(crate) fn rest(self) -> impl Iterator<Item = Problem> {
        let Self { path, counts } = self;
        counts.into_iter().filter(|(_, count)| *count > MAX_LINES).map(move |(kind, count)| {
            let more = count - MAX_LINES;
            let skipped = if kind.is_loss() { more } else { 0 };
            Problem { kind, path: path.clone(), detail: format!("{more} more of the same kind"), skipped }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_is_reported_up_to_a_limit_and_the_rest_are_summarized() {
        let mut problems = PathProblems::new("general/2024-01-02.json");
        let lines: Vec<Problem> = (0..250)
            .filter_map(|n| problems.add(ProblemKind::BrokenMessage, format!("message {n}")))
            .collect();
        assert!(problems.add(ProblemKind::Duplicate, "1.000000").is_some_and(|problem| problem.skipped == 0));
        assert!(problems.has_loss());
        assert_eq!(lines.len(), 100);
        let rest: Vec<Problem> = problems.rest().collect();
        assert_eq!(rest.len(), 1);
        let skipped: u64 = lines.iter().chain(&rest).map(|problem| problem.skipped).sum();
        assert_eq!((skipped, rest[0].detail.as_str()), (250, "150 more of the same kind"));
    }
}
