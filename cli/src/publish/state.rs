//! The state of a site: a database in the site's folder, with what the pages were made from. It has no text of
//! a message. A run changes it in steps that each leave a state from which the next run goes on.
//!
//! The unit of work is a month of a channel: its pages, and those of the threads that begin in it. A unit without
//! a month is a channel's own pages, and a unit without a channel those of the site. What changes a unit marks
//! it, and it stays marked until its pages are on disk. A marked month renders the page of a thread again only if the
//! thread has changed, or what the page depends on: the state then has no tags of that page. The same holds for the
//! pages of its days, if it has such pages.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, TryLockError};
use std::path::Path;

use rules::publishing::{day, month};
use rusqlite::{Connection, OptionalExtension, params};
use search::counts::ThreadSize;
use slack::ids::Ts;
use viewer::public_links::{channel_folder, thread_page};

use super::PublishError;

/// The folder of the state within the site.
pub(super) const STATE_FOLDER: &str = ".annalist";

/// The folder of files that are being written.
pub(super) const PARTIAL_FOLDER: &str = "tmp";

/// The month of copies of files, which are of no unit.
pub(super) const COPIES: &str = "files";

const STATE_FILE: &str = "state.db";
const LOCK_FILE: &str = "lock";

/// SQLite's own 2 MiB hold less than what a batch changes in the state of a large site, so that pages went to the log
/// and back within one batch.
const CACHE_KIB: i64 = 16 * 1024;

/// Changes with the layout of the state.
const SCHEMA_VERSION: i64 = 4;

/// What brings a state of an earlier version to the next one, from version 1 on.
const MIGRATIONS: [&str; 3] = [
    "ALTER TABLE page ADD COLUMN tags TEXT",
    "ALTER TABLE page ADD COLUMN messages INTEGER; ALTER TABLE page ADD COLUMN older TEXT;
    ALTER TABLE page ADD COLUMN newer TEXT",
    "ALTER TABLE uses RENAME TO former_uses;
    CREATE TABLE uses (channel TEXT, month TEXT, tag TEXT, PRIMARY KEY (channel, month, tag)) WITHOUT ROWID;
    INSERT INTO uses (channel, month, tag) SELECT channel, month, tag FROM former_uses ORDER BY channel, month, tag;
    DROP TABLE former_uses",
];

const SCHEMA: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE channel (folder TEXT PRIMARY KEY, locations TEXT NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE reply (channel TEXT, root_ts TEXT, ts TEXT, PRIMARY KEY (channel, root_ts, ts)) WITHOUT ROWID;
    CREATE INDEX reply_by_ts ON reply (channel, ts);
    CREATE TABLE unit (channel TEXT, month TEXT, is_dirty INTEGER NOT NULL, messages INTEGER, before TEXT,
        after TEXT, PRIMARY KEY (channel, month)) WITHOUT ROWID;
    CREATE INDEX dirty_unit ON unit (channel, month) WHERE is_dirty;
    CREATE TABLE page (path TEXT PRIMARY KEY, channel TEXT NOT NULL, month TEXT NOT NULL, hash TEXT,
        is_listed INTEGER NOT NULL, changed TEXT, root_ts TEXT, first_ts TEXT, last_ts TEXT, uploaded TEXT,
        tags TEXT, messages INTEGER, older TEXT, newer TEXT) WITHOUT ROWID;
    CREATE INDEX page_by_unit ON page (channel, month);
    CREATE TABLE uses (channel TEXT, month TEXT, tag TEXT, PRIMARY KEY (channel, month, tag)) WITHOUT ROWID;
    CREATE TABLE tag (tag TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
";

/// A unit of work.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SiteUnit {
    /// The folder of the channel; empty for the site.
    pub(super) channel: String,
    /// The month; empty for the channel's own pages.
    pub(super) month: String,
}

/// A day with messages.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DayOfUnit {
    unit: SiteUnit,
    day: String,
}

impl DayOfUnit {
    pub(super) fn new(channel: &str, ts: &Ts) -> Self {
        Self { unit: SiteUnit { channel: channel.to_owned(), month: month(ts) }, day: day(ts) }
    }

    /// The paths of the pages of the day, if its month has such pages, are from the first text on and before the
    /// second.
    pub(super) fn paths(&self) -> [String; 2] {
        let first = format!("{}/{}", channel_folder(&self.unit.channel), self.day);
        // A name goes on with `-` or `.`, which come before `/`.
        let after = format!("{first}/");
        [first, after]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    Month,
    Channel,
    Site,
}

/// The state, which no other process has open.
pub(super) struct SiteState {
    connection: Connection,
    _lock: Option<StateLock>,
}

/// The lock of the file that keeps other runs out. Closing the file would not do: a program that is being started has
/// all open files for a moment.
struct StateLock(File);

impl Drop for StateLock {
    fn drop(&mut self) {
        // The file is closed next.
        drop(self.0.unlock());
    }
}

impl SiteState {
    /// Opens the state of a site. A folder with files and without a state belongs to something else.
    pub(super) fn open(folder: &Path) -> Result<Self, PublishError> {
        let own = folder.join(STATE_FOLDER);
        let file = own.join(STATE_FILE);
        if !file.exists() && !is_empty(folder)? {
            return Err(PublishError::StrangeFolder(folder.to_owned()));
        }
        fs::create_dir_all(folder)?;
        disk::create_private_folder(&own)?;
        let lock = File::create(own.join(LOCK_FILE))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PublishError::Busy(folder.to_owned())),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let connection = Connection::open(file)?;
        Self::prepare(connection, Some(StateLock(lock)))
    }

    /// Opens an empty state in memory.
    pub(super) fn in_memory() -> Result<Self, PublishError> {
        Self::prepare(Connection::open_in_memory()?, None)
    }

    fn prepare(connection: Connection, lock: Option<StateLock>) -> Result<Self, PublishError> {
        // The lock file keeps other runs out. Without this, each statement would lock the database, look for a journal
        // and read its pages again.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // A step costs one sync instead of four.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let mut state = Self { connection, _lock: lock };
        match version {
            0 => state.atomically(|db| {
                db.execute_batch(SCHEMA)?;
                db.pragma_update(None, "user_version", SCHEMA_VERSION)
            })?,
            1..SCHEMA_VERSION => state.atomically(|db| {
                let done = usize::try_from(version - 1).unwrap_or_default();
                MIGRATIONS.iter().skip(done).try_for_each(|migration| db.execute_batch(migration))?;
                db.pragma_update(None, "user_version", SCHEMA_VERSION)
            })?,
            SCHEMA_VERSION => {}
            _ => return Err(PublishError::NewerState),
        }
        Ok(state)
    }

    /// Runs changes that happen together or not at all.
    pub(super) fn atomically<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, PublishError> {
        let savepoint = self.connection.savepoint()?;
        let value = change(&savepoint)?;
        savepoint.commit()?;
        Ok(value)
    }

    /// Reads from the state.
    pub(super) fn db(&self) -> &Connection {
        &self.connection
    }

    /// Starts changes that [`SiteState::undo`] takes back.
    pub(super) fn try_out(&self) -> Result<(), PublishError> {
        Ok(self.connection.execute_batch("BEGIN")?)
    }

    /// Takes back what changed since [`SiteState::try_out`].
    pub(super) fn undo(&self) -> Result<(), PublishError> {
        Ok(self.connection.execute_batch("ROLLBACK")?)
    }

    pub(super) fn meta(&self, name: &str) -> Result<Option<String>, PublishError> {
        let query = "SELECT value FROM meta WHERE name = ?1";
        Ok(self.connection.query_row(query, [name], |row| row.get(0)).optional()?)
    }

    pub(super) fn set_meta(&self, name: &str, value: &str) -> Result<(), PublishError> {
        Ok(set_meta(&self.connection, name, value)?)
    }

    /// Returns the units that are marked: months, channels' own pages, or those of the site.
    pub(super) fn dirty(&self, kind: UnitKind) -> Result<Vec<SiteUnit>, PublishError> {
        let condition = match kind {
            UnitKind::Month => "month <> ''",
            UnitKind::Channel => "month = '' AND channel <> ''",
            UnitKind::Site => "channel = ''",
        };
        let query =
            format!("SELECT channel, month FROM unit WHERE is_dirty AND {condition} ORDER BY channel, month");
        let mut statement = self.connection.prepare_cached(&query)?;
        let units =
            statement.query_map([], |row| Ok(SiteUnit { channel: row.get(0)?, month: row.get(1)? }))?;
        Ok(units.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the months of a channel before and after this one that have messages, or may have some.
    pub(super) fn neighbours(&self, unit: &SiteUnit) -> Result<[Option<String>; 2], PublishError> {
        let find = |condition: &str| {
            let query = format!(
                "SELECT month FROM unit WHERE channel = ?1 AND month <> '' AND (messages IS NULL OR messages > 0) \
                AND month {condition} LIMIT 1"
            );
            self.connection.query_row(&query, params![unit.channel, unit.month], |row| row.get(0)).optional()
        };
        Ok([find("< ?2 ORDER BY month DESC")?, find("> ?2 ORDER BY month")?])
    }

    /// Marks the months of a channel whose links to other months have changed.
    pub(super) fn mark_moved_neighbours(&mut self, channel: &str) -> Result<(), PublishError> {
        self.atomically(|db| {
            let shown: Vec<(String, Option<String>, Option<String>)> = db
                .prepare_cached(
                    "SELECT month, before, after FROM unit WHERE channel = ?1 AND month <> '' AND messages > 0 \
                    ORDER BY month",
                )?
                .query_map([channel], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (index, (month, before, after)) in shown.iter().enumerate() {
                let at = |index: Option<usize>| Some(&shown.get(index?)?.0);
                if at(index.checked_sub(1)) != before.as_ref() || at(index.checked_add(1)) != after.as_ref() {
                    mark(db, channel, month)?;
                }
            }
            Ok(())
        })
    }

    /// The sizes of the threads whose roots are from the first text to the last.
    pub(super) fn thread_sizes(
        &self,
        channel: &str,
        [first, last]: [&str; 2],
    ) -> Result<HashMap<Ts, ThreadSize>, PublishError> {
        let query = "SELECT root_ts, count(*), max(ts) FROM reply \
            WHERE channel = ?1 AND root_ts >= ?2 AND root_ts <= ?3 GROUP BY root_ts";
        let mut statement = self.connection.prepare_cached(query)?;
        let rows = statement.query_map([channel, first, last], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, row.get::<_, String>(2)?))
        })?;
        let mut sizes = HashMap::new();
        for row in rows {
            let (root, replies, last) = row?;
            if let (Ok(root), Ok(last)) = (Ts::parse(&root), Ts::parse(&last)) {
                sizes.insert(root, ThreadSize { replies: u64::from(replies), last });
            }
        }
        Ok(sizes)
    }

    /// The replies to a message, oldest first.
    pub(super) fn replies(&self, channel: &str, root_ts: &Ts) -> Result<Vec<Ts>, PublishError> {
        let query = "SELECT ts FROM reply WHERE channel = ?1 AND root_ts = ?2 ORDER BY ts";
        let mut statement = self.connection.prepare_cached(query)?;
        let found = statement.query_map(params![channel, root_ts.as_str()], |row| row.get::<_, String>(0))?;
        let found: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
        Ok(found.iter().filter_map(|ts| Ts::parse(ts).ok()).collect())
    }

    /// The tags of the page of a thread that need not be rendered again, because nothing that it shows has changed
    /// since. `part` is the page with its root.
    pub(super) fn unchanged_thread(
        &self,
        path: &str,
        root_ts: &Ts,
        part: &str,
    ) -> Result<Option<Vec<String>>, PublishError> {
        let query = "SELECT thread.tags FROM page AS thread JOIN page AS part ON part.path = ?3 \
            WHERE thread.path = ?1 AND thread.hash IS NOT NULL AND part.first_ts <= ?2 AND part.last_ts >= ?2";
        let mut statement = self.connection.prepare_cached(query)?;
        let tags: Option<Option<String>> =
            statement.query_row(params![path, root_ts.as_str(), part], |row| row.get(0)).optional()?;
        Ok(tags.flatten().map(|tags| tags.lines().map(str::to_owned).collect()))
    }

    /// The first column of a query's rows.
    pub(super) fn texts(&self, query: &str, parameters: &[&str]) -> Result<Vec<String>, PublishError> {
        let mut statement = self.connection.prepare_cached(query)?;
        let found = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    /// The paths of a unit's files.
    pub(super) fn paths(&self, unit: &SiteUnit) -> Result<BTreeSet<String>, PublishError> {
        let query = "SELECT path FROM page WHERE channel = ?1 AND month = ?2";
        Ok(self.texts(query, &[&unit.channel, &unit.month])?.into_iter().collect())
    }
}

pub(super) fn set_meta(db: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", [name, value]).map(drop)
}

/// Marks a unit, and with it the channel's own pages and those of the site.
pub(super) fn mark(db: &Connection, channel: &str, month: &str) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(
        "INSERT INTO unit (channel, month, is_dirty) VALUES (?1, ?2, 1) \
        ON CONFLICT DO UPDATE SET is_dirty = 1 WHERE NOT is_dirty",
    )?;
    for (channel, month) in [(channel, month), (channel, ""), ("", "")] {
        statement.execute(params![channel, month])?;
    }
    Ok(())
}

/// Marks a unit and all threads that begin in it.
pub(super) fn mark_whole(db: &Connection, channel: &str, month: &str) -> rusqlite::Result<()> {
    mark(db, channel, month)?;
    db.prepare_cached("UPDATE page SET tags = NULL WHERE channel = ?1 AND month = ?2 AND tags IS NOT NULL")?
        .execute([channel, month])
        .map(drop)
}

/// Marks a thread, and notes the day on which it begins.
fn mark_thread(
    db: &Connection,
    channel: &str,
    root_ts: &Ts,
    days: &mut BTreeSet<DayOfUnit>,
) -> rusqlite::Result<()> {
    days.insert(DayOfUnit::new(channel, root_ts));
    let path = format!("{}/{}", channel_folder(channel), thread_page(root_ts, 1));
    db.prepare_cached("UPDATE page SET tags = NULL WHERE path = ?1")?.execute([path]).map(drop)
}

/// Marks the pages of a day and its unit.
pub(super) fn mark_day(db: &Connection, day: &DayOfUnit) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE page SET tags = NULL WHERE path >= ?1 AND path < ?2 AND tags IS NOT NULL")?
        .execute(day.paths())?;
    mark(db, &day.unit.channel, &day.unit.month)
}

/// Marks all units of a channel.
pub(super) fn mark_channel(db: &Connection, channel: &str) -> rusqlite::Result<()> {
    mark(db, channel, "")?;
    db.execute("UPDATE page SET tags = NULL WHERE channel = ?1", [channel])?;
    db.execute("UPDATE unit SET is_dirty = 1 WHERE channel = ?1", [channel]).map(drop)
}

/// Marks everything.
pub(super) fn mark_all(db: &Connection) -> rusqlite::Result<()> {
    mark(db, "", "")?;
    db.execute_batch("UPDATE page SET tags = NULL; UPDATE unit SET is_dirty = 1;")
}

/// Notes the current state of a message: `root` is the root of its thread, if it is a reply that is shown. The caller
/// marks the `days`.
pub(super) fn note_message(
    db: &Connection,
    channel: &str,
    ts: &Ts,
    root: Option<&Ts>,
    days: &mut BTreeSet<DayOfUnit>,
) -> rusqlite::Result<()> {
    // It may be the root of a thread.
    mark_thread(db, channel, ts, days)?;
    let known: Vec<String> = db
        .prepare_cached("SELECT root_ts FROM reply WHERE channel = ?1 AND ts = ?2")?
        .query_map(params![channel, ts.as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for known_ts in known.iter().filter_map(|known| Ts::parse(known).ok()) {
        mark_thread(db, channel, &known_ts, days)?;
        if Some(&known_ts) != root {
            db.prepare_cached("DELETE FROM reply WHERE channel = ?1 AND root_ts = ?2 AND ts = ?3")?
                .execute(params![channel, known_ts.as_str(), ts.as_str()])?;
        }
    }
    if let Some(root_ts) = root {
        mark_thread(db, channel, root_ts, days)?;
        db.prepare_cached("INSERT OR IGNORE INTO reply (channel, root_ts, ts) VALUES (?1, ?2, ?3)")?
            .execute(params![channel, root_ts.as_str(), ts.as_str()])?;
    }
    Ok(())
}

/// Marks the pages with the replies to a root whose page came or went. Its own month has just been rendered, except the
/// pages `kept`.
pub(super) fn mark_replies(
    db: &Connection,
    channel: &str,
    root_ts: &Ts,
    kept: &BTreeSet<String>,
) -> rusqlite::Result<()> {
    let replies: Vec<String> = db
        .prepare_cached("SELECT ts FROM reply WHERE channel = ?1 AND root_ts = ?2")?
        .query_map(params![channel, root_ts.as_str()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for ts in replies.iter().filter_map(|ts| Ts::parse(ts).ok()) {
        let day = DayOfUnit::new(channel, &ts);
        let [first, after] = day.paths();
        if day.unit.month != month(root_ts) || kept.range(first..after).next().is_some() {
            mark_day(db, &day)?;
        }
    }
    Ok(())
}

/// Forgets what is known of a channel. Its pages stay listed until they are deleted.
pub(super) fn forget_channel(db: &Connection, folder: &str) -> rusqlite::Result<()> {
    for query in [
        "DELETE FROM channel WHERE folder = ?1",
        "DELETE FROM reply WHERE channel = ?1",
        "DELETE FROM unit WHERE channel = ?1",
        "DELETE FROM uses WHERE channel = ?1",
        "UPDATE page SET tags = NULL WHERE channel = ?1",
    ] {
        db.execute(query, [folder])?;
    }
    mark(db, "", "")
}

/// Forgets everything but the files, where copies are from, and what is uploaded.
pub(super) fn forget_all(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "DELETE FROM channel; DELETE FROM reply; DELETE FROM unit; DELETE FROM uses;
        DELETE FROM tag WHERE tag NOT LIKE 'f:%'; UPDATE page SET tags = NULL;
        DELETE FROM meta WHERE name NOT LIKE 'upload:%';",
    )?;
    mark(db, "", "")
}

fn is_empty(folder: &Path) -> Result<bool, PublishError> {
    match fs::read_dir(folder) {
        // A run that was killed at its very start leaves an empty folder of the state.
        Ok(mut entries) => {
            Ok(entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == STATE_FOLDER)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error.into()),
    }
}
