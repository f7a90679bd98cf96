//! The format of a backup: a tar of plain files, in the order database, files, manifest.
//!
//! The manifest is last, so that each file is read once and a truncated backup has no manifest. Reading
//! trusts nothing: a backup must contain only plain files, with exactly the names, sizes and order of the
//! manifest, and nothing before, between or after them. All of this is checked from the headers alone, before
//! anything is written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use anyhow::{Context, bail, ensure};
use embedded::DATABASE_FILE;
use embedded::backup::manifest::{FORMAT, SCHEMA};
use embedded::backup::{BackupEntry, Manifest};
use ports::files::FileKey;
use tar::{EntryType, Header};

/// Name of the list of the contents.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Prefix of a file's key.
pub(crate) const FILES: &str = "files/";

/// A tar is made of blocks of this size.
const BLOCK_BYTES: u64 = 512;

/// A tar ends with two blocks of zeros.
const END_BYTES: u64 = 2 * BLOCK_BYTES;

/// Maximum size of the manifest, enough for three million files.
const MAX_MANIFEST_BYTES: u64 = 512 * 1024 * 1024;

/// Returns the header of a file that only its owner may read.
pub(crate) fn header(name: &str, bytes: u64, mtime_s: i64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    header.set_mtime(u64::try_from(mtime_s).unwrap_or(0));
    header.set_cksum();
    Ok(header)
}

/// A backup whose headers match its manifest.
pub(crate) struct Packed {
    file: File,
    pub(crate) manifest: Manifest,
}

impl Packed {
    /// Reads the headers and the manifest, and compares them.
    pub(crate) fn read(mut file: File) -> anyhow::Result<Self> {
        let headers = PackedHeaders::read(&mut file)?;
        let manifest = headers.manifest(&mut file)?;
        ensure!(
            manifest.format <= FORMAT && manifest.schema <= SCHEMA,
            "it was made by annalist {}, which is newer than this one: upgrade this one",
            manifest.annalist
        );
        headers.check_against(&manifest)?;
        Ok(Self { file, manifest })
    }

    /// Calls `each` for every packed file with its manifest entry, in order, beginning with the database.
    pub(crate) fn unpack(
        mut self,
        mut each: impl FnMut(&BackupEntry, &mut dyn Read) -> anyhow::Result<()>,
    ) -> anyhow::Result<Manifest> {
        self.file.seek(SeekFrom::Start(0))?;
        let packed = if self.manifest.has_files { &self.manifest.files[..] } else { &[] };
        for entry in std::iter::once(&self.manifest.database).chain(packed) {
            // Skip the header, which was checked before.
            self.file.seek_relative(i64::try_from(BLOCK_BYTES)?)?;
            let mut bytes = (&mut self.file).take(entry.bytes);
            each(entry, &mut bytes)?;
            ensure!(bytes.limit() == 0, "{} was not read to its end", entry.path);
            self.file.seek_relative(i64::try_from(padding(entry.bytes))?)?;
        }
        Ok(self.manifest)
    }
}

/// The contents of the headers.
struct PackedHeaders {
    /// Names and sizes, without the manifest.
    entries: Vec<(String, u64)>,
    /// The offset and size of the manifest.
    manifest: (u64, u64),
}

impl PackedHeaders {
    fn read(file: &mut File) -> anyhow::Result<Self> {
        let length = file.metadata()?.len();
        let mut entries = Vec::new();
        let mut offset = 0;
        loop {
            let Some((name, bytes)) = next_header(file, offset, length)? else {
                bail!("it has no {MANIFEST} at its end: it is not whole, or no backup; take another");
            };
            let begins = offset + BLOCK_BYTES;
            let ends = begins.checked_add(bytes).and_then(|ends| ends.checked_add(padding(bytes)));
            let Some(ends) = ends.filter(|ends| *ends <= length) else {
                bail!("it is cut off in {name}: take another backup");
            };
            offset = ends;
            if name != MANIFEST {
                entries.push((name, bytes));
                continue;
            }
            ensure!(
                length - ends == END_BYTES && next_header(file, ends, length)?.is_none(),
                "it does not end after {MANIFEST}: it was changed, or is not whole; take another backup"
            );
            return Ok(Self { entries, manifest: (begins, bytes) });
        }
    }

    fn manifest(&self, file: &mut File) -> anyhow::Result<Manifest> {
        let (begins, bytes) = self.manifest;
        ensure!(bytes <= MAX_MANIFEST_BYTES, "its {MANIFEST} is too long to be one");
        file.seek(SeekFrom::Start(begins))?;
        let text = io::BufReader::new(file.take(bytes));
        serde_json::from_reader(text).with_context(|| format!("its {MANIFEST} cannot be read"))
    }

    /// Checks that the entries are exactly those that the manifest lists.
    fn check_against(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let mut found = self.entries.iter();
        let mut check_next = |name: &str, listed: &BackupEntry| -> anyhow::Result<()> {
            let Some((found, bytes)) = found.next() else { bail!("{name} is missing") };
            ensure!(found == name, "it holds {found} where its {MANIFEST} lists {name}");
            ensure!(*bytes == listed.bytes, "{name} is {bytes} bytes long, not the listed {}", listed.bytes);
            ensure!(listed.sha256.is_some(), "{name} is listed without a hash");
            Ok(())
        };
        ensure!(manifest.database.path == DATABASE_FILE, "its {MANIFEST} lists no {DATABASE_FILE}");
        check_next(DATABASE_FILE, &manifest.database)?;
        let mut last = "";
        for listed in &manifest.files {
            ensure!(
                FileKey::parse(&listed.path).is_some(),
                "its {MANIFEST} lists {}, which is no file's name",
                listed.path
            );
            // The order in which an inventory traverses folders.
            ensure!(
                last.split('/').lt(listed.path.split('/')),
                "its {MANIFEST} is out of order at {}",
                listed.path
            );
            last = &listed.path;
            if manifest.has_files {
                check_next(&format!("{FILES}{}", listed.path), listed)?;
            }
        }
        if let Some((extra, _)) = found.next() {
            bail!("it holds {extra}, which its {MANIFEST} does not list");
        }
        Ok(())
    }
}

/// Returns the name and size in the header at this offset; `None` at the end, or if the rest is too short for
/// a header.
fn next_header(file: &mut File, offset: u64, length: u64) -> anyhow::Result<Option<(String, u64)>> {
    if length.saturating_sub(offset) < BLOCK_BYTES {
        return Ok(None);
    }
    let mut header = Header::new_old();
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(header.as_mut_bytes())?;
    if header.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let mut summed = header.clone();
    summed.set_cksum();
    let is_header = header.cksum().is_ok_and(|sum| summed.cksum().is_ok_and(|expected| sum == expected));
    ensure!(is_header, "it is no backup, or is damaged at byte {offset}: use another one");
    let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
    // Rejects links, devices, folders, and headers that change the meaning of the next one.
    let is_file = matches!(header.as_bytes()[156], b'0');
    ensure!(is_file, "{name} is not a plain file: no backup holds anything else");
    let bytes = header.entry_size().with_context(|| format!("{name} has no size"))?;
    Ok(Some((name, bytes)))
}

/// Returns the number of bytes that fill a file's last block.
fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK_BYTES
}

#[cfg(test)]
#[path = "packing_tests.rs"]
mod tests;
