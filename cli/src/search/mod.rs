//! Finding messages: the archive is only read, the index beside it is a file of its own.
//!
//! * [`answer`] is `annalist search`, [`indexing`] is `annalist index`.

mod answer;
mod indexing;

use std::path::PathBuf;

use anyhow::Context;
use process::config::backend::{Backend, BackendArgs, BackendKind, INDEX_FILE};
use process::config::{self, IndexArgs};
use search::follower;

pub(crate) use answer::{SearchArgs, SearchOptions, SearchableArchive, marked_negations, search};
pub(crate) use indexing::{IndexingArgs, index};

/// What an index takes in at once while someone waits: messages in a folder, days of channels on AWS.
pub(crate) fn batch(backend: &Backend) -> usize {
    if backend.folder().is_some() { follower::BATCH } else { follower::DAYS }
}

/// The index's file, in a folder that exists.
pub(crate) fn index_file(index: &IndexArgs, backend: &BackendArgs) -> anyhow::Result<PathBuf> {
    let folder = match &index.folder {
        Some(folder) => folder.clone(),
        None => default_folder(backend)?,
    };
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

/// Archives of different tables have indexes of their own.
#[cfg(feature = "aws")]
fn table(backend: &BackendArgs) -> anyhow::Result<String> {
    Ok(backend.aws.names()?.table(ports::queue::topology::TableRole::Archive).to_owned())
}

#[cfg(not(feature = "aws"))]
fn table(_: &BackendArgs) -> anyhow::Result<String> {
    anyhow::bail!("this annalist is built without --backend aws")
}
