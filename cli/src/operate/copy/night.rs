//! The nightly copy.

use std::time::Duration;

use copies::BaseTime;
use metrics::counter;
use ports::clock::TimestampMs;
use ports::metrics::COPIES;
use tokio::sync::watch;
use workers::keeper::NightTime;

use super::make::{Copier, newest};

/// How often it looks whether a night has begun.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// How long it waits after a failure: a full disk or a lost network needs somebody.
const RETRY_INTERVAL: Duration = Duration::from_secs(3600);

/// Copies a data folder every night.
pub(crate) struct NightlyCopy {
    pub(crate) copier: Copier,
    pub(crate) night: NightTime,
}

impl NightlyCopy {
    /// Copies once a night, and at the start if a night was missed, until `stop` becomes true.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut last = None;
        loop {
            let done = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                // The next copy finds the blocks that this one has written.
                done = self.copy_if_due(&mut last) => done,
            };
            let wait = match done {
                Ok(()) => POLL_INTERVAL,
                Err(error) => {
                    counter!(COPIES, "outcome" => "failed").increment(1);
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "no copy was made; it tries again in an hour"
                    );
                    RETRY_INTERVAL
                }
            };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Makes a copy if the newest one is older than the last night. `last` remembers it, so that the target is not asked
    /// each minute.
    async fn copy_if_due(&self, last: &mut Option<BaseTime>) -> anyhow::Result<()> {
        let night = self.night.before(self.copier.clock.now());
        let is_due = |last: &Option<BaseTime>| {
            let made = last.as_ref().and_then(BaseTime::timestamp);
            made.is_none_or(|made| TimestampMs(made.as_millisecond()) < night)
        };
        if !is_due(last) {
            return Ok(());
        }
        *last = newest(&self.copier.target).await.ok().flatten();
        if is_due(last) {
            let made = self.copier.copy().await?;
            counter!(COPIES, "outcome" => "made").increment(1);
            tracing::info!(
                target = made.target,
                at = made.at,
                bytes = made.bytes_written,
                "the night's copy is made"
            );
        }
        Ok(())
    }
}
