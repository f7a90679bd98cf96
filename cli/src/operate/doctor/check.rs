//! What a look at one thing comes to.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorCheck {
    /// Its name, for scripts.
    pub(super) check: &'static str,
    pub(super) state: CheckState,
    /// What was found, in one line.
    pub(super) says: String,
    /// What to do about a finding.
    pub(super) next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    /// It is as it should be.
    Ok,
    /// A person has to act.
    Finding,
    /// It could not be looked at, or there is nothing to look at.
    Skipped,
}

impl CheckState {
    /// As people and scripts read it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Finding => "finding",
            Self::Skipped => "skipped",
        }
    }
}

impl DoctorCheck {
    pub(super) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: CheckState::Ok, says: says.into(), next: None }
    }

    pub(super) fn skipped(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: CheckState::Skipped, says: says.into(), next: None }
    }

    pub(super) fn finding(check: &'static str, says: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, state: CheckState::Finding, says: says.into(), next: Some(next.into()) }
    }
}

/// `1 job`, `2 jobs`.
pub(super) fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// A check has come out so, in one line that says this, with a next step where there is a finding.
#[cfg(test)]
pub(super) fn says(check: &DoctorCheck, state: CheckState, expected: &str) {
    assert_eq!(check.state, state, "{check:?}");
    assert_eq!(check.next.is_some(), state == CheckState::Finding, "{check:?}");
    let line = format!("{} {}", check.says, check.next.as_deref().unwrap_or_default());
    assert!(line.contains(expected) && !line.contains('\n'), "{expected:?} is not in {line}");
}
