//! How many questions are taken on: rows that hold which, so that one that comes again is counted once in any number of
//! processes.

use ports::archive::{Guard, Item, ItemKey, Update};

use super::{AskedText, QuestionId};

/// The register of a row: how many questions it holds.
const COUNT: &str = "count";

/// The mark that the person was told of it.
const TOLD: &str = "told";

/// What a budget is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetScope {
    /// A thread: beyond it the app is silent until it is mentioned.
    Thread,
    /// A person, by the hour.
    Person,
    /// A workspace, by the hour.
    Team,
}

/// What a budget says to one more question.
#[derive(Debug, PartialEq)]
pub enum BudgetStep {
    /// It has been counted.
    Counted,
    /// There is room: this counts it, unless another question came first.
    Count(Box<Update>),
    /// There is no room.
    Spent,
}

/// The row of a budget for a question that comes at this second.
#[must_use]
pub fn key(scope: BudgetScope, id: &QuestionId, asked: &AskedText, now_s: i64) -> ItemKey {
    let hour = now_s.div_euclid(3_600);
    let of = match scope {
        BudgetScope::Thread => format!("thread#{}#{}", id.channel, id.thread_ts),
        BudgetScope::Person => format!("hour#{hour:09}#user#{}", asked.user),
        BudgetScope::Team => format!("hour#{hour:09}#team"),
    };
    ItemKey::budget(&id.team, &of)
}

/// Whether the row of a budget is of an hour that is over, and may go.
#[must_use]
pub fn is_over(row: &Item, now_s: i64) -> bool {
    let hour = row.key.timestamp.strip_prefix("hour#").and_then(|rest| rest.split('#').next()?.parse().ok());
    hour.is_some_and(|hour: i64| hour + 1 < now_s.div_euclid(3_600))
}

/// Counts a question against the row of a budget as it was read.
#[must_use]
pub fn step(key: ItemKey, row: Option<&Item>, id: &QuestionId, most: u32) -> BudgetStep {
    let mark = format!("q#{}#{}", id.channel, id.ts);
    if row.is_some_and(|row| row.is(&mark)) {
        return BudgetStep::Counted;
    }
    let before = row.and_then(|row| row.text(COUNT)).map(str::to_owned);
    let count: u32 = before.as_deref().and_then(|count| count.parse().ok()).unwrap_or_default();
    if count >= most {
        return BudgetStep::Spent;
    }
    let version = format!("{:09}", count + 1);
    let guard = Guard::Unchanged { register: COUNT.into(), expected: before, version };
    let mut update = Update { guard, ..Update::new(key) };
    update.set.insert(mark, true.into());
    BudgetStep::Count(Box::new(update))
}

/// Remembers that a person was told, if it is not remembered yet.
#[must_use]
pub fn telling(key: ItemKey, id: &QuestionId) -> Update {
    let version = format!("{}#{}", id.channel, id.ts);
    let guard = Guard::Unchanged { register: TOLD.into(), expected: None, version };
    Update { guard, ..Update::new(key) }
}

/// Whether the person was told by the answer to this question.
#[must_use]
pub fn was_told_by(row: &Item, id: &QuestionId) -> bool {
    row.text(TOLD) == Some(&format!("{}#{}", id.channel, id.ts))
}

#[cfg(test)]
mod tests {
    use slack::ids::{ChannelId, TeamId, Ts, UserId};

    use super::*;

    fn id(n: u32) -> QuestionId {
        let ts = Ts::parse(&format!("1700000000.{n:06}")).unwrap();
        QuestionId {
            team: TeamId::parse("T1").unwrap(),
            channel: ChannelId::parse("C1").unwrap(),
            thread_ts: ts.clone(),
            ts,
        }
    }

    #[test]
    fn a_question_is_counted_once_and_beyond_the_budget_not_at_all() {
        let asked = AskedText {
            user: UserId::parse("U1").unwrap(),
            text: String::new(),
            mentioned: None,
            files: Vec::new(),
        };
        let key = key(BudgetScope::Person, &id(1), &asked, 7_200);
        assert_eq!(key.timestamp, "hour#000000002#user#U1");
        let mut row: Option<Item> = None;
        for (n, expected) in [(1, "counted"), (2, "counted"), (1, "known"), (3, "spent")] {
            let found = match step(key.clone(), row.as_ref(), &id(n), 2) {
                BudgetStep::Count(update) => {
                    let attributes = update.apply(row.as_ref().map(|row| &row.attributes)).unwrap();
                    row = Some(Item { key: key.clone(), attributes });
                    "counted"
                }
                BudgetStep::Counted => "known",
                BudgetStep::Spent => "spent",
            };
            assert_eq!(found, expected, "{n}");
        }
        let row = row.unwrap();
        assert!(!is_over(&row, 7_200 + 3_600) && is_over(&row, 7_200 + 7_200));
        let told = telling(key.clone(), &id(3)).apply(Some(&row.attributes)).unwrap();
        assert_eq!(telling(key.clone(), &id(4)).apply(Some(&told)), None, "a person is told once");
        assert!(was_told_by(&Item { key, attributes: told }, &id(3)));
    }
}
