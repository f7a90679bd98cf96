//! Keeps the index up to date in the background, and compares it with the archive.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::Archive;
use ports::changes::Changes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::check;
use crate::follower::{FollowStep, step};
use crate::index::SearchIndex;

/// Poll interval for an archive on this machine. A poll without changes needs two small reads.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// After a batch, [`follow`] rests for this multiple of the batch's duration, because the workers have
/// priority. The rest is limited: on a busy machine a batch takes long, and new messages must still be found
/// within seconds.
const REST_FACTOR: u32 = 9;
const MAX_REST: Duration = Duration::from_secs(1);

/// Delay after a failure. A full disk or a locked file is not repaired sooner.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Follows the archive until `stop` is set, and polls it at `poll_interval` once the index has caught
/// up. Compares both once a day. Failures are logged and retried.
pub async fn follow(
    path: &Path,
    poll_interval: Duration,
    changes: Arc<dyn Changes>,
    archive: Arc<dyn Archive>,
    stop: watch::Receiver<bool>,
) {
    let checking = check::check_daily(path, &*changes, &*archive, stop.clone());
    tokio::join!(index_changes(path, poll_interval, &*changes, &*archive, stop), checking);
}

async fn index_changes(
    path: &Path,
    poll_interval: Duration,
    changes: &dyn Changes,
    archive: &dyn Archive,
    mut stop: watch::Receiver<bool>,
) {
    let mut open: Option<SearchIndex> = None;
    let mut is_failing = false;
    while !*stop.borrow() {
        let started = Instant::now();
        let step_on_current = async {
            let index = SearchIndex::current(&mut open, path).await?;
            step(&index, changes, archive, |_| !*stop.borrow()).await
        };
        let result = step_on_current.await;
        let was_failing = std::mem::replace(&mut is_failing, result.is_err());
        let rest = match result {
            Ok(FollowStep::CaughtUp) => poll_interval,
            Ok(FollowStep::Advanced(_) | FollowStep::Stopped) => {
                (started.elapsed() * REST_FACTOR).min(MAX_REST)
            }
            Err(error) => {
                open = None;
                if !was_failing {
                    tracing::warn!(%error, "the search index cannot follow the archive; retrying");
                }
                RETRY_DELAY
            }
        };
        tokio::select! {
            () = sleep(rest) => {}
            // An error means that the sender was dropped because the process ends.
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
    }
}
