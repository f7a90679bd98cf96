//! Which jobs of a batch are stored: the facts about their channels decide, first as if all claimed entities
//! existed, then with the results of the existence check. Only what would be stored is checked, so that events
//! of private channels cost no questions. The check precedes every other effect of an event, including the
//! public mark, so that no data of a forged channel is ever written.

use std::collections::{HashMap, HashSet};

use ports::archive::Archive;
use ports::queue::GroupId;
use rules::SlackEvent;
use rules::audience::DropReason;
use slack::ids::ChannelId;

use super::{Audiences, BatchFacts, EventEntities, ExistenceCheck, TeamChannel};
use crate::failure::JobFailure;
use crate::runs::Sightings;
use crate::runtime::{BatchJob, DecodedPayload, EventJob};

/// The step to take for a job.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Write its rows.
    Store {
        /// Whether it sets the public mark of its channel.
        marks: bool,
    },
    /// Copy the public mark of its channel to this ID.
    CarryOver(ChannelId),
    Drop(DropReason),
    /// Skip it: it belongs to another worker, or is ignored.
    Pass,
    /// Its type is unknown.
    Unknown,
    /// Wait: the visibility of its channel is not known yet, perhaps because Slack cannot be asked.
    Wait(Option<JobFailure>),
}

impl Step {
    fn is_stored(&self) -> bool {
        matches!(self, Self::Store { .. } | Self::CarryOver(_))
    }

    /// The channel whose public mark an event sets.
    pub(crate) fn marked_by(&self, event: &SlackEvent<'_>) -> Option<ChannelId> {
        match self {
            Self::Store { marks: true } => event.channel().ok(),
            Self::CarryOver(new) => Some(new.clone()),
            Self::Store { marks: false } | Self::Drop(_) | Self::Pass | Self::Unknown | Self::Wait(_) => None,
        }
    }
}

/// How a worker decides on its jobs: pure functions of a job and the facts about its channel.
pub(crate) struct DecisionRule {
    /// Whether an event needs the facts about its channel.
    pub(crate) needs_facts: fn(&SlackEvent<'_>) -> bool,
    /// The step for a job whose entities exist.
    pub(crate) step: fn(&BatchJob<'_>, &BatchFacts) -> Result<Step, JobFailure>,
    /// The entities of a job that is stored; `None` if it claims none.
    pub(crate) entities: fn(&BatchJob<'_>) -> Result<Option<EventEntities>, JobFailure>,
    /// Adds to the facts what a job that takes this step shows later ones.
    pub(crate) note: fn(&BatchJob<'_>, &Step, &mut BatchFacts),
    /// Whether a job that the check refused fails even if it is not stored without the jobs that it refused too.
    pub(crate) fails_if_refused: bool,
}

/// Whether the entities of a job exist; `None` if it was not checked, because it stores nothing.
type Clearance = Option<Result<(), JobFailure>>;

struct Candidate<'b> {
    job: &'b BatchJob<'b>,
    clearance: Clearance,
    /// `None` for jobs behind one of their group that is retried.
    step: Option<Result<Step, JobFailure>>,
}

/// A job and the step to take for it.
pub(crate) struct Admitted<'b> {
    pub(crate) job: &'b BatchJob<'b>,
    pub(crate) step: Step,
}

/// Decides on batches, with what is known about channels and the existence check, if Slack is asked.
#[derive(Default)]
pub(crate) struct BatchAdmission {
    pub(crate) audiences: Audiences,
    pub(crate) check: Option<ExistenceCheck>,
}

impl BatchAdmission {
    /// The check, if Slack can be asked.
    pub(crate) fn active_check(&self) -> Option<&ExistenceCheck> {
        ExistenceCheck::active(self.check.as_ref())
    }

    /// Decides on jobs. Returns those that may take a step, in their order, and the events whose entities exist.
    /// Jobs that fail are settled; those behind a job of their group that is retried are left out.
    pub(crate) async fn admit<'b>(
        &self,
        archive: &dyn Archive,
        jobs: impl Iterator<Item = &'b BatchJob<'b>>,
        rule: &DecisionRule,
    ) -> (Vec<Admitted<'b>>, Sightings) {
        let mut candidates: Vec<Candidate<'b>> =
            jobs.map(|job| Candidate { job, clearance: Some(Ok(())), step: None }).collect();
        let events = candidates.iter().filter_map(|candidate| event_job(candidate.job)?.event.as_ref());
        let events: Vec<&SlackEvent<'_>> = events.filter(|event| (rule.needs_facts)(event)).collect();
        let mut facts = self.audiences.facts(archive, &events).await;
        let mut unseen: HashMap<TeamChannel, JobFailure> = HashMap::new();
        if let Some(check) = self.active_check() {
            for (channel, visibility) in
                check.look_up_visibility(unseen_channels(&candidates, rule, &facts)).await
            {
                match visibility {
                    Ok(visibility) => facts.set_visibility(&channel, visibility),
                    Err(failure) => drop(unseen.insert(channel, failure)),
                }
            }
            decide_in_order(&mut candidates, rule, facts.clone());
            clear(check, &mut candidates, rule).await;
        }
        decide_in_order(&mut candidates, rule, facts);
        let sightings = Sightings::default();
        let mut admitted = Vec::with_capacity(candidates.len());
        for Candidate { job, clearance, step } in candidates {
            let Some(step) = step else { continue };
            if let (Some(EventJob { event: Some(event), run, .. }), Some(Ok(()))) =
                (event_job(job), clearance)
            {
                sightings.note(run.clone(), event);
            }
            match step {
                Ok(Step::Wait(_)) => {
                    let failure = channel_of(job).and_then(|channel| unseen.get(&channel).cloned());
                    admitted.push(Admitted { job, step: Step::Wait(failure) });
                }
                Ok(step) => admitted.push(Admitted { job, step }),
                Err(failure) => job.fail(failure),
            }
        }
        (admitted, sightings)
    }
}

/// The request of a job that carries one.
pub(crate) fn event_job<'b>(job: &'b BatchJob<'b>) -> Option<&'b EventJob<'b>> {
    let DecodedPayload::Event(event_job) = &job.payload else { return None };
    Some(event_job)
}

fn channel_of(job: &BatchJob<'_>) -> Option<TeamChannel> {
    let event = event_job(job)?.event.as_ref()?;
    Some((event.team.clone(), event.channel().ok()?))
}

/// The channels whose visibility is shown neither by their events nor by the archive, with the jobs that need it.
fn unseen_channels<'b>(
    candidates: &[Candidate<'b>],
    rule: &DecisionRule,
    facts: &BatchFacts,
) -> Vec<(TeamChannel, &'b BatchJob<'b>)> {
    // A failure here recurs when the job is decided on.
    let waits = |job| matches!((rule.step)(job, facts), Ok(Step::Wait(_)));
    let jobs = candidates.iter().map(|candidate| candidate.job).filter(|job| waits(job));
    jobs.filter_map(|job| Some((channel_of(job)?, job))).collect()
}

/// Checks the entities of the jobs that would be stored.
async fn clear(check: &ExistenceCheck, candidates: &mut [Candidate<'_>], rule: &DecisionRule) {
    let mut claims: Vec<(&mut Clearance, EventEntities)> = Vec::new();
    for Candidate { job, clearance, step } in candidates {
        *clearance = match step {
            Some(Ok(step)) if step.is_stored() => match (rule.entities)(job) {
                Ok(Some(entities)) => {
                    claims.push((clearance, entities.replayed(job.is_replayed())));
                    continue;
                }
                Ok(None) => None,
                Err(failure) => Some(Err(failure)),
            },
            Some(Err(failure)) => Some(Err(failure.clone())),
            Some(Ok(_)) | None => None,
        };
    }
    let entities: Vec<&EventEntities> = claims.iter().map(|(_, entities)| entities).collect();
    let verdicts = check.judge(&entities).await;
    for ((clearance, _), verdict) in claims.into_iter().zip(verdicts) {
        *clearance = Some(verdict);
    }
}

/// Decides on jobs, given the results of the existence check. An event whose audience no earlier event shows is
/// decided on once more after all others.
fn decide_in_order(candidates: &mut [Candidate<'_>], rule: &DecisionRule, mut facts: BatchFacts) {
    let mut stopped: HashSet<&GroupId> = HashSet::new();
    for candidate in &mut *candidates {
        let group = &candidate.job.delivery.group;
        candidate.step = None;
        if stopped.contains(group) {
            continue;
        }
        let step = decide(candidate, rule, &mut facts);
        if step.as_ref().is_err_and(|failure| candidate.job.would_retry(failure)) {
            stopped.insert(group);
        }
        candidate.step = Some(step);
    }
    for candidate in candidates {
        if matches!(candidate.step, Some(Ok(Step::Wait(_)))) {
            candidate.step = Some(decide(candidate, rule, &mut facts));
        }
    }
}

fn decide(
    candidate: &Candidate<'_>,
    rule: &DecisionRule,
    facts: &mut BatchFacts,
) -> Result<Step, JobFailure> {
    let Candidate { job, clearance, .. } = candidate;
    if let Some(Err(failure)) = clearance
        && rule.fails_if_refused
    {
        return Err(failure.clone());
    }
    let step = (rule.step)(job, facts)?;
    if step.is_stored() {
        let unchecked = || Err(JobFailure::Transient("it was not checked whether its entities exist".into()));
        clearance.clone().unwrap_or_else(unchecked)?;
    }
    (rule.note)(job, &step, facts);
    Ok(step)
}
