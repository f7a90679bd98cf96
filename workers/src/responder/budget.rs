//! Whether there is room for a question. Every count is a row, because a fleet has many processes. A question is counted in the
//! same write that says that it is worked on. What a workspace asks in an hour may exceed its budget by as many questions as are
//! worked on at once.

use ports::archive::{ArchiveError, ArchiveExt, Item, ItemKey, Update, WriteOutcome, query_all};
use rules::question::budget::{self, BudgetScope};
use rules::question::rows::{self, QuestionRow, STATE};
use rules::question::state::{WorkStage, WorkState};

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
    /// Writes that a question is worked on, after its own row if it is new, and counts it. `None` if it is not to be worked on:
    /// it was erased, cancelled or answered.
    pub(super) async fn begin(
        &self,
        question: &QuestionRow,
        new: Option<Update>,
    ) -> Result<Option<Room>, ArchiveError> {
        let archive = &*self.ports.archive;
        let state = question.state.at(WorkStage::Working);
        let mut scopes = Vec::new();
        if !question.is_counted {
            // A mention that begins a thread has nothing to open.
            let is_reply = question.id.ts != question.id.thread_ts;
            scopes.extend(is_reply.then_some(BudgetScope::Thread));
            scopes.push(BudgetScope::Person);
        }
        for _ in 0..MAX_ROUNDS {
            let (room, counts) = self.room(question, &scopes).await?;
            let is_counted = matches!(room, Room::Free);
            let begun = rows::begun(&question.id, state, new.clone(), is_counted, self.now_s());
            let written =
                archive.write_all(&std::iter::once(&begun).chain(&counts).collect::<Vec<_>>()).await;
            let mut written = written.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
            if let Some(WriteOutcome::Rejected(row)) = written.next()
                && (row.is_erased() || WorkState::read(row.text(STATE)) != state)
            {
                return Ok(None);
            }
            // Where another question was counted at this moment, this one is not yet.
            scopes.retain(|_| !matches!(written.next(), None | Some(WriteOutcome::Applied)));
            if scopes.is_empty() {
                return Ok(Some(room));
            }
        }
        Err(ArchiveError::Unavailable("the budget keeps changing".into()))
    }

    /// Whether these budgets of a question have room, and that of its workspace; and what counts it in them, if they have.
    async fn room(
        &self,
        question: &QuestionRow,
        scopes: &[BudgetScope],
    ) -> Result<(Room, Vec<Update>), ArchiveError> {
        let mut counts = Vec::new();
        if scopes.is_empty() {
            return Ok((Room::Free, counts));
        }
        let (archive, limits) = (&*self.ports.archive, &self.limits);
        let keys: Vec<ItemKey> = scopes.iter().map(|scope| self.budget_key(*scope, question)).collect();
        let rows = archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        for ((scope, key), row) in scopes.iter().zip(keys).zip(&rows) {
            let count = budget::counted(row.as_ref());
            match scope {
                // A mention opens a thread again.
                BudgetScope::Thread if question.asked.mentioned.is_some() => {
                    counts.push(budget::reopen(key, row.as_ref()));
                }
                BudgetScope::Thread if count >= limits.per_thread => return Ok((Room::Spent, Vec::new())),
                BudgetScope::Person if count >= limits.per_user_hour => {
                    let told = self.told(question, "You have asked", limits.per_user_hour).await?;
                    return Ok((told, Vec::new()));
                }
                BudgetScope::Thread | BudgetScope::Person => counts.push(budget::count(key, row.as_ref())),
            }
        }
        let people = query_all(archive, budget::of_people(&question.id.team, self.now_s())).await?;
        let asked = |person: &Item| u64::from(budget::counted(Some(person)));
        if people.iter().map(asked).sum::<u64>() >= u64::from(limits.per_hour) {
            let told = self.told(question, "This workspace has asked", limits.per_hour).await?;
            return Ok((told, Vec::new()));
        }
        Ok((Room::Free, counts))
    }

    /// Tells a person once an hour.
    async fn told(&self, question: &QuestionRow, who: &str, most: u32) -> Result<Room, ArchiveError> {
        let key = self.budget_key(BudgetScope::Person, question);
        let told = self.ports.archive.write(&budget::telling(key, &question.id)).await?;
        let is_told = match told {
            WriteOutcome::Applied => true,
            WriteOutcome::Rejected(row) => budget::was_told_by(&row, &question.id),
        };
        let why = "and no more are answered: ask again in the next one.";
        Ok(if is_told {
            Room::Told(format!("{who} {most} questions in this hour, {why}"))
        } else {
            Room::Spent
        })
    }

    fn budget_key(&self, scope: BudgetScope, question: &QuestionRow) -> ItemKey {
        budget::key(scope, &question.id, &question.asked, self.now_s())
    }
}
