//! Work that no queue brings: a worker looks for it every few minutes.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;

use super::Worker;

/// Lets a worker look for work until the shutdown.
pub(super) async fn run(worker: Arc<dyn Worker>, mut shutdown: watch::Receiver<bool>) {
    let Some(between_looks) = worker.looks_every() else { return };
    let looking = async {
        sleep(worker.first_look_after()).await;
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
