//! A check of all entries of the word lists. A word list is stored in compressed blobs, in which SQLite does not
//! notice a changed bit: some messages are not found then.
//!
//! Each entry has a hash, and each message the sum of those of its entries. The sums of all messages and of all
//! entries must be the same.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;

/// The columns of the word lists.
const BODY: &str = "body";
const FACETS: &str = "facets";

/// FTS5 cuts longer words: <https://www.sqlite.org/src/file?name=ext/fts5/fts5Int.h>
const MAX_WORD_BYTES: usize = 32_768;

/// Returns the sum of the hashes of a message's entries.
pub(crate) fn sum_of(id: i64, body: &str, facets: &str) -> i64 {
    let of_column = |column: &str, text: &str| {
        words(text).enumerate().fold(0_i64, |sum, (offset, word)| {
            sum.wrapping_add(hash(word, id, column, i64::try_from(offset).unwrap_or_default()))
        })
    };
    of_column(BODY, body).wrapping_add(of_column(FACETS, facets))
}

/// Whether the word lists have exactly the entries of the messages. Ends early if `is_stopped` is set.
pub(crate) fn are_complete(connection: &Connection, is_stopped: &AtomicBool) -> rusqlite::Result<bool> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch("CREATE VIRTUAL TABLE temp.entries USING fts5vocab(main, words, instance)")?;
    let mut sum = 0_i64;
    let mut messages = transaction.prepare("SELECT entries FROM messages")?;
    let mut rows = messages.query([])?;
    while let Some(row) = rows.next()? {
        sum = sum.wrapping_add(row.get(0)?);
    }
    let mut entries = transaction.prepare("SELECT term, doc, col, \"offset\" FROM temp.entries")?;
    let mut rows = entries.query([])?;
    while let Some(row) = rows.next()? {
        let (term, column) = (row.get_ref(0)?.as_bytes()?, row.get_ref(2)?.as_str()?);
        sum = sum.wrapping_sub(hash(term, row.get(1)?, column, row.get(3)?));
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(true);
        }
    }
    Ok(sum == 0)
}

/// Splits a text as the tokenizer `ascii` does.
fn words(text: &str) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let words = text.as_bytes().split(is_separator).filter(|word| !word.is_empty());
    words.map(|word| &word[..word.len().min(MAX_WORD_BYTES)])
}

/// The hash is stored. If another version of Rust's library hashes differently, the sums differ once, and the
/// index is made anew.
fn hash(word: &[u8], id: i64, column: &str, offset: i64) -> i64 {
    // As the tokenizer, which leaves other letters as they are.
    let lower = word.iter().any(u8::is_ascii_uppercase).then(|| word.to_ascii_lowercase());
    let word = lower.as_deref().unwrap_or(word);
    BuildHasherDefault::<DefaultHasher>::default().hash_one((word, id, column, offset)).cast_signed()
}
