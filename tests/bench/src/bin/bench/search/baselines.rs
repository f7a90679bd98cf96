//! The baselines: the same texts in SQLite's FTS5 with its default tokenizer, and as JSON lines for `rg`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use embedded::DATABASE_FILE;
use rusqlite::{Connection, OpenFlags, params};
use serde_json::json;

/// Number of messages per query, as in `annalist search`.
pub(super) const SHOWN: usize = 20;

/// The orders of FTS5's hits: the newest messages first, or the best ones.
pub(super) const NEWEST: &str = "rowid DESC";
pub(super) const BEST: &str = "rank";

/// Copies every text of an archive into an FTS5 table, which also stores the texts, and a file of JSON lines,
/// oldest first.
pub(super) fn copy(data: &Path, into: &Path) -> anyhow::Result<(Connection, PathBuf)> {
    let archive = Connection::open_with_flags(data.join(DATABASE_FILE), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let lines = into.join("messages.jsonl");
    let mut database = Connection::open(into.join("fts5.db"))?;
    database
        .execute_batch("CREATE VIRTUAL TABLE texts USING fts5(channel UNINDEXED, ts UNINDEXED, text);")?;
    let mut file = BufWriter::new(File::create(&lines)?);
    let transaction = database.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO texts (channel, ts, text) VALUES (?1, ?2, ?3)")?;
        let mut select = archive.prepare("SELECT channel_id, ts, text FROM messages ORDER BY ts")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (channel, ts, text): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            insert.execute(params![channel, ts, text])?;
            writeln!(file, "{}", json!({ "channel": channel, "ts": ts, "text": text }))?;
        }
    }
    transaction.execute("INSERT INTO texts (texts) VALUES ('optimize')", [])?;
    transaction.commit()?;
    file.flush()?;
    Ok((database, lines))
}

/// Times a query for the first messages in an order, with their snippets.
pub(super) fn fts5(database: &Connection, query: &str, order: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let sql = format!(
        "SELECT channel, ts, snippet(texts, 2, '*', '*', '…', 20) FROM texts WHERE texts MATCH ?1
         ORDER BY {order} LIMIT {SHOWN}"
    );
    let mut statement = database.prepare_cached(&sql)?;
    let rows = statement.query_map([query], |row| row.get::<_, String>(2))?;
    rows.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(started.elapsed())
}

/// Times `rg` for a word in the lines.
pub(super) fn rg(word: &str, lines: &Path) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut command = Command::new("rg");
    command.args(["--ignore-case", "--word-regexp", word]).arg(lines).stdout(Stdio::null());
    let status = command.status().context("install ripgrep, which the bench compares with")?;
    // 1 means that there was no match.
    ensure!(matches!(status.code(), Some(0 | 1)), "rg failed: {status}");
    Ok(started.elapsed())
}
