//! Reads that do not depend on each other.

use futures_util::{StreamExt, TryStreamExt, stream};
use ports::archive::ArchiveError;

/// Reads at once. The embedded archive runs fewer, so that its connections always have one waiting; a remote one answers each in
/// milliseconds, so that a hundred of them take as long as thirteen in a row.
const READS_AT_ONCE: usize = 8;

/// Runs reads side by side; their answers are in the order of the reads.
///
/// # Errors
/// The first error; what is not yet read is left out.
pub(crate) async fn read_all<T, F>(reads: impl IntoIterator<Item = F>) -> Result<Vec<T>, ArchiveError>
where
    F: Future<Output = Result<T, ArchiveError>>,
{
    stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await
}
