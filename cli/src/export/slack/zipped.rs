//! A zip that is written on a thread of its own: packing takes as long as reading what is packed.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// What is handed over at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that wait: what the memory of an export is made of.
const PIECES: usize = 8;

/// Lists of messages become a fifth as long; the next levels take twice the time for a tenth less.
const LEVEL: i64 = 1;

/// How an entry is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPacking {
    /// Text becomes shorter.
    Deflated,
    /// Pictures, sounds and zips do not.
    AsItIs,
}

enum Piece {
    Entry(String, EntryPacking),
    Bytes(Vec<u8>),
}

/// Where a zip goes. Entries come one after another; what is written belongs to the last one that began.
pub(super) struct ZipSink {
    sender: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    buffer: Vec<u8>,
}

impl ZipSink {
    /// A zip in this file.
    pub(super) fn new(file: File) -> Self {
        let (sender, receiver) = sync_channel(PIECES);
        let thread = thread::spawn(move || pack(file, receiver));
        Self { sender: Some(sender), thread: Some(thread), buffer: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Begins an entry.
    pub(super) fn entry(&mut self, name: String, packing: EntryPacking) -> io::Result<()> {
        self.flush()?;
        self.send(Piece::Entry(name, packing))
    }

    /// Ends the zip; it is whole then.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.sender = None;
        self.ended()
    }

    fn send(&mut self, piece: Piece) -> io::Result<()> {
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(piece).is_ok());
        // If the thread has gone, it says why.
        if sent { Ok(()) } else { self.ended().and(Err(io::Error::other("the zip has ended"))) }
    }

    fn ended(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that packs has panicked")))
    }
}

impl Write for ZipSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE_BYTES));
        self.send(Piece::Bytes(piece))
    }
}

fn pack(file: File, pieces: Receiver<Piece>) -> io::Result<()> {
    let out =
        QuietOnceFailed { out: BufWriter::with_capacity(PIECE_BYTES, file), place: 0, has_failed: false };
    let mut zip = ZipWriter::new(out).set_auto_large_file();
    add_all(&mut zip, pieces)?;
    zip.finish().map_err(cause)?.flush()
}

/// A full disk is said as the system says it.
fn cause(error: ZipError) -> io::Error {
    if let ZipError::Io(error) = error { error } else { io::Error::other(error) }
}

/// A file that says once that it cannot be written, and then takes what comes: a zip that is dropped tries to end itself, and
/// would print that it cannot.
struct QuietOnceFailed {
    out: BufWriter<File>,
    place: u64,
    has_failed: bool,
}

impl Write for QuietOnceFailed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = if self.has_failed { Ok(bytes.len()) } else { self.out.write(bytes) };
        self.has_failed |= wrote.is_err();
        self.place += wrote.as_ref().map_or(0, |wrote| *wrote as u64);
        wrote
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.has_failed { Ok(()) } else { self.out.flush() };
        self.has_failed |= flushed.is_err();
        flushed
    }
}

impl Seek for QuietOnceFailed {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let there = match (self.has_failed, place) {
            (false, place) => self.out.seek(place),
            (true, SeekFrom::Start(there)) => Ok(there),
            (true, SeekFrom::Current(by)) => Ok(self.place.saturating_add_signed(by)),
            (true, SeekFrom::End(_)) => Ok(self.place),
        };
        self.has_failed |= there.is_err();
        self.place = *there.as_ref().unwrap_or(&self.place);
        there
    }
}

fn add_all(zip: &mut ZipWriter<QuietOnceFailed>, pieces: Receiver<Piece>) -> io::Result<()> {
    for piece in pieces {
        match piece {
            Piece::Entry(name, packing) => {
                let options = SimpleFileOptions::default();
                let options = match packing {
                    EntryPacking::Deflated => {
                        options.compression_method(CompressionMethod::Deflated).compression_level(Some(LEVEL))
                    }
                    EntryPacking::AsItIs => options.compression_method(CompressionMethod::Stored),
                };
                zip.start_file(name, options).map_err(cause)?;
            }
            Piece::Bytes(bytes) => zip.write_all(&bytes)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_written_is_in_the_entries() {
        let file = tempfile::tempfile().unwrap();
        let mut sink = ZipSink::new(file.try_clone().unwrap());
        let long = "long ".repeat(PIECE_BYTES);
        for (name, packing, text) in
            [("a", EntryPacking::Deflated, long.as_str()), ("b/c", EntryPacking::AsItIs, "short")]
        {
            sink.entry(name.to_owned(), packing).unwrap();
            sink.write_all(text.as_bytes()).unwrap();
        }
        sink.finish().unwrap();
        let mut zip = zip::ZipArchive::new(file).unwrap();
        let mut text = String::new();
        zip.by_name("a").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, long);
        assert_eq!(zip.by_name("b/c").unwrap().size(), 5);
    }

    #[test]
    fn a_disk_that_is_full_is_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read-only");
        std::fs::write(&path, "").unwrap();
        let mut sink = ZipSink::new(File::open(&path).unwrap());
        sink.entry("a".to_owned(), EntryPacking::AsItIs).unwrap();
        let wrote = (0..100).try_for_each(|_| sink.write_all(&[b'x'; PIECE_BYTES]));
        let error = wrote.and_then(|()| sink.finish()).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
