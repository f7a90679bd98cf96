//! How many questions are taken on: rows that count them, because a fleet has many processes. The row of a question says that it
//! was counted, so that one that comes again is counted once.

use ports::archive::key::budgets;
use ports::archive::{Guard, Item, ItemKey, Query, Update};
use slack::ids::TeamId;

use super::{QuestionId, QuestionText};

/// The register of a row: how many questions were counted.
const COUNT: &str = "count";

/// The mark that the person was told of it.
const TOLD: &str = "told";

/// What has a row that counts questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetScope {
    /// A thread: beyond it the app is silent until it is mentioned.
    Thread,
    /// A person, by the hour. What a workspace has asked in an hour is the sum of what its people have.
    Person,
}

/// The row of a budget for a question that comes at this second.
pub fn key(scope: BudgetScope, id: &QuestionId, asked: &QuestionText, now_s: i64) -> ItemKey {
    let of = match scope {
        BudgetScope::Thread => format!("thread#{}#{}", id.channel, id.thread_ts),
        BudgetScope::Person => format!("{}#{}", people(now_s), asked.user),
    };
    ItemKey::budget(&id.team, &of)
}

fn people(now_s: i64) -> String {
    format!("hour#{:09}#user", now_s.div_euclid(3_600))
}

/// The rows of all people of a workspace in the hour of this second.
pub fn of_people(team: &TeamId, now_s: i64) -> Query {
    let people = people(now_s);
    let after = ItemKey::budget(team, &format!("{people}#"));
    Query { after: Some(after), until: Some(format!("{people}$")), ..Query::partition(budgets(team)) }
}

/// Whether the row of a budget is of an hour that is over, and may go.
pub fn is_over(row: &Item, now_s: i64) -> bool {
    let hour = row.key.timestamp.strip_prefix("hour#").and_then(|rest| rest.split('#').next()?.parse().ok());
    hour.is_some_and(|hour: i64| hour + 1 < now_s.div_euclid(3_600))
}

/// How many questions a row has counted.
pub fn counted(row: Option<&Item>) -> u32 {
    row.and_then(|row| row.text(COUNT)?.parse().ok()).unwrap_or_default()
}

/// Counts one more question in a row as it was read, unless another question came first.
pub fn count(key: ItemKey, row: Option<&Item>) -> Update {
    becomes(key, row, counted(row).saturating_add(1))
}

/// Counts from zero again in a row as it was read, unless another question came first.
pub fn reopen(key: ItemKey, row: Option<&Item>) -> Update {
    becomes(key, row, 0)
}

fn becomes(key: ItemKey, row: Option<&Item>, count: u32) -> Update {
    let expected = row.and_then(|row| row.text(COUNT)).map(str::to_owned);
    let version = format!("{count:09}");
    Update { guard: Guard::Unchanged { register: COUNT.into(), expected, version }, ..Update::new(key) }
}

/// Remembers that a person was told, if it is not remembered yet.
pub fn telling(key: ItemKey, id: &QuestionId) -> Update {
    let version = format!("{}#{}", id.channel, id.ts);
    let guard = Guard::Unchanged { register: TOLD.into(), expected: None, version };
    Update { guard, ..Update::new(key) }
}

/// Whether the person was told by the answer to this question.
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
    fn questions_are_counted_one_by_one_and_a_person_is_told_once() {
        let asked = QuestionText {
            user: UserId::parse("U1").unwrap(),
            text: String::new(),
            mentioned: None,
            files: Vec::new(),
        };
        let key = key(BudgetScope::Person, &id(1), &asked, 7_200);
        assert_eq!(key.timestamp, "hour#000000002#user#U1");
        let mut row: Option<Item> = None;
        for expected in 1..=2 {
            let update = count(key.clone(), row.as_ref());
            let attributes = update.apply(row.as_ref().map(|row| &row.attributes)).unwrap();
            assert_eq!(update.apply(Some(&attributes)), None, "it counts one question");
            row = Some(Item { key: key.clone(), attributes });
            assert_eq!(counted(row.as_ref()), expected);
        }
        let row = row.unwrap();
        let reopened = reopen(key.clone(), Some(&row)).apply(Some(&row.attributes)).unwrap();
        assert_eq!(counted(Some(&Item { key: key.clone(), attributes: reopened })), 0);
        assert!(!is_over(&row, 7_200 + 3_600) && is_over(&row, 7_200 + 7_200));
        let told = telling(key.clone(), &id(3)).apply(Some(&row.attributes)).unwrap();
        assert_eq!(telling(key.clone(), &id(4)).apply(Some(&told)), None, "a person is told once");
        assert!(was_told_by(&Item { key, attributes: told }, &id(3)));
    }

    #[test]
    fn the_people_of_an_hour_are_a_range_of_rows() {
        let Query { partition, after, until, .. } = of_people(&TeamId::parse("T1").unwrap(), 7_200);
        assert_eq!(partition, ports::archive::Partition::Item("budget#T1".into()));
        let (after, until) = (after.unwrap().timestamp, until.unwrap());
        let is_within = |timestamp: &str| timestamp > after.as_str() && timestamp < until.as_str();
        assert!(is_within("hour#000000002#user#U1") && is_within("hour#000000002#user#W9"));
        for other in
            ["hour#000000001#user#U1", "hour#000000003#user#U1", "hour#000000002#team", "thread#C1#1.000000"]
        {
            assert!(!is_within(other), "{other}");
        }
    }
}
