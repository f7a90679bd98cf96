//! What the existence check says of the jobs of a batch, before any of them is written.
//!
//! A worker decides twice on the events of a batch: first as if everything existed, to select what is asked about. What will
//! be dropped costs no questions.

use process::config::existence::ExistenceMode;

use crate::existence::{Check, Subject, Verdict};
use crate::failure::Failure;

/// Whether a job may be stored; `None` if it was not asked about, because nothing of it will be stored.
pub(crate) type Clearance = Option<Result<(), Failure>>;

/// For a job of which something is stored.
pub(crate) fn require(clearance: &Clearance) -> Result<(), Failure> {
    let unasked = || Err(Failure::Transient("it was not checked whether all that it claims exists".into()));
    clearance.clone().unwrap_or_else(unasked)
}

/// How jobs are checked now; `None` if nothing is asked, and every job may be stored.
pub(crate) fn in_force(check: Option<&Check>) -> Option<(&Check, ExistenceMode)> {
    let check = check?;
    let mode = check.mode();
    (mode != ExistenceMode::Off).then_some((check, mode))
}

/// Asks about a batch, given what each job claims, `None` if nothing of it will be stored; one answer per job, in their order.
pub(crate) async fn clear(
    check: &Check,
    mode: ExistenceMode,
    claims: Vec<Result<Option<Subject>, Failure>>,
) -> Vec<Clearance> {
    let mut subjects = Vec::with_capacity(claims.len());
    let asked: Vec<Result<bool, Failure>> = claims
        .into_iter()
        .map(|claim| {
            claim.map(|subject| {
                let asked = subject.is_some();
                subjects.extend(subject);
                asked
            })
        })
        .collect();
    let mut verdicts = check.judge(mode, subjects).await.into_iter();
    asked
        .into_iter()
        .map(|asked| match (mode, asked) {
            // What was found out is only counted.
            (ExistenceMode::Observe, _) => Some(Ok(())),
            (_, Ok(true)) => verdicts.next().map(cleared_by),
            (_, Ok(false)) => None,
            (_, Err(failure)) => Some(Err(failure)),
        })
        .collect()
}

fn cleared_by(verdict: Verdict) -> Result<(), Failure> {
    match verdict {
        Verdict::Exists => Ok(()),
        Verdict::Unknown(reason) => Err(Failure::Permanent(reason)),
        Verdict::Wait { after, reason } => Err(Failure::Postponed(reason, after)),
    }
}
