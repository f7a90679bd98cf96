//! Work that no queue delivers: each worker polls for it periodically.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Worker;

/// Lets a worker poll for work until the shutdown.
pub(super) async fn run(worker: Arc<dyn Worker>, mut shutdown: watch::Receiver<bool>) {
    let Some(poll_interval) = worker.poll_interval() else { return };
    let polling = async {
        sleep(worker.first_poll_delay()).await;
        loop {
            worker.poll().await;
            sleep(poll_interval).await;
        }
    };
    tokio::select! {
        biased;
        _ = shutdown.wait_for(|shutdown| *shutdown) => {}
        () = polling => {}
    }
}
