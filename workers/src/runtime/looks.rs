//! Work that no queue brings: a worker looks for it every few minutes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Worker;

/// The first look comes this long after the start: what is on the queue comes first, and with it the end of a time in which
/// nothing ran.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// Lets a worker look for work until the shutdown.
pub(super) async fn run(worker: Arc<dyn Worker>, mut shutdown: watch::Receiver<bool>) {
    let Some(between_looks) = worker.looks_every() else { return };
    let looking = async {
        sleep(FIRST_LOOK).await;
        loop {
            worker.look().await;
            sleep(between_looks).await;
        }
    };
    tokio::select! {
        biased;
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        () = looking => {}
    }
}
