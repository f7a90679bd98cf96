//! Splits the days of an export into their elements, on a thread of its own: unpacking them and reading them go on side by side.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::value::RawValue;

use super::days::ChannelDays;
use super::elements::{ArrayElement, Break, Elements};
use super::layout::EntryIndex;
use super::source::ExportEntries;

/// Elements that are handed over at once, if a day has more.
const CHUNK: usize = 256;

/// Long elements are handed over sooner.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Elements of a day, in their order.
#[derive(Debug)]
pub(super) struct DayChunk {
    /// The channel, by its place among all that are read.
    pub(super) place: usize,
    /// What the day's entry is called.
    pub(super) name: Arc<str>,
    /// The number of the first element, from 1 on.
    pub(super) first: u64,
    /// The elements, or why one cannot be read.
    pub(super) elements: Vec<Result<Box<RawValue>, &'static str>>,
    /// Whether the day ends behind them.
    pub(super) end: Option<DayEnd>,
}

/// The end of a day.
#[derive(Debug)]
pub(super) struct DayEnd {
    /// How many bytes it takes in the export.
    pub(super) packed_bytes: u64,
    /// Why it does not end as a list does.
    pub(super) broken: Option<Break>,
}

/// Splits all days. It ends early if what it hands over is no longer taken.
pub(super) fn split(source: &mut dyn ExportEntries, channels: &[ChannelDays], sender: &SyncSender<DayChunk>) {
    for (place, channel) in channels.iter().enumerate() {
        for entry in &channel.days {
            if day(source, place, *entry, sender).is_none() {
                return;
            }
        }
    }
}

/// `None` says that the other side has gone.
fn day(
    source: &mut dyn ExportEntries,
    place: usize,
    entry: EntryIndex,
    sender: &SyncSender<DayChunk>,
) -> Option<()> {
    let listed = &source.entries()[entry];
    let (name, packed_bytes): (Arc<str>, u64) = (listed.name.as_str().into(), listed.packed_bytes);
    let mut chunk = DayChunk { place, name, first: 1, elements: Vec::new(), end: None };
    let broken = match source.open(entry) {
        Ok(bytes) => elements(Elements::of(bytes), &mut chunk, sender)?,
        Err(error) => Some(Break::Unreadable(error)),
    };
    chunk.end = Some(DayEnd { packed_bytes, broken });
    sender.send(chunk).ok()
}

/// Hands over all elements but the last ones, which are in `chunk` then; answers with why there are no more, if it is not the end.
fn elements(
    mut elements: Elements<impl Read>,
    chunk: &mut DayChunk,
    sender: &SyncSender<DayChunk>,
) -> Option<Option<Break>> {
    let mut bytes = 0;
    loop {
        match elements.next() {
            Ok(Some(ArrayElement::Json(raw))) => {
                bytes += raw.get().len();
                chunk.elements.push(Ok(raw.to_owned()));
            }
            Ok(Some(ArrayElement::Malformed(why))) => chunk.elements.push(Err(why)),
            Ok(None) => return Some(None),
            Err(broken) => return Some(Some(broken)),
        }
        if chunk.elements.len() >= CHUNK || bytes >= CHUNK_BYTES {
            bytes = 0;
            let first = chunk.first + chunk.elements.len() as u64;
            let name = Arc::clone(&chunk.name);
            let next = DayChunk { place: chunk.place, name, first, elements: Vec::new(), end: None };
            sender.send(std::mem::replace(chunk, next)).ok()?;
        }
    }
}
