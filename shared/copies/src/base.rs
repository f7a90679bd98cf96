//! The list of a base: what it is of, its tables with their blocks in order, and its counts. One line of JSON for each,
//! last the SHA-256 of the lines before, compressed.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use crate::{BlockId, CopyError, CopyStore, FORMAT, read};

/// The folder of bases.
pub(crate) const BASES: &str = "base/";

/// The longest list that is read: seven million blocks, of an archive of 150 GB.
const MAX_READ_BYTES: u64 = 256 * 1024 * 1024;

/// The longest line of a list: a table with its columns.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// How the name of a base shows its time.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// When a base was made, which is its name: `20261126T030000Z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseTime(String);

impl BaseTime {
    /// The name of this second.
    pub fn at(time: Timestamp) -> Self {
        Self(time.strftime(TIME).to_string())
    }

    /// The base in the name of an object.
    pub fn of_object(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix(BASES)?)
    }

    /// The base with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let time = Self(name.to_owned());
        time.timestamp().is_some_and(|at| Self::at(at) == time).then_some(time)
    }

    /// Its time.
    pub fn timestamp(&self) -> Option<Timestamp> {
        let time = DateTime::strptime(TIME, &self.0).ok()?;
        time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
    }

    /// The name of its object.
    pub fn object(&self) -> String {
        format!("{BASES}{self}")
    }
}

impl fmt::Display for BaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a base is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseHead {
    /// The format of the target.
    pub format: u32,
    /// The id of the archive.
    pub archive: String,
    /// The version of Annalist that made it.
    pub annalist: String,
    /// The schema of the database.
    pub schema: usize,
}

/// A table and its blocks, in the order of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseTable {
    pub name: String,
    /// Its columns, in the order of a row's values.
    pub columns: Vec<String>,
    pub blocks: Vec<BlockId>,
}

/// How much a base holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseCounts {
    /// Rows of all tables.
    pub rows: u64,
    /// Those that are messages.
    pub messages: u64,
    /// Blocks.
    pub blocks: u64,
}

/// A base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// What it is of.
    pub head: BaseHead,
    /// Its tables, in the order in which they were read.
    pub tables: Vec<BaseTable>,
    /// How much it holds.
    pub counts: BaseCounts,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Head(BaseHead),
    Table { table: String, columns: Vec<String> },
    Block(BlockId),
    Counts(BaseCounts),
    Sum { sha256: String },
}

impl Base {
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.tables.iter().flat_map(|table| table.blocks.iter().copied())
    }

    /// The bytes of its object.
    pub(crate) fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut hash = Sha256::new();
        let mut write = |line: &Line, hash: &mut Sha256| {
            let mut json = serde_json::to_vec(line)?;
            json.push(b'\n');
            hash.update(&json);
            encoder.write_all(&json)
        };
        write(&Line::Head(self.head.clone()), &mut hash)?;
        for table in &self.tables {
            let line = Line::Table { table: table.name.clone(), columns: table.columns.clone() };
            write(&line, &mut hash)?;
            for block in &table.blocks {
                write(&Line::Block(*block), &mut hash)?;
            }
        }
        write(&Line::Counts(self.counts), &mut hash)?;
        let sha256 = to_hex(&hash.finalize_reset());
        write(&Line::Sum { sha256 }, &mut hash)?;
        encoder.finish()
    }

    /// Reads a base, which must be the one that was written.
    ///
    /// # Errors
    /// [`CopyError`], also if a newer version wrote it.
    pub async fn read(store: &dyn CopyStore, at: &BaseTime) -> Result<Self, CopyError> {
        let name = at.object();
        let bytes = read(store, &name, MAX_READ_BYTES).await?;
        let bytes = bytes.ok_or_else(|| CopyError::Missing(name.clone()))?;
        let base = Self::from_bytes(&bytes).ok_or(CopyError::Damaged(name))?;
        if base.head.format > FORMAT { Err(CopyError::Newer) } else { Ok(base) }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut lines = BufReader::new(GzDecoder::new(bytes));
        let mut hash = Sha256::new();
        let mut next = |hash: &mut Sha256| -> Option<Line> {
            let mut line = Vec::new();
            lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).ok()?;
            let parsed = serde_json::from_slice(&line).ok()?;
            if !matches!(parsed, Line::Sum { .. }) {
                hash.update(&line);
            }
            Some(parsed)
        };
        let Line::Head(head) = next(&mut hash)? else { return None };
        let mut tables: Vec<BaseTable> = Vec::new();
        let counts = loop {
            match next(&mut hash)? {
                Line::Table { table: name, columns } => {
                    tables.push(BaseTable { name, columns, blocks: Vec::new() });
                }
                Line::Block(block) => tables.last_mut()?.blocks.push(block),
                Line::Counts(counts) => break counts,
                Line::Head(_) | Line::Sum { .. } => return None,
            }
        };
        let Line::Sum { sha256 } = next(&mut hash)? else { return None };
        let base = Self { head, tables, counts };
        let is_whole = sha256 == to_hex(&hash.finalize()) && base.blocks().count() as u64 == counts.blocks;
        is_whole.then_some(base)
    }
}
