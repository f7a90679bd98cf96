//! `annalist backup`: writes the whole archive to one file, while it is in use.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use embedded::backup::manifest::FORMAT;
use embedded::backup::{BackupEntry, CopiedRows, Inventory, Manifest, PublishedFile, snapshot};
use embedded::{DATABASE_FILE, VERSION};
use jiff::Timestamp;
use ports::archive::ItemKey;
use ports::clock::Clock;
use process::config::ConfigError;
use process::config::backend::{BackendArgs, BackendKind};
use process::config::bucket::store_of;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use crate::operate::named_files::{NamedFiles, named_bytes};
use crate::operate::packing::{FILES, MANIFEST, header};
use crate::operate::target::{self, TargetFile, private_file_options};
use crate::plain;
use crate::read::human_size;

/// Rows that are read at once.
const PAGE: usize = 1_000;

/// Size of the read and write buffers.
const CHUNK_BYTES: usize = 256 * 1024;

/// The corresponding features of AWS, and which of them `provision` turns on.
const ON_AWS: &str = "`annalist provision` turns on point-in-time recovery of the DynamoDB table, which \
    restores it into a new table as it was at any second of the last 35 days; it does not turn on versions of the \
    bucket, whose files are written once: turn on S3 Versioning yourself if you want to undo deletions, or deploy the \
    template of `annalist cloudformation`, which does";

/// `annalist backup`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to write
    #[arg(value_name = "FILE", value_parser = target::path())]
    file: PathBuf,
    /// Overwrite FILE if it exists
    #[arg(long)]
    force: bool,
    /// Leave the bytes of files out: copy the folder files/ by other means, after this
    #[arg(long)]
    without_files: bool,
    #[command(flatten)]
    backend: BackendArgs,
}

/// What the address of files in a bucket begins with.
pub(crate) const BUCKET_SCHEME: &str = "s3://";

/// The line that says in which bucket the files are.
pub(crate) fn bucket_line(place: &str) -> String {
    format!("The files are in {0}: start with --files {0} (ANNALIST_FILES).", plain::line(place))
}

/// Returns the data folder of the embedded backend. Returns an error for AWS, where the command does not
/// apply.
pub(crate) fn embedded_folder<'a>(
    backend: &'a BackendArgs,
    command: &'static str,
) -> Result<&'a Path, ConfigError> {
    match backend.backend {
        BackendKind::Embedded => Ok(&backend.data.data),
        BackendKind::Aws => Err(ConfigError::EmbeddedOnly { command, instead: ON_AWS }),
    }
}

/// Writes the backup and prints a summary.
pub(crate) fn run(args: &BackupArgs, clock: &dyn Clock, out: &mut dyn Write) -> anyhow::Result<()> {
    let data = embedded_folder(&args.backend, "backup")?;
    let target = claim_target(args)?;
    let copy = target.sibling_path("snapshot");
    let _remove_on_drop = RemoveOnDrop(copy.clone());
    create_empty(&copy)?;
    let snapshot = snapshot(data, &copy)?;

    let mut packing = BackupTar {
        tar: tar::Builder::new(BufWriter::with_capacity(CHUNK_BYTES, target.file().try_clone()?)),
        mtime_s: clock.now().seconds(),
    };
    let copied = File::open(&copy).with_context(|| format!("cannot read {}", copy.display()))?;
    let bytes = copied.metadata()?.len();
    let sha256 = packing.append(DATABASE_FILE, bytes, copied)?;
    let rows = CopiedRows::open(&copy)?;
    let place = rows.get(&ItemKey::archive_files())?;
    let place = place.as_ref().and_then(store_of).map(str::to_owned);
    let (found, listed) = match &place {
        Some(_) => (FoundFiles::default(), list_in_rows(&rows)?),
        None => (FoundFiles::list(data, rows)?, Vec::new()),
    };
    // Free the space for the files.
    std::fs::remove_file(&copy)?;
    let mut manifest = Manifest {
        format: FORMAT,
        schema: snapshot.schema,
        annalist: VERSION.to_owned(),
        created: Timestamp::from_second(packing.mtime_s)?.to_string(),
        files_uri: place.clone().unwrap_or(snapshot.files_uri),
        has_files: !args.without_files && place.is_none(),
        database: BackupEntry { path: DATABASE_FILE.to_owned(), bytes, sha256: Some(sha256) },
        files: listed,
    };
    for file in found.named {
        let sha256 = if args.without_files {
            None
        } else {
            match File::open(&file.path) {
                Ok(bytes) => Some(packing.append(&format!("{FILES}{}", file.key), file.bytes, bytes)?),
                // It was erased meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", file.path.display()));
                }
            }
        };
        manifest.files.push(BackupEntry { path: file.key, bytes: file.bytes, sha256 });
    }
    let list = serde_json::to_vec(&manifest)?;
    packing.append(MANIFEST, list.len() as u64, &list[..])?;
    packing.tar.into_inner()?.flush()?;
    let size = target.publish()?;
    print_summary(args, &manifest, size, &found.left_out, out)
}

/// The files of a data folder: those that a copy of its rows names, and what is left out.
#[derive(Default)]
struct FoundFiles {
    named: Vec<PublishedFile>,
    left_out: LeftOut,
}

/// What a backup leaves out.
#[derive(Default)]
struct LeftOut {
    /// The number of files that no row names, and their bytes.
    unnamed: (usize, u64),
    /// The number of entries that are not files of the archive, and the first one.
    foreign: Option<(usize, PathBuf)>,
}

impl FoundFiles {
    /// Lists the files. A file that a job stores later is left out: the job is in the copy too, and stores it
    /// again.
    fn list(data: &Path, rows: CopiedRows) -> anyhow::Result<Self> {
        let (mut named, mut unnamed) = (Vec::new(), (0, 0));
        let mut names = NamedFiles::of(rows);
        let mut inventory = Inventory::new(data);
        for file in inventory.by_ref() {
            let file = file.with_context(|| format!("cannot list the files in {}", data.display()))?;
            if names.contain(&file.key)? {
                named.push(file);
            } else {
                unnamed = (unnamed.0 + 1, unnamed.1 + file.bytes);
            }
        }
        Ok(Self { named, left_out: LeftOut { unnamed, foreign: inventory.foreign().cloned() } })
    }
}

/// The files that the rows of a copy name, without their bytes: a bucket has them.
fn list_in_rows(rows: &CopiedRows) -> anyhow::Result<Vec<BackupEntry>> {
    let (mut files, mut after) = (BTreeMap::new(), None);
    loop {
        let page = rows.page(after.as_ref(), PAGE)?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for item in page.into_iter().filter_map(|row| row.item.ok()) {
            // Rows say no size of pictures, which are small.
            let named = named_bytes(&item).into_iter();
            files.extend(named.map(|named| (named.key.to_string(), named.size_bytes.unwrap_or(0))));
        }
    }
    Ok(files.into_iter().map(|(path, bytes)| BackupEntry { path, bytes, sha256: None }).collect())
}

/// Claims the file to write. Overwrites an existing file only with --force.
fn claim_target(args: &BackupArgs) -> anyhow::Result<TargetFile> {
    let (path, shown) = (&args.file, args.file.display());
    if path.is_dir() {
        bail!("{shown} is a folder: name a file in it, such as {}", path.join("annalist.tar").display());
    }
    if path.is_file() && !args.force {
        bail!("{shown} exists: choose another name, or write over it with --force");
    }
    TargetFile::claim(path, "backup", args.force)
}

fn print_summary(
    args: &BackupArgs,
    manifest: &Manifest,
    size: u64,
    left_out: &LeftOut,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (count, files) =
        (plain::counted(manifest.files.len(), "file", "files"), human_size(manifest.files_bytes()));
    let files_summary = if !manifest.has_files {
        format!("{count} listed without their bytes ({files})")
    } else {
        format!("{count} ({files})")
    };
    writeln!(
        out,
        "{}: {} ({size} bytes): the database ({}) and {files_summary}.",
        plain::line(&args.file.display().to_string()),
        human_size(size),
        human_size(manifest.database.bytes),
    )?;
    let place = plain::line(&manifest.files_uri);
    if manifest.files_uri.starts_with(BUCKET_SCHEME) {
        writeln!(out, "The files are in {place}, which this backup does not hold.")?;
        let left = Inventory::new(&args.backend.data.data).count();
        if left > 0 {
            let left = plain::counted(left, "file is", "files are");
            writeln!(out, "{left} still in the folder, and in no backup: annalist files move moves them.")?;
        }
    } else if args.without_files {
        writeln!(out, "Now copy {place}; files are never changed.")?;
    }
    if left_out.unnamed.0 > 0 {
        let (count, bytes) = left_out.unnamed;
        let files = plain::counted(count, "file", "files");
        writeln!(out, "Left out, because no row names them: {files} ({}).", human_size(bytes))?;
    }
    if let Some((count, first)) = &left_out.foreign {
        let first = plain::line(&first.display().to_string());
        writeln!(out, "Left out, because they are not files of the archive: {count}, such as {first}.")?;
    }
    Ok(())
}

/// The tar archive that is being written.
struct BackupTar<W: Write> {
    tar: tar::Builder<W>,
    mtime_s: i64,
}

impl<W: Write> BackupTar<W> {
    /// Appends `bytes` bytes under this name and returns their hash.
    fn append(&mut self, name: &str, bytes: u64, from: impl Read) -> anyhow::Result<String> {
        let header = header(name, bytes, self.mtime_s)?;
        let mut hashed = Hashed { from: from.take(bytes), hash: Sha256::new(), bytes: 0 };
        let mut chunked = io::BufReader::with_capacity(CHUNK_BYTES, &mut hashed);
        self.tar.append(&header, &mut chunked).with_context(|| format!("cannot write {name}"))?;
        if hashed.bytes != bytes {
            bail!("{name} became shorter while it was read: something else changes the data folder");
        }
        Ok(to_hex(&hashed.hash.finalize()))
    }
}

/// A reader that counts and hashes the bytes.
struct Hashed<R> {
    from: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A file that is removed on drop, if it still exists.
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Creates an empty private file for SQLite, which would create a world-readable one.
fn create_empty(path: &Path) -> anyhow::Result<()> {
    let created = match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => private_file_options().open(path).map(drop),
    };
    created.with_context(|| format!("cannot write to {}", path.display()))
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
