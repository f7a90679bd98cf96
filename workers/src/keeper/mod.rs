//! keeper: every night, removes what has expired by the rules of a workspace, and compares the archive with Slack.
//!
//! * [`night`]: when a night begins.
//! * [`retention`]: removes what has expired.
//! * [`proof`]: compares each channel with Slack, and stores what is missing.
//!
//! A night of a workspace is a chain of jobs, each of which sends the next one while anything is left. The rows say
//! what is left, so a killed night goes on, and a repeated one finds nothing to do. A night that was missed, because
//! no process ran, is made up for at the next start.

mod night;
mod proof;
mod retention;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ArchiveError, ArchiveExt, ItemKey};
use ports::claims::{ClaimContext, ClaimKey, ClaimMode};
use ports::clock::TimestampMs;
use ports::files::Files;
use ports::queue::QueueName;
use reader::find;
use reader::range::ts_from_micros;
use rules::history::progress::{HistoryProgress, HistoryState};
use rules::history::proof::{NightJob, last_night, night_done, night_key};
use rules::retention::RetentionRules;
use slack::ids::TeamId;
use slack_api::WebApi;
use tokio::time::{Instant, sleep_until};

use crate::claims::{ClaimOutcome, Claimant, Sink};
use crate::failure::PortError;
use crate::historian::{BackfillMode, Consequence, HistoryCalls, HistoryError, PausePolicy};
use crate::runtime::{Batch, DecodedPayload, JobOutcome, JobRetry, Ports, Worker};
pub use night::NightTime;
pub use proof::{CALLS_PER_NIGHT, NewestDays, Proof};
pub use retention::{ExpiredChannel, RetentionPlan, read_rules};

/// How often it looks whether a night has begun. A poll reads two rows of each workspace.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// For so long a night waits until history is read: what is missing for a known reason is not found to be missing.
const LONGEST_WAIT_FOR_HISTORY: Duration = Duration::from_secs(3 * 3_600);

/// How long after a night was begun it is begun again, if it did not end: a token may be in order by then.
const AGAIN_AFTER: Duration = Duration::from_secs(3_600);

/// The calls and the time of one turn: then other work of the workspace gets its turn. Together they are twenty calls a
/// minute, so that more than half of what Slack permits is left to history.
const CALLS_PER_TURN: u64 = 20;
const TURN: Duration = Duration::from_secs(60);

/// How long until the next try, if a person runs retention at the same time.
const HELD: Duration = Duration::from_secs(10);

/// How a night is done.
#[derive(Debug, Clone)]
pub struct NightSettings {
    /// When it begins.
    pub time: NightTime,
    /// After this time, every writer knows what has expired.
    pub writers_know_after: Duration,
    /// What is read from Slack without a request: with nothing, nothing is compared either.
    pub backfill: BackfillMode,
}

/// Does the night's work.
pub struct Keeper {
    ports: Ports,
    files: Arc<dyn Files>,
    web: Arc<WebApi>,
    claimant: Claimant,
    settings: NightSettings,
    /// The last night that this process has begun, and when.
    begun: Mutex<BTreeMap<TeamId, (TimestampMs, Instant)>>,
}

impl Keeper {
    /// A keeper of this archive, these files and this Slack.
    pub fn new(
        ports: Ports,
        files: Arc<dyn Files>,
        web: Arc<WebApi>,
        claimant: Claimant,
        settings: NightSettings,
    ) -> Self {
        Self { ports, files, web, claimant, settings, begun: Mutex::default() }
    }

    /// Sends the first turn of the last night for each workspace in which it is not done, unless turns still wait.
    async fn begin_nights(&self) -> Result<(), PortError> {
        let now = self.ports.clock.now();
        let night = self.settings.time.before(now);
        let mut jobs = Vec::new();
        for team in find::teams(&*self.ports.archive).await? {
            match last_night(self.ports.archive.get(&night_key(&team)).await?.as_ref()) {
                // The first night is the next one.
                None => drop(self.ports.archive.write(&night_done(&team, night)).await?),
                Some(done) if done >= night || self.has_begun(&team, night) => {}
                Some(_)
                    if now.since(night) < LONGEST_WAIT_FOR_HISTORY && self.reads_history(&team).await? => {}
                Some(_) => jobs.push(NightJob {
                    team,
                    night_ms: night.0,
                    sent_ms: now.0,
                    turn: 0,
                    calls: 0,
                    after: None,
                    reached: None,
                }),
            }
        }
        if jobs.is_empty() || !self.ports.queue.depth(QueueName::Nightly.into()).await?.is_empty() {
            return Ok(());
        }
        for job in jobs {
            self.send(&job).await?;
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.insert(job.team, (night, Instant::now()));
        }
        Ok(())
    }

    /// Whether the historian reads what Slack still shows of a workspace.
    async fn reads_history(&self, team: &TeamId) -> Result<bool, PortError> {
        let row = self.ports.archive.get(&ItemKey::history_progress(team)).await?;
        let progress = row.and_then(|row| HistoryProgress::read(team, &row));
        let now_s = self.ports.clock.now().seconds();
        Ok(progress.is_some_and(|progress| progress.state(now_s) == HistoryState::Reading))
    }

    fn has_begun(&self, team: &TeamId, night: TimestampMs) -> bool {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(team).is_some_and(|(last, at)| *last == night && at.elapsed() < AGAIN_AFTER)
    }

    async fn send(&self, job: &NightJob) -> Result<(), PortError> {
        Ok(self.ports.queue.send(vec![job.outgoing()]).await.into_iter().collect::<Result<(), _>>()?)
    }

    async fn turn(&self, job: &NightJob) -> JobOutcome {
        let NightJob { team, night_ms, .. } = job;
        if job.turn == 0 {
            match self.retention(team, TimestampMs(*night_ms)).await {
                Ok(true) => {}
                Ok(false) => {
                    let reason = "retention runs already".to_owned();
                    return JobOutcome::Retry(JobRetry { reason, after: Some(HELD) });
                }
                Err(error) => return JobOutcome::retry(error),
            }
        }
        let next = match self.prove(job).await {
            Ok(next) => next,
            Err(error) => match error.consequence() {
                Consequence::Later(after) => {
                    return JobOutcome::Retry(JobRetry { reason: error.to_string(), after });
                }
                // The night is not done: a later poll begins it again.
                Consequence::Channel(_) | Consequence::Workspace => {
                    tracing::warn!(%team, %error, "the archive cannot be compared with Slack");
                    return JobOutcome::Done;
                }
            },
        };
        let ended = match &next {
            Some(next) => self.send(next).await,
            None => self.finish(job).await,
        };
        ended.map_or_else(JobOutcome::retry, |()| JobOutcome::Done)
    }

    async fn finish(&self, job: &NightJob) -> Result<(), PortError> {
        tracing::info!(team = %job.team, turns = job.turn + 1, "the night is done");
        Ok(self.ports.archive.write(&night_done(&job.team, TimestampMs(job.night_ms))).await.map(drop)?)
    }

    /// Removes what has expired as of a night, by the rules that were set before it began: so there is a day to
    /// reconsider. Returns whether it is done.
    ///
    /// # Errors
    /// [`PortError`]; it can be repeated.
    async fn retention(&self, team: &TeamId, night: TimestampMs) -> Result<bool, PortError> {
        let archive = &*self.ports.archive;
        let begun = ts_from_micros(night.0.saturating_mul(1_000));
        let mut rules = read_rules(archive, team).await?;
        rules.retain(|rule| rule.set_at <= begun);
        let rules: RetentionRules = rules.into_iter().collect();
        let plan = RetentionPlan::read(archive, team, rules, night).await?;
        if !plan.is_due() {
            return Ok(true);
        }
        let key = ClaimKey::for_retention(team);
        let claimed =
            self.claimant.claim(key, ClaimContext::default(), Sink::Once, ClaimMode::EvenCompleted).await;
        let mut claim = match claimed.map_err(|error| ArchiveError::Unavailable(error.to_string()))? {
            ClaimOutcome::Ours(claim) => claim,
            ClaimOutcome::Completed | ClaimOutcome::HeldFor(_) => return Ok(false),
        };
        let work = plan.apply(archive, &*self.files, night, None, self.settings.writers_know_after);
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

    /// Compares channels with Slack. Returns the next turn, if anything is left.
    async fn prove(&self, job: &NightJob) -> Result<Option<NightJob>, HistoryError> {
        let team = &job.team;
        let may_ask = self.settings.backfill != BackfillMode::Off && self.web.has_tokens();
        if !may_ask || !self.web.teams().await?.contains(team) {
            return Ok(None);
        }
        let began = Instant::now();
        let calls = HistoryCalls::new(Arc::clone(&self.web), team.clone(), PausePolicy::Return);
        let may_go_on = || calls.made() < CALLS_PER_TURN && began.elapsed() < TURN;
        let (archive, queue) = (&*self.ports.archive, &*self.ports.queue);
        let proof = Proof::begin(archive, queue, &calls, job.night_ms.saturating_mul(1_000)).await?;
        let mut next = NightJob { turn: job.turn.saturating_add(1), ..job.clone() };
        let mut is_over = true;
        let channels = proof.channels().await?;
        for known in
            channels.iter().filter(|known| job.after.as_ref().is_none_or(|after| known.channel > *after))
        {
            if !may_go_on() {
                is_over = false;
                break;
            }
            let reached = next.reached.take();
            if !known.is_settled(proof.midnight())
                && !proof.is_left_out(known).await?
                && let NewestDays::ReachedOnly(reached) = proof.newest_days(known, reached, may_go_on).await?
            {
                next.reached = Some(reached);
                is_over = false;
                break;
            }
            next.after = Some(known.channel.clone());
        }
        while is_over && job.calls.saturating_add(calls.made()) < CALLS_PER_NIGHT {
            let channels = proof.channels().await?;
            let Some(known) = proof.next_older(&channels) else { break };
            if !may_go_on() {
                is_over = false;
                break;
            }
            proof.older_page(known).await?;
        }
        next.calls = job.calls.saturating_add(calls.made());
        if is_over {
            return Ok(None);
        }
        let share = u32::try_from(calls.made().min(CALLS_PER_TURN)).unwrap_or_default();
        sleep_until(began + TURN / 20 * share).await;
        Ok(Some(next))
    }
}

#[async_trait]
impl Worker for Keeper {
    fn queue(&self) -> QueueName {
        QueueName::Nightly
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn poll_interval(&self) -> Option<Duration> {
        Some(POLL_INTERVAL)
    }

    async fn poll(&self) {
        if let Err(error) = self.begin_nights().await {
            tracing::warn!(%error, "the night's work cannot begin; the next try is in a minute");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Night(night) = &job.payload {
                job.settle(self.turn(night).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
