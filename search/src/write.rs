//! Adds one message to the index's tables, or changes or removes it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use reader::joined::ChannelOfTeam;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use slack::ids::Ts;

use crate::entries;

/// Number of ids per second. Further messages of the second get ids of the next second with free ids, which
/// only affects the order of these messages.
pub(crate) const IDS_PER_SECOND: i64 = 256;

/// The new state of a message for the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedMessage {
    pub location: ChannelOfTeam,
    /// When it was written.
    pub ts: Ts,
    /// `None` if the message must be removed from the index.
    pub words: Option<IndexedText>,
}

/// The indexed content of a message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct IndexedText {
    /// Its words, separated by spaces.
    pub body: String,
    /// Its facets, separated by spaces.
    pub facets: String,
    /// The root of its thread, in microseconds.
    pub thread: Option<i64>,
    /// Whether it is a message, and not the canvas of a channel.
    pub is_message: bool,
}

/// A message in the index.
struct KnownMessage {
    id: i64,
    hash: i64,
    thread: Option<i64>,
    counted: i64,
}

pub(crate) fn index_message(transaction: &Transaction<'_>, message: &IndexedMessage) -> rusqlite::Result<()> {
    let place_id = find_or_create_place(transaction, &message.location, message.words.is_some())?;
    let Some(place_id) = place_id else { return Ok(()) };
    let ts = message.ts.micros();
    let spelling = Some(message.ts.as_str()).filter(|text| *text != ts_text(ts));
    let known = transaction
        .prepare_cached(
            "SELECT id, hash, thread, counted FROM messages WHERE ts = ?1 AND place = ?2 AND spelling IS ?3",
        )?
        .query_row(params![ts, place_id, spelling], |row| {
            Ok(KnownMessage { id: row.get(0)?, hash: row.get(1)?, thread: row.get(2)?, counted: row.get(3)? })
        })
        .optional()?;
    match (known, &message.words) {
        (None, None) => Ok(()),
        (Some(known), None) => {
            remove(transaction, &known, ts)?;
            add_to_place(transaction, place_id, -known.counted)
        }
        (Some(known), Some(words)) if known.hash == hash(words) => Ok(()),
        (Some(known), Some(words)) => {
            transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([known.id])?;
            let entries = insert_words(transaction, known.id, place_id, words)?;
            transaction
                .prepare_cached(
                    "UPDATE messages SET thread = ?2, hash = ?3, counted = ?4, entries = ?5 WHERE id = ?1",
                )?
                .execute(params![known.id, words.thread, hash(words), counted(words), entries])?;
            add_to_place(transaction, place_id, counted(words) - known.counted)?;
            join_thread(transaction, known.id, ts, words.thread)?;
            if known.thread != words.thread {
                update_has_replies(transaction, known.thread)?;
            }
            Ok(())
        }
        (None, Some(words)) => {
            let id = free_id(transaction, ts)?;
            let entries = insert_words(transaction, id, place_id, words)?;
            transaction
                .prepare_cached(
                    "INSERT INTO messages (id, place, ts, spelling, thread, hash, counted, entries) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![
                    id,
                    place_id,
                    ts,
                    spelling,
                    words.thread,
                    hash(words),
                    counted(words),
                    entries
                ])?;
            join_thread(transaction, id, ts, words.thread)?;
            add_to_place(transaction, place_id, counted(words))
        }
    }
}

fn counted(words: &IndexedText) -> i64 {
    i64::from(words.is_message)
}

fn add_to_place(transaction: &Transaction<'_>, place_id: i64, messages: i64) -> rusqlite::Result<()> {
    if messages == 0 {
        return Ok(());
    }
    transaction
        .prepare_cached("UPDATE places SET messages = messages + ?2 WHERE id = ?1")?
        .execute([place_id, messages])?;
    Ok(())
}

fn insert_words(
    transaction: &Transaction<'_>,
    id: i64,
    place_id: i64,
    words: &IndexedText,
) -> rusqlite::Result<i64> {
    let facets = format!("{} {}", words.facets, place_facet(place_id));
    transaction
        .prepare_cached("INSERT INTO words (rowid, body, facets) VALUES (?1, ?2, ?3)")?
        .execute(params![id, words.body, facets])?;
    Ok(entries::sum_of(id, &words.body, &facets))
}

fn remove(transaction: &Transaction<'_>, known: &KnownMessage, ts: i64) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM words WHERE rowid = ?1",
        "DELETE FROM messages WHERE id = ?1",
        "DELETE FROM threads WHERE id = ?1",
    ] {
        transaction.prepare_cached(sql)?.execute([known.id])?;
    }
    update_has_replies(transaction, known.thread.filter(|root| *root != ts))
}

/// Updates the threads of a message. The index may receive a root and its replies in any order. The channel
/// of a reply is ignored, because a channel may have several locations, and hits are compared with the
/// archive.
fn join_thread(transaction: &Transaction<'_>, id: i64, ts: i64, thread: Option<i64>) -> rusqlite::Result<()> {
    let has_replies = has_replies(transaction, ts)?;
    if thread.is_some() || has_replies {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO threads (id, has_replies) VALUES (?1, ?2)")?
            .execute(params![id, has_replies])?;
    } else {
        transaction.prepare_cached("DELETE FROM threads WHERE id = ?1")?.execute([id])?;
    }
    update_has_replies(transaction, thread.filter(|root| *root != ts))
}

/// Updates whether the messages with this timestamp have replies.
fn update_has_replies(transaction: &Transaction<'_>, root: Option<i64>) -> rusqlite::Result<()> {
    let Some(root) = root else { return Ok(()) };
    let has_replies = has_replies(transaction, root)?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO threads (id, has_replies) \
             SELECT id, ?2 FROM messages WHERE ts = ?1 AND (?2 OR thread IS NOT NULL)",
        )?
        .execute(params![root, has_replies])?;
    if !has_replies {
        transaction
            .prepare_cached(
                "DELETE FROM threads WHERE id IN (SELECT id FROM messages WHERE ts = ?1 AND thread IS NULL)",
            )?
            .execute([root])?;
    }
    Ok(())
}

fn has_replies(transaction: &Transaction<'_>, root: i64) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM messages WHERE thread = ?1 AND ts <> ?1)")?
        .query_row([root], |row| row.get(0))
}

/// Returns a hash that distinguishes two contents of a message. If another version computes a different hash,
/// the message is only written again.
fn hash(words: &IndexedText) -> i64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(words).cast_signed()
}

/// Returns a timestamp in Slack's format.
pub(crate) fn ts_text(micros: i64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Returns the first id for messages of a second.
pub(crate) fn first_id(micros: i64) -> i64 {
    micros.div_euclid(1_000_000).saturating_mul(IDS_PER_SECOND)
}

/// Returns an id greater than those of all messages before a time. Some messages have ids of a later second.
pub(crate) fn end_id(connection: &Connection, micros: i64) -> rusqlite::Result<i64> {
    let ahead_s: i64 =
        connection.prepare_cached("SELECT ahead_s FROM state")?.query_row([], |row| row.get(0))?;
    let last_second = micros.saturating_sub(1);
    Ok(first_id(last_second).saturating_add((ahead_s + 1) * IDS_PER_SECOND))
}

/// Returns a free id: the next one of the message's second, or otherwise of a later second.
fn free_id(transaction: &Transaction<'_>, ts: i64) -> rusqlite::Result<i64> {
    let first = first_id(ts);
    let (ahead_s, id) = first_with_room(|ahead_s| next_id(transaction, first + ahead_s * IDS_PER_SECOND))?;
    if ahead_s > 0 {
        transaction.prepare_cached("UPDATE state SET ahead_s = ?1 WHERE ahead_s < ?1")?.execute([ahead_s])?;
    }
    Ok(id)
}

/// Returns the next free id of the second whose first id is `first`.
fn next_id(transaction: &Transaction<'_>, first: i64) -> rusqlite::Result<Option<i64>> {
    let last = first + IDS_PER_SECOND - 1;
    let greatest: Option<i64> = transaction
        .prepare_cached("SELECT max(id) FROM messages WHERE id BETWEEN ?1 AND ?2")?
        .query_row([first, last], |row| row.get(0))?;
    let next = greatest.map_or(first, |greatest| greatest + 1);
    Ok(Some(next).filter(|next| *next <= last))
}

/// Returns the distance in seconds to a second with a free id right after a full one, and the result of
/// `probe` for it. Uses exponential and then binary search, so each message of a burst that fills thousands
/// of seconds needs few probes.
fn first_with_room<T, E>(mut probe: impl FnMut(i64) -> Result<Option<T>, E>) -> Result<(i64, T), E> {
    if let Some(free) = probe(0)? {
        return Ok((0, free));
    }
    let (mut full, mut ahead_s) = (0, 1);
    let mut free = loop {
        match probe(ahead_s)? {
            Some(free) => break free,
            None => (full, ahead_s) = (ahead_s, 2 * ahead_s),
        }
    };
    while ahead_s - full > 1 {
        let middle = full + (ahead_s - full) / 2;
        match probe(middle)? {
            Some(earlier) => (ahead_s, free) = (middle, earlier),
            None => full = middle,
        }
    }
    Ok((ahead_s, free))
}

pub(crate) fn place_facet(place_id: i64) -> String {
    format!("p{place_id}")
}

/// Returns the FTS5 query for the messages of a place.
pub(crate) fn place_query(place_id: i64) -> String {
    format!("{{facets}} : \"{}\"", place_facet(place_id))
}

fn find_or_create_place(
    transaction: &Transaction<'_>,
    ChannelOfTeam { team, channel }: &ChannelOfTeam,
    create: bool,
) -> rusqlite::Result<Option<i64>> {
    let key = [team.as_str(), channel.as_str()];
    let known = known_place_id(transaction, key)?;
    if known.is_some() || !create {
        return Ok(known);
    }
    transaction.prepare_cached("INSERT INTO places (team, channel) VALUES (?1, ?2)")?.execute(key)?;
    Ok(Some(transaction.last_insert_rowid()))
}

pub(crate) fn known_place_id(connection: &Connection, key: [&str; 2]) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM places WHERE team = ?1 AND channel = ?2")?
        .query_row(key, |row| row.get(0))
        .optional()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::first_with_room;

    /// Returns the distance to the second that was found, and the number of probes.
    fn found(is_full: impl Fn(i64) -> bool) -> (i64, u32) {
        let mut probes = 0;
        let Ok((ahead_s, free)) = first_with_room(|second| {
            probes += 1;
            Ok::<_, Infallible>((!is_full(second)).then_some(second))
        });
        assert_eq!(ahead_s, free);
        (ahead_s, probes)
    }

    #[test]
    fn the_first_second_with_a_free_id_is_found_with_few_probes() {
        for (full, max_probes) in [(0, 1), (1, 2), (2, 3), (3, 5), (7, 7), (8, 8), (1_000, 22), (86_400, 36)]
        {
            let (ahead_s, probes) = found(|second| second < full);
            assert_eq!(ahead_s, full);
            assert!(probes <= max_probes, "{probes} probes for {full} full seconds");
        }
    }

    #[test]
    fn a_second_after_a_full_one_is_found_between_full_ones() {
        let is_full = |second: i64| second % 5 != 3 && second < 100;
        let (ahead_s, _) = found(is_full);
        assert!(!is_full(ahead_s) && is_full(ahead_s - 1), "{ahead_s}");
    }
}
