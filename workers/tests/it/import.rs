//! What an import says of itself while it runs.

use std::io::{self, Read};
use std::sync::Arc;

use ports::archive::{Archive, ItemKey};
use ports::clock::{ManualClock, TimestampMs};
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::event;
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use testkit::memory::files::MemoryFiles;
use testkit::memory::queue::MemoryQueue;
use workers::import::{
    ExportEntry, ExportSource, FailedImport, FileTarget, ImportOptions, ImportProgress, ImportSum,
    ImportTarget, Notice, import,
};

/// An export whose entries take as many bytes in it as they have.
struct ExportInMemory {
    entries: Vec<ExportEntry>,
    bytes: Vec<Vec<u8>>,
}

impl ExportSource for ExportInMemory {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self.bytes[entry][..]))
    }
}

fn export(days: &[(&str, Value)], uploads: &[(&str, &str)]) -> Box<ExportInMemory> {
    let text = |value: Value| value.to_string();
    let lists = [
        ("users.json", text(json!([{ "id": "U1", "team_id": "T1", "name": "ada" }]))),
        ("channels.json", text(json!([{ "id": "C1", "name": "general" }]))),
    ];
    let days = days.iter().map(|(name, day)| (*name, text(day.clone())));
    let uploads = uploads.iter().map(|(name, bytes)| (*name, (*bytes).to_owned()));
    let all = lists.into_iter().chain(days).chain(uploads);
    let (entries, bytes) = all
        .map(|(name, text)| {
            (ExportEntry { name: name.to_owned(), packed_bytes: text.len() as u64 }, text.into_bytes())
        })
        .unzip();
    Box::new(ExportInMemory { entries, bytes })
}

/// Imports it, and says what came of it and how far it was each time.
async fn imported(
    export: Box<ExportInMemory>,
    archive: Arc<dyn Archive>,
) -> (Result<ImportSum, FailedImport>, Vec<ImportProgress>) {
    let queue = Arc::new(MemoryQueue::new(ManualClock::starting_at(TimestampMs(0))));
    let files = Some(FileTarget { queue, files: Arc::new(MemoryFiles::new()) });
    let options = ImportOptions { team: None, tokens: None, now: TimestampMs(1_700_000_000_000) };
    let mut said = Vec::new();
    let sum = import(export, &ImportTarget { archive, files }, &options, &mut |notice| {
        if let Notice::Progress(progress) = notice {
            said.push(progress);
        }
    })
    .await;
    (sum, said)
}

fn day(messages: std::ops::Range<u64>) -> Value {
    messages.map(|n| event::message(&format!("{}.000100", 1_600_000_000 + n), "U1", "hi")).collect()
}

#[tokio::test]
async fn progress_counts_the_days_and_the_files_that_are_kept_and_comes_to_its_end() {
    let shared = event::file_share("1600090000.000100", "U1", "see", &["F1"]);
    let days = [("general/2020-09-13.json", day(0..600)), ("general/2020-09-14.json", json!([shared]))];
    let days_bytes: u64 = days.iter().map(|(_, day)| day.to_string().len() as u64).sum();
    // No message shares the other one.
    let uploads = [("__uploads/F1/a.txt", "some bytes"), ("__uploads/F9/b.txt", "some more bytes")];
    let (sum, said) = imported(export(&days, &uploads), Arc::new(MemoryArchive::new())).await;
    assert_eq!(sum.unwrap().messages, 601);
    let uploaded_bytes = "some bytes".len() as u64;
    let of = |bytes| ImportProgress { messages: 601, read_bytes: bytes, total_bytes: bytes };
    assert_eq!(said[said.len() - 2..], [of(days_bytes), of(days_bytes + uploaded_bytes)]);
    let is_growing = |pair: &[ImportProgress]| {
        pair[0].read_bytes <= pair[1].read_bytes && pair[0].messages <= pair[1].messages
    };
    assert!(said.windows(2).all(is_growing), "{said:?}");
    assert!(said.iter().all(|progress| progress.read_bytes <= progress.total_bytes), "{said:?}");
}

#[tokio::test]
async fn an_import_that_fails_says_what_it_did_until_then() {
    let days = [("general/2020-09-13.json", day(0..2_000))];
    let memory = Arc::new(MemoryArchive::new());
    // A batch of 512 messages is stored, and the next one breaks off.
    let archive = Arc::new(FaultyArchive::until(memory.clone(), CrashPoint::after(1_400)));
    let (sum, _) = imported(export(&days, &[]), archive).await;
    let failed = sum.unwrap_err();
    assert!(failed.to_string().contains("import it again"), "{failed}");
    assert!((1..2_000).contains(&failed.sum.messages), "{:?}", failed.sum);
    assert_eq!(failed.sum.messages, failed.sum.new);
    let (team, channel) = (TeamId::parse("T1").unwrap(), ChannelId::parse("C1").unwrap());
    let first = ItemKey::message(&team, &channel, &Ts::parse("1600000000.000100").unwrap());
    assert!(memory.get(&first).await.unwrap().is_some(), "what was stored stays");
}
