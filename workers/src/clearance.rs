//! What the existence check says of the jobs of a batch, before any of them is judged where it counts.
//!
//! A worker says what each job claims as far as it can foresee what it will store. Only that is asked about: what will be
//! dropped costs no questions.

use process::config::existence::ExistenceMode;

use crate::existence::{Check, Subject, Verdict};
use crate::failure::Failure;

/// What the check says of one job.
#[derive(Debug, Clone)]
pub(crate) enum Cleared {
    /// All of it exists, or nobody asks.
    Clear,
    /// It was not asked about, since nothing of it would be stored.
    NotAsked,
    /// It must not be stored, or not yet.
    Refused(Failure),
}

impl Cleared {
    /// For a job of which something is stored after all.
    pub(crate) fn require(self) -> Result<(), Failure> {
        match self {
            Self::Clear => Ok(()),
            // What lets it in has only just been written, so the next try will ask.
            Self::NotAsked => {
                Err(Failure::Transient("it has yet to be checked whether all of it exists".into()))
            }
            Self::Refused(failure) => Err(failure),
        }
    }
}

/// How jobs are checked now; `None` where nothing is asked, and everything is clear.
pub(crate) fn in_force(check: Option<&Check>) -> Option<(&Check, ExistenceMode)> {
    let check = check?;
    let mode = check.mode();
    (mode != ExistenceMode::Off).then_some((check, mode))
}

/// Asks about a batch, given what each job claims, `None` where it will not be stored; one word per job, in their order.
pub(crate) async fn clear(
    check: &Check,
    mode: ExistenceMode,
    claims: Vec<Result<Option<Subject>, Failure>>,
) -> Vec<Cleared> {
    let mut cleared = Vec::with_capacity(claims.len());
    let (mut places, mut subjects) = (Vec::new(), Vec::new());
    for (place, claim) in claims.into_iter().enumerate() {
        cleared.push(match claim {
            Ok(Some(subject)) => {
                places.push(place);
                subjects.push(subject);
                Cleared::Clear
            }
            Ok(None) => Cleared::NotAsked,
            Err(failure) => Cleared::Refused(failure),
        });
    }
    for (place, verdict) in places.into_iter().zip(check.judge(mode, subjects).await) {
        cleared[place] = verdict.into();
    }
    if mode == ExistenceMode::Observe {
        // Whatever was found out is only counted.
        cleared.fill(Cleared::Clear);
    }
    cleared
}

impl From<Verdict> for Cleared {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Exists => Self::Clear,
            Verdict::Unknown(reason) => Self::Refused(Failure::Permanent(reason)),
            Verdict::Wait { after, reason } => Self::Refused(Failure::Postponed(reason, after)),
        }
    }
}
