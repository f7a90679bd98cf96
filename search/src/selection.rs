//! Which messages of the index may fit a query.

use reader::joined::ChannelOfTeam;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::expression::IndexQuery;
use crate::index::IndexHit;
use crate::put::{end_id, first_id, known_place, spelled};

/// How many of the newest hits are ranked: a rank costs about 2 µs each, and of a word that is in every other message
/// the best one is no better than the newest.
const RANKED: i64 = 10_000;

/// The newest, of those with lesser ids than `before`.
pub(crate) fn newest(
    connection: &Connection,
    query: &IndexQuery,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<IndexHit>> {
    let Some(mut selection) = Selection::of(connection, query)? else { return Ok(Vec::new()) };
    if let Some(before) = before {
        selection.and_id("<", before);
    }
    let id = selection.through.id();
    selection.hits(connection, &format!("{id} DESC"), limit)
}

/// The best of the newest ones, the best first. If no text is asked for, all are equally good, and the newest come first.
pub(crate) fn best(
    connection: &Connection,
    query: &IndexQuery,
    limit: usize,
) -> rusqlite::Result<Vec<IndexHit>> {
    let Some(mut selection) = Selection::of(connection, query)? else { return Ok(Vec::new()) };
    if !query.has_text {
        return newest(connection, query, None, limit);
    }
    if let Some(oldest) = selection.after_newest(connection, RANKED)? {
        selection.and_id(">", oldest);
    }
    selection.hits(connection, "bm25(words, 1.0, 0.0), words.rowid DESC", limit)
}

/// Which list of messages is gone through, from its end to its beginning. Each is in the order of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    /// Those that have words or facets.
    Words,
    /// Those of threads.
    Threads,
    /// All.
    Messages,
}

impl Through {
    fn id(self) -> &'static str {
        match self {
            Self::Words => "words.rowid",
            Self::Threads => "threads.id",
            Self::Messages => "messages.id",
        }
    }

    /// A cross join keeps the list outside: few of its rows are wanted.
    fn tables(self) -> &'static str {
        match self {
            Self::Words => "words CROSS JOIN messages ON messages.id = words.rowid",
            Self::Threads => "threads CROSS JOIN messages ON messages.id = threads.id",
            Self::Messages => "messages",
        }
    }
}

/// Only messages of threads, or only those with replies.
fn of_threads(through: Through, has_replies: bool) -> String {
    match (through, has_replies) {
        (Through::Threads, true) => "threads.has_replies".to_owned(),
        (Through::Threads, false) => "TRUE".to_owned(),
        (Through::Words | Through::Messages, _) => {
            let which = if has_replies { "AND thread.has_replies" } else { "" };
            format!("EXISTS (SELECT 1 FROM threads AS thread WHERE thread.id = messages.id {which})")
        }
    }
}

/// Conditions on messages, as SQL.
struct Selection {
    through: Through,
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Selection {
    /// `None` if nothing can fit: the query asks for channels of which the index has no message.
    fn of(connection: &Connection, query: &IndexQuery) -> rusqlite::Result<Option<Self>> {
        let mut places = Vec::with_capacity(query.places.len());
        for alternatives in &query.places {
            let mut known = Vec::new();
            for ChannelOfTeam { team, channel } in alternatives {
                known.extend(known_place(connection, [team.as_str(), channel.as_str()])?);
            }
            if known.is_empty() {
                return Ok(None);
            }
            places.push(known);
        }
        let expression = query.expression(&places);
        let is_of_threads = query.has_replies || query.is_in_thread;
        let through = match &expression {
            Some(_) => Through::Words,
            None if is_of_threads => Through::Threads,
            None => Through::Messages,
        };
        let mut selection = Self { through, conditions: Vec::new(), values: Vec::new() };
        selection.and_teams(connection, &query.teams)?;
        if let Some(expression) = expression {
            selection.and("words MATCH", Value::Text(expression));
        }
        if let Some(since) = &query.since {
            selection.and("messages.ts >=", since.micros().into());
            selection.and_id(">=", first_id(since.micros()));
        }
        if let Some(until) = &query.until {
            selection.and("messages.ts <", until.micros().into());
            selection.and_id("<", end_id(connection, until.micros())?);
        }
        if is_of_threads {
            selection.conditions.push(of_threads(through, query.has_replies));
        }
        Ok(Some(selection))
    }

    fn and(&mut self, comparison: &str, value: Value) {
        self.values.push(value);
        self.conditions.push(format!("{comparison} ?{}", self.values.len()));
    }

    /// Only messages of these workspaces, if the index has others.
    fn and_teams(&mut self, connection: &Connection, teams: &[TeamId]) -> rusqlite::Result<()> {
        let names: Vec<&str> = teams.iter().map(TeamId::as_str).collect();
        let numbers: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
        let numbers = numbers.join(", ");
        let sql = format!("SELECT EXISTS (SELECT 1 FROM places WHERE team NOT IN ({numbers}))");
        if connection.query_row(&sql, params_from_iter(&names), |row| row.get(0))? {
            // The numbers of its values are those of the list: it is the first condition.
            self.values.extend(names.into_iter().map(|name| Value::Text(name.to_owned())));
            self.conditions
                .push(format!("messages.place IN (SELECT id FROM places WHERE team IN ({numbers}))"));
        }
        Ok(())
    }

    fn and_id(&mut self, comparison: &str, id: i64) {
        self.and(&format!("{} {comparison}", self.through.id()), id.into());
    }

    fn sql(&self, columns: &str, behind: &str) -> String {
        let from = self.through.tables();
        let conditions =
            if self.conditions.is_empty() { "TRUE".to_owned() } else { self.conditions.join(" AND ") };
        format!("SELECT {columns} FROM {from} WHERE {conditions} {behind}")
    }

    /// The newest one behind the newest `count`.
    fn after_newest(&self, connection: &Connection, count: i64) -> rusqlite::Result<Option<i64>> {
        let id = self.through.id();
        let sql = self.sql(id, &format!("ORDER BY {id} DESC LIMIT 1 OFFSET {count}"));
        connection.prepare(&sql)?.query_row(params_from_iter(&self.values), |row| row.get(0)).optional()
    }

    fn hits(&self, connection: &Connection, order: &str, limit: usize) -> rusqlite::Result<Vec<IndexHit>> {
        let columns = "messages.id, messages.ts, messages.spelling, \
                       (SELECT team FROM places WHERE id = messages.place), \
                       (SELECT channel FROM places WHERE id = messages.place)";
        let sql = self.sql(columns, &format!("ORDER BY {order} LIMIT {limit}"));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(params_from_iter(&self.values))?;
        let mut hits = Vec::new();
        while let Some(row) = rows.next()? {
            let spelling: Option<String> = row.get(2)?;
            let ts = match spelling {
                Some(spelling) => spelling,
                None => spelled(row.get(1)?),
            };
            let (team, channel): (String, String) = (row.get(3)?, row.get(4)?);
            if let (Ok(team), Ok(channel), Ok(ts)) =
                (TeamId::parse(&team), ChannelId::parse(&channel), Ts::parse(&ts))
            {
                hits.push(IndexHit { id: row.get(0)?, place: ChannelOfTeam { team, channel }, ts });
            }
        }
        Ok(hits)
    }
}
