//! Compares an archive with the acknowledged events and counts the differences.

use std::collections::BTreeMap;
use std::fmt;

use ::testkit::corpus::model::ExpectedMessage;
use ::testkit::corpus::{Model, TEAM};
use ::tests::harness::load::AckedLoad;
use ports::archive::{Archive, Item, Query, key, query_all};
use rules::message::{self, Replaced};
use slack::ids::{ChannelId, TeamId, Ts};

use crate::progress;

/// The header of the table.
pub(crate) const HEADER: &str = "| fault | injected | events acknowledged | requests | lost | doubled | out of order |\n|---|---:|---:|---:|---:|---:|---:|";

/// One row of the table.
#[derive(Debug)]
pub(crate) struct LedgerRow {
    fault: &'static str,
    injected: u64,
    acked: usize,
    requests: usize,
    lost: u64,
    doubled: u64,
    out_of_order: u64,
}

impl LedgerRow {
    pub(crate) fn new(fault: &'static str, injected: u64, sent: &AckedLoad) -> Self {
        let (acked, requests) = (sent.acked, sent.requests);
        Self { fault, injected, acked, requests, lost: 0, doubled: 0, out_of_order: 0 }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.counts() == [0; 3]
    }

    fn counts(&self) -> [u64; 3] {
        [self.lost, self.doubled, self.out_of_order]
    }
}

impl fmt::Display for LedgerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, injected, acked, requests, lost, doubled, out_of_order } = self;
        write!(f, "| {fault} | {injected} | {acked} | {requests} | {lost} | {doubled} | {out_of_order} |")
    }
}

/// Counts the differences. A missing effect or a quarantined job counts as lost, a row or a version that was
/// never sent as doubled, and a text that is not the last one as out of order.
pub(crate) async fn compare(
    mut row: LedgerRow,
    archive: &dyn Archive,
    model: &Model,
    quarantined: u64,
) -> anyhow::Result<LedgerRow> {
    if quarantined > 0 {
        progress(&format!("{quarantined} jobs are in quarantine"));
    }
    row.lost += quarantined;
    let team = TeamId::parse(TEAM)?;
    for (channel, expected) in &model.channels {
        let channel = ChannelId::parse(channel)?;
        let rows = query_all(archive, Query::partition(key::messages(&team, &channel))).await?;
        let found: BTreeMap<&str, &Item> = rows.iter().map(|row| (row.key.timestamp.as_str(), row)).collect();
        row.doubled += found.keys().filter(|ts| !expected.contains_key(**ts)).count() as u64;
        for (ts, expected) in expected {
            match found.get(ts.as_str()) {
                None => {
                    progress(&format!("message {channel} {ts} is missing"));
                    row.lost += 1;
                }
                Some(found) => {
                    let before = row.counts();
                    compare_message(&mut row, found, expected);
                    let revisions = key::revisions(&team, &channel, &Ts::parse(ts)?);
                    if !expected.replaced.is_empty() || found.text("updated_ts").is_some() {
                        let kept = query_all(archive, Query::partition(revisions)).await?;
                        let kept = message::versions(&kept, Some(found)).replaced;
                        compare_revisions(&mut row, &kept, &expected.replaced);
                    }
                    if before != row.counts() {
                        progress(&format!(
                            "message {channel} {ts} differs: {found:?} instead of {expected:?}"
                        ));
                    }
                }
            }
        }
    }
    Ok(row)
}

fn compare_message(row: &mut LedgerRow, found: &Item, expected: &ExpectedMessage) {
    match found.text("text") {
        None => row.lost += 1,
        Some(text) if text == expected.text => {}
        Some(_) => row.out_of_order += 1,
    }
    match (expected.deleted, found.has_flag("deleted")) {
        (true, false) => row.lost += 1,
        (false, true) => row.doubled += 1,
        (true, true) | (false, false) => {}
    }
    if found.text("thread_ts") != expected.thread_ts.as_deref() {
        row.lost += 1;
    }
}

fn compare_revisions(row: &mut LedgerRow, kept: &[Replaced<'_>], replaced: &[String]) {
    row.lost += replaced.len().saturating_sub(kept.len()) as u64;
    row.doubled += kept.len().saturating_sub(replaced.len()) as u64;
    let texts = kept.iter().map(|revision| revision.row.text("text").unwrap_or_default());
    row.out_of_order += texts.zip(replaced).filter(|(kept, sent)| kept != sent).count() as u64;
}

#[cfg(test)]
mod tests {
    use ::testkit::memory::archive::MemoryArchive;
    use ports::archive::{ArchiveExt, Attributes, ItemKey, Update};
    use serde_json::json;

    use super::*;

    async fn write(archive: &MemoryArchive, item_id: String, timestamp: &str, attributes: serde_json::Value) {
        let set_if_absent: Attributes = serde_json::from_value(attributes).unwrap();
        let update = Update { set_if_absent, ..Update::new(ItemKey::new(item_id, timestamp)) };
        archive.write(&update).await.unwrap();
    }

    fn model(messages: &[(&str, ExpectedMessage)]) -> Model {
        let messages = messages.iter().map(|(ts, expected)| ((*ts).to_owned(), expected.clone())).collect();
        Model { channels: [("C01".to_owned(), messages)].into() }
    }

    #[tokio::test]
    async fn each_kind_of_difference_is_counted_once() {
        let (team, channel) = (TeamId::parse(TEAM).unwrap(), ChannelId::parse("C01").unwrap());
        let archive = MemoryArchive::new();
        let messages = key::messages(&team, &channel);
        write(&archive, messages.clone(), "1.000001", json!({ "text": "as sent" })).await;
        write(&archive, messages.clone(), "1.000002", json!({ "text": "an older text" })).await;
        write(&archive, messages.clone(), "1.000003", json!({ "text": "never sent" })).await;
        write(&archive, messages, "1.000004", json!({ "text": "not marked" })).await;
        let expected_message =
            |text: &str| ExpectedMessage { text: text.to_owned(), ..ExpectedMessage::default() };
        let model = model(&[
            ("1.000001", expected_message("as sent")),
            (
                "1.000002",
                ExpectedMessage {
                    replaced: vec!["an older text".to_owned()],
                    ..expected_message("the last text")
                },
            ),
            ("1.000004", ExpectedMessage { deleted: true, ..expected_message("not marked") }),
            ("1.000005", expected_message("missing")),
        ]);
        let row =
            compare(LedgerRow::new("none", 0, &AckedLoad::default()), &archive, &model, 1).await.unwrap();
        // Lost: one quarantined job, the replaced version, the deletion mark and the missing message.
        assert_eq!((row.lost, row.doubled, row.out_of_order), (4, 1, 1), "{row}");
        assert!(!row.is_clean());
    }
}
