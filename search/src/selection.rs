//! Selects the messages of the index that may match a query.

use reader::joined::ChannelOfTeam;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::expression::IndexQuery;
use crate::write::{end_id, first_id, known_place_id, ts_text};

/// Maximum number of newest hits that are ranked. Ranking a hit costs about 2 µs, and for a word in every
/// other message the best hit is no better than the newest.
const MAX_RANKED: i64 = 10_000;

/// A message that the index found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHit {
    /// Its id in the index. Messages of later seconds have greater ids.
    pub id: i64,
    pub location: ChannelOfTeam,
    /// When it was written.
    pub ts: Ts,
}

/// Returns the newest hits with ids less than `before`.
pub(crate) fn newest(
    connection: &Connection,
    query: &IndexQuery,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<IndexHit>> {
    let Some(mut selection) = Selection::new(connection, query)? else { return Ok(Vec::new()) };
    if let Some(before) = before {
        selection.and_id("<", before);
    }
    let id = selection.scan_table.id();
    selection.hits(connection, &format!("{id} DESC"), limit)
}

/// Returns the best of the newest hits, best first. Without a text, all hits rank equally and the newest come
/// first.
pub(crate) fn best(
    connection: &Connection,
    query: &IndexQuery,
    limit: usize,
) -> rusqlite::Result<Vec<IndexHit>> {
    let Some(mut selection) = Selection::new(connection, query)? else { return Ok(Vec::new()) };
    if !query.has_text {
        return newest(connection, query, None, limit);
    }
    if let Some(oldest) = selection.after_newest(connection, MAX_RANKED)? {
        selection.and_id(">", oldest);
    }
    selection.hits(connection, "bm25(words, 1.0, 0.0), words.rowid DESC", limit)
}

/// Counts the messages, up to `max`.
pub(crate) fn count(connection: &Connection, query: &IndexQuery, max: usize) -> rusqlite::Result<u64> {
    let Some(selection) = Selection::new(connection, query)? else { return Ok(0) };
    let sql = format!("SELECT count(*) FROM ({})", selection.sql("1", &format!("LIMIT {max}")));
    let count: i64 =
        connection.prepare(&sql)?.query_row(params_from_iter(&selection.values), |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// The table that is scanned, in descending order of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanTable {
    /// Messages by words and facets.
    Words,
    /// Messages of threads.
    Threads,
    Messages,
}

impl ScanTable {
    fn id(self) -> &'static str {
        match self {
            Self::Words => "words.rowid",
            Self::Threads => "threads.id",
            Self::Messages => "messages.id",
        }
    }

    /// The cross join makes SQLite scan this table in the outer loop, because few of its rows are needed.
    fn tables(self) -> &'static str {
        match self {
            Self::Words => "words CROSS JOIN messages ON messages.id = words.rowid",
            Self::Threads => "threads CROSS JOIN messages ON messages.id = threads.id",
            Self::Messages => "messages",
        }
    }
}

/// Returns the condition for messages of threads, or for messages with replies.
fn thread_condition(scan_table: ScanTable, has_replies: bool) -> String {
    match (scan_table, has_replies) {
        (ScanTable::Threads, true) => "threads.has_replies".to_owned(),
        (ScanTable::Threads, false) => "TRUE".to_owned(),
        (ScanTable::Words | ScanTable::Messages, _) => {
            let which = if has_replies { "AND thread.has_replies" } else { "" };
            format!("EXISTS (SELECT 1 FROM threads AS thread WHERE thread.id = messages.id {which})")
        }
    }
}

/// Conditions on messages, as SQL.
struct Selection {
    scan_table: ScanTable,
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Selection {
    /// Returns `None` if nothing can match, because the index has no message of the requested channels.
    fn new(connection: &Connection, query: &IndexQuery) -> rusqlite::Result<Option<Self>> {
        let mut place_ids = Vec::with_capacity(query.locations.len());
        for alternatives in &query.locations {
            let mut known = Vec::new();
            for ChannelOfTeam { team, channel } in alternatives {
                known.extend(known_place_id(connection, [team.as_str(), channel.as_str()])?);
            }
            if known.is_empty() {
                return Ok(None);
            }
            place_ids.push(known);
        }
        let mut hidden = Vec::new();
        for (team, channel) in query.hidden.iter() {
            hidden.extend(known_place_id(connection, [team.as_str(), channel.as_str()])?);
        }
        let expression = query.expression(&place_ids, &hidden);
        let needs_thread = query.has_replies || query.is_in_thread;
        let scan_table = match &expression {
            Some(_) => ScanTable::Words,
            None if needs_thread => ScanTable::Threads,
            None => ScanTable::Messages,
        };
        let mut selection = Self { scan_table, conditions: Vec::new(), values: Vec::new() };
        selection.and_teams(connection, &query.teams)?;
        match expression {
            Some(expression) => selection.and("words MATCH", Value::Text(expression)),
            None if hidden.is_empty() => {}
            None => {
                let hidden: Vec<String> = hidden.iter().map(i64::to_string).collect();
                selection.conditions.push(format!("messages.place NOT IN ({})", hidden.join(", ")));
            }
        }
        if let Some(since) = &query.since {
            selection.and("messages.ts >=", since.micros().into());
            selection.and_id(">=", first_id(since.micros()));
        }
        if let Some(until) = &query.until {
            selection.and("messages.ts <", until.micros().into());
            selection.and_id("<", end_id(connection, until.micros())?);
        }
        if needs_thread {
            selection.conditions.push(thread_condition(scan_table, query.has_replies));
        }
        Ok(Some(selection))
    }

    fn and(&mut self, comparison: &str, value: Value) {
        self.values.push(value);
        self.conditions.push(format!("{comparison} ?{}", self.values.len()));
    }

    /// Restricts the selection to these workspaces, if the index has others.
    fn and_teams(&mut self, connection: &Connection, teams: &[TeamId]) -> rusqlite::Result<()> {
        let names: Vec<&str> = teams.iter().map(TeamId::as_str).collect();
        let numbers: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
        let numbers = numbers.join(", ");
        let sql = format!("SELECT EXISTS (SELECT 1 FROM places WHERE team NOT IN ({numbers}))");
        if connection.query_row(&sql, params_from_iter(&names), |row| row.get(0))? {
            // This must be the first condition, because the numbers of its parameters start at 1.
            self.values.extend(names.into_iter().map(|name| Value::Text(name.to_owned())));
            self.conditions
                .push(format!("messages.place IN (SELECT id FROM places WHERE team IN ({numbers}))"));
        }
        Ok(())
    }

    fn and_id(&mut self, comparison: &str, id: i64) {
        self.and(&format!("{} {comparison}", self.scan_table.id()), id.into());
    }

    fn sql(&self, columns: &str, suffix: &str) -> String {
        let from = self.scan_table.tables();
        let conditions =
            if self.conditions.is_empty() { "TRUE".to_owned() } else { self.conditions.join(" AND ") };
        format!("SELECT {columns} FROM {from} WHERE {conditions} {suffix}")
    }

    /// Returns the id of the newest message after the newest `count`.
    fn after_newest(&self, connection: &Connection, count: i64) -> rusqlite::Result<Option<i64>> {
        let id = self.scan_table.id();
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
                None => ts_text(row.get(1)?),
            };
            let (team, channel): (String, String) = (row.get(3)?, row.get(4)?);
            if let (Ok(team), Ok(channel), Ok(ts)) =
                (TeamId::parse(&team), ChannelId::parse(&channel), Ts::parse(&ts))
            {
                hits.push(IndexHit { id: row.get(0)?, location: ChannelOfTeam { team, channel }, ts });
            }
        }
        Ok(hits)
    }
}
