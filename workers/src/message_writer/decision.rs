//! Decides which events of a batch are stored, and which entities the existence check must confirm. These are
//! pure functions, called first as if all claimed entities existed, then with the results of the check. The
//! check precedes every other effect of an event, including the public mark, so that no data of a forged
//! channel is ever written.

use rules::SlackEvent;
use rules::audience::{Decision, DropReason, shows_public};
use slack::catalogue::{ChannelChange, EventRule};
use slack::ids::ChannelId;

use super::EventOfJob;
use crate::audience::BatchFacts;
use crate::existence::{Clearance, EventEntities, UnseenChannels, require_clearance};
use crate::failure::JobFailure;

/// The step to take for an event.
pub(super) enum EventStep {
    /// Write its rows.
    Store {
        /// Whether it sets the public mark of its channel.
        marks: bool,
    },
    /// Copy the public mark of its channel to this ID.
    CarryOver(ChannelId),
    /// Drop it, for this reason.
    Drop(DropReason),
    /// Skip it: it belongs to another worker, or is ignored.
    Pass,
    /// Its type is unknown.
    Unknown,
    /// Wait: the visibility of its channel is not known yet.
    Wait,
}

/// The events that need facts about their channels.
pub(super) fn events_to_decide<'b>(candidates: &'b [EventOfJob<'b>]) -> Vec<&'b SlackEvent<'b>> {
    let events = candidates.iter().filter_map(|candidate| candidate.event_job.event.as_ref());
    events
        .filter(|event| {
            matches!(
                event.rule(),
                Some(
                    EventRule::Message
                        | EventRule::Reaction(_)
                        | EventRule::Pin(_)
                        | EventRule::Channel(ChannelChange::IdChanged)
                )
            )
        })
        .collect()
}

/// The channels whose visibility is shown neither by their events nor by the archive.
pub(super) fn unseen(candidates: &[EventOfJob<'_>], facts: &BatchFacts) -> UnseenChannels {
    let mut unseen = UnseenChannels::new();
    for EventOfJob { job, event_job } in candidates {
        let Some(event) = &event_job.event else { continue };
        // A failure here recurs when the event is decided on.
        let (Ok(EventStep::Wait), Ok(channel)) = (step(event, facts), event.channel()) else { continue };
        let sent_at = job.delivery.sent_at;
        let latest = unseen.entry((event.team.clone(), channel)).or_insert((sent_at, job.is_replayed()));
        *latest = (latest.0.max(sent_at), latest.1 || job.is_replayed());
    }
    unseen
}

/// The claimed entities of each job, in their order; `None` if the job stores nothing.
pub(super) fn claimed_entities(
    candidates: &[EventOfJob<'_>],
    facts: BatchFacts,
) -> Vec<Result<Option<EventEntities>, JobFailure>> {
    let steps = decide_in_order(candidates, facts, &vec![Some(Ok(())); candidates.len()]);
    candidates.iter().zip(steps).map(|(candidate, step)| claim(candidate, step)).collect()
}

fn claim(
    EventOfJob { job, event_job }: &EventOfJob<'_>,
    step: Option<Result<EventStep, JobFailure>>,
) -> Result<Option<EventEntities>, JobFailure> {
    match (&event_job.event, step.transpose()?) {
        (Some(event), Some(EventStep::Store { .. } | EventStep::CarryOver(_))) => {
            let entities = EventEntities::from_event(event, &event_job.envelope, job.delivery.sent_at)?;
            Ok(Some(entities.with_public(shows_public(event)).replayed(job.is_replayed())))
        }
        (Some(_) | None, _) => Ok(None),
    }
}

/// The step for each event, given the results of the existence check. An event whose audience no earlier
/// event shows is decided on once more after all others. `None` for events behind a waiting event of their
/// group.
pub(super) fn decide_in_order(
    candidates: &[EventOfJob<'_>],
    mut facts: BatchFacts,
    clearances: &[Clearance],
) -> Vec<Option<Result<EventStep, JobFailure>>> {
    let mut steps = Vec::with_capacity(candidates.len());
    let mut waiting = Vec::new();
    let mut stopped = None;
    for (index, (candidate, clearance)) in candidates.iter().zip(clearances).enumerate() {
        let group = &candidate.job.delivery.group;
        if stopped == Some(group) {
            steps.push(None);
            continue;
        }
        let step = decide(candidate, &mut facts, clearance);
        match &step {
            Ok(EventStep::Wait) => waiting.push(index),
            Err(failure) if candidate.job.would_retry(failure) => stopped = Some(group),
            Ok(_) | Err(_) => {}
        }
        steps.push(Some(step));
    }
    for index in waiting {
        steps[index] = Some(decide(&candidates[index], &mut facts, &clearances[index]));
    }
    steps
}

fn decide(
    candidate: &EventOfJob<'_>,
    facts: &mut BatchFacts,
    clearance: &Clearance,
) -> Result<EventStep, JobFailure> {
    let Some(event) = &candidate.event_job.event else { return Ok(EventStep::Unknown) };
    let step = step(event, facts)?;
    if matches!(step, EventStep::Store { .. } | EventStep::CarryOver(_)) {
        require_clearance(clearance)?;
    }
    if let Some(channel) = marked_by(event, &step) {
        facts.note_public(&event.team, &channel, &event.clock());
    }
    Ok(step)
}

/// The channel whose public mark an event sets.
pub(super) fn marked_by(event: &SlackEvent<'_>, step: &EventStep) -> Option<ChannelId> {
    match step {
        EventStep::Store { marks: true } => event.channel().ok(),
        EventStep::CarryOver(new) => Some(new.clone()),
        EventStep::Store { marks: false }
        | EventStep::Drop(_)
        | EventStep::Pass
        | EventStep::Unknown
        | EventStep::Wait => None,
    }
}

fn step(event: &SlackEvent<'_>, facts: &BatchFacts) -> Result<EventStep, JobFailure> {
    Ok(match event.rule() {
        None => EventStep::Unknown,
        Some(EventRule::Channel(ChannelChange::IdChanged)) => {
            let (old, new) = event.changed_ids()?;
            if facts.is_marked(&event.team, old)? { EventStep::CarryOver(new) } else { EventStep::Pass }
        }
        // It belongs to the channel-indexer, or it is another member's join, which is not stored.
        Some(EventRule::Channel(_) | EventRule::Gap(_) | EventRule::Joined | EventRule::Ignored(_)) => {
            EventStep::Pass
        }
        Some(
            EventRule::User
            | EventRule::Team(_)
            | EventRule::Emoji
            | EventRule::FileChanged
            | EventRule::FileDeleted
            | EventRule::UserGroup(_),
        ) => EventStep::Store { marks: false },
        Some(EventRule::Message | EventRule::Reaction(_) | EventRule::Pin(_)) => {
            event.channel()?;
            match facts.decide(event)? {
                Decision::Store { marks } => EventStep::Store { marks },
                Decision::Drop(reason) => EventStep::Drop(reason),
                Decision::Wait => EventStep::Wait,
                Decision::Refuse(reason) => return Err(JobFailure::Permanent(reason)),
            }
        }
    })
}
