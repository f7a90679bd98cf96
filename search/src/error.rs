//! Why a search failed.

use ports::archive::ArchiveError;
use reader::search::resolve::ResolveError;

use crate::index::IndexError;

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The query names an unknown person or channel.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}
