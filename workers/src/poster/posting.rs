//! Posts an answer, step by step. Each step may be repeated, and after a crash between any two steps the next
//! attempt continues from there:
//!
//! 1. read the remaining parts from the row of the answer;
//! 2. claim this attempt;
//! 3. for each part: look it up if there was already an intent; wait for a permit; check whether it may still
//!    be posted;
//! 4. write the intent, with the time; with the first intent, also the state `sending`;
//! 5. make the call, unless the intent is too old by then;
//! 6. write the part's register and the row of the message;
//! 7. write the row that records that the question was answered;
//! 8. write the state `sent`, while the claim is completed: the state determines whether the work is done,
//!    and the claim only which process does it.

use std::sync::PoisonError;
use std::time::Duration;

use metrics::counter;
use ports::archive::{
    Archive, ArchiveError, ArchiveExt, Item, ItemKey, Query, Update, WriteOutcome, key, query_all,
};
use ports::claims::{ClaimContext, ClaimKey, ClaimMode};
use ports::metrics::REPLIES;
use rules::outgoing;
use rules::question::QuestionId;
use rules::question::job::ReplyJob;
use rules::question::rows::{self, AnswerRow, QuestionRow};
use rules::question::state::{PartState, WorkStage, WorkState};
use slack::ids::Ts;
use slack_api::{Method, PermittedCall};
use tokio::time::Instant;

use super::Poster;
use super::lookup::{Lookup, UNSEEN_FOR};
use super::message::{PartMessage, PostOutcome, SHOWN_AFTER, STOPPED_FOR, post_outcome};
use crate::claims::{ClaimOutcome, Sink};
use crate::failure::JobFailure;

/// How long an intent is valid: a later process treats a part that is missing after [`SHOWN_AFTER`] as not
/// posted.
const POSTED_WITHIN: Duration = Duration::from_secs(5);

/// Consecutive attempts of this process to write one part of an answer: each except the last means that the
/// row has changed.
const MAX_ROUNDS: usize = 8;

/// The result of posting without a failure.
enum PostingEnd {
    /// Every remaining part was posted.
    Posted,
    /// The answer was erased meanwhile, and the rest of it must be removed.
    Erased,
    /// The answer must not be posted any more, as recorded in its row.
    Withdrawn,
}

impl Poster {
    /// Runs a job.
    pub(super) async fn post(&self, job: &ReplyJob) -> Result<(), JobFailure> {
        let Some(answer) = self.read_answer(&job.id).await? else {
            return Ok(self.forget_messages(&job.id).await?);
        };
        if answer.state.is_final() || answer.state.generation > job.attempt {
            return Ok(());
        }
        if let Err(stopped) = self.check_stopped(&job.id) {
            let Some(why) = self.lateness(&answer).filter(|_| !answer.is_unclear()) else {
                return Err(stopped);
            };
            return Ok(self.fail(&answer, &why).await?);
        }
        let QuestionId { team, channel, ts, .. } = &answer.id;
        let key = ClaimKey::for_answer(team, channel, ts, answer.state.generation);
        let about =
            ClaimContext { channel_id: Some(channel.clone()), user_id: answer.user.clone(), file_id: None };
        // The state determines whether the answer is done, not the claim.
        let mut guard = match self.claimant.claim(key, about, Sink::Once, ClaimMode::EvenCompleted).await? {
            ClaimOutcome::Ours(guard) => guard,
            ClaimOutcome::Completed => return Ok(()),
            ClaimOutcome::HeldFor(left) => {
                return Err(JobFailure::Postponed("another process is posting it".into(), left));
            }
        };
        match guard.keep(self.post_parts(&answer)).await {
            Ok(Ok(PostingEnd::Erased)) => {
                guard.release().await;
                Ok(self.forget_messages(&answer.id).await?)
            }
            Ok(Ok(PostingEnd::Withdrawn)) => {
                guard.release().await;
                Ok(())
            }
            Ok(Ok(PostingEnd::Posted)) => {
                let sent = answer.state.with_stage(WorkStage::Finished);
                let sent = rows::answer_state_update(&answer.id, sent, None, self.now_s());
                let (sent, completed) = tokio::join!(self.ports.archive.write(&sent), guard.complete());
                if let Err(error) = completed {
                    tracing::debug!(%error, "an answer was posted, but its claim could not be completed");
                }
                Ok(sent.map(drop)?)
            }
            Ok(Err(failure)) => {
                guard.release().await;
                Err(failure)
            }
            Err(lost) => Err(JobFailure::Transient(lost.to_string())),
        }
    }

    /// Posts the remaining parts of an answer.
    async fn post_parts(&self, answer: &AnswerRow) -> Result<PostingEnd, JobFailure> {
        self.read_last_post(&answer.id).await?;
        let parts = outgoing::parts(&answer.text);
        for (number, text) in parts.iter().enumerate() {
            let message = PartMessage { id: &answer.id, number, part_count: parts.len(), text };
            match self.post_part(answer, &message).await? {
                PostingEnd::Posted => {}
                end @ (PostingEnd::Erased | PostingEnd::Withdrawn) => return Ok(end),
            }
        }
        self.ports.archive.write(&rows::responded_update(answer, self.now_s())).await?;
        Ok(PostingEnd::Posted)
    }

    /// Reads when the channel got its last message: another process may have just posted it. A clock that is
    /// behind Slack's waits for at most one interval.
    async fn read_last_post(&self, id: &QuestionId) -> Result<(), ArchiveError> {
        if self.pace.is_unlimited() {
            return Ok(());
        }
        let until = Some(format!("{}$", id.channel));
        let newest =
            Query { until, descending: true, limit: 1, ..Query::partition(key::bot_messages(&id.team)) };
        for row in self.ports.archive.query(&newest).await?.items {
            let posted =
                row.key.timestamp.split_once('#').filter(|(channel, _)| *channel == id.channel.as_str());
            if let Some(ts) = posted.and_then(|(_, ts)| Ts::parse(ts).ok()) {
                self.note_post(id, &ts);
            }
        }
        Ok(())
    }

    /// Records that the channel got a message at this time by Slack's clock.
    fn note_post(&self, id: &QuestionId, ts: &Ts) {
        // Round up to the next millisecond, so that no wait is too short.
        let at_ms = (ts.micros() + 999) / 1_000;
        let ago_ms = self.ports.clock.now().0.saturating_sub(at_ms);
        let ago = Duration::from_millis(u64::try_from(ago_ms).unwrap_or_default());
        self.pace.note_posted(&id.team, &id.channel, ago);
    }

    /// Ensures that a part is posted once.
    async fn post_part(
        &self,
        before: &AnswerRow,
        message: &PartMessage<'_>,
    ) -> Result<PostingEnd, JobFailure> {
        let archive = &*self.ports.archive;
        let number = message.number;
        for _ in 0..MAX_ROUNDS {
            let Some(answer) = self.read_answer(&before.id).await? else { return Ok(PostingEnd::Erased) };
            if answer.state.is_final() || answer.state.generation > before.state.generation {
                return Ok(PostingEnd::Withdrawn);
            }
            match answer.part(number) {
                PartState::Sent(ts) => return self.record_posted(&answer, message, &ts).await,
                PartState::Sending(_) => {
                    if let Some(ts) = self.find_posted(&answer, number).await? {
                        counter!(REPLIES, "outcome" => "found").increment(1);
                        return self.record_posted(&answer, message, &ts).await;
                    }
                }
                PartState::New | PartState::Refused(_) => {}
            }
            // The permit and the pace come before the intent, so that only the call follows it.
            let call = self.permit(&answer.id).await?;
            let QuestionId { team, channel, .. } = &answer.id;
            self.pace.wait_for_slot(team, channel).await;
            if let Some(why) = self.withdrawal_reason(&answer).await? {
                self.fail(&answer, &why).await?;
                return Ok(PostingEnd::Withdrawn);
            }
            let sending = before.state.with_stage(WorkStage::Working);
            let sending = rows::answer_state_update(&answer.id, sending, None, self.now_s());
            let tried = Instant::now();
            let intent = answer.intent(number, self.ports.clock.now().0);
            let first = (number == 0).then_some(&sending);
            let updates: Vec<&Update> = first.into_iter().chain([&intent]).collect();
            let written = archive.write_all(&updates).await.into_iter().collect::<Result<Vec<_>, _>>()?;
            if let (Some(_), Some(WriteOutcome::Rejected(row))) = (first, written.first())
                && !row.is_erased()
                && WorkState::read(row.text(rows::STATE)) > before.state.with_stage(WorkStage::Working)
            {
                // It was cancelled at this moment. The intent, if it was written, causes a lookup before
                // another attempt.
                return Ok(PostingEnd::Withdrawn);
            }
            match written.last() {
                Some(WriteOutcome::Applied) => {}
                Some(WriteOutcome::Rejected(row)) if row.is_erased() => return Ok(PostingEnd::Erased),
                // Another process owned the claim before, and wrote after it lost it.
                Some(WriteOutcome::Rejected(_)) | None => continue,
            }
            // Another process that looked it up meanwhile has not found it, and may have posted it.
            if tried.elapsed() > POSTED_WITHIN {
                continue;
            }
            return match message.post(call).await {
                PostOutcome::Posted(ts) => {
                    counter!(REPLIES, "outcome" => "posted").increment(1);
                    self.note_post(&answer.id, &ts);
                    self.record_posted(&answer, message, &ts).await
                }
                PostOutcome::NotPosted(after) => {
                    counter!(REPLIES, "outcome" => "rate_limited").increment(1);
                    self.record_refused(&answer, number).await?;
                    Err(JobFailure::Postponed("Slack wants a pause between messages".into(), after))
                }
                PostOutcome::Stopped(why, after) => {
                    counter!(REPLIES, "outcome" => "stopped").increment(1);
                    self.record_refused(&answer, number).await?;
                    self.stop(&answer.id, after);
                    Err(JobFailure::Postponed(why, after))
                }
                PostOutcome::Unknown(why) => {
                    counter!(REPLIES, "outcome" => "unknown").increment(1);
                    Err(JobFailure::Postponed(why, SHOWN_AFTER))
                }
                PostOutcome::Refused(why) => {
                    counter!(REPLIES, "outcome" => "error").increment(1);
                    self.record_refused(&answer, number).await?;
                    self.fail(&answer, &why).await?;
                    Err(JobFailure::Permanent(why))
                }
            };
        }
        Err(JobFailure::Transient("the row of an answer keeps changing".into()))
    }

    /// Waits for the rate limit of the workspace, and for its token.
    async fn permit(&self, id: &QuestionId) -> Result<PermittedCall<'_>, JobFailure> {
        let permit = self.web.permit(&id.team, Method::ChatPostMessage).await;
        permit.map_err(|error| match post_outcome(&error) {
            PostOutcome::NotPosted(after) => {
                counter!(REPLIES, "outcome" => "rate_limited").increment(1);
                JobFailure::Postponed("Slack wants a pause between messages".into(), after)
            }
            PostOutcome::Stopped(why, after) => {
                counter!(REPLIES, "outcome" => "stopped").increment(1);
                self.stop(id, after);
                JobFailure::Postponed(why, after)
            }
            // Slack was only asked for the owner of the token.
            PostOutcome::Posted(_) | PostOutcome::Unknown(_) | PostOutcome::Refused(_) => {
                JobFailure::Transient(error.to_string())
            }
        })
    }

    /// Records that Slack refused an attempt; `before` is the answer before the attempt. If an earlier
    /// attempt may have been posted, its intent stays in the row, and the next attempt looks it up.
    async fn record_refused(&self, before: &AnswerRow, number: usize) -> Result<(), ArchiveError> {
        match before.part(number) {
            PartState::Sending(_) => Ok(()),
            part @ (PartState::New | PartState::Refused(_) | PartState::Sent(_)) => {
                let refused = PartState::refused(part.next_attempt());
                self.ports.archive.write(&before.part_update(number, refused)).await.map(drop)
            }
        }
    }

    /// Looks up a part that may have been posted. `None` if it was certainly not.
    async fn find_posted(&self, answer: &AnswerRow, number: usize) -> Result<Option<Ts>, JobFailure> {
        let since = answer.part_tried_at_ms(number).unwrap_or_default();
        let passed_ms = self.ports.clock.now().0.saturating_sub(since);
        let passed = Duration::from_millis(u64::try_from(passed_ms).unwrap_or_default());
        let (wait, why) = match self.look_up_part(&answer.id, number).await? {
            Lookup::Found(ts) => return Ok(Some(ts)),
            Lookup::Missing => (SHOWN_AFTER, "Slack may show a message late".to_owned()),
            Lookup::Hidden(why) => (UNSEEN_FOR, why),
            Lookup::Stopped(why) => {
                self.stop(&answer.id, STOPPED_FOR);
                return Err(JobFailure::Postponed(why, STOPPED_FOR));
            }
        };
        match wait.checked_sub(passed) {
            Some(left) if !left.is_zero() => Err(JobFailure::Postponed(why, left)),
            Some(_) | None => Ok(None),
        }
    }

    /// Records that a part is posted; if the answer was erased meanwhile, removes the record.
    async fn record_posted(
        &self,
        answer: &AnswerRow,
        message: &PartMessage<'_>,
        ts: &Ts,
    ) -> Result<PostingEnd, JobFailure> {
        let archive = &*self.ports.archive;
        let QuestionId { team, channel, .. } = &answer.id;
        let sent = answer.part_update(message.number, PartState::sent(ts));
        for outcome in archive.write_all(&[&sent, &rows::posted(answer, message.text, ts)]).await {
            outcome?;
        }
        // An erasure reads the list of posted messages: a message recorded after that is removed here.
        if self.read_answer(&answer.id).await?.is_some() {
            return Ok(PostingEnd::Posted);
        }
        if let Some(row) = archive.get(&ItemKey::bot_message(team, channel, ts)).await? {
            delete_unless_erased(archive, &row).await?;
        }
        Ok(PostingEnd::Erased)
    }

    /// Removes the rows of an erased answer, in case the process died before it could.
    async fn forget_messages(&self, id: &QuestionId) -> Result<(), ArchiveError> {
        let archive = &*self.ports.archive;
        let first = ItemKey::new(key::bot_messages(&id.team), format!("{}#{}", id.channel, id.ts));
        let until = Some(format!("{}$", id.channel));
        let query = Query { after: Some(first), until, ..Query::partition(key::bot_messages(&id.team)) };
        for row in query_all(archive, query).await? {
            if rows::belongs_to(&row, &id.channel, &id.ts) {
                delete_unless_erased(archive, &row).await?;
            }
        }
        Ok(())
    }

    async fn read_answer(&self, id: &QuestionId) -> Result<Option<AnswerRow>, ArchiveError> {
        let key = ItemKey::answer(&id.team, &id.channel, &id.ts);
        Ok(self.ports.archive.get(&key).await?.as_ref().and_then(AnswerRow::read))
    }

    /// The reason why an answer must not be posted any more.
    async fn withdrawal_reason(&self, answer: &AnswerRow) -> Result<Option<String>, ArchiveError> {
        let QuestionId { team, channel, ts, .. } = &answer.id;
        let keys = [ItemKey::question(team, channel, ts), ItemKey::message(team, channel, ts)];
        let found = self.ports.archive.get_all(&keys.each_ref()).await?;
        let is_gone = |row: &Item| row.is_erased() || row.has_flag("deleted");
        let is_failed = |row: &Item| {
            QuestionRow::read(row).is_some_and(|question| question.state.stage == WorkStage::Failed)
        };
        Ok(if found.iter().flatten().any(is_gone) {
            Some("question deleted".into())
        } else if found.first().and_then(Option::as_ref).is_some_and(is_failed) {
            Some("question cancelled".into())
        } else {
            self.lateness(answer)
        })
    }

    /// The reason if an answer is too late: after this time, no person waits for it any more.
    fn lateness(&self, answer: &AnswerRow) -> Option<String> {
        let age_s = self.now_s() - answer.begun_at_s()?;
        let max_age_s = self.max_age.as_secs();
        (age_s > i64::try_from(max_age_s).unwrap_or(i64::MAX))
            .then(|| format!("not posted within {max_age_s} s"))
    }

    async fn fail(&self, answer: &AnswerRow, why: &str) -> Result<(), ArchiveError> {
        let QuestionId { team, channel, ts, .. } = &answer.id;
        tracing::warn!(%team, %channel, %ts, why, "an answer is not posted");
        let failed = answer.state.with_stage(WorkStage::Failed);
        let update = rows::answer_state_update(&answer.id, failed, Some(why), self.now_s());
        self.ports.archive.write(&update).await.map(drop)
    }

    /// Suspends posting to a workspace for a while: every other answer would be refused too.
    fn stop(&self, id: &QuestionId, pause: Duration) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.insert(id.team.clone(), Instant::now() + pause);
    }

    fn check_stopped(&self, id: &QuestionId) -> Result<(), JobFailure> {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let left = stopped.get(&id.team).map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Err(JobFailure::Postponed("the token may not post".into(), left)),
            None => Ok(()),
        }
    }
}

async fn delete_unless_erased(archive: &dyn Archive, row: &Item) -> Result<(), ArchiveError> {
    if !row.is_erased() {
        archive.delete_unchanged(row).await?;
    }
    Ok(())
}
