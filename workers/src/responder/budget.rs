//! Whether there is room for a question. Every count is a row, because a fleet has many processes.

use ports::archive::{ArchiveError, ArchiveExt, ItemKey, WriteOutcome};
use rules::question::budget::{self, BudgetScope, BudgetStep};
use rules::question::rows::QuestionRow;

use super::Responder;

/// Each round but the last means that another question was counted.
const MAX_ROUNDS: usize = 32;

/// Whether there is room.
pub(super) enum Room {
    /// There is.
    Free,
    /// There is no room, and its author is told so with this.
    Told(String),
    /// There is no room, and its author was told so before.
    Spent,
}

impl Responder {
    /// Counts a question against the budgets of its thread, its author and the workspace.
    pub(super) async fn room(&self, question: &QuestionRow) -> Result<Room, ArchiveError> {
        let limits = &self.limits;
        // A mention opens a thread again.
        let is_in_thread = question.asked.mentioned.is_none();
        if is_in_thread && !self.takes(BudgetScope::Thread, limits.per_thread, question).await? {
            return Ok(Room::Spent);
        }
        for (scope, most, who) in [
            (BudgetScope::Person, limits.per_user_hour, "You have asked"),
            (BudgetScope::Team, limits.per_hour, "This workspace has asked"),
        ] {
            if !self.takes(scope, most, question).await? {
                let why = "and no more are answered: ask again in the next one.";
                return self.told(question, &format!("{who} {most} questions in this hour, {why}")).await;
            }
        }
        Ok(Room::Free)
    }

    /// Whether a budget has room, which it then has one less of. A question that comes again is counted once.
    async fn takes(
        &self,
        scope: BudgetScope,
        most: u32,
        question: &QuestionRow,
    ) -> Result<bool, ArchiveError> {
        let archive = &*self.ports.archive;
        let key = self.budget_key(scope, question);
        for _ in 0..MAX_ROUNDS {
            let row = archive.get(&key).await?;
            match budget::step(key.clone(), row.as_ref(), &question.id, most) {
                BudgetStep::Counted => return Ok(true),
                BudgetStep::Spent => return Ok(false),
                BudgetStep::Count(update) => {
                    if archive.write(&update).await? == WriteOutcome::Applied {
                        return Ok(true);
                    }
                }
            }
        }
        Err(ArchiveError::Unavailable("the budget keeps changing".into()))
    }

    /// Tells a person once an hour.
    async fn told(&self, question: &QuestionRow, text: &str) -> Result<Room, ArchiveError> {
        let key = self.budget_key(BudgetScope::Person, question);
        let told = self.ports.archive.write(&budget::telling(key, &question.id)).await?;
        Ok(match told {
            WriteOutcome::Applied => Room::Told(text.to_owned()),
            WriteOutcome::Rejected(row) if budget::was_told_by(&row, &question.id) => {
                Room::Told(text.to_owned())
            }
            WriteOutcome::Rejected(_) => Room::Spent,
        })
    }

    fn budget_key(&self, scope: BudgetScope, question: &QuestionRow) -> ItemKey {
        budget::key(scope, &question.id, &question.asked, self.now_s())
    }
}
