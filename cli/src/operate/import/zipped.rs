//! An export in a zip. Entries are not unpacked to disk, and sizes are bounded while reading, because the
//! sizes in headers cannot be trusted.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use workers::import::{EntryTooLarge, ExportEntries, ExportEntry, Problem, ProblemKind};
use zip::ZipArchive;
use zip::result::ZipError;

/// Maximum number of entries: a thousand channels for three years.
pub(super) const MAX_ENTRIES: u64 = 1_000_000;

/// Maximum unpacked size of an entry. The longest day of a busy channel has a hundredth of it.
pub(super) const MAX_ENTRY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// Maximum compression ratio. Lists of messages compress to a tenth or a twentieth.
const MAX_RATIO: u64 = 200;

/// Unpacked size above which the ratio is checked, because a few bytes may well become thousands.
const RATIO_BEGINS_BYTES: u64 = 64 * 1024;

/// Minimum size of the header before the bytes of an entry.
const HEADER_BYTES: u64 = 30;

/// Size of the read buffer.
const BUFFER_BYTES: usize = 32 * 1024;

/// Maximum size of the end of a zip: the end record, a comment of at most 64 KiB, and before both the ZIP64
/// records of a zip with more than 65,535 entries.
const END_BYTES: u64 = 65_535 + 22 + 20 + 56;

/// The signature of the ZIP64 end record, and the offset of the number of entries in it.
const MANY_ENTRIES: &[u8] = b"PK\x06\x06";
const COUNT_AT: usize = 32;

/// The entries of a zip.
pub(super) struct ZipExport {
    zip: ZipArchive<BufReader<File>>,
    entries: Vec<ExportEntry>,
    unpacked: UnpackedBytes,
}

/// The bytes that came out of a zip.
struct UnpackedBytes {
    /// The most bytes that were read of each entry, which may be read again.
    of_entries: Vec<u64>,
    sum: u64,
    /// The maximum sum: entries too small to be checked one by one are checked together.
    limit: u64,
}

impl UnpackedBytes {
    fn of(entries: usize, zip_bytes: u64) -> Self {
        let limit = zip_bytes.saturating_mul(MAX_RATIO).max(RATIO_BEGINS_BYTES);
        Self { of_entries: vec![0; entries], sum: 0, limit }
    }

    /// Counts the bytes that were read of an entry. Returns whether the sum is within the limit.
    fn count(&mut self, entry: usize, read_bytes: u64) -> bool {
        if let Some(counted) = self.of_entries.get_mut(entry) {
            self.sum = self.sum.saturating_add(read_bytes.saturating_sub(*counted));
            *counted = read_bytes.max(*counted);
        }
        self.sum <= self.limit
    }
}

impl ZipExport {
    /// Reads the central directory.
    ///
    /// # Errors
    /// Returns the problem because of which the zip cannot be read at all.
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let refused = |kind, detail| Problem::new(kind, file_name(path), detail);
        let broken = |error: ZipError| {
            let detail = format!("it is no zip, or is cut off ({error}): download it again");
            refused(ProblemKind::BrokenZip, detail)
        };
        let unreadable = |error: io::Error| refused(ProblemKind::BrokenZip, error.to_string());
        let mut file = File::open(path).map_err(unreadable)?;
        let too_many = |count: u64| {
            let detail = format!("it has {count} entries, more than {MAX_ENTRIES}");
            (count > MAX_ENTRIES).then(|| refused(ProblemKind::TooLarge, detail))
        };
        let announced = announced_entries(&mut file).map_err(unreadable)?;
        too_many(announced).map_or(Ok(()), Err)?;
        let zip_bytes = file.metadata().map_err(unreadable)?.len();
        let zip = ZipArchive::new(BufReader::with_capacity(BUFFER_BYTES, file)).map_err(broken)?;
        too_many(zip.len() as u64).map_or(Ok(()), Err)?;
        let mut entries = Vec::with_capacity(zip.len());
        let mut spans = Vec::with_capacity(zip.len());
        for index in 0..zip.len() {
            let header = zip.by_index_data(index).map_err(broken)?;
            if header.encrypted() {
                let detail = "it is encrypted: unpack it, and pack it again without a password".to_owned();
                return Err(refused(ProblemKind::BrokenZip, detail));
            }
            // Slack writes names in UTF-8 without saying so.
            let name = String::from_utf8_lossy(header.name_raw()).into_owned();
            let modified_s = header.last_modified().and_then(seconds);
            spans.push((header.header_start(), header.compressed_size()));
            entries.push(ExportEntry { name, packed_bytes: header.compressed_size(), modified_s });
        }
        if share_bytes(spans) {
            let detail = "entries in it share bytes, which no program packs: download it again".to_owned();
            return Err(refused(ProblemKind::BrokenZip, detail));
        }
        let unpacked = UnpackedBytes::of(entries.len(), zip_bytes);
        Ok(Self { zip, entries, unpacked })
    }

    /// Returns a problem if entries cannot be read because others have the same name.
    pub(super) fn problem(&self, path: &Path) -> Option<Problem> {
        let detail = "entries in it have the same name: only the last of each is read";
        let has_duplicates = self.zip.has_duplicate_names();
        has_duplicates.then(|| Problem::new(ProblemKind::BrokenZip, file_name(path), detail))
    }
}

/// Whether entries, each with its beginning and its packed size, share bytes: then few bytes become many,
/// although no entry has a high ratio.
fn share_bytes(mut spans: Vec<(u64, u64)>) -> bool {
    spans.sort_unstable();
    spans.windows(2).any(|pair| match pair {
        [(begins, packed_bytes), (next, _)] => {
            begins.saturating_add(HEADER_BYTES).saturating_add(*packed_bytes) > *next
        }
        _ => false,
    })
}

/// Returns a time in a zip, in seconds since the Unix epoch. A zip does not name its zone: UTC is at most
/// half a day off.
fn seconds(time: zip::DateTime) -> Option<i64> {
    let part = |part: u8| i8::try_from(part).ok();
    let year = i16::try_from(time.year()).ok()?;
    let (hour, minute, second) = (part(time.hour())?, part(time.minute())?, part(time.second())?);
    let time =
        DateTime::new(year, part(time.month())?, part(time.day())?, hour, minute, second.min(59), 0).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// Returns the number of entries that a zip declares if it is more than 65,535. Used before any entry is kept
/// in memory.
fn announced_entries(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    let mut end = Vec::new();
    file.take(END_BYTES).read_to_end(&mut end)?;
    let count = |offset: usize| {
        let bytes = end.get(offset + COUNT_AT..offset + COUNT_AT + size_of::<u64>())?;
        end[offset..].starts_with(MANY_ENTRIES).then(|| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0))
    };
    file.rewind()?;
    Ok((0..end.len()).filter_map(count).max().unwrap_or(0))
}

/// Returns the file name of a zip.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl ExportEntries for ZipExport {
    fn entries(&self) -> &[ExportEntry] {
        &self.entries
    }

    fn open(&mut self, entry: usize) -> io::Result<Box<dyn Read + '_>> {
        let bytes = self.zip.by_index(entry)?;
        let packed_bytes = bytes.compressed_size();
        if bytes.size() > MAX_ENTRY_BYTES {
            return Err(too_large(format!("it says that it has {} bytes", bytes.size())));
        }
        let unpacked = &mut self.unpacked;
        Ok(Box::new(Bounded { bytes, packed_bytes, read_bytes: 0, entry, unpacked }))
    }
}

fn too_large(detail: String) -> io::Error {
    io::Error::other(EntryTooLarge(detail))
}

/// A reader of an entry that fails if the entry exceeds the limits.
struct Bounded<'u, R> {
    bytes: R,
    packed_bytes: u64,
    read_bytes: u64,
    entry: usize,
    unpacked: &'u mut UnpackedBytes,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into)?;
        self.read_bytes += read as u64;
        if self.read_bytes > MAX_ENTRY_BYTES {
            return Err(too_large(format!("more than {MAX_ENTRY_BYTES} bytes come out of it")));
        }
        if self.read_bytes > RATIO_BEGINS_BYTES && self.read_bytes / MAX_RATIO >= self.packed_bytes.max(1) {
            let detail =
                format!("{} bytes in the zip become more than {MAX_RATIO} times as many", self.packed_bytes);
            return Err(too_large(detail));
        }
        if !self.unpacked.count(self.entry, self.read_bytes) {
            let detail = format!("the whole zip becomes more than {MAX_RATIO} times as many bytes");
            return Err(too_large(detail));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(packed_bytes: u64, bytes: u64) -> io::Result<u64> {
        unpack_of(&mut UnpackedBytes::of(1, u64::MAX), 0, packed_bytes, bytes)
    }

    fn unpack_of(
        unpacked: &mut UnpackedBytes,
        entry: usize,
        packed_bytes: u64,
        bytes: u64,
    ) -> io::Result<u64> {
        let bytes = io::repeat(b' ').take(bytes);
        io::copy(&mut Bounded { bytes, packed_bytes, read_bytes: 0, entry, unpacked }, &mut io::sink())
    }

    #[test]
    fn small_entries_are_checked_together_and_an_entry_may_be_read_again() {
        let mut unpacked = UnpackedBytes::of(3, 1_000);
        for _ in 0..10 {
            assert_eq!(unpack_of(&mut unpacked, 0, 100, 60_000).unwrap(), 60_000);
        }
        assert!(unpack_of(&mut unpacked, 1, 100, 60_000).is_ok());
        assert!(unpack_of(&mut unpacked, 2, 100, 60_000).is_ok());
        let mut unpacked = UnpackedBytes::of(9, 1_000);
        let read: Vec<bool> =
            (0..9).map(|entry| unpack_of(&mut unpacked, entry, 100, 60_000).is_ok()).collect();
        assert_eq!(read, [true, true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn entries_that_share_bytes_are_refused() {
        for (spans, expected) in [
            (vec![], false),
            (vec![(0, 10)], false),
            (vec![(40, 5), (0, 10)], false),
            (vec![(39, 5), (0, 10)], true),
            (vec![(0, 10), (0, 10)], true),
            (vec![(0, 0), (0, 0)], true),
            (vec![(0, u64::MAX), (100, 1)], true),
            (vec![(0, 1_000), (200, 10), (5_000, 1)], true),
        ] {
            assert_eq!(share_bytes(spans.clone()), expected, "{spans:?}");
        }
    }

    /// A zip whose central directory lists one stored entry many times under different names.
    #[test]
    fn a_zip_whose_entries_are_one_is_a_problem_of_the_file() {
        use std::io::Write;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        writer.start_file("a.json", zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all("[]".repeat(1_000).as_bytes()).unwrap();
        let honest = writer.finish().unwrap().into_inner();
        std::fs::write(&path, &honest).unwrap();
        assert!(ZipExport::open(&path).is_ok());
        let central = honest.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
        let end = honest.windows(4).position(|bytes| bytes == b"PK\x05\x06").unwrap();
        let header = &honest[central..end];
        let name = header.windows(6).position(|bytes| bytes == b"a.json").unwrap();
        let mut forged = honest[..central].to_vec();
        for number in b'a'..=b'e' {
            let mut header = header.to_vec();
            header[name] = number;
            forged.extend(header);
        }
        let mut end = honest[end..].to_vec();
        end[8..10].copy_from_slice(&5_u16.to_le_bytes());
        end[10..12].copy_from_slice(&5_u16.to_le_bytes());
        end[12..16].copy_from_slice(&u32::try_from(header.len() * 5).unwrap().to_le_bytes());
        forged.extend(end);
        std::fs::write(&path, forged).unwrap();
        let problem = ZipExport::open(&path).err().unwrap();
        assert!(problem.detail.contains("share bytes"), "{}", problem.detail);
    }

    #[test]
    fn an_entry_is_refused_once_it_exceeds_the_limits() {
        assert_eq!(unpack(0, RATIO_BEGINS_BYTES).unwrap(), RATIO_BEGINS_BYTES);
        assert_eq!(unpack(10_000, 1_999_999).unwrap(), 1_999_999);
        let error = unpack(10_000, u64::MAX).unwrap_err();
        assert!(error.get_ref().unwrap().is::<EntryTooLarge>(), "{error}");
        assert!(unpack(u64::MAX, MAX_ENTRY_BYTES + 1).is_err());
    }

    #[test]
    fn a_zip_of_too_many_entries_is_refused_before_any_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kind = |count: u64| {
            let record = [MANY_ENTRIES, &[0; COUNT_AT - 4], &count.to_le_bytes(), &[0; 16]].concat();
            std::fs::write(
                file.path(),
                [&record[..], b"PK\x06\x07", &[0; 16], b"PK\x05\x06", &[0; 18]].concat(),
            )
            .unwrap();
            ZipExport::open(file.path()).err().map(|problem| problem.kind)
        };
        assert_eq!(kind(MAX_ENTRIES + 1), Some(ProblemKind::TooLarge));
        assert_ne!(kind(MAX_ENTRIES), Some(ProblemKind::TooLarge));
    }

    #[test]
    fn a_time_in_a_zip_is_read_as_utc() {
        let time = zip::DateTime::from_date_and_time(2023, 11, 14, 22, 13, 20).unwrap();
        assert_eq!(seconds(time), Some(1_700_000_000));
        assert_eq!(seconds(zip::DateTime::default()), Some(315_532_800));
    }

    #[test]
    fn a_file_that_is_not_a_zip_is_a_one_line_problem() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let problem = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            ZipExport::open(&path).err().unwrap()
        };
        for bytes in [&b""[..], b"PK", b"[]", &[0; 10_000]] {
            let problem = problem(bytes);
            assert_eq!((problem.kind, problem.path.as_str()), (ProblemKind::BrokenZip, "a.zip"));
            assert!(!problem.detail.contains('\n'), "{}", problem.detail);
        }
        assert!(ZipExport::open(&folder.path().join("nowhere.zip")).is_err());
    }
}
