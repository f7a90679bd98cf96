//! What of a batch the existence check is asked about: what would be stored, so that a private channel's events cost no
//! questions. It comes before all else that an event does, the public mark included, so that nothing of an invented channel
//! is ever written.

use std::collections::HashSet;

use ports::archive::Archive;
use rules::Event;
use slack::catalogue::{ChannelChange, Rule};

use super::audience::{Audiences, Place, Sights, says_public};
use crate::existence::{Subject, Unseen};
use crate::failure::Failure;
use crate::runtime::EventJob;

/// The channels of which neither their events nor the archive says who may read them.
pub(super) async fn unseen(archive: &dyn Archive, audiences: &Audiences, jobs: &[&EventJob<'_>]) -> Unseen {
    let mut unseen = Unseen::new();
    for EventJob { event, sent_at, replayed, .. } in jobs {
        let Some(event) = event else { continue };
        if !matches!(event.rule(), Some(Rule::Message | Rule::Reaction(_))) {
            continue;
        }
        // What fails here fails again where it counts.
        let (Ok(true), Ok(channel)) = (audiences.is_unseen(archive, event).await, event.channel()) else {
            continue;
        };
        let came = unseen.entry((event.team.clone(), channel)).or_insert((*sent_at, *replayed));
        *came = (came.0.max(*sent_at), came.1 || *replayed);
    }
    unseen
}

/// What each job claims, in their order; `None` where nothing of it will be stored.
pub(super) async fn claims(
    archive: &dyn Archive,
    audiences: &Audiences,
    sights: &Sights,
    jobs: &[&EventJob<'_>],
) -> Vec<Result<Option<Subject>, Failure>> {
    let opens: HashSet<Place> = jobs.iter().filter_map(|job| opened_by(job)).collect();
    let mut opened = HashSet::new();
    let mut claims = Vec::with_capacity(jobs.len());
    for EventJob { envelope, event, sent_at, replayed, .. } in jobs {
        let Some(event) = event else {
            claims.push(Ok(None));
            continue;
        };
        claims.push(match is_stored(archive, audiences, event, sights, &mut opened, &opens).await {
            Ok(true) => Subject::of(event, envelope, *sent_at)
                .map(|subject| Some(subject.in_public(says_public(event)).replayed(*replayed)))
                .map_err(Failure::from),
            Ok(false) => Ok(None),
            Err(failure) => Err(failure),
        });
    }
    claims
}

/// The channel that an event shows to be public.
fn opened_by(job: &EventJob<'_>) -> Option<Place> {
    let event = job.event.as_ref()?;
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
