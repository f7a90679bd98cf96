//! The threads in which pages are made: how many, and for how long.

use std::sync::Arc;
use std::time::Duration;

use ports::blocking::in_own_thread;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

/// Maximum number of pages that are rendered concurrently; further requests wait. Each page keeps its data in
/// memory, and more concurrency does not make the archive faster. Each has a blocking thread of the runtime, which
/// needs others for the reads of the pages.
pub const MAX_CONCURRENT_PAGES: usize = 8;

/// Timeout for a page. On one machine a page takes milliseconds, and the figures of a large archive some
/// seconds.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a page in a thread of its own, when a slot is free, so that the work for long texts never stands before an
/// event of the same process. `None` if it panics.
pub(crate) async fn on_page_thread<F: Future>(
    slots: &Arc<Semaphore>,
    page: impl FnOnce() -> F + Send + 'static,
) -> Option<F::Output>
where
    F::Output: Send + 'static,
{
    let slot = Arc::clone(slots).acquire_owned().await;
    // Dropped if the client is gone or the time is over; the work then ends at its next wait.
    let (_wanted, unwanted) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let made = spawn_blocking(move || {
        let _slot = slot;
        in_own_thread(|| {
            runtime.block_on(async {
                tokio::select! {
                    page = page() => Some(page),
                    _ = unwanted => None,
                }
            })
        })
    });
    made.await.ok().flatten()
}
