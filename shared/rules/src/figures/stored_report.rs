//! Stored reports as rows: `report#{team}#{report id}` / `0000`, `0001`, … have its text in chunks, and
//! `head` describes the state from which it was made. `report#{team}` / `{report id}` lists it. The head is
//! written last, and each row has the stamp of that state, so a reader sees a whole report, never a mixture
//! of two.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use serde_json::Value;
use slack::ids::TeamId;

/// The maximum size of the text in a row. channelstats has chunks of this size; DynamoDB's limit is 400 KB
/// with all attributes.
pub const CHUNK_BYTES: usize = 300 * 1024;

/// The maximum number of chunks of a report: a larger one is not stored.
pub const MAX_CHUNKS: usize = 64;

const STAMP: &str = "stamp";
const HEAD: &str = "head";

/// A report that can be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptReport {
    pub team: TeamId,
    pub report_id: String,
    /// The state of the archive that it was made from.
    pub stamp: String,
    /// Its other dependencies, in the reader's format.
    pub dependencies: String,
    /// Its basis, for users.
    pub basis: String,
    pub made_at: String,
    pub text: String,
}

/// The facts about a stored report without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportHead {
    /// The state of the archive that it was made from.
    pub stamp: String,
    /// Its other dependencies.
    pub dependencies: String,
    pub basis: String,
    pub made_at: String,
    chunks: usize,
}

impl KeptReport {
    /// The updates of its rows, in the order in which they must be written. `stored` are the rows as they
    /// were read, in the order of [`KeptReport::keys`]: if another process stores the report in the meantime,
    /// a write is rejected.
    pub fn rows(&self, stored: &[Option<Item>]) -> Vec<Update> {
        let chunks = chunks(&self.text);
        let count = chunks.len();
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let head = vec![
            ("chunks".to_owned(), count.into()),
            text("basis", &self.basis),
            text("made_at", &self.made_at),
            text("dependencies", &self.dependencies),
        ];
        let values = chunks.into_iter().map(|chunk| vec![text("value", chunk)]).chain([head]);
        let rows = self.keys().into_iter().zip(values).zip(stored.iter().chain(std::iter::repeat(&None)));
        rows.map(|((key, values), stored)| {
            let expected = stored.as_ref().and_then(|row| row.text(STAMP)).map(str::to_owned);
            let guard = Guard::Unchanged { register: STAMP.into(), expected, version: self.stamp.clone() };
            let set_if_absent = identity(&self.team, &self.report_id);
            Update { guard, set: values.into_iter().collect(), set_if_absent, ..Update::new(key) }
        })
        .collect()
    }

    /// Whether it is small enough to be stored.
    pub fn fits(&self) -> bool {
        chunks(&self.text).len() <= MAX_CHUNKS
    }

    /// The keys of its rows: first its chunks, last its head.
    pub fn keys(&self) -> Vec<ItemKey> {
        keys(&self.team, &self.report_id, chunks(&self.text).len())
    }

    /// The row that lists it. It is written first, so that every stored report can be found.
    pub fn list_entry(&self) -> Update {
        let key = ItemKey::listed_report(&self.team, &self.report_id);
        Update { set_if_absent: identity(&self.team, &self.report_id), ..Update::new(key) }
    }
}

impl ReportHead {
    /// The key of a report's head.
    pub fn key(team: &TeamId, report_id: &str) -> ItemKey {
        ItemKey::report_part(team, report_id, HEAD)
    }

    /// Reads a head.
    pub fn read(row: &Item) -> Option<Self> {
        let text = |name: &str| row.text(name).map(str::to_owned);
        Some(Self {
            stamp: text(STAMP)?,
            dependencies: text("dependencies")?,
            basis: text("basis")?,
            made_at: text("made_at")?,
            chunks: usize::try_from(row.attributes.get("chunks")?.as_u64()?).ok()?,
        })
    }

    pub fn chunks(&self, team: &TeamId, report_id: &str) -> Vec<ItemKey> {
        let mut keys = keys(team, report_id, self.chunks.min(MAX_CHUNKS));
        keys.pop();
        keys
    }

    /// The text; `None` if a chunk is missing or belongs to another report.
    pub fn text(&self, chunks: &[Option<Item>]) -> Option<String> {
        let has_stamp = |row: &&Item| row.text(STAMP) == Some(&self.stamp);
        let values = chunks.iter().map(|row| row.as_ref().filter(has_stamp)?.text("value"));
        values.collect()
    }
}

fn keys(team: &TeamId, report_id: &str, chunks: usize) -> Vec<ItemKey> {
    let timestamps = (0..chunks).map(|index| format!("{index:04}")).chain([HEAD.to_owned()]);
    timestamps.map(|timestamp| ItemKey::report_part(team, report_id, &timestamp)).collect()
}

fn identity(team: &TeamId, report_id: &str) -> Attributes {
    text_attributes([("type", "report"), ("team_id", team.as_str()), ("report_id", report_id)])
}

/// Splits a text into the chunks of the rows.
fn chunks(text: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, further) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        chunks.push(chunk);
        rest = further;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: String, stamp: &str) -> KeptReport {
        KeptReport {
            team: TeamId::parse("T1").unwrap(),
            report_id: "team/2026-11-09/2026-11-16".into(),
            stamp: stamp.into(),
            dependencies: "{}".into(),
            basis: "b".into(),
            made_at: "2026-11-23T00:00:00Z".into(),
            text,
        }
    }

    fn written(report: &KeptReport, stored: &[Option<Item>]) -> Vec<Option<Item>> {
        let rows = report.rows(stored);
        let stored = stored.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        rows.iter()
            .zip(stored)
            .map(|(row, stored)| {
                let attributes = row.apply(stored.map(|stored| &stored.attributes))?;
                Some(Item { key: row.key.clone(), attributes })
            })
            .collect()
    }

    #[test]
    fn a_long_report_is_read_as_it_was_written() {
        for text in
            ["short".to_owned(), "é".repeat(CHUNK_BYTES), "x".repeat(CHUNK_BYTES), "長".repeat(300_001)]
        {
            let report = kept(text.clone(), "one");
            let mut rows = written(&report, &[]);
            assert!(
                rows.iter()
                    .flatten()
                    .all(|row| row.text("value").is_none_or(|text| text.len() <= CHUNK_BYTES))
            );
            let head = ReportHead::read(&rows.pop().unwrap().unwrap()).unwrap();
            assert_eq!(head.chunks(&report.team, &report.report_id).len(), rows.len());
            assert_eq!(head.text(&rows), Some(text));
        }
    }

    #[test]
    fn a_mixture_of_two_reports_is_not_read() {
        let rows = written(&kept("a".repeat(CHUNK_BYTES + 1), "one"), &[]);
        let later = written(&kept("b".repeat(CHUNK_BYTES + 1), "two"), &rows);
        let head = |rows: &[Option<Item>]| ReportHead::read(rows[2].as_ref().unwrap()).unwrap();
        assert!(head(&later).text(&later[..2]).is_some());
        assert_eq!(head(&rows).text(&[rows[0].clone(), later[1].clone()]), None);
        assert_eq!(head(&rows).text(&[rows[0].clone(), None]), None);
        // A process that read the rows before another one stored its report is rejected.
        assert!(written(&kept("c".into(), "three"), &later).iter().all(Option::is_some));
        let stale = kept("c".into(), "three").rows(&rows);
        assert_eq!(stale[0].apply(later[0].as_ref().map(|row| &row.attributes)), None);
    }
}
