//! `annalist restore`: creates a data folder from a backup.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use embedded::DATABASE_FILE;
use embedded::backup::{Adopted, BackupEntry, Manifest, StagingFolder, adopt};
use jiff::Timestamp;
use ports::files::FileKey;
use process::config::backend::BackendArgs;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use slack::ids::Ts;

use crate::blocking::block_on;
use crate::failure::UsageError;
use crate::operate::backup::{BUCKET_SCHEME, bucket_line, embedded_folder};
use crate::operate::copy;
use crate::operate::date::date;
use crate::operate::erase::FILE;
use crate::operate::packing::Packed;
use crate::plain;
use crate::read::human_size;

/// Size of the copy buffer.
const CHUNK_BYTES: usize = 256 * 1024;

/// `annalist restore`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The file that `annalist backup` wrote, or the target of `annalist copy`
    #[arg(value_name = "FILE|TARGET")]
    pub(crate) file: PathBuf,
    /// From a copy: the last one until this time, such as 2026-11-20 (midnight UTC) or 2026-11-20T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = date)]
    pub(crate) until: Option<Ts>,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// Creates the data folder. After an error, nothing is left of it.
pub(crate) fn run(args: &RestoreArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let data = embedded_folder(&args.backend, "restore")?;
    if args.file.is_dir() || args.file.to_str().is_some_and(|file| file.contains("://")) {
        let target = args.file.display().to_string().parse().map_err(UsageError::new)?;
        let until =
            args.until.as_ref().map(|until| Timestamp::from_microsecond(until.micros())).transpose()?;
        return block_on(copy::restore(&target, until, &args.backend, out))?;
    }
    if args.until.is_some() {
        return Err(UsageError::new(
            "--until chooses one of the copies of a folder; a backup is of one time",
        )
        .into());
    }
    let context = || format!("cannot restore {}", args.file.display());
    let file = File::open(&args.file).with_context(context)?;
    ensure!(file.metadata()?.is_file(), "{}: it is not a file", context());
    let packed = Packed::read(file).with_context(context)?;
    let staging_folder = StagingFolder::begin(data)?;
    let manifest =
        packed.unpack(|entry, bytes| write_packed(&staging_folder, entry, bytes)).with_context(context)?;
    let own = staging_folder.create_database()?;
    let adopted = adopt(&staging_folder.packed_database(), manifest.schema, &own).with_context(context)?;
    staging_folder.publish()?;
    print_summary(args, &manifest, &adopted, out)
}

/// Writes a packed file to disk and checks its hash.
fn write_packed(
    staging_folder: &StagingFolder,
    entry: &BackupEntry,
    bytes: &mut dyn Read,
) -> anyhow::Result<()> {
    let mut file = if entry.path == DATABASE_FILE {
        staging_folder.create_packed_database()?
    } else {
        let key = FileKey::parse(&entry.path).context("a packed file has no key")?;
        staging_folder.create_file_of(&key)?
    };
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = bytes.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hash.update(&chunk[..read]);
        file.write_all(&chunk[..read]).with_context(|| format!("cannot write {}", entry.path))?;
    }
    let found = to_hex(&hash.finalize());
    ensure!(
        entry.sha256.as_deref() == Some(&found),
        "the bytes of {} are not those that were packed: take another backup",
        entry.path
    );
    file.sync_all().with_context(|| format!("cannot write {}", entry.path))
}

fn print_summary(
    args: &RestoreArgs,
    manifest: &Manifest,
    adopted: &Adopted,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let data = &args.backend.data.data;
    let (count, size) =
        (plain::counted(manifest.files.len(), "file", "files"), human_size(manifest.files_bytes()));
    let files_summary =
        if manifest.has_files { format!("and {count} ({size})") } else { "without files".to_owned() };
    writeln!(
        out,
        "Restored to {}: the database ({}) {files_summary}, as it was at {}, by annalist {}.",
        plain::line(&data.display().to_string()),
        human_size(manifest.database.bytes),
        plain::line(&manifest.created),
        plain::line(&manifest.annalist),
    )?;
    if manifest.files_uri.starts_with(BUCKET_SCHEME) {
        writeln!(out, "{}", bucket_line(&manifest.files_uri))?;
    } else if !manifest.has_files && !manifest.files.is_empty() {
        writeln!(
            out,
            "Missing: {count} ({size}); copy {} to {}.",
            plain::line(&manifest.files_uri),
            plain::line(&data.join("files").display().to_string()),
        )?;
    }
    if let Some((count, first)) = &adopted.left_out {
        let first = plain::line(first);
        writeln!(
            out,
            "Left out of the database, because annalist creates no such objects: {count}, such as {first}."
        )?;
    }
    if adopted.reader_tokens > 0 {
        let tokens = plain::counted(adopted.reader_tokens, "token of a reader is", "tokens of readers are");
        writeln!(
            out,
            "{tokens} as at the time of the backup: `annalist token list` shows those to be revoked again."
        )?;
    }
    writeln!(
        out,
        "If anything was erased since, it is back: copy {FILE} of the folder that was in use to {}, and run \
         `annalist erase --replay --yes {}`.",
        plain::line(&data.display().to_string()),
        plain::line(&args.backend.selecting_flag()),
    )?;
    writeln!(out, "Continue with: annalist up {}", plain::line(&args.backend.selecting_flag()))?;
    Ok(())
}
