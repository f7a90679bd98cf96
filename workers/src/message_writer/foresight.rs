//! What of a batch the existence check is asked about: what would be stored, so that a private channel's events cost no
//! questions. It comes before all else that an event does, the public mark included, so that nothing of an invented channel
//! is ever written.

use std::collections::HashSet;

use shared::archive::Archive;
use shared::queue::{Delivery, GroupId};
use shared::rules::{Event, Kind};

use super::audience::{Audiences, says_public};
use crate::event_job::Told;
use crate::existence::Subject;
use crate::failure::Failure;

/// What each job claims, in their order; `None` where nothing of it will be stored.
pub(super) async fn claims(
    archive: &dyn Archive,
    audiences: &Audiences,
    jobs: &[Delivery],
    told: &[Result<Told<'_>, Failure>],
) -> Vec<Result<Option<Subject>, Failure>> {
    let mut opened = HashSet::new();
    let mut claims = Vec::with_capacity(jobs.len());
    for (job, told) in jobs.iter().zip(told) {
        claims.push(match told {
            Ok(Told { envelope, event: Some(event), replayed, .. }) => {
                match is_stored(archive, audiences, event, &job.group, &mut opened).await {
                    Ok(true) => Subject::of(event, envelope, job.sent_at)
                        .map(|subject| Some(subject.in_public(says_public(event)).replayed(*replayed)))
                        .map_err(Failure::from),
                    Ok(false) => Ok(None),
                    Err(failure) => Err(failure),
                }
            }
            // What cannot be read says so where it counts.
            Ok(Told { event: None, .. }) | Err(_) => Ok(None),
        });
    }
    claims
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
        Kind::ChannelIdChanged => audiences.is_carried_over(archive, event).await,
        Kind::User | Kind::Emoji | Kind::FileDeleted => Ok(true),
        Kind::Message | Kind::Reaction => audiences.foresees(archive, event, group, opened).await,
    }
}
