//! Writes a zip on a separate thread, because packing takes as long as reading the archive.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

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

/// How names and sizes are written. Importers of other chats refuse what is allowed in a zip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ZipManner {
    /// Names have no flag for UTF-8, as in Slack's exports: Zulip crashes at one with it.
    pub(super) without_utf8_flag: bool,
    /// Entries are stored uncompressed once the zip is much smaller than its contents: Zulip refuses a zip that
    /// is ten times smaller.
    pub(super) bounds_ratio: bool,
}

/// The ratio of the contents to the zip from which entries are stored, and the size of contents below which
/// the ratio does not matter: Zulip refuses a ratio of 10 from 1 GiB on.
const MAX_RATIO: u64 = 9;
const RATIO_MATTERS_BYTES: u64 = 512 * 1024 * 1024;

/// The flag of a header for names in UTF-8, and the position of the flags in a local and in a central header.
/// <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>
const UTF8_FLAG: u16 = 1 << 11;
const LOCAL_FLAGS_AT: u64 = 6;
const CENTRAL_FLAGS_AT: u64 = 8;

enum Piece {
    Folder(String),
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
    pub(super) fn new(file: File, manner: ZipManner) -> Self {
        let (sender, receiver) = sync_channel(PIECES);
        let thread = thread::spawn(move || pack(file, manner, receiver));
        Self { sender: Some(sender), thread: Some(thread), buffer: Vec::with_capacity(PIECE_BYTES) }
    }

    /// Begins an entry.
    pub(super) fn entry(&mut self, name: String, packing: EntryPacking) -> io::Result<()> {
        self.flush()?;
        self.send(Piece::Entry(name, packing))
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, name: String) -> io::Result<()> {
        self.flush()?;
        self.send(Piece::Folder(name))
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

fn pack(file: File, manner: ZipManner, pieces: Receiver<Piece>) -> io::Result<()> {
    let written = file.try_clone()?;
    let position = Rc::new(Cell::new(0));
    let out = QuietOnceFailed {
        out: BufWriter::with_capacity(PIECE_BYTES, file),
        position: position.clone(),
        has_failed: false,
    };
    let mut zip = ZipWriter::new(out).set_auto_large_file();
    add_all(&mut zip, manner, &position, pieces)?;
    zip.finish().map_err(cause)?.flush()?;
    if manner.without_utf8_flag { clear_utf8_flags(written) } else { Ok(()) }
}

/// Clears the flag for UTF-8 in both headers of each entry.
fn clear_utf8_flags(mut file: File) -> io::Result<()> {
    let mut zip = ZipArchive::new(BufReader::new(file.try_clone()?)).map_err(cause)?;
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(cause)?;
        for position in
            [entry.header_start() + LOCAL_FLAGS_AT, entry.central_header_start() + CENTRAL_FLAGS_AT]
        {
            let mut flags = [0; 2];
            file.seek(SeekFrom::Start(position))?;
            file.read_exact(&mut flags)?;
            let cleared = u16::from_le_bytes(flags) & !UTF8_FLAG;
            file.seek(SeekFrom::Start(position))?;
            file.write_all(&cleared.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Returns the operating system's error, such as a full disk, without the zip's wrapper.
fn cause(error: ZipError) -> io::Error {
    if let ZipError::Io(error) = error { error } else { io::Error::other(error) }
}

/// A file that returns the first write error and then accepts all writes: when a `ZipWriter` is dropped, it
/// tries to finish the zip, and would print the error.
struct QuietOnceFailed {
    out: BufWriter<File>,
    position: Rc<Cell<u64>>,
    has_failed: bool,
}

impl Write for QuietOnceFailed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = if self.has_failed { Ok(bytes.len()) } else { self.out.write(bytes) };
        self.has_failed |= wrote.is_err();
        self.position.set(self.position.get() + wrote.as_ref().map_or(0, |wrote| *wrote as u64));
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
            (true, SeekFrom::Current(by)) => Ok(self.position.get().saturating_add_signed(by)),
            (true, SeekFrom::End(_)) => Ok(self.position.get()),
        };
        self.has_failed |= new_position.is_err();
        self.position.set(*new_position.as_ref().unwrap_or(&self.position.get()));
        new_position
    }
}

fn add_all(
    zip: &mut ZipWriter<QuietOnceFailed>,
    manner: ZipManner,
    position: &Cell<u64>,
    pieces: Receiver<Piece>,
) -> io::Result<()> {
    // The contents without those of the entry that is being written, and the latter.
    let (mut contents, mut own) = (0_u64, 0_u64);
    for piece in pieces {
        match piece {
            Piece::Folder(name) => zip.add_directory(name, SimpleFileOptions::default()).map_err(cause)?,
            Piece::Entry(name, packing) => {
                contents += std::mem::take(&mut own);
                let is_small = contents / MAX_RATIO > position.get() && contents >= RATIO_MATTERS_BYTES;
                let packing = if manner.bounds_ratio && is_small { EntryPacking::Stored } else { packing };
                let options = SimpleFileOptions::default();
                let options = match packing {
                    EntryPacking::Deflated => {
                        options.compression_method(CompressionMethod::Deflated).compression_level(Some(LEVEL))
                    }
                    EntryPacking::Stored => options.compression_method(CompressionMethod::Stored),
                };
                zip.start_file(name, options).map_err(cause)?;
            }
            Piece::Bytes(bytes) => {
                own += bytes.len() as u64;
                zip.write_all(&bytes)?;
            }
        }
    }
    Ok(())
}

/// The entries of a zip without flags for UTF-8, whose names are UTF-8 nevertheless.
#[cfg(test)]
pub(super) fn names_and_contents(mut file: File) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(file.try_clone().unwrap()).unwrap();
    let mut entries = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        let name = String::from_utf8(entry.name_raw().to_vec()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let headers =
            [entry.header_start() + LOCAL_FLAGS_AT, entry.central_header_start() + CENTRAL_FLAGS_AT];
        drop(entry);
        for position in headers {
            let mut flags = [0; 2];
            file.seek(SeekFrom::Start(position)).unwrap();
            file.read_exact(&mut flags).unwrap();
            assert_eq!(u16::from_le_bytes(flags) & UTF8_FLAG, 0, "{name} has the flag");
        }
        entries.push((name, content));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_contain_the_written_bytes() {
        let file = tempfile::tempfile().unwrap();
        let mut sink = ZipSink::new(file.try_clone().unwrap(), ZipManner::default());
        let long = "long ".repeat(PIECE_BYTES);
        for (name, packing, text) in
            [("a", EntryPacking::Deflated, long.as_str()), ("b/c", EntryPacking::Stored, "short")]
        {
            sink.entry(name.to_owned(), packing).unwrap();
            sink.write_all(text.as_bytes()).unwrap();
        }
        sink.finish().unwrap();
        let mut zip = ZipArchive::new(file).unwrap();
        let mut text = String::new();
        zip.by_name("a").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, long);
        assert_eq!(zip.by_name("b/c").unwrap().size(), 5);
    }

    #[test]
    fn names_have_no_flag_if_the_importer_crashes_at_it() {
        let file = tempfile::tempfile().unwrap();
        let manner = ZipManner { without_utf8_flag: true, bounds_ratio: true };
        let mut sink = ZipSink::new(file.try_clone().unwrap(), manner);
        sink.folder("会議/".to_owned()).unwrap();
        sink.entry("会議/a.json".to_owned(), EntryPacking::Deflated).unwrap();
        sink.write_all(b"[]").unwrap();
        sink.finish().unwrap();
        let entries = names_and_contents(file);
        assert_eq!(entries, [("会議/".to_owned(), Vec::new()), ("会議/a.json".to_owned(), b"[]".to_vec())]);
    }

    #[test]
    fn a_write_failure_is_returned_as_the_system_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read-only");
        std::fs::write(&path, "").unwrap();
        let mut sink = ZipSink::new(File::open(&path).unwrap(), ZipManner::default());
        sink.entry("a".to_owned(), EntryPacking::Stored).unwrap();
        let wrote = (0..100).try_for_each(|_| sink.write_all(&[b'x'; PIECE_BYTES]));
        let error = wrote.and_then(|()| sink.finish()).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
