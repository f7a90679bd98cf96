//! Search commands. They only read the archive and write the search index, which is a separate file.
//!
//! * [`answer`] is `annalist search`, [`indexing`] is `annalist index`.

mod answer;
mod indexing;

use std::path::PathBuf;

use anyhow::Context;
use process::config::backend::{Backend, BackendArgs, BackendKind, INDEX_FILE};
use process::config::{self, IndexArgs};
use search::follower;

pub(crate) use answer::{
    IndexedActivity, SearchArgs, SearchOptions, SearchSource, SearchableArchive, mark_negations, print_json,
    print_remark, search,
};
pub(crate) use indexing::{IndexingArgs, index, index_what_came};

/// Returns the batch size for index updates while a user waits: messages in a folder, days of channels on
/// AWS.
pub(crate) fn batch(backend: &Backend) -> usize {
    if backend.database().is_some() { follower::BATCH_SIZE } else { follower::DAYS_PER_BATCH }
}

pub(crate) fn index_folder(index: &IndexArgs, backend: &BackendArgs) -> anyhow::Result<PathBuf> {
    match &index.folder {
        Some(folder) => Ok(folder.clone()),
        None => default_folder(backend),
    }
}

/// Returns the path of the index file, and creates its folder.
pub(crate) fn index_file(index: &IndexArgs, backend: &BackendArgs) -> anyhow::Result<PathBuf> {
    let folder = index_folder(index, backend)?;
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot use {} as the folder of the search index (--index)", folder.display())
    })?;
    Ok(folder.join(INDEX_FILE))
}

fn default_folder(backend: &BackendArgs) -> anyhow::Result<PathBuf> {
    match backend.backend {
        BackendKind::Embedded => Ok(backend.data.data.clone()),
        BackendKind::Aws => {
            let cache = config::cache_folder().context("name a folder for the search index with --index")?;
            Ok(cache.join("annalist").join(table(backend)?))
        }
    }
}

/// Returns the name of the table, because each table has its own index.
#[cfg(feature = "aws")]
fn table(backend: &BackendArgs) -> anyhow::Result<String> {
    Ok(backend.aws.names()?.table(ports::queue::topology::TableRole::Archive).to_owned())
}

#[cfg(not(feature = "aws"))]
fn table(_: &BackendArgs) -> anyhow::Result<String> {
    anyhow::bail!("this annalist is built without --backend aws")
}
