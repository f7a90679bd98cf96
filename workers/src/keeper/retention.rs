//! Retention: applies the rules of a workspace.
//!
//! 1. [`RetentionPlan::read`]: what expires now, by the rules and by the facts of earlier runs.
//! 2. [`RetentionPlan::write_facts`]: from then on, no writer stores any of it again.
//! 3. [`RetentionPlan::run`]: removes the rows of the period since the last run.
//! 4. [`RetentionPlan::finish`]: records how far the rows are gone. A killed run is repeated from there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ports::archive::erasure::{ErasureFacts, ExpiryFact, HoldFact};
use ports::archive::{Archive, ArchiveError, ArchiveExt, Query, key, query_all};
use ports::clock::TimestampMs;
use ports::files::Files;
use reader::range::ts_from_micros;
use rules::retention::{RetentionRule, RetentionRules, expires_before};
use rules::version;
use slack::ids::{ChannelId, TeamId, Ts};

use crate::eraser::{EraserCounts, EraserMode, ErasureRecord, ExpiredPeriod, Expiry, channels_of};
use crate::failure::PortError;

/// What expires in a workspace.
#[derive(Debug)]
pub struct RetentionPlan {
    team: TeamId,
    /// The facts to write, by channel or for every channel without its own.
    facts: BTreeMap<Option<ChannelId>, Ts>,
    /// The facts as they are with these.
    covered: ErasureFacts,
    /// The channels with something that may have expired.
    periods: Vec<ExpiredPeriod>,
    /// Released holds whose scope is searched again.
    released: Vec<HoldFact>,
    rules: RetentionRules,
    is_due: bool,
}

/// The counts of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredChannel {
    pub channel: ChannelId,
    /// The days for which its messages are kept; `None` for ever.
    pub days: Option<u32>,
    /// What is before this time has expired.
    pub until: Ts,
    pub counts: EraserCounts,
}

/// Every rule that was ever set in a workspace, in the order of their scopes and times.
pub async fn read_rules(archive: &dyn Archive, team: &TeamId) -> Result<Vec<RetentionRule>, ArchiveError> {
    let rows = query_all(archive, Query::partition(key::retention_rules(team))).await?;
    Ok(rows.iter().filter_map(|row| RetentionRule::read(team, row)).collect())
}

impl RetentionPlan {
    /// What expires now by these rules, which may differ from the stored ones.
    pub async fn read(
        archive: &dyn Archive,
        team: &TeamId,
        rules: RetentionRules,
        now: TimestampMs,
    ) -> Result<Self, ArchiveError> {
        let rows = query_all(archive, Query::partition(key::erasures(team))).await?;
        let mut covered = ErasureFacts::from_rows(&rows);
        let known: BTreeMap<Option<ChannelId>, ExpiryFact> =
            rows.iter().filter_map(ExpiryFact::read).map(|fact| (fact.channel.clone(), fact)).collect();
        let mut channels = channels_of(archive, team).await?;
        let own: BTreeSet<ChannelId> = known.keys().flatten().chain(rules.channels()).cloned().collect();
        channels.extend(own.iter().cloned());
        let newest = newest_message(archive, team, &channels).await?;
        // Nothing expires in the future: if the clock of this machine were wrong, new messages would be refused.
        let due = |days: u32| expires_before(days, now).min(newest.clone());
        let of_every_channel = known.get(&None);
        let mut facts = BTreeMap::new();
        for channel in std::iter::once(None).chain(own.iter().cloned().map(Some)) {
            // Until it has its own fact, that of every channel applies.
            let before = known.get(&channel).or(of_every_channel).map(|fact| fact.until.clone());
            let after = rules.days(channel.as_ref()).map(due).max(before.clone());
            let until = match (&channel, after) {
                (_, Some(until)) => until,
                (Some(_), None) => version::zero(),
                (None, None) => continue,
            };
            covered.insert_expiry(&ExpiryFact {
                team: team.clone(),
                channel: channel.clone(),
                until: until.clone(),
                done: None,
            });
            facts.insert(channel, until);
        }
        let released: Vec<HoldFact> = covered
            .holds(team)
            .iter()
            .filter(|hold| hold.release.is_some() && !hold.is_swept)
            .cloned()
            .collect();
        let is_new = |(channel, until): (&Option<ChannelId>, &Ts)| {
            known.get(channel).and_then(|fact| fact.done.as_ref()) != Some(until)
        };
        let is_due = facts.iter().any(is_new) || !released.is_empty();
        let mut periods = Vec::new();
        for channel in channels {
            let Some(until) = covered.expired_before(team, &channel).filter(|until| until.micros() > 0)
            else {
                continue;
            };
            let fact = known.get(&Some(channel.clone())).or(of_every_channel);
            let mut from = fact.and_then(|fact| fact.done.clone());
            for hold in &released {
                if hold.scope.channel.as_ref().is_none_or(|held| *held == channel) {
                    from = from.min(hold.scope.from.clone());
                }
            }
            periods.push(ExpiredPeriod { channel, from, until });
        }
        Ok(Self { team: team.clone(), facts, covered, periods, released, rules, is_due })
    }

    /// Whether something may have become due since the last run.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Removes what has expired: all steps, in their order. `writers_know_after` is how late a writer may learn of a
    /// fact.
    ///
    /// # Errors
    /// [`PortError`]; the run can be repeated.
    pub async fn apply(
        &self,
        archive: &dyn Archive,
        files: &dyn Files,
        now: TimestampMs,
        by: Option<String>,
        writers_know_after: Duration,
    ) -> Result<(Vec<ExpiredChannel>, EraserCounts), PortError> {
        self.write_facts(archive).await?;
        if self.is_due {
            tokio::time::sleep(writers_know_after).await;
        }
        let done = self.run(archive, files, EraserMode::Act).await?;
        self.finish(archive, done.1, now, by).await?;
        Ok(done)
    }

    /// The time before which messages have expired, in a channel or in every channel without its own fact.
    #[must_use]
    pub fn until(&self, channel: Option<&ChannelId>) -> Option<Ts> {
        match channel {
            Some(channel) => self.covered.expired_before(&self.team, channel),
            None => self.facts.get(&None).cloned(),
        }
    }

    /// Writes the facts, so that no writer stores what has expired.
    async fn write_facts(&self, archive: &dyn Archive) -> Result<(), ArchiveError> {
        for (channel, until) in &self.facts {
            archive.write(&ExpiryFact::expire(&self.team, channel.as_ref(), until)).await?;
        }
        Ok(())
    }

    /// Removes what has expired, or counts it. Returns the channels in which something can expire.
    ///
    /// # Errors
    /// [`PortError`]; the run can be repeated.
    pub async fn run(
        &self,
        archive: &dyn Archive,
        files: &dyn Files,
        mode: EraserMode,
    ) -> Result<(Vec<ExpiredChannel>, EraserCounts), PortError> {
        let mut expiry = Expiry::begin(archive, files, self.team.clone(), self.covered.clone(), mode);
        let (mut channels, mut sum) = (Vec::new(), EraserCounts::default());
        for period in &self.periods {
            let counts = expiry.period(period).await?;
            sum += counts;
            let (channel, until) = (period.channel.clone(), period.until.clone());
            let days = self.rules.days(Some(&channel));
            channels.push(ExpiredChannel { channel, days, until, counts });
        }
        // A killed run may have removed the messages, but not yet this.
        if self.is_due {
            sum += expiry.of_workspace().await?;
        }
        Ok((channels, sum))
    }

    /// Records that the rows are gone.
    async fn finish(
        &self,
        archive: &dyn Archive,
        sum: EraserCounts,
        now: TimestampMs,
        by: Option<String>,
    ) -> Result<(), ArchiveError> {
        for (channel, until) in &self.facts {
            archive.write(&ExpiryFact::finish(&self.team, channel.as_ref(), until)).await?;
        }
        for hold in &self.released {
            archive.write(&hold.sweep()).await?;
        }
        if sum.messages + sum.revisions + sum.files > 0 {
            let (team, at) = (self.team.clone(), ts_from_micros(now.0.saturating_mul(1_000)));
            let record = ErasureRecord { team, at, scope: "retention".into(), by, counts: sum, jobs: 0 };
            archive.write(&record.update()).await?;
        }
        Ok(())
    }
}

/// The time after the newest message of a workspace.
async fn newest_message(
    archive: &dyn Archive,
    team: &TeamId,
    channels: &BTreeSet<ChannelId>,
) -> Result<Ts, ArchiveError> {
    let mut newest = 0;
    for channel in channels {
        let last = ports::archive::newest(archive, key::messages(team, channel)).await?;
        let last = last.and_then(|row| Ts::parse(&row.key.timestamp).ok());
        newest = newest.max(last.map_or(0, |ts| ts.micros().saturating_add(1)));
    }
    Ok(ts_from_micros(newest))
}
