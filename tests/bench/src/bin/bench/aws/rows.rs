//! The sizes of the stored rows, as DynamoDB counts them.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use ports::queue::topology::TableRole;
use tests::harness::environment::AwsInstallation;
use tests::harness::stack::Stack;

/// A write unit covers this much of an item.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>
const UNIT_BYTES: usize = 1024;

/// Sizes in bytes.
#[derive(Debug, Default)]
pub(super) struct RowSizes {
    pub(super) messages: Vec<usize>,
    pub(super) revisions: Vec<usize>,
    /// Number of messages in the index over threads.
    pub(super) in_threads: u64,
}

/// Measures every row of the archive.
pub(super) async fn read(installation: &AwsInstallation) -> anyhow::Result<RowSizes> {
    let stack = Stack::shared();
    let client = aws_sdk_dynamodb::Client::new(&stack.sdk(stack.endpoint()).await);
    let table = installation.aws.names().table(TableRole::Archive);
    let mut pages = client.scan().table_name(table).into_paginator().items().send();
    let mut rows = RowSizes::default();
    while let Some(row) = pages.next().await {
        let row = row?;
        let kind = row["itemId"].as_s().map_or("", String::as_str);
        if kind.starts_with("message#") {
            rows.messages.push(item_bytes(&row));
            rows.in_threads += u64::from(row.contains_key("parent"));
        } else if kind.starts_with("revision#") {
            rows.revisions.push(item_bytes(&row));
        }
    }
    Ok(rows)
}

/// Returns the write units of writing each row once.
pub(super) fn write_units_of(rows: &[usize]) -> u64 {
    rows.iter().map(|bytes| bytes.div_ceil(UNIT_BYTES) as u64).sum()
}

/// Returns the size of an item.
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
fn item_bytes(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    if let Ok(text) = value.as_s() {
        text.len()
    } else if let Ok(digits) = value.as_n() {
        digits.len().div_ceil(2) + 1
    } else if let Ok(values) = value.as_l() {
        3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>()
    } else if let Ok(map) = value.as_m() {
        3 + map.len() + item_bytes(map)
    } else {
        // A boolean or a null: the archive has no other types.
        1
    }
}
