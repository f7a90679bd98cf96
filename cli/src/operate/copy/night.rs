//! The nightly copy. It is made after the night's other work, so that it lacks what has expired, and has what was missing.

use std::time::Duration;

use copies::BaseTime;
use metrics::counter;
use ports::archive::ArchiveError;
use ports::clock::TimestampMs;
use ports::metrics::COPIES;
use reader::find;
use rules::history::proof::{last_night, night_key};
use tokio::sync::watch;
use workers::keeper::NightTime;

use super::make::{Copier, newest};

/// How often it looks whether a night has begun.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// How long it waits after a failure: a full disk or a lost network needs somebody.
const RETRY_INTERVAL: Duration = Duration::from_secs(3600);

/// For so long it waits for the night's other work: it may wait for history for three hours, and Slack may refuse a token.
const LONGEST_WAIT_FOR_NIGHT: Duration = Duration::from_secs(4 * 3600);

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

    /// Makes a copy if the newest one is older than the last night, whose other work is done, or if there is none. `last`
    /// remembers it, so that the target is not asked each minute.
    async fn copy_if_due(&self, last: &mut Option<BaseTime>) -> anyhow::Result<()> {
        let night = self.night.before(self.copier.clock.now());
        let is_due = |last: &Option<BaseTime>| {
            let made = last.as_ref().and_then(BaseTime::timestamp);
            made.is_none_or(|made| TimestampMs(made.as_millisecond()) < night)
        };
        if !is_due(last) {
            return Ok(());
        }
        let is_too_early = self.goes_on(night).await?;
        if last.is_some() && is_too_early {
            return Ok(());
        }
        *last = newest(&self.copier.target).await.ok().flatten();
        if is_due(last) && (last.is_none() || !is_too_early) {
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
    /// Whether the other work of this night is to be waited for in some workspace.
    async fn goes_on(&self, night: TimestampMs) -> Result<bool, ArchiveError> {
        if self.copier.clock.now().since(night) >= LONGEST_WAIT_FOR_NIGHT {
            return Ok(false);
        }
        let archive = &*self.copier.archive;
        for team in find::teams(archive).await? {
            // Without any, its first night is the next one.
            let done = last_night(archive.get(&night_key(&team)).await?.as_ref());
            if done.is_some_and(|done| done < night) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::Time;
    use jiff::tz::TimeZone;
    use ports::archive::ArchiveExt;
    use process::config::copy::CopyTarget;
    use rules::history::proof::night_done;
    use slack::ids::TeamId;

    use super::*;
    use crate::fixture::CliFixture;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_copy_waits_for_the_nights_work_but_not_for_ever_and_a_new_target_gets_one_at_once() {
        let (fixture, to) = (CliFixture::open().await, tempfile::tempdir().unwrap());
        let team = TeamId::parse("T1").unwrap();
        fixture.channel("T1", "C1", "1700000000.000000", "general").await;
        let target = CopyTarget::Folder(to.path().to_owned());
        let copier = Copier {
            data: fixture.data().data.data,
            database: fixture.backend.database().unwrap().clone(),
            archive: fixture.backend.archive(),
            clock: fixture.shared_clock(),
            keep: "7d".parse().unwrap(),
            target: target.clone(),
        };
        let night = NightTime { at: Time::constant(3, 0, 0, 0), zone: TimeZone::UTC };
        let (nightly, mut last) = (NightlyCopy { copier, night: night.clone() }, None);
        let mut copies_after = async |expected: usize, why: &str| {
            nightly.copy_if_due(&mut last).await.unwrap();
            let store = target.store().await;
            assert_eq!(copies::list_bases(&*store).await.unwrap().len(), expected, "{why}");
        };
        let at = |hour: u32| {
            let now = fixture.clock().now();
            let next = night.before(now).0 + 86_400_000 + (i64::from(hour) - 3) * 3_600_000;
            fixture.advance_by(Duration::from_millis((next - now.0).unsigned_abs()));
        };
        fixture.archive().write(&night_done(&team, TimestampMs(1_000))).await.unwrap();
        at(4);
        copies_after(1, "the target is new").await;
        at(4);
        copies_after(1, "the night is not done").await;
        let done = night_done(&team, night.before(fixture.clock().now()));
        fixture.archive().write(&done).await.unwrap();
        copies_after(2, "the night is done").await;
        copies_after(2, "a copy of this night is there").await;
        at(6);
        copies_after(2, "it is three hours late").await;
        fixture.advance_by(HOUR);
        copies_after(3, "it is four hours late").await;
    }
}
