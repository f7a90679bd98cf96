//! A data folder from a copy.

use std::io::Write;

use anyhow::{Context, bail, ensure};
use copies::{Base, BaseTime, BlockId, CopyError, CopyStore, FILES, block, list_bases, list_blocks, owner};
use embedded::backup::manifest::SCHEMA;
use embedded::backup::{BackupError, CopiedRows, FilledDatabase, StagingFolder};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use ports::archive::ItemKey;
use process::config::backend::BackendArgs;
use process::config::bucket::store_of;
use process::config::copy::CopyTarget;
use rules::file::row::ExpectedBytes;
use sha2::{Digest, Sha256};
use slack::hex::to_hex;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use super::super::backup::bucket_line;
use super::super::named_files::named_bytes;
use crate::plain;

/// Blocks that are fetched at the same time: a fetch is mostly waiting.
const CONCURRENT_FETCHES: usize = 8;

/// Rows that are read at once.
const PAGE: usize = 1_000;

/// Missing files that the output names.
const MAX_NAMED: usize = 10;

/// Restores the newest base, or the newest one before `until`, into an empty folder. Nothing is left of it after an error.
pub(crate) async fn restore(
    target: &CopyTarget,
    until: Option<Timestamp>,
    backend: &BackendArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let data = &*backend.data.data;
    let store = target.store().await;
    let context = || format!("cannot restore {target}");
    let (at, base) = choose(&*store, until).await.with_context(context)?;
    let staging = StagingFolder::begin(data)?;
    let own = staging.create_database()?;
    fill(&*store, &base, &own).await.with_context(context)?;
    let place = CopiedRows::open(&own)?.get(&ItemKey::archive_files())?;
    let place = place.as_ref().and_then(store_of);
    let files = match place {
        Some(_) => RestoredFiles::default(),
        None => restore_files(&*store, &own, &staging).await.with_context(context)?,
    };
    staging.publish()?;
    let shown = at.timestamp().map_or_else(|| at.to_string(), |time| time.to_string());
    writeln!(
        out,
        "Restored to {}: {} and {}, as of {shown}.",
        plain::line(&data.display().to_string()),
        plain::counted(base.counts.messages, "message", "messages"),
        plain::counted(files.restored, "file", "files"),
    )?;
    if let Some(place) = place {
        writeln!(out, "{}", bucket_line(place))?;
    }
    if !files.left_out.is_empty() {
        writeln!(
            out,
            "Left out, because the copy lacks them or has other bytes: {}, such as {}. `annalist verify` names all; \
             `annalist files retry` asks Slack for them.",
            plain::counted(files.left_out_count, "file", "files"),
            plain::line(&files.left_out.join(", "))
        )?;
    }
    writeln!(
        out,
        "What was erased since then is back, and what came since then is missing: `annalist up {}` shows that \
         time as a gap and reads it from Slack's history.",
        plain::line(&backend.selecting_flag())
    )?;
    Ok(())
}

/// The base to restore, whose blocks are all there.
async fn choose(store: &dyn CopyStore, until: Option<Timestamp>) -> anyhow::Result<(BaseTime, Base)> {
    store.ready().await.map_err(CopyError::from)?;
    owner(store).await?;
    let bases = list_bases(store).await?;
    let (Some(first), Some(last)) = (bases.first(), bases.last()) else { bail!("it has no copy") };
    let is_before =
        |at: &&BaseTime| until.is_none_or(|until| at.timestamp().is_some_and(|made| made <= until));
    let Some(at) = bases.iter().rfind(is_before) else {
        bail!("its first copy is {first}, its last one {last}: choose a later time with --until")
    };
    let advice = "restore another one with --until (`annalist copy --to TARGET --list` shows all)";
    let base =
        Base::read(store, at).await.with_context(|| format!("the copy {at} is not whole: {advice}"))?;
    ensure!(
        base.head.schema <= SCHEMA,
        "the copy {at} was made by annalist {}, which is newer than this one: upgrade this one",
        base.head.annalist
    );
    let there = list_blocks(store).await?;
    if let Some(missing) = base.blocks().find(|block| !there.contains(block)) {
        bail!("the copy {at} is not whole: {} is missing: {advice}", missing.object());
    }
    Ok((at.clone(), base))
}

/// The lines of a block of a table, by its position.
struct FetchedBlock {
    table: usize,
    lines: String,
}

/// Fills a database with the rows of a base. One thread inserts them, while this one fetches and unpacks the next ones.
async fn fill(store: &dyn CopyStore, base: &Base, own: &std::path::Path) -> anyhow::Result<()> {
    let filled = FilledDatabase::create(own, base.head.schema)?;
    let tables: Vec<_> =
        base.tables.iter().map(|table| (table.name.clone(), table.columns.clone())).collect();
    let (fetched, mut blocks) = channel::<FetchedBlock>(CONCURRENT_FETCHES);
    let inserting = spawn_blocking(move || {
        while let Some(FetchedBlock { table, lines }) = blocks.blocking_recv() {
            let (name, columns) = &tables[table];
            filled.insert_lines(name, columns, &lines)?;
        }
        Ok::<_, BackupError>(filled)
    });
    let fetching = fetch(store, base, fetched).await;
    let inserted = inserting.await?;
    // If the insertion failed, nobody took the blocks after it.
    let filled = inserted?;
    fetching?;
    Ok(filled.finish()?)
}

/// Fetches all blocks in their order, until nobody takes them any more.
async fn fetch(store: &dyn CopyStore, base: &Base, fetched: Sender<FetchedBlock>) -> Result<(), CopyError> {
    let blocks = base.tables.iter().enumerate();
    let blocks = blocks.flat_map(|(table, listed)| listed.blocks.iter().map(move |id| (table, *id)));
    let fetch = |(table, id): (usize, BlockId)| async move {
        Ok::<_, CopyError>(FetchedBlock { table, lines: block::lines(store, id).await? })
    };
    let mut blocks = stream::iter(blocks.map(fetch)).buffered(CONCURRENT_FETCHES);
    while let Some(block) = blocks.next().await {
        if fetched.send(block?).await.is_err() {
            break;
        }
    }
    Ok(())
}

#[derive(Default)]
struct RestoredFiles {
    restored: u64,
    left_out_count: u64,
    /// The first of them.
    left_out: Vec<String>,
}

/// Restores the files that the rows name.
async fn restore_files(
    store: &dyn CopyStore,
    own: &std::path::Path,
    staging: &StagingFolder,
) -> anyhow::Result<RestoredFiles> {
    let rows = CopiedRows::open(own)?;
    let (mut files, mut after) = (RestoredFiles::default(), None);
    loop {
        let page = rows.page(after.as_ref(), PAGE)?;
        let Some(last) = page.last() else { return Ok(files) };
        after = Some(last.key.clone());
        for item in page.into_iter().filter_map(|row| row.item.ok()) {
            for named in named_bytes(&item) {
                if restore_file(store, &named, staging).await? {
                    files.restored += 1;
                } else {
                    files.left_out_count += 1;
                    if files.left_out.len() < MAX_NAMED {
                        files.left_out.push(named.key.to_string());
                    }
                }
            }
        }
    }
}

/// Restores a file. Returns whether the copy has its bytes.
async fn restore_file(
    store: &dyn CopyStore,
    named: &ExpectedBytes<'_>,
    staging: &StagingFolder,
) -> anyhow::Result<bool> {
    let Some(mut reader) = store.open(&format!("{FILES}{}", named.key)).await? else { return Ok(false) };
    if named.size_bytes.is_some_and(|expected| expected != reader.size_bytes()) {
        return Ok(false);
    }
    // Several rows may name the same picture.
    let Some(mut file) = staging.create_new_file_of(&named.key)? else { return Ok(true) };
    let cannot_write = || format!("cannot write {}", named.key);
    let mut hash = Sha256::new();
    while let Some(chunk) = reader.next().await? {
        hash.update(&chunk);
        file.write_all(&chunk).with_context(cannot_write)?;
    }
    file.sync_all().with_context(cannot_write)?;
    let is_expected = named.sha256.is_none_or(|expected| expected == to_hex(&hash.finalize()));
    if !is_expected {
        staging.remove_file_of(&named.key)?;
    }
    Ok(is_expected)
}
