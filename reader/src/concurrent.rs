//! Concurrent reads.

use futures_util::{StreamExt, TryStreamExt, stream};
use ports::archive::ArchiveError;

/// Maximum number of concurrent reads. The embedded archive runs fewer, so a read is always waiting for its
/// connections. A remote archive answers each in milliseconds, so a hundred reads take as long as thirteen in
/// sequence.
const MAX_CONCURRENT_READS: usize = 8;

/// Runs independent reads concurrently and returns their results in order.
///
/// # Errors
/// Returns the first error and drops the remaining reads.
pub(crate) async fn read_all<T, F>(reads: impl IntoIterator<Item = F>) -> Result<Vec<T>, ArchiveError>
where
    F: Future<Output = Result<T, ArchiveError>>,
{
    stream::iter(reads).buffered(MAX_CONCURRENT_READS).try_collect().await
}
