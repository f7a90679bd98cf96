//! Why a site could not be made.

use std::io;
use std::path::PathBuf;

use ports::archive::ArchiveError;
use ports::files::FilesError;

use crate::read::ReadError;

/// Why a site could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishError {
    /// The folder belongs to something else.
    #[error("{} has files, but is no site of `annalist publish`: choose an empty folder", .0.display())]
    StrangeFolder(PathBuf),
    /// Another run has the folder.
    #[error("another run is publishing to {}: wait until it ends", .0.display())]
    Busy(PathBuf),
    /// There is nothing to check.
    #[error("{} is no folder: publish a site first", .0.display())]
    NoSite(PathBuf),
    /// The state was written by another version.
    #[error("the site was made by a newer Annalist: update this one, or choose an empty folder")]
    NewerState,
    #[error("cannot read the channels in {}: {error}", path.display())]
    ChannelsFile {
        /// The file.
        path: PathBuf,
        /// The failure.
        error: io::Error,
    },
    /// The site cannot have the search that is asked for.
    #[error("there is no Pagefind: install it, name it with --pagefind, or publish with --search off")]
    NoSearchProgram,
    /// The search was not made.
    #[error("the site is complete but for its search: Pagefind failed for {0}")]
    Search(String),
    /// The system has no random numbers.
    #[error("there are no random numbers: {0}")]
    Random(String),
    /// The archive's files are in a bucket that was not named.
    #[error(
        "the files of this archive are in {0}: set --files-in {0} (ANNALIST_FILES); --files says which of them to copy"
    )]
    FilesElsewhere(String),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store of files failed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A channel was not found.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the state of the site failed: {0}")]
    State(#[from] rusqlite::Error),
    /// The bucket failed.
    #[error("the site is complete, but its upload is not: {0}")]
    Upload(String),
    /// A file could not be written.
    #[error("cannot write the site: {0}")]
    Io(#[from] io::Error),
}
