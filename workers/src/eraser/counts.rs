//! The counts of erased rows, and what their erasure costs.

use std::ops::AddAssign;

use ports::archive::Item;
use serde_json::Value;

/// Bytes per read unit and per write unit on DynamoDB.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
const READ_UNIT_BYTES: u64 = 4096;
const WRITE_UNIT_BYTES: u64 = 1024;

/// The counts of what is erased, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EraserCounts {
    pub messages: u64,
    /// Their earlier versions.
    pub revisions: u64,
    pub files: u64,
    /// Files and pictures that no row names.
    pub unnamed: u64,
    /// The bytes of files and pictures.
    pub bytes: u64,
    pub users: u64,
    /// States of channels.
    pub states: u64,
    /// Stored reports.
    pub reports: u64,
    /// Jobs in quarantine.
    pub quarantined: u64,
    /// Messages that a hold keeps.
    pub held: u64,
    pub rows_read: u64,
    /// Approximate read units on DynamoDB.
    pub read_units: u64,
    /// Approximate write units on DynamoDB.
    pub write_units: u64,
}

impl EraserCounts {
    /// Counts rows that were read in one query.
    pub(super) fn read(&mut self, rows: &[Item]) {
        self.rows_read += rows.len() as u64;
        self.read_units += rows.iter().map(bytes).sum::<u64>().div_ceil(READ_UNIT_BYTES);
    }

    pub(super) fn erased(&mut self, row: &Item) {
        self.write_units += bytes(row).div_ceil(WRITE_UNIT_BYTES);
    }
}

impl AddAssign for EraserCounts {
    fn add_assign(&mut self, other: Self) {
        let Self {
            messages,
            revisions,
            files,
            unnamed,
            bytes,
            users,
            states,
            reports,
            quarantined,
            held,
            rows_read,
            read_units,
            write_units,
        } = other;
        self.messages += messages;
        self.revisions += revisions;
        self.files += files;
        self.unnamed += unnamed;
        self.bytes += bytes;
        self.users += users;
        self.states += states;
        self.reports += reports;
        self.quarantined += quarantined;
        self.held += held;
        self.rows_read += rows_read;
        self.read_units += read_units;
        self.write_units += write_units;
    }
}

/// The approximate size of a row.
fn bytes(row: &Item) -> u64 {
    let keys = row.key.item_id.len() + row.key.timestamp.len();
    let attributes = row.attributes.iter().map(|(name, value)| name.len() + value_bytes(value));
    (keys + attributes.sum::<usize>()) as u64
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>(),
        Value::Object(fields) => {
            3 + fields.iter().map(|(name, value)| 1 + name.len() + value_bytes(value)).sum::<usize>()
        }
    }
}
