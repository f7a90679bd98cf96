//! Writes a zip on a separate thread, because packing takes as long as reading the archive.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Size of the pieces that are sent to the thread.
const PIECE_BYTES: usize = 256 * 1024;

/// Capacity of the queue to the thread. It bounds the memory of an export.
const PIECES: usize = 8;

/// Reduces lists of messages to a fifth. The next levels take twice the time to save another tenth.
const LEVEL: i64 = 1;

/// The compression of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPacking {
    /// For text, which compression shrinks.
    Deflated,
    /// For pictures, sounds and zips, which it does not.
    Stored,
}

enum Piece {
    Entry(String, EntryPacking),
    Bytes(Vec<u8>),
}

/// Sends the entries of a zip to the thread. Written bytes belong to the last entry that was begun.
pub(super) struct ZipSink {
    sender: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    buffer: Vec<u8>,
}

impl ZipSink {
    /// Starts a zip in this file.
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

    /// Completes the zip.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.sender = None;
        self.join()
    }

    fn send(&mut self, piece: Piece) -> io::Result<()> {
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(piece).is_ok());
        // If the thread has ended, its result is the cause.
        if sent { Ok(()) } else { self.join().and(Err(io::Error::other("the zip has ended"))) }
    }

    fn join(&mut self) -> io::Result<()> {
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
        QuietOnceFailed { out: BufWriter::with_capacity(PIECE_BYTES, file), position: 0, has_failed: false };
    let mut zip = ZipWriter::new(out).set_auto_large_file();
    add_all(&mut zip, pieces)?;
    zip.finish().map_err(cause)?.flush()
}

/// Returns the operating system's error, such as a full disk, without the zip's wrapper.
fn cause(error: ZipError) -> io::Error {
    if let ZipError::Io(error) = error { error } else { io::Error::other(error) }
}

/// A file that returns the first write error and then accepts all writes: when a `ZipWriter` is dropped, it
/// tries to finish the zip, and would print the error.
struct QuietOnceFailed {
    out: BufWriter<File>,
    position: u64,
    has_failed: bool,
}

impl Write for QuietOnceFailed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = if self.has_failed { Ok(bytes.len()) } else { self.out.write(bytes) };
        self.has_failed |= wrote.is_err();
        self.position += wrote.as_ref().map_or(0, |wrote| *wrote as u64);
        wrote
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = if self.has_failed { Ok(()) } else { self.out.flush() };
        self.has_failed |= flushed.is_err();
        flushed
    }
}

impl Seek for QuietOnceFailed {
    fn seek(&mut self, target: SeekFrom) -> io::Result<u64> {
        let new_position = match (self.has_failed, target) {
            (false, target) => self.out.seek(target),
            (true, SeekFrom::Start(new_position)) => Ok(new_position),
            (true, SeekFrom::Current(by)) => Ok(self.position.saturating_add_signed(by)),
            (true, SeekFrom::End(_)) => Ok(self.position),
        };
        self.has_failed |= new_position.is_err();
        self.position = *new_position.as_ref().unwrap_or(&self.position);
        new_position
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
                    EntryPacking::Stored => options.compression_method(CompressionMethod::Stored),
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
    fn entries_contain_the_written_bytes() {
        let file = tempfile::tempfile().unwrap();
        let mut sink = ZipSink::new(file.try_clone().unwrap());
        let long = "long ".repeat(PIECE_BYTES);
        for (name, packing, text) in
            [("a", EntryPacking::Deflated, long.as_str()), ("b/c", EntryPacking::Stored, "short")]
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
    fn a_write_failure_is_returned_as_the_system_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read-only");
        std::fs::write(&path, "").unwrap();
        let mut sink = ZipSink::new(File::open(&path).unwrap());
        sink.entry("a".to_owned(), EntryPacking::Stored).unwrap();
        let wrote = (0..100).try_for_each(|_| sink.write_all(&[b'x'; PIECE_BYTES]));
        let error = wrote.and_then(|()| sink.finish()).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
