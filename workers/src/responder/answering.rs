//! Answers a question, step by step. Each step may be repeated, and after a crash between any two steps the
//! next attempt continues from there:
//!
//! 1. claim this attempt, so that no two processes work on it;
//! 2. write the row of the question, set if absent, with the state `processing` and the time, by which stuck
//!    questions are reset; the same write counts the question;
//! 3. ask the processor; its answer counts only if no answer has a row yet;
//! 4. write the row of the thread, before anything is posted, because a reply may arrive within a second;
//!    with it the row of the answer, whose first text is permanent;
//! 5. send the job that posts it;
//! 6. write the state `processed`, while the claim is completed: the state determines whether the work is
//!    done, and the claim only which process does it.

use std::time::Duration;

use metrics::{counter, histogram};
use ports::archive::{ArchiveExt, Item, ItemKey, Update, WriteOutcome};
use ports::claims::{ClaimContext, ClaimKey, ClaimMode};
use ports::metrics::{PROCESSOR_SECONDS, QUESTIONS};
use processor::{Answer, ProcessorError};
use reader::directory;
use rules::outgoing;
use rules::question::asker::{AskerStatus, asker_status};
use rules::question::job::{QuestionJob, ReplyJob};
use rules::question::rows::{self, AnswerRow, QuestionRow, STATE};
use rules::question::state::{WorkStage, WorkState};
use rules::question::{QuestionId, QuestionText};
use tokio::time::Instant;

use super::Responder;
use super::budget::BudgetRoom;
use crate::claims::{ClaimOutcome, Sink};
use crate::failure::JobFailure;
use crate::runtime::JobRetry;

/// The retry interval for an author who is missing in the directory: their event may be late, or the first
/// sync not finished.
const LOOK_FOR_NEWCOMER: Duration = Duration::from_secs(60);

/// A processor that fails this often with one question is not asked again: with the runtime's backoff, that
/// takes two hours.
const MAX_RECEIVES: u32 = 30;

impl Responder {
    /// Runs a job.
    pub(super) async fn answer(&self, job: &QuestionJob, receive_count: u32) -> Result<(), JobFailure> {
        let archive = &*self.ports.archive;
        let Some((question, new)) = self.read_question(job).await? else { return Ok(()) };
        let QuestionId { team, channel, ts, .. } = &question.id;
        if question.state.is_final() || question.state.generation > job.attempt {
            return Ok(());
        }
        let (question_key, message_key) =
            (ItemKey::responded(team, channel, ts), ItemKey::message(team, channel, ts));
        let found = archive.get_all(&[&question_key, &message_key]).await?;
        let is_answered = found.first().is_some_and(Option::is_some);
        let is_deleted = found.get(1).and_then(Option::as_ref).is_some_and(is_gone);
        if is_answered || is_deleted {
            self.insert_question(new).await?;
            let end = if is_answered { QuestionEnd::Done("answered") } else { QuestionEnd::deleted() };
            return self.finish(&question, end).await;
        }
        let key = ClaimKey::for_question(team, channel, ts, question.state.generation);
        let about = ClaimContext {
            channel_id: Some(channel.clone()),
            user_id: Some(question.content.user.clone()),
            file_id: None,
        };
        // The state determines whether the question is done, not the claim.
        let mut guard = match self.claimant.claim(key, about, Sink::Once, ClaimMode::EvenCompleted).await {
            Ok(ClaimOutcome::Ours(guard)) => guard,
            Ok(ClaimOutcome::Completed) => return Ok(()),
            Ok(ClaimOutcome::HeldFor(left)) => {
                return Err(JobFailure::Postponed("another process is answering it".into(), left));
            }
            Err(error) => {
                // Show people that the question waits.
                self.insert_question(new).await?;
                return Err(error.into());
            }
        };
        match guard.keep(self.produce_answer(&question, new, receive_count)).await {
            Ok(Ok(None)) => {
                guard.release().await;
                Ok(())
            }
            Ok(Ok(Some(end))) => {
                let (finished, completed) = tokio::join!(self.finish(&question, end), guard.complete());
                if let Err(error) = completed {
                    tracing::debug!(%error, "a question was answered, but its claim could not be completed");
                }
                finished
            }
            Ok(Err(failure)) => {
                guard.release().await;
                Err(failure)
            }
            Err(lost) => Err(JobFailure::Transient(lost.to_string())),
        }
    }

    /// Reads the question, or the update that creates its missing row; `None` if there is nothing to answer.
    async fn read_question(
        &self,
        job: &QuestionJob,
    ) -> Result<Option<(QuestionRow, Option<Update>)>, JobFailure> {
        let archive = &*self.ports.archive;
        let QuestionId { team, channel, ts, .. } = &job.id;
        if let Some(row) = archive.get(&ItemKey::question(team, channel, ts)).await? {
            return Ok(QuestionRow::read(&row).map(|question| (question, None)));
        }
        let Some(asked) = &job.content else { return Ok(None) };
        if !self.may_ask(&job.id, asked).await? {
            counter!(QUESTIONS, "outcome" => "refused").increment(1);
            return Ok(None);
        }
        let channels = directory::read(archive, team).await?;
        let now_s = self.now_s();
        let new = rows::asked(&job.id, asked, channels.name(channel), now_s);
        Ok(Some((QuestionRow::new(&job.id, asked, now_s), Some(new))))
    }

    async fn insert_question(&self, new: Option<Update>) -> Result<(), JobFailure> {
        if let Some(new) = new {
            self.ports.archive.write(&new).await?;
        }
        Ok(())
    }

    /// Whether a question is accepted: it is not too old, and its author is a member of the workspace.
    async fn may_ask(&self, id: &QuestionId, asked: &QuestionText) -> Result<bool, JobFailure> {
        if self.age(id) > self.limits.max_age {
            return Ok(false);
        }
        let row = self.ports.archive.get(&ItemKey::user(&id.team, &asked.user)).await?;
        match asker_status(&id.team, row.as_ref()) {
            AskerStatus::Member => Ok(true),
            AskerStatus::Refused => Ok(false),
            AskerStatus::Unknown => {
                let why = "its author is not in the directory yet";
                Err(JobFailure::Postponed(why.into(), LOOK_FOR_NEWCOMER))
            }
        }
    }

    fn age(&self, id: &QuestionId) -> Duration {
        let age_s = self.now_s() - id.ts.micros() / 1_000_000;
        Duration::from_secs(age_s.try_into().unwrap_or_default())
    }

    /// Works on a claimed question up to the job that posts the answer; `None` if the question must not be
    /// answered any more.
    async fn produce_answer(
        &self,
        question: &QuestionRow,
        new: Option<Update>,
        receive_count: u32,
    ) -> Result<Option<QuestionEnd>, JobFailure> {
        let archive = &*self.ports.archive;
        let QuestionId { team, channel, ts, .. } = &question.id;
        let Some(room) = self.begin(question, new).await? else { return Ok(None) };
        let thread = rows::thread(&question.id, self.now_s());
        let answer_key = ItemKey::answer(team, channel, ts);
        if archive.get(&answer_key).await?.is_none() {
            let text = match self.answer_text(question, room, receive_count).await? {
                QuestionStep::Answer(text) => text,
                QuestionStep::End(end) => return Ok(Some(end)),
            };
            match self.check_withdrawn(question).await? {
                Withdrawn::No => {}
                Withdrawn::Deleted => return Ok(Some(QuestionEnd::deleted())),
                Withdrawn::Ended => return Ok(None),
            }
            let answered = rows::answer_update(&question.id, &question.content.user, &text, self.now_s());
            for outcome in archive.write_all(&[&thread, &answered]).await {
                outcome?;
            }
        } else {
            // One of the two rows may be missing.
            archive.write(&thread).await?;
        }
        let Some(answer) = archive.get(&answer_key).await?.as_ref().and_then(AnswerRow::read) else {
            return Ok(None);
        };
        let attempt = self.reopen(&answer, question.state.generation).await?;
        let job = ReplyJob { id: question.id.clone(), attempt };
        self.ports.queue.send(vec![job.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;
        Ok(Some(QuestionEnd::Done("answered")))
    }

    /// The text to post, in a form that may be posted.
    async fn answer_text(
        &self,
        question: &QuestionRow,
        room: BudgetRoom,
        receive_count: u32,
    ) -> Result<QuestionStep, JobFailure> {
        match room {
            BudgetRoom::Free => {}
            BudgetRoom::Notify(text) => return Ok(QuestionStep::Answer(outgoing::to_safe_mrkdwn(&text))),
            BudgetRoom::Exhausted => return Ok(QuestionStep::End(QuestionEnd::Done("over_budget"))),
        }
        let prompt = self.prompt(question).await?;
        let began = Instant::now();
        let answer = self.processor.answer(&prompt).await;
        histogram!(PROCESSOR_SECONDS).record(began.elapsed().as_secs_f64());
        Ok(match answer {
            Ok(Answer::Text(text)) => match outgoing::to_safe_mrkdwn(&text) {
                text if outgoing::parts(&text).is_empty() => {
                    QuestionStep::failed("no part of the answer may be posted".into())
                }
                text => QuestionStep::Answer(text),
            },
            Ok(Answer::Skip) => QuestionStep::End(QuestionEnd::Done("skipped")),
            Err(ProcessorError::Permanent(reason)) => QuestionStep::failed(reason),
            Err(ProcessorError::Transient { reason, after }) => {
                // The age of a question that a person asked again does not count.
                let is_late = question.state.generation == 0 && self.age(&question.id) > self.limits.max_age;
                if is_late || receive_count >= MAX_RECEIVES {
                    return Ok(QuestionStep::failed(reason));
                }
                counter!(QUESTIONS, "outcome" => "retry").increment(1);
                return Err(JobRetry { reason, after }.into());
            }
        })
    }

    /// Whether a question was deleted, erased or cancelled while the processor ran, and how it ends in that
    /// case.
    async fn check_withdrawn(&self, question: &QuestionRow) -> Result<Withdrawn, JobFailure> {
        let QuestionId { team, channel, ts, .. } = &question.id;
        let keys = [ItemKey::question(team, channel, ts), ItemKey::message(team, channel, ts)];
        let found = self.ports.archive.get_all(&keys.each_ref()).await?;
        let [Some(row), message] = &found[..] else { return Ok(Withdrawn::Ended) };
        if message.as_ref().is_some_and(is_gone) {
            return Ok(Withdrawn::Deleted);
        }
        let state = question.state.with_stage(WorkStage::Working);
        let is_current = !row.is_erased() && WorkState::read(row.text(STATE)) == state;
        Ok(if is_current { Withdrawn::No } else { Withdrawn::Ended })
    }

    /// The attempt with which an answer is posted. If a person asked the question again, it is another attempt
    /// than the one before, whose job the queue may still have, or take the new one for: parts that were posted
    /// are found before they are posted again. The answer itself may have been restarted more often than that.
    async fn reopen(&self, answer: &AnswerRow, generation: u32) -> Result<u32, JobFailure> {
        let WorkState { generation: posted_at, stage } = answer.state;
        let is_again = match stage {
            WorkStage::Failed => generation > 0,
            WorkStage::Pending | WorkStage::Working => generation > posted_at,
            WorkStage::Finished => false,
        };
        if !is_again {
            return Ok(posted_at);
        }
        let state = WorkState { generation: generation.max(posted_at + 1), stage: WorkStage::Pending };
        self.ports.archive.write(&rows::answer_state_update(&answer.id, state, None, self.now_s())).await?;
        Ok(state.generation)
    }

    async fn finish(&self, question: &QuestionRow, end: QuestionEnd) -> Result<(), JobFailure> {
        let (stage, outcome, error) = match &end {
            QuestionEnd::Done(outcome) => (WorkStage::Finished, *outcome, None),
            QuestionEnd::Failed(outcome, reason) => (WorkStage::Failed, *outcome, Some(reason.as_str())),
        };
        if let Some(reason) = error {
            let QuestionId { team, channel, ts, .. } = &question.id;
            tracing::warn!(%team, %channel, %ts, reason, "a question is not answered");
        }
        let update =
            rows::question_state_update(&question.id, question.state.with_stage(stage), error, self.now_s());
        if self.ports.archive.write(&update).await? == WriteOutcome::Applied {
            counter!(QUESTIONS, "outcome" => outcome).increment(1);
        }
        Ok(())
    }
}

/// The outcome of a question, as counted.
enum QuestionEnd {
    /// It was answered, or deliberately not.
    Done(&'static str),
    /// It failed, for this reason.
    Failed(&'static str, String),
}

impl QuestionEnd {
    fn deleted() -> Self {
        Self::Failed("deleted", "question deleted".into())
    }
}

/// The change to a question during the work.
enum Withdrawn {
    No,
    /// Its message was deleted.
    Deleted,
    /// Its state records how it ended, or it was erased.
    Ended,
}

/// The next step for a question.
enum QuestionStep {
    Answer(String),
    /// Nothing is posted.
    End(QuestionEnd),
}

impl QuestionStep {
    fn failed(reason: String) -> Self {
        Self::End(QuestionEnd::Failed("error", reason))
    }
}

/// Whether a message is no longer visible to readers of the channel.
fn is_gone(message: &Item) -> bool {
    message.is_erased() || message.has_flag("deleted")
}
