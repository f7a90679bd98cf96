//! `annalist files move`: moves the bytes of files from the data folder to a bucket, or back.
//!
//! It has no state of its own: what is in the old place is to be moved. A file is removed there once the new place has
//! the same bytes.

use std::io::Write;

use anyhow::{Context, bail, ensure};
use futures_util::{StreamExt, stream};
use ports::archive::{Archive, ArchiveError};
use ports::files::{FileKey, FileReader, Files, FilesError, ListedFile, Published};
use process::config::ConfigError;
use process::config::backend::{Backend, BackendArgs, BackendKind};
use process::config::bucket::{BUCKET_PLACE, forget_place, store_place, stored_place};
use rules::file::named;
use serde::Serialize;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;

use super::named_files::named_bytes;
use crate::failure::UsageError;
use crate::plain;
use crate::progress::ProgressLine;
use crate::read::human_size;

/// Files that move at the same time: each has one part of an upload in memory.
const CONCURRENT_MOVES: usize = 4;

/// `annalist files move`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MoveArgs {
    /// Move the files back into the data folder
    #[arg(long, value_name = "folder", value_parser = ["folder"])]
    to: Option<String>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
}

/// What a move did, as `--json` shows it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct MoveCounts {
    /// Files that were to be moved.
    files: u64,
    bytes: u64,
    moved: u64,
    /// Files that the new place had already.
    already_there: u64,
    /// Files that stay because their bytes are not those that were stored.
    damaged: u64,
}

/// What became of a file.
#[derive(Debug, PartialEq, Eq)]
enum MovedFile {
    New,
    AlreadyThere,
    /// It stays where it is, and why.
    Damaged(String),
    /// It was erased meanwhile.
    Gone,
}

/// Moves all files, and prints what it did.
pub(crate) async fn run(backend: &Backend, args: &MoveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.backend.backend == BackendKind::Aws {
        let instead = "files are in ANNALIST_BUCKET already";
        return Err(ConfigError::EmbeddedOnly { command: "files move", instead }.into());
    }
    let Some(place) = &args.backend.files_in else {
        return Err(UsageError::new(format!("name the bucket with --files {BUCKET_PLACE}")).into());
    };
    let Some(database) = backend.database() else { bail!("the data folder is not open") };
    let Some(_lock) = database.lock_moving()? else { bail!("another move is running: wait for it") };
    let (archive, folder, bucket) = (&*backend.archive(), &*database.files(), &*place.files().await?);
    let (is_back, data) = (args.to.is_some(), args.backend.data.data.display());
    // A process that began without the bucket would go on writing to the folder, and one with it to the bucket.
    let in_use = (is_back || stored_place(archive).await?.is_none()) && database.is_used_by_others()?;
    ensure!(
        !in_use || is_back,
        "{data} is in use without a bucket: stop annalist there, or restart it with --files {place}, and try again"
    );
    ensure!(!in_use, "{data} is in use: stop annalist there, and try again");
    place.probe().await?;
    let mut damaged = |key: &FileKey, why: &str| match args.json {
        true => Ok(()),
        false => writeln!(out, "damaged file: {key}: {why}"),
    };
    let counts = if is_back {
        move_files(bucket, folder, archive, &mut damaged).await
    } else {
        store_place(archive, place).await?;
        move_files(folder, bucket, archive, &mut damaged).await
    };
    let counts = counts.context("not all files are moved; run it again")?;
    if is_back && counts.damaged == 0 {
        forget_place(archive).await?;
    }
    if args.json {
        plain::json_line(out, &counts)?;
    } else {
        writeln!(
            out,
            "Moved {} ({}) to {}; {} there already.",
            plain::counted(counts.moved, "file", "files"),
            human_size(counts.bytes),
            if is_back { format!("{data}") } else { place.to_string() },
            if counts.already_there == 1 {
                "1 was".to_owned()
            } else {
                format!("{} were", counts.already_there)
            },
        )?;
    }
    // The error must be the last line.
    out.flush()?;
    ensure!(
        counts.damaged == 0,
        "{} where it is, because its bytes are not those that were stored: restore it from a copy, and run this again",
        plain::counted(counts.damaged, "file stays", "files stay")
    );
    if is_back && !args.json {
        writeln!(out, "From now on, start without --files (ANNALIST_FILES).")?;
    }
    Ok(())
}

/// Moves all files of a place, and calls `damaged` for each that stays.
async fn move_files(
    from: &dyn Files,
    to: &dyn Files,
    archive: &dyn Archive,
    damaged: &mut dyn FnMut(&FileKey, &str) -> std::io::Result<()>,
) -> anyhow::Result<MoveCounts> {
    let (mut counts, mut progress) = (MoveCounts::default(), ProgressLine::begin());
    let total = count(from).await?;
    let mut after: Option<FileKey> = None;
    loop {
        let page = from.list(after.as_ref()).await?;
        let Some(last) = page.last() else { return Ok(counts) };
        after = Some(last.key.clone());
        let moves = page.into_iter().map(|file| async move {
            let moved = move_file(from, to, archive, &file.key).await;
            (file, moved)
        });
        let mut moves = stream::iter(moves).buffer_unordered(CONCURRENT_MOVES);
        while let Some((ListedFile { key, size_bytes }, moved)) = moves.next().await {
            match moved.with_context(|| format!("cannot move {key}"))? {
                MovedFile::New => counts.moved += 1,
                MovedFile::AlreadyThere => counts.already_there += 1,
                MovedFile::Damaged(why) => {
                    counts.damaged += 1;
                    progress.suspend(|| damaged(&key, &why))?;
                }
                MovedFile::Gone => continue,
            }
            counts.files += 1;
            counts.bytes += size_bytes;
            progress.update(counts.files, total, |_| {
                format!("{} of {total} files ({})", counts.files, human_size(counts.bytes))
            });
        }
    }
}

async fn count(files: &dyn Files) -> Result<u64, FilesError> {
    let (mut count, mut after) = (0, None);
    loop {
        let page = files.list(after.as_ref()).await?;
        let Some(last) = page.last() else { return Ok(count) };
        count += page.len() as u64;
        after = Some(last.key.clone());
    }
}

async fn move_file(
    from: &dyn Files,
    to: &dyn Files,
    archive: &dyn Archive,
    key: &FileKey,
) -> anyhow::Result<MovedFile> {
    let Some(mut reader) = from.open(key).await? else { return Ok(MovedFile::Gone) };
    let (size_bytes, mut hash) = (reader.size_bytes(), Sha256::new());
    let mut writer = to.create(key).await?;
    while let Some(chunk) = reader.next().await? {
        hash.update(&chunk);
        writer.write(chunk).await?;
    }
    let sha256 = to_hex(&hash.finalize());
    if let Some(why) = differs_from_row(archive, key, size_bytes, &sha256).await? {
        return Ok(MovedFile::Damaged(why));
    }
    let published = writer.publish().await?;
    let Some(mut copy) = to.open(key).await? else { return Ok(MovedFile::Gone) };
    // The bytes of a new file were acknowledged; those of an earlier one are unknown.
    let is_same = copy.size_bytes() == size_bytes
        && (published == Published::New || hash_of(&mut *copy).await? == sha256);
    if !is_same {
        return Ok(MovedFile::Damaged("the new place has other bytes under this key".to_owned()));
    }
    if !from.delete(key).await? {
        // It was erased after it was read.
        to.delete(key).await?;
        return Ok(MovedFile::Gone);
    }
    Ok(if published == Published::New { MovedFile::New } else { MovedFile::AlreadyThere })
}

async fn hash_of(reader: &mut dyn FileReader) -> Result<String, FilesError> {
    let mut hash = Sha256::new();
    while let Some(chunk) = reader.next().await? {
        hash.update(&chunk);
    }
    Ok(to_hex(&hash.finalize()))
}

/// How the bytes of a file differ from what its row says; `None` if they do not, or no row says anything.
async fn differs_from_row(
    archive: &dyn Archive,
    key: &FileKey,
    size_bytes: u64,
    sha256: &str,
) -> Result<Option<String>, ArchiveError> {
    let Some(parts) = key.parts() else { return Ok(None) };
    for row_key in named::rows_of(&parts) {
        let Some(row) = archive.get(&row_key).await? else { continue };
        for expected in named_bytes(&row).iter().filter(|expected| expected.key == *key) {
            if let Some(expected) = expected.size_bytes.filter(|expected| *expected != size_bytes) {
                return Ok(Some(format!("it has {size_bytes} bytes instead of {expected}")));
            }
            if let Some(expected) = expected.sha256.filter(|expected| *expected != sha256) {
                return Ok(Some(format!("its SHA-256 is {sha256} instead of {expected}")));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "files_move_tests.rs"]
mod tests;
