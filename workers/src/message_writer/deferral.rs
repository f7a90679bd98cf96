//! What happens to an event that is not stored, or not yet: it is parked, postponed, dropped, or waits for older
//! ones.

use metrics::counter;
use ports::metrics::EVENTS_DROPPED;
use ports::queue::QueueName;
use ports::queue::waiting::WaitCause;
use rules::audience::{ChannelVisibility, DropReason};
use rules::public_mark::MarkState;
use rules::{SlackEvent, file};

use super::{BatchFailures, EventEffects, MessageWriter, parking};
use crate::failure::JobFailure;
use crate::quarantine::turns;
use crate::runtime::BatchJob;

/// The missing fact that an event waits for.
#[derive(Clone, Copy)]
pub(super) enum Awaited {
    /// The event does not show the visibility of its channel.
    Audience,
    /// The event changes or deletes a file and names no channel: only the file's row shows that it was shared
    /// publicly.
    FileRow,
}

impl MessageWriter {
    /// Whether a deleted file of which the archive has no row may be one of a public channel: the event then
    /// came before the message that shares it.
    pub(super) async fn may_be_shared(
        &self,
        job: &BatchJob<'_>,
        event: &SlackEvent<'_>,
    ) -> Result<bool, JobFailure> {
        let Some(channels) = file::deleted_from(event) else { return Ok(true) };
        let mut unknown = Vec::new();
        for channel in channels {
            let mark = self.admission.audiences.marks.read(&*self.archive, &event.team, &channel).await?;
            if mark.state() == MarkState::Public {
                return Ok(true);
            }
            unknown.push(((event.team.clone(), channel), job));
        }
        let Some(check) = self.admission.active_check() else {
            return Ok(!unknown.is_empty());
        };
        let sights = check.look_up_visibility(unknown).await;
        Ok(sights
            .values()
            .any(|sight| !matches!(sight, Ok(ChannelVisibility::Private | ChannelVisibility::Unknown(_)))))
    }

    /// Parks or postpones an event that may belong to a private channel. It waits for a limited time and is
    /// then dropped; while Slack can be asked for the visibility of its channel, there is no limit.
    pub(super) async fn park_or_postpone(
        &self,
        job: &BatchJob<'_>,
        event: &SlackEvent<'_>,
        failures: &BatchFailures<'_>,
        awaited: Awaited,
    ) -> Result<EventEffects, JobFailure> {
        if !parking::is_parked(job.delivery) {
            return Ok(EventEffects { changes: Vec::new(), follow_ups: vec![parking::park(job.delivery)] });
        }
        let delay = parking::next_delay(job.delivery, self.clock.now());
        let (wait, dropped, why) = match awaited {
            Awaited::Audience => (
                delay.or(self.admission.active_check().is_some().then_some(parking::MAX_DELAY)),
                DropReason::UnknownChannel,
                "the visibility of its channel is not known yet",
            ),
            Awaited::FileRow => {
                (delay, DropReason::UnknownFile, "no message of a public channel shares the file yet")
            }
        };
        match wait {
            Some(after) => Err(JobFailure::Postponed(why.into(), after)),
            None => self.drop_event(job, event, failures, dropped).await,
        }
    }

    /// Drops an event, unless an older one that waits may show that it must be stored.
    pub(super) async fn drop_event(
        &self,
        job: &BatchJob<'_>,
        event: &SlackEvent<'_>,
        failures: &BatchFailures<'_>,
        reason: DropReason,
    ) -> Result<EventEffects, JobFailure> {
        match reason {
            DropReason::DirectMessage => {}
            DropReason::PrivateChannel | DropReason::UnknownChannel | DropReason::UnknownFile => {
                self.check_order(job, event, failures).await?;
            }
        }
        counter!(EVENTS_DROPPED, "reason" => reason.label()).increment(1);
        Ok(EventEffects::default())
    }

    /// Fails if an event has to wait for older ones of its workspace, which wait themselves. Rows converge in any
    /// order, but what is dropped does not come back.
    pub(super) async fn check_order(
        &self,
        job: &BatchJob<'_>,
        event: &SlackEvent<'_>,
        failures: &BatchFailures<'_>,
    ) -> Result<(), JobFailure> {
        let sent = (job.delivery.sent_at, job.origin.as_ref());
        if failures.is_set_aside(&event.team)
            || turns::is_behind_waiting(&*self.archive, QueueName::Events, &event.team, sent).await?
        {
            let reason = "it is behind waiting jobs of its workspace".to_owned();
            return Err(JobFailure::Waits(WaitCause::Order, reason));
        }
        Ok(())
    }
}
