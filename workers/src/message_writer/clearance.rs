//! Which events of a batch the existence check is asked about, and what it says.
//!
//! Only what would be stored is asked about: a private channel's events cost no questions. It comes before all else that
//! an event does, the public mark included, so that nothing of an invented channel is ever written.

use std::collections::HashSet;

use shared::archive::Archive;
use shared::config::existence::ExistenceMode;
use shared::queue::{Delivery, GroupId};
use shared::rules::{Event, Kind};

use super::Told;
use super::audience::Audiences;
use crate::existence::{Check, Subject};
use crate::failure::Failure;

/// What the check says of one job. An event it was not asked about must not be stored: what lets it in has only just
/// been written, so the next try will ask.
pub(super) type Cleared = Result<(), Failure>;

/// Asks about a batch; one word per job, in their order.
pub(super) async fn clear(
    check: Option<&Check>,
    archive: &dyn Archive,
    audiences: &Audiences,
    jobs: &[Delivery],
    told: &[Result<Told<'_>, Failure>],
) -> Vec<Cleared> {
    let Some((check, mode)) = check.map(|check| (check, check.mode())) else {
        return vec![Ok(()); jobs.len()];
    };
    if mode == ExistenceMode::Off {
        return vec![Ok(()); jobs.len()];
    }
    let not_asked = || Err(Failure::Transient("it has yet to be checked whether all of it exists".into()));
    let mut cleared: Vec<Cleared> = vec![not_asked(); jobs.len()];
    let mut opened = HashSet::new();
    let (mut places, mut subjects) = (Vec::new(), Vec::new());
    for (place, (job, told)) in jobs.iter().zip(told).enumerate() {
        let Ok(Told { envelope, event: Some(event), .. }) = told else { continue };
        match is_stored(archive, audiences, event, &job.group, &mut opened).await {
            Ok(false) => {}
            Ok(true) => match Subject::of(event, envelope, job.sent_at) {
                Ok(subject) => {
                    places.push(place);
                    subjects.push(subject);
                }
                Err(malformed) => cleared[place] = Err(malformed.into()),
            },
            Err(failure) => cleared[place] = Err(failure),
        }
    }
    for (place, verdict) in places.into_iter().zip(check.judge(mode, subjects).await) {
        cleared[place] = verdict.into();
    }
    if mode == ExistenceMode::Observe {
        // Whatever was found out is only counted.
        cleared.fill(Ok(()));
    }
    cleared
}

/// Whether an event might be stored.
async fn is_stored<'j>(
    archive: &dyn Archive,
    audiences: &Audiences,
    event: &Event<'_>,
    group: &'j GroupId,
    opened: &mut HashSet<&'j GroupId>,
) -> Result<bool, Failure> {
    match event.kind() {
        Kind::Channel | Kind::Unknown => Ok(false),
        Kind::ChannelIdChanged | Kind::User | Kind::Emoji | Kind::FileDeleted => Ok(true),
        Kind::Message | Kind::Reaction => audiences.foresees(archive, event, group, opened).await,
    }
}
