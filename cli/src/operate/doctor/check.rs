//! The result of one check.

use serde::Serialize;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorCheck {
    /// The check's name, for scripts.
    pub(super) check: &'static str,
    pub(super) state: CheckState,
    /// The result in one line.
    pub(super) says: String,
    /// What to do about a finding.
    pub(super) next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    /// Everything is as it should be.
    Ok,
    /// A person has to act.
    Finding,
    /// The check was not possible, or there was nothing to check.
    Skipped,
}

impl CheckState {
    /// Returns the word for people and scripts.
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

    /// A finding about a setting that cannot be used.
    pub(super) fn unusable_setting(check: &'static str, why: &str) -> Self {
        Self::finding(check, why, "correct that setting and start `annalist up` again")
    }
}

/// Asserts the state of a check, that its text is one line with `expected` in it, and that only a finding has
/// a next step.
#[cfg(test)]
pub(super) fn assert_check(check: &DoctorCheck, state: CheckState, expected: &str) {
    assert_eq!(check.state, state, "{check:?}");
    assert_eq!(check.next.is_some(), state == CheckState::Finding, "{check:?}");
    let line = format!("{} {}", check.says, check.next.as_deref().unwrap_or_default());
    assert!(line.contains(expected) && !line.contains('\n'), "{expected:?} is not in {line}");
}
