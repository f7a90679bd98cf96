//! What of a batch the existence check is asked about: what would be stored, so that a private channel's events cost no
//! questions. It comes before all else that an event does, the public mark included, so that nothing of an invented channel
//! is ever written.

use std::collections::HashSet;

use ports::archive::Archive;
use ports::queue::Delivery;
use rules::Event;
use slack::catalogue::{ChannelChange, Rule};

use super::audience::{Audiences, Place, Sights, says_public};
use crate::event_job::Told;
use crate::existence::{Subject, Unseen};
use crate::failure::Failure;

/// The channels of which neither their events nor the archive says who may read them.
pub(super) async fn unseen(
    archive: &dyn Archive,
    audiences: &Audiences,
    jobs: &[Delivery],
    told: &[Result<Told<'_>, Failure>],
) -> Unseen {
    let mut unseen = Unseen::new();
    for (job, told) in jobs.iter().zip(told) {
        let Ok(Told { event: Some(event), replayed, .. }) = told else { continue };
        if !matches!(event.rule(), Some(Rule::Message | Rule::Reaction(_))) {
            continue;
        }
        // What fails here fails again where it counts.
        let (Ok(true), Ok(channel)) = (audiences.is_unseen(archive, event).await, event.channel()) else {
            continue;
        };
        let came = unseen.entry((event.team.clone(), channel)).or_insert((job.sent_at, *replayed));
        *came = (came.0.max(job.sent_at), came.1 || *replayed);
    }
    unseen
}

/// What each job claims, in their order; `None` where nothing of it will be stored.
pub(super) async fn claims(
    archive: &dyn Archive,
    audiences: &Audiences,
    sights: &Sights,
    jobs: &[Delivery],
    told: &[Result<Told<'_>, Failure>],
) -> Vec<Result<Option<Subject>, Failure>> {
    let opens: HashSet<Place> = told.iter().filter_map(opened_by).collect();
    let mut opened = HashSet::new();
    let mut claims = Vec::with_capacity(jobs.len());
    for (job, told) in jobs.iter().zip(told) {
        claims.push(match told {
            Ok(Told { envelope, event: Some(event), replayed, .. }) => {
                match is_stored(archive, audiences, event, sights, &mut opened, &opens).await {
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

/// The channel that an event shows to be public.
fn opened_by(told: &Result<Told<'_>, Failure>) -> Option<Place> {
    let event = told.as_ref().ok()?.event.as_ref()?;
    let opens = matches!(event.rule(), Some(Rule::Message | Rule::Reaction(_))) && says_public(event);
    let channel = event.channel().ok().filter(|_| opens)?;
    Some((event.team.clone(), channel))
}

/// Whether an event might be stored.
async fn is_stored(
    archive: &dyn Archive,
    audiences: &Audiences,
    event: &Event<'_>,
    sights: &Sights,
    opened: &mut HashSet<Place>,
    opens: &HashSet<Place>,
) -> Result<bool, Failure> {
    match event.rule() {
        Some(Rule::Channel(ChannelChange::IdChanged)) => audiences.is_carried_over(archive, event).await,
        Some(Rule::Channel(_) | Rule::Gap(_) | Rule::Joined | Rule::Ignored(_)) | None => Ok(false),
        Some(Rule::User | Rule::Team(_) | Rule::Emoji | Rule::FileDeleted) => Ok(true),
        Some(Rule::Message | Rule::Reaction(_)) => {
            audiences.foresees(archive, event, sights, opened, opens).await
        }
    }
}
