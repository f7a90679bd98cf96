//! The night: once a day, retention applies the rules that were set before.
//!
//! A night that was missed, because no process ran, is made up for at the next start. A rule that was set since the
//! last night waits for the next one, so that there is a day to reconsider.

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use ports::archive::{Archive, ArchiveError};
use ports::claims::{ClaimContext, ClaimKey, ClaimMode, ClaimsError};
use ports::clock::{SharedClock, TimestampMs};
use ports::files::Files;
use reader::find;
use reader::range::ts_from_micros;
use rules::retention::RetentionRules;
use slack::ids::TeamId;
use tokio::sync::watch;

use super::retention::{RetentionPlan, read_rules};
use crate::claims::{ClaimOutcome, Claimant, Sink};
use crate::failure::PortError;

/// How often it looks whether a night has begun, and tries again after a failure.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// What a night needs.
pub struct Nights {
    pub archive: Arc<dyn Archive>,
    pub files: Arc<dyn Files>,
    /// Keeps two runs apart.
    pub claimant: Claimant,
    /// The time.
    pub clock: SharedClock,
    /// The zone of `at`.
    pub zone: TimeZone,
    /// When a night begins.
    pub at: Time,
    /// After this time, every writer knows the facts.
    pub writers_know_after: Duration,
}

impl Nights {
    /// Applies the rules each night, until `stop` becomes true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut last = None;
        loop {
            let night = night_before(self.clock.now(), &self.zone, self.at);
            if last != Some(night) {
                let done = tokio::select! {
                    done = self.retention(night) => done,
                    // The next process completes it.
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                match done {
                    Ok(true) => last = Some(night),
                    // Another process does it.
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, "retention could not finish; it tries again"),
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Applies the rules of every workspace as of a night. Returns whether it is done.
    ///
    /// # Errors
    /// [`PortError`]; it can be repeated.
    pub async fn retention(&self, night: TimestampMs) -> Result<bool, PortError> {
        let mut is_done = true;
        for team in find::teams(&*self.archive).await? {
            is_done &= self.of_workspace(&team, night).await?;
        }
        Ok(is_done)
    }

    async fn of_workspace(&self, team: &TeamId, night: TimestampMs) -> Result<bool, PortError> {
        let begun = ts_from_micros(night.0.saturating_mul(1_000));
        let mut rules = read_rules(&*self.archive, team).await?;
        rules.retain(|rule| rule.set_at <= begun);
        let rules: RetentionRules = rules.into_iter().collect();
        let plan = RetentionPlan::read(&*self.archive, team, rules, night).await?;
        if !plan.is_due() {
            return Ok(true);
        }
        let key = ClaimKey::for_retention(team);
        let claimed =
            self.claimant.claim(key, ClaimContext::default(), Sink::Once, ClaimMode::EvenCompleted).await;
        let unavailable = |error: ClaimsError| ArchiveError::Unavailable(error.to_string());
        let mut claim = match claimed.map_err(unavailable)? {
            ClaimOutcome::Ours(claim) => claim,
            ClaimOutcome::Completed | ClaimOutcome::HeldFor(_) => return Ok(false),
        };
        let work = plan.apply(&*self.archive, &*self.files, night, None, self.writers_know_after);
        let done = claim.keep(work).await;
        claim.release().await;
        let Ok(done) = done else { return Ok(false) };
        let (_, counts) = done?;
        tracing::info!(
            team_id = %team, messages = counts.messages, files = counts.files, held = counts.held,
            "retention removed what has expired"
        );
        Ok(true)
    }
}

/// The beginning of the last night: the last time at which the clock showed `at`.
pub fn night_before(now: TimestampMs, zone: &TimeZone, at: Time) -> TimestampMs {
    let now = Timestamp::from_millisecond(now.0).unwrap_or_default().to_zoned(zone.clone());
    let begin = |days: i64| {
        let date = now.date().saturating_sub(Span::new().days(days));
        date.to_datetime(at).to_zoned(zone.clone()).map_or(0, |begin| begin.timestamp().as_millisecond())
    };
    let today = begin(0);
    TimestampMs(if today <= now.timestamp().as_millisecond() { today } else { begin(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_begins_at_the_local_time_of_this_day_or_of_the_day_before() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let at = Time::constant(3, 0, 0, 0);
        for (now, expected) in [
            ("2026-11-20T12:00:00Z", "2026-11-20T02:00:00Z"),
            ("2026-11-20T02:00:00Z", "2026-11-20T02:00:00Z"),
            ("2026-11-20T01:59:59Z", "2026-11-19T02:00:00Z"),
            // The clocks go forward at two in the morning, and back at three.
            ("2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("2026-10-25T12:00:00Z", "2026-10-25T02:00:00Z"),
        ] {
            let [now, expected] =
                [now, expected].map(|time| time.parse::<Timestamp>().unwrap().as_millisecond());
            assert_eq!(night_before(TimestampMs(now), &berlin, at).0, expected);
        }
    }
}
