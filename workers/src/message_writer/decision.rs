//! How the message-writer decides on events.

use rules::SlackEvent;
use rules::audience::{Decision, shows_public};
use slack::catalogue::{ChannelChange, EventRule};

use crate::admission::{BatchFacts, DecisionRule, EventEntities, Step, event_job};
use crate::failure::JobFailure;
use crate::runtime::{BatchJob, EventJob};

/// The rule for the events queue. An event that is dropped is not checked.
pub(super) const RULE: DecisionRule =
    DecisionRule { needs_facts, step, entities, note, fails_if_refused: false };

fn needs_facts(event: &SlackEvent<'_>) -> bool {
    matches!(
        event.rule(),
        Some(
            EventRule::Message
                | EventRule::Reaction(_)
                | EventRule::Pin(_)
                | EventRule::Channel(ChannelChange::IdChanged)
        )
    )
}

/// The entities of an event; `None` without one.
fn entities(job: &BatchJob<'_>) -> Result<Option<EventEntities>, JobFailure> {
    let Some(EventJob { event: Some(event), envelope, .. }) = event_job(job) else { return Ok(None) };
    let entities = EventEntities::from_event(event, envelope, job.delivery.sent_at)?;
    Ok(Some(entities.with_public(shows_public(event))))
}

/// An event that sets the public mark of its channel shows later ones that the channel is public.
fn note(job: &BatchJob<'_>, step: &Step, facts: &mut BatchFacts) {
    if let Some(EventJob { event: Some(event), .. }) = event_job(job)
        && let Some(channel) = step.marked_by(event)
    {
        facts.note_public(&event.team, &channel, &event.clock());
    }
}

fn step(job: &BatchJob<'_>, facts: &BatchFacts) -> Result<Step, JobFailure> {
    let Some(EventJob { event: Some(event), .. }) = event_job(job) else { return Ok(Step::Unknown) };
    Ok(match event.rule() {
        None => Step::Unknown,
        Some(EventRule::Channel(ChannelChange::IdChanged)) => {
            let (old, new) = event.changed_ids()?;
            if facts.is_marked(&event.team, old)? { Step::CarryOver(new) } else { Step::Pass }
        }
        // It belongs to the channel-indexer, or it is another member's join, which is not stored.
        Some(EventRule::Channel(_) | EventRule::Gap(_) | EventRule::Joined | EventRule::Ignored(_)) => {
            Step::Pass
        }
        Some(
            EventRule::User
            | EventRule::Team(_)
            | EventRule::Emoji
            | EventRule::FileChanged
            | EventRule::FileDeleted
            | EventRule::UserGroup(_),
        ) => Step::Store { marks: false },
        Some(EventRule::Message | EventRule::Reaction(_) | EventRule::Pin(_)) => {
            event.channel()?;
            match facts.decide(event)? {
                Decision::Store { marks } => Step::Store { marks },
                Decision::Drop(reason) => Step::Drop(reason),
                Decision::Wait => Step::Wait(None),
                Decision::Refuse(reason) => return Err(JobFailure::Permanent(reason)),
            }
        }
    })
}
