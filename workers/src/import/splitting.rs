//! Splits the days of an export into their elements, on its own thread, so that unpacking and parsing run
//! concurrently.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use serde_json::value::RawValue;
use slack::ids::{ChannelId, TeamId, UserId};

use super::elements::{ArrayElement, Break, Elements};
use super::layout::EntryIndex;
use super::source::ExportEntries;

/// Elements in a chunk, if a day has more.
const CHUNK: usize = 256;

/// Chunks of long elements are sent sooner.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The days of a public channel.
#[derive(Debug)]
pub(crate) struct ChannelDays {
    pub(crate) team: TeamId,
    pub(crate) channel: ChannelId,
    /// Its days, in order.
    pub(crate) days: Vec<EntryIndex>,
    /// The people that the export lists for the workspace.
    pub(crate) people: Arc<HashSet<UserId>>,
}

/// Elements of a day, in their order.
#[derive(Debug)]
pub(super) struct DayChunk {
    /// The index of the channel among all channels that are read.
    pub(super) channel_index: usize,
    /// The name of the day's entry.
    pub(super) name: Arc<str>,
    /// The number of the first element, counted from 1.
    pub(super) first: u64,
    /// The elements, or the reason why one cannot be read.
    pub(super) elements: Vec<Result<Box<RawValue>, &'static str>>,
    /// The end of the day, if it follows these elements.
    pub(super) end: Option<DayEnd>,
}

#[derive(Debug)]
pub(super) struct DayEnd {
    /// Its packed size in the export.
    pub(super) packed_bytes: u64,
    /// The reason why the array breaks off, if it does.
    pub(super) broken: Option<Break>,
}

/// Splits all days. It ends early if the receiver is dropped.
pub(super) fn split(source: &mut dyn ExportEntries, channels: &[ChannelDays], sender: &SyncSender<DayChunk>) {
    for (channel_index, channel) in channels.iter().enumerate() {
        for entry in &channel.days {
            if split_day(source, channel_index, *entry, sender).is_none() {
                return;
            }
        }
    }
}

/// Splits one day; `None` means that the receiver was dropped.
fn split_day(
    source: &mut dyn ExportEntries,
    channel_index: usize,
    entry: EntryIndex,
    sender: &SyncSender<DayChunk>,
) -> Option<()> {
    let listed = &source.entries()[entry];
    let (name, packed_bytes): (Arc<str>, u64) = (listed.name.as_str().into(), listed.packed_bytes);
    let mut chunk = DayChunk { channel_index, name, first: 1, elements: Vec::new(), end: None };
    let broken = match source.open(entry) {
        Ok(bytes) => elements(Elements::new(bytes), &mut chunk, sender)?,
        Err(error) => Some(Break::Unreadable(error)),
    };
    chunk.end = Some(DayEnd { packed_bytes, broken });
    sender.send(chunk).ok()
}

/// Sends all elements except the last ones, which remain in `chunk`; returns the reason why the array breaks
/// off, if it does.
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
            let next =
                DayChunk { channel_index: chunk.channel_index, name, first, elements: Vec::new(), end: None };
            sender.send(std::mem::replace(chunk, next)).ok()?;
        }
    }
}
