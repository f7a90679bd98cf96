//! A question, step by step. Each step may be done again, and a crash between any two leaves what the next attempt goes on from:
//!
//! 1. the row of the question, set if absent;
//! 2. a claim of this attempt, so that no two processes work on it;
//! 3. the state `processing`, with the time: a reset of what is stuck goes by it;
//! 4. the budget, then the processor; its answer counts only if no answer has a row yet;
//! 5. the row of the thread, before anything is posted: a reply may come within a second;
//! 6. the row of the answer: its first text stays for ever;
//! 7. the job that posts it, then the state `processed`;
//! 8. the claim is completed.

use std::time::Duration;

use metrics::{counter, histogram};
use ports::archive::{ArchiveExt, Item, ItemKey, WriteOutcome};
use ports::claims::{About, EventKey, Take};
use ports::metrics::{PROCESSOR_SECONDS, QUESTIONS};
use processor::{Answer, ProcessorError};
use reader::directory;
use rules::outgoing;
use rules::question::asker::{AskerStanding, standing};
use rules::question::job::{QuestionJob, ReplyJob};
use rules::question::rows::{self, AnswerRow, QuestionRow, STATE};
use rules::question::state::{WorkStage, WorkState};
use rules::question::{AskedText, QuestionId};
use tokio::time::Instant;

use super::Responder;
use super::budget::Room;
use crate::claims::{Check, Sink};
use crate::failure::Failure;

/// The directory learns of a newcomer within this time, and is asked for them as often.
const NEWCOMER: Duration = Duration::from_secs(600);
const ASK_FOR_NEWCOMER: Duration = Duration::from_secs(60);

/// A processor that fails this often with one question is not asked again: with the runtime's backoff that is two hours.
const MAX_RECEIVES: u32 = 30;

impl Responder {
    /// Does a job.
    pub(super) async fn answer(&self, job: &QuestionJob, receive_count: u32) -> Result<(), Failure> {
        let archive = &*self.ports.archive;
        let Some(question) = self.row(job).await? else { return Ok(()) };
        let QuestionId { team, channel, ts, .. } = &question.id;
        if question.state.is_final() || question.state.generation > job.attempt {
            return Ok(());
        }
        let (question_key, message_key) =
            (ItemKey::responded(team, channel, ts), ItemKey::message(team, channel, ts));
        let found = archive.get_all(&[&question_key, &message_key]).await?;
        if found.first().is_some_and(Option::is_some) {
            return self.finish(&question, "answered").await;
        }
        if found.get(1).and_then(Option::as_ref).is_some_and(is_gone) {
            return self.fail(&question, "deleted", "question deleted").await;
        }
        let key = EventKey::of_question(team, channel, ts, question.state.generation);
        let about = About {
            channel_id: Some(channel.clone()),
            user_id: Some(question.asked.user.clone()),
            file_id: None,
        };
        let mut guard = match self.claimant.claim(key, about, Sink::Once, Take::IfFree).await? {
            Check::Ours(guard) => guard,
            Check::Completed => return Ok(()),
            Check::HeldFor(left) => {
                return Err(Failure::Postponed("another process answers it".into(), left));
            }
        };
        match guard.keep(self.work_on(&question, receive_count)).await {
            Ok(Ok(())) => {
                // The states say that it is done, even if the claim does not.
                if let Err(error) = guard.complete().await {
                    tracing::debug!(%error, "a question is answered and its claim does not say so; its row does");
                }
                Ok(())
            }
            Ok(Err(failure)) => {
                guard.release().await;
                Err(failure)
            }
            Err(lost) => Err(Failure::Transient(lost.to_string())),
        }
    }

    /// The row of the question, made if it is missing; `None` if there is nothing to answer.
    async fn row(&self, job: &QuestionJob) -> Result<Option<QuestionRow>, Failure> {
        let archive = &*self.ports.archive;
        let QuestionId { team, channel, ts, .. } = &job.id;
        let key = ItemKey::question(team, channel, ts);
        if let Some(row) = archive.get(&key).await? {
            return Ok(QuestionRow::read(&row));
        }
        let Some(asked) = &job.asked else { return Ok(None) };
        if !self.may_ask(&job.id, asked).await? {
            counter!(QUESTIONS, "outcome" => "refused").increment(1);
            return Ok(None);
        }
        let channels = directory::read(archive, team).await?;
        let row = rows::asked(&job.id, asked, channels.name(channel), self.now_s());
        archive.write(&row).await?;
        Ok(archive.get(&key).await?.as_ref().and_then(QuestionRow::read))
    }

    /// Whether a question is taken on: it is not too old, and of a member of the workspace.
    async fn may_ask(&self, id: &QuestionId, asked: &AskedText) -> Result<bool, Failure> {
        let age = self.age(id);
        if age > self.limits.max_age {
            return Ok(false);
        }
        let row = self.ports.archive.get(&ItemKey::user(&id.team, &asked.user)).await?;
        match standing(&id.team, row.as_ref()) {
            AskerStanding::Member => Ok(true),
            AskerStanding::Refused => Ok(false),
            AskerStanding::Unknown if age > NEWCOMER => Ok(false),
            AskerStanding::Unknown => {
                let why = "its author is not in the directory yet";
                Err(Failure::Postponed(why.into(), ASK_FOR_NEWCOMER))
            }
        }
    }

    fn age(&self, id: &QuestionId) -> Duration {
        let age_s = self.now_s() - id.ts.micros() / 1_000_000;
        Duration::from_secs(age_s.try_into().unwrap_or_default())
    }

    /// From the claim to the job that posts the answer.
    async fn work_on(&self, question: &QuestionRow, receive_count: u32) -> Result<(), Failure> {
        let archive = &*self.ports.archive;
        let QuestionId { team, channel, ts, .. } = &question.id;
        let state = question.state.at(WorkStage::Working);
        let processing = rows::question_becomes(&question.id, state, None, self.now_s());
        if let WriteOutcome::Rejected(row) = archive.write(&processing).await?
            && (row.is_erased() || WorkState::read(row.text(STATE)) != state)
        {
            return Ok(());
        }
        let answer_key = ItemKey::answer(team, channel, ts);
        if archive.get(&answer_key).await?.is_none() {
            let text = match self.text(question, receive_count).await? {
                Reaction::Answer(text) => text,
                Reaction::Silence(outcome) => return self.finish(question, outcome).await,
                Reaction::Failed(reason) => return self.fail(question, "error", &reason).await,
            };
            if !self.is_still_asked(question, state).await? {
                return Ok(());
            }
            archive.write(&rows::thread(&question.id, self.now_s())).await?;
            archive.write(&rows::answered(&question.id, &question.asked.user, &text, self.now_s())).await?;
        }
        let Some(answer) = archive.get(&answer_key).await?.as_ref().and_then(AnswerRow::read) else {
            return Ok(());
        };
        let attempt = self.reopened(&answer, question.state.generation).await?;
        let job = ReplyJob { id: question.id.clone(), attempt };
        self.ports.queue.send(vec![job.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;
        self.finish(question, "answered").await
    }

    /// What is to be posted, as it may be posted.
    async fn text(&self, question: &QuestionRow, receive_count: u32) -> Result<Reaction, Failure> {
        match self.room(question).await? {
            Room::Free => {}
            Room::Told(text) => return Ok(Reaction::Answer(outgoing::neutral(&text))),
            Room::Spent => return Ok(Reaction::Silence("over_budget")),
        }
        let prompt = self.prompt(question).await?;
        let began = Instant::now();
        let answer = self.processor.answer(&prompt).await;
        histogram!(PROCESSOR_SECONDS).record(began.elapsed().as_secs_f64());
        Ok(match answer {
            Ok(Answer::Text(text)) => match outgoing::neutral(&text) {
                text if outgoing::parts(&text).is_empty() => {
                    Reaction::Failed("nothing of the answer may be posted".into())
                }
                text => Reaction::Answer(text),
            },
            Ok(Answer::Skip) => Reaction::Silence("skipped"),
            Err(ProcessorError::Permanent(reason)) => Reaction::Failed(reason),
            Err(ProcessorError::Transient { reason, after }) => {
                // A question that was asked again by hand has no age.
                let is_late = question.state.generation == 0 && self.age(&question.id) > self.limits.max_age;
                if is_late || receive_count >= MAX_RECEIVES {
                    return Ok(Reaction::Failed(reason));
                }
                counter!(QUESTIONS, "outcome" => "retry").increment(1);
                return Err(match after {
                    Some(after) => Failure::Postponed(reason, after),
                    None => Failure::Transient(reason),
                });
            }
        })
    }

    /// Whether a question is where it was when the processor was asked: it was not erased, deleted or cancelled.
    async fn is_still_asked(&self, question: &QuestionRow, state: WorkState) -> Result<bool, Failure> {
        let QuestionId { team, channel, ts, .. } = &question.id;
        let keys = [ItemKey::question(team, channel, ts), ItemKey::message(team, channel, ts)];
        let found = self.ports.archive.get_all(&keys.each_ref()).await?;
        let [Some(row), message] = &found[..] else { return Ok(false) };
        if message.as_ref().is_some_and(is_gone) {
            self.fail(question, "deleted", "question deleted").await?;
            return Ok(false);
        }
        Ok(!row.is_erased() && WorkState::read(row.text(STATE)) == state)
    }

    /// The attempt at which an answer is to be posted. One that failed is opened again if the question was asked again since.
    async fn reopened(&self, answer: &AnswerRow, generation: u32) -> Result<u32, Failure> {
        if answer.state.stage != WorkStage::Failed || answer.state.generation >= generation {
            return Ok(answer.state.generation);
        }
        let state = WorkState { generation, stage: WorkStage::Pending };
        self.ports.archive.write(&rows::answer_becomes(&answer.id, state, None, self.now_s())).await?;
        Ok(generation)
    }

    async fn finish(&self, question: &QuestionRow, outcome: &'static str) -> Result<(), Failure> {
        let state = question.state.at(WorkStage::Finished);
        self.become_final(question, state, outcome, None).await
    }

    async fn fail(&self, question: &QuestionRow, outcome: &'static str, reason: &str) -> Result<(), Failure> {
        let QuestionId { team, channel, ts, .. } = &question.id;
        tracing::warn!(%team, %channel, %ts, reason, "a question is not answered");
        let state = question.state.at(WorkStage::Failed);
        self.become_final(question, state, outcome, Some(reason)).await
    }

    async fn become_final(
        &self,
        question: &QuestionRow,
        state: WorkState,
        outcome: &'static str,
        error: Option<&str>,
    ) -> Result<(), Failure> {
        let update = rows::question_becomes(&question.id, state, error, self.now_s());
        if self.ports.archive.write(&update).await? == WriteOutcome::Applied {
            counter!(QUESTIONS, "outcome" => outcome).increment(1);
        }
        Ok(())
    }
}

/// What is done about a question.
enum Reaction {
    Answer(String),
    /// Nothing is posted, for this reason.
    Silence(&'static str),
    Failed(String),
}

/// Whether a message is not there any more for those who read the channel.
fn is_gone(message: &Item) -> bool {
    message.is_erased() || message.is("deleted")
}
