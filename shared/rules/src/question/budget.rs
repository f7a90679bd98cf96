//! Budgets of questions: rows that count them, because a fleet has many processes. The row of a question
//! records that it was counted, so that a redelivered question is counted once.

use ports::archive::key::budgets;
use ports::archive::{Guard, Item, ItemKey, Query, Update};
use slack::ids::TeamId;

use super::{QuestionId, QuestionText};

/// The register of a row: the number of questions that were counted.
const COUNT: &str = "count";

/// The register with the question whose answer notified the user of the spent budget.
const NOTIFIED: &str = "told";

/// The scope of a row that counts questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetScope {
    /// A thread: when its budget is spent, the app is silent until a message mentions it.
    Thread,
    /// A user, by the hour. The count of a workspace in an hour is the sum of the counts of its users.
    Person,
}

/// The key of a budget's row for a question that arrives at this second.
pub fn key(scope: BudgetScope, id: &QuestionId, asked: &QuestionText, now_s: i64) -> ItemKey {
    let timestamp = match scope {
        BudgetScope::Thread => format!("thread#{}#{}", id.channel, id.thread_ts),
        BudgetScope::Person => format!("{}#{}", people(now_s), asked.user),
    };
    ItemKey::budget(&id.team, &timestamp)
}

fn people(now_s: i64) -> String {
    format!("hour#{:09}#user", now_s.div_euclid(3_600))
}

/// The query for the rows of all users of a workspace in the hour of this second.
pub fn people_of_hour(team: &TeamId, now_s: i64) -> Query {
    let people = people(now_s);
    let after = ItemKey::budget(team, &format!("{people}#"));
    Query { after: Some(after), until: Some(format!("{people}$")), ..Query::partition(budgets(team)) }
}

/// Whether the row of a budget belongs to a past hour and can be deleted.
pub fn is_over(row: &Item, now_s: i64) -> bool {
    let hour = row.key.timestamp.strip_prefix("hour#").and_then(|rest| rest.split('#').next()?.parse().ok());
    hour.is_some_and(|hour: i64| hour + 1 < now_s.div_euclid(3_600))
}

/// The number of questions that a row has counted.
pub fn counted(row: Option<&Item>) -> u32 {
    row.and_then(|row| row.text(COUNT)?.parse().ok()).unwrap_or_default()
}

/// The update that counts one more question, unless the row has changed since it was read.
pub fn count(key: ItemKey, row: Option<&Item>) -> Update {
    count_update(key, row, counted(row).saturating_add(1))
}

/// The update that resets the count to zero, unless the row has changed since it was read.
pub fn reopen(key: ItemKey, row: Option<&Item>) -> Update {
    count_update(key, row, 0)
}

fn count_update(key: ItemKey, row: Option<&Item>, count: u32) -> Update {
    let expected = row.and_then(|row| row.text(COUNT)).map(str::to_owned);
    let version = format!("{count:09}");
    Update { guard: Guard::Unchanged { register: COUNT.into(), expected, version }, ..Update::new(key) }
}

/// The update that records that the user was notified, if that is not recorded yet.
pub fn mark_notified(key: ItemKey, id: &QuestionId) -> Update {
    let version = format!("{}#{}", id.channel, id.ts);
    let guard = Guard::Unchanged { register: NOTIFIED.into(), expected: None, version };
    Update { guard, ..Update::new(key) }
}

/// Whether the answer to this question notified the user.
pub fn was_notified_by(row: &Item, id: &QuestionId) -> bool {
    row.text(NOTIFIED) == Some(&format!("{}#{}", id.channel, id.ts))
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
    fn questions_are_counted_one_by_one_and_a_user_is_notified_once() {
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
        let notified = mark_notified(key.clone(), &id(3)).apply(Some(&row.attributes)).unwrap();
        assert_eq!(
            mark_notified(key.clone(), &id(4)).apply(Some(&notified)),
            None,
            "a user is notified once"
        );
        assert!(was_notified_by(&Item { key, attributes: notified }, &id(3)));
    }

    #[test]
    fn the_users_of_an_hour_are_a_range_of_rows() {
        let Query { partition, after, until, .. } = people_of_hour(&TeamId::parse("T1").unwrap(), 7_200);
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
