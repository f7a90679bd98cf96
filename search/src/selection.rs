//! Which messages of the index may fit a query.

use reader::joined::ChannelPlace;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::expression::IndexQuery;
use crate::index::{IndexHit, first_id, known_place, spelled};

/// How many of the newest hits are ranked: a rank costs about 2 µs each, and of a word that is in every other message
/// the best one is no better than the newest.
const RANKED: i64 = 10_000;

/// A reply to the message is known.
const HAS_REPLIES: &str = "EXISTS (SELECT 1 FROM messages AS reply WHERE reply.place = messages.place \
     AND reply.thread = messages.ts AND reply.ts <> messages.ts)";

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
    let id = selection.id();
    selection.hits(connection, &format!("{id} DESC"), limit)
}

/// The best of the newest ones, the best first. Without words all are equally good, and the newest come first.
pub(crate) fn best(
    connection: &Connection,
    query: &IndexQuery,
    limit: usize,
) -> rusqlite::Result<Vec<IndexHit>> {
    let Some(mut selection) = Selection::of(connection, query)? else { return Ok(Vec::new()) };
    if !selection.is_by_words {
        return newest(connection, query, None, limit);
    }
    if let Some(oldest) = selection.after_newest(connection, RANKED)? {
        selection.and_id(">", oldest);
    }
    selection.hits(connection, "bm25(words, 1.0, 0.0), words.rowid DESC", limit)
}

/// Conditions on messages, as SQL.
struct Selection {
    /// Found by their words; otherwise all messages are gone through.
    is_by_words: bool,
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Selection {
    /// `None` if nothing can fit: the query asks for channels of which the index has no message.
    fn of(connection: &Connection, query: &IndexQuery) -> rusqlite::Result<Option<Self>> {
        let mut places = Vec::with_capacity(query.places.len());
        for alternatives in &query.places {
            let mut known = Vec::new();
            for ChannelPlace { team, channel } in alternatives {
                known.extend(known_place(connection, [team.as_str(), channel.as_str()])?);
            }
            if known.is_empty() {
                return Ok(None);
            }
            places.push(known);
        }
        let expression = query.expression(&places);
        let is_by_words = expression.is_some();
        let mut selection = Self { is_by_words, conditions: Vec::new(), values: Vec::new() };
        if let Some(expression) = expression {
            selection.and("words MATCH", Value::Text(expression));
        }
        if let Some(since) = &query.since {
            selection.and("messages.ts >=", since.micros().into());
            selection.and_id(">=", first_id(since.micros()));
        }
        if let Some(until) = &query.until {
            selection.and("messages.ts <", until.micros().into());
        }
        if query.has_replies {
            selection.conditions.push(HAS_REPLIES.to_owned());
        }
        if query.is_in_thread {
            selection.conditions.push(format!("(messages.thread IS NOT NULL OR {HAS_REPLIES})"));
        }
        Ok(Some(selection))
    }

    fn and(&mut self, comparison: &str, value: Value) {
        self.values.push(value);
        self.conditions.push(format!("{comparison} ?{}", self.values.len()));
    }

    fn and_id(&mut self, comparison: &str, id: i64) {
        self.and(&format!("{} {comparison}", self.id()), id.into());
    }

    fn id(&self) -> &'static str {
        if self.is_by_words { "words.rowid" } else { "messages.id" }
    }

    fn sql(&self, columns: &str, behind: &str) -> String {
        // A cross join keeps the word list outside: it is in the order of ids, and few rows are wanted.
        let from = if self.is_by_words {
            "words CROSS JOIN messages ON messages.id = words.rowid"
        } else {
            "messages"
        };
        let conditions =
            if self.conditions.is_empty() { "TRUE".to_owned() } else { self.conditions.join(" AND ") };
        format!("SELECT {columns} FROM {from} WHERE {conditions} {behind}")
    }

    /// The newest one behind the newest `count`.
    fn after_newest(&self, connection: &Connection, count: i64) -> rusqlite::Result<Option<i64>> {
        let id = self.id();
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
                hits.push(IndexHit { id: row.get(0)?, place: ChannelPlace { team, channel }, ts });
            }
        }
        Ok(hits)
    }
}
