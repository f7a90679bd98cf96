//! Checks and updates the question budgets. Every count is a row, because a fleet has many processes. A
//! question is counted in the same write that records the start of its work. In an hour, a workspace may
//! exceed its budget by the number of concurrently processed questions.

use ports::archive::{ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome, query_all};
use rules::question::budget::{self, BudgetScope};
use rules::question::rows::{self, QuestionRow, STATE};
use rules::question::state::{WorkStage, WorkState};

use super::Responder;

/// Each round except the last means that another question was counted.
const MAX_ROUNDS: usize = 32;

/// The result of a budget check.
pub(super) enum BudgetRoom {
    Free,
    /// The budget is exhausted; this text notifies the author.
    Notify(String),
    /// The budget is exhausted, and the author was already notified.
    Exhausted,
}

impl Responder {
    /// Records the start of work on a question, after its own row if it is new, and counts it. `None` if it
    /// must not be processed: it was erased, cancelled or answered.
    pub(super) async fn begin(
        &self,
        question: &QuestionRow,
        new: Option<Update>,
    ) -> Result<Option<BudgetRoom>, ArchiveError> {
        let archive = &*self.ports.archive;
        let state = question.state.with_stage(WorkStage::Working);
        let mut scopes = Vec::new();
        if !question.is_counted {
            // A mention that starts a thread has no thread to reopen.
            let is_reply = question.id.ts != question.id.thread_ts;
            scopes.extend(is_reply.then_some(BudgetScope::Thread));
            scopes.push(BudgetScope::Person);
        }
        for _ in 0..MAX_ROUNDS {
            let (room, counts) = self.room(question, &scopes).await?;
            let is_counted = matches!(room, BudgetRoom::Free);
            let begun = rows::begin_question(&question.id, state, new.clone(), is_counted, self.now_s());
            let written =
                archive.write_all(&std::iter::once(&begun).chain(&counts).collect::<Vec<_>>()).await;
            let mut written = written.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
            if let Some(WriteOutcome::Rejected(row)) = written.next()
                && (row.is_erased() || WorkState::read(row.text(STATE)) != state)
            {
                return Ok(None);
            }
            // If another question was counted at this moment, this one is not counted yet.
            scopes.retain(|_| !matches!(written.next(), None | Some(WriteOutcome::Applied)));
            if scopes.is_empty() {
                return Ok(Some(room));
            }
        }
        Err(ArchiveError::Unavailable("the budget keeps changing".into()))
    }

    /// Checks these budgets of a question, and that of its workspace; if they have room, also returns the
    /// updates that count it.
    async fn room(
        &self,
        question: &QuestionRow,
        scopes: &[BudgetScope],
    ) -> Result<(BudgetRoom, Vec<Update>), ArchiveError> {
        let mut counts = Vec::new();
        if scopes.is_empty() {
            return Ok((BudgetRoom::Free, counts));
        }
        let (archive, limits) = (&*self.ports.archive, &self.limits);
        let keys: Vec<ItemKey> = scopes.iter().map(|scope| self.budget_key(*scope, question)).collect();
        let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        for ((scope, key), row) in scopes.iter().zip(keys).zip(&rows) {
            let count = budget::counted(row.as_ref());
            match scope {
                // A mention reopens a thread.
                BudgetScope::Thread if question.content.mentioned.is_some() => {
                    counts.push(budget::reopen(key, row.as_ref()));
                }
                BudgetScope::Thread if count >= limits.per_thread => {
                    return Ok((BudgetRoom::Exhausted, Vec::new()));
                }
                BudgetScope::Person if count >= limits.per_user_hour => {
                    let room = self.notify_once(question, "You have asked", limits.per_user_hour).await?;
                    return Ok((room, Vec::new()));
                }
                BudgetScope::Thread | BudgetScope::Person => counts.push(budget::count(key, row.as_ref())),
            }
        }
        let people = query_all(archive, budget::people_of_hour(&question.id.team, self.now_s())).await?;
        let asked = |person: &Item| u64::from(budget::counted(Some(person)));
        if people.iter().map(asked).sum::<u64>() >= u64::from(limits.per_hour) {
            let room = self.notify_once(question, "This workspace has asked", limits.per_hour).await?;
            return Ok((room, Vec::new()));
        }
        Ok((BudgetRoom::Free, counts))
    }

    /// Notifies a person at most once an hour.
    async fn notify_once(
        &self,
        question: &QuestionRow,
        who: &str,
        max_questions: u32,
    ) -> Result<BudgetRoom, ArchiveError> {
        let key = self.budget_key(BudgetScope::Person, question);
        let outcome = self.ports.archive.write(&budget::mark_notified(key, &question.id)).await?;
        let is_notified = match outcome {
            WriteOutcome::Applied => true,
            WriteOutcome::Rejected(row) => budget::was_notified_by(&row, &question.id),
        };
        let why = "and no more are answered: ask again in the next one.";
        Ok(if is_notified {
            BudgetRoom::Notify(format!("{who} {max_questions} questions in this hour, {why}"))
        } else {
            BudgetRoom::Exhausted
        })
    }

    fn budget_key(&self, scope: BudgetScope, question: &QuestionRow) -> ItemKey {
        budget::key(scope, &question.id, &question.content, self.now_s())
    }
}
