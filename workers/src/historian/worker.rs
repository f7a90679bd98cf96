//! The worker: reads spans of history as jobs, and polls for gaps to fill.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ItemKey, Query, key, query_all};
use ports::queue::{Outgoing, QueueName};
use reader::gaps;
use rules::filled::{self, UnreadableBefore};
use rules::history::job::SpanJob;
use rules::interval::Interval;
use rules::public_mark::MarkState;
use slack::ids::{TeamId, Ts};
use slack_api::WebApi;
use tokio::time::Instant;

use super::BackfillMode;
use super::calls::{HistoryCalls, PausePolicy};
use super::error::{Consequence, HistoryError};
use super::looks::{Looks, POLL_INTERVAL};
use super::page::{ChannelReader, ReadCounts, ThreadChoice};
use super::span::{PageBudget, PlannedSpan, SpanEnd};
use crate::runtime::{Batch, DecodedPayload, JobOutcome, JobRetry, Ports, Worker};

/// The limit of one job: then other spans of the workspace get their turn, so that a short one does not wait
/// for a long one.
pub(super) const PAGES: u32 = 20;
pub(super) const READING_TIME: Duration = Duration::from_secs(60);

/// Roots this long before a gap may have replies in it.
pub(super) const LOOK_BACK_MICROS: i64 = 30 * 86_400 * 1_000_000;

/// The poll interval if everything is read: new channels, and events after a pause, are noticed within seconds. A
/// poll reads two small partitions of each workspace.
const FILL_POLL_INTERVAL: Duration = Duration::from_secs(15);

/// The first poll for gaps: queued jobs come first, including those that end a downtime.
const FIRST_GAP_POLL: Duration = Duration::from_secs(30);

/// The first poll if everything is read: the archive begins with what Slack still shows.
const FIRST_FILL_POLL: Duration = Duration::from_secs(2);

/// Spans sent after one poll; the next poll sends the rest.
const MAX_SPANS: usize = 1_000;

/// Reads spans of Slack's history.
pub struct Historian {
    pub(super) ports: Ports,
    pub(super) web: Arc<WebApi>,
    pub(super) mode: BackfillMode,
    pub(super) looks: Looks,
}

impl Historian {
    /// A historian that reads this Slack.
    pub fn new(ports: Ports, web: Arc<WebApi>, mode: BackfillMode) -> Self {
        Self { ports, web, mode, looks: Looks::default() }
    }

    async fn read(&self, job: &SpanJob) -> JobOutcome {
        match self.read_rest(job).await {
            Ok(()) => JobOutcome::Done,
            Err(error) => match error.consequence() {
                Consequence::Later(after) => JobOutcome::Retry(JobRetry { reason: error.to_string(), after }),
                // The gap stays open or missing. A later poll tries again: after a day if Slack refuses to
                // show the channel, or once the app has joined it.
                Consequence::Channel(_) | Consequence::Workspace => {
                    let SpanJob { team, channel, from, to, why, .. } = job;
                    tracing::warn!(%team, %channel, %from, %to, why, %error, "a gap cannot be filled from history");
                    JobOutcome::Done
                }
            },
        }
    }

    /// Reads the rest of a span, within the budget of one job.
    async fn read_rest(&self, job: &SpanJob) -> Result<(), HistoryError> {
        let SpanJob { team, channel, from, to, .. } = job;
        let archive = &*self.ports.archive;
        let mark = archive.get(&ItemKey::public_mark(team, channel)).await?;
        if MarkState::from_row(mark.as_ref()) != MarkState::Public {
            return Ok(());
        }
        let fact = archive.get(&ItemKey::filled(team, channel, to)).await?;
        let reached = filled::spans(fact.as_slice()).pop().map_or_else(|| to.clone(), |span| span.from);
        let span = Interval { from: from.micros(), to: reached.micros() };
        if span.from >= span.to || self.is_refused_since(job).await? {
            return Ok(());
        }
        let calls = HistoryCalls::new(Arc::clone(&self.web), team.clone(), PausePolicy::Return);
        let counts = ReadCounts::default();
        let reader = ChannelReader {
            archive,
            queue: Some(&*self.ports.queue),
            calls: &calls,
            channel,
            look_back_micros: LOOK_BACK_MICROS,
            counts: &counts,
            threads: ThreadChoice::Each,
        };
        let mut budget = PageBudget::limited(PAGES, Instant::now() + READING_TIME);
        let end = reader.read_span(&PlannedSpan { span, to: to.clone() }, &mut budget).await?;
        let snapshot = counts.snapshot();
        tracing::info!(%team, %channel, %from, %to, new = snapshot.new, updated = snapshot.updated, ?end, "history was read");
        if end == SpanEnd::Paused {
            self.send(vec![SpanJob { page: job.page + 1, ..job.clone() }.outgoing()]).await?;
        }
        Ok(())
    }

    /// Whether Slack has refused to show the channel since the job was sent: another span from the same poll
    /// may have been refused.
    async fn is_refused_since(&self, job: &SpanJob) -> Result<bool, HistoryError> {
        let Some(looked) = &job.looked else { return Ok(false) };
        let partition = key::unreadable(&job.team);
        let after = Some(ItemKey::new(partition.clone(), format!("{}#", job.channel)));
        // `$` is the character after `#`: the bound of this channel's keys.
        let until = Some(format!("{}$", job.channel));
        let rows = Query { after, until, ..Query::partition(partition) };
        let rows = query_all(&*self.ports.archive, rows).await?;
        let is_later =
            |fact: &UnreadableBefore| fact.refused_at.as_ref().is_some_and(|asked| asked >= looked);
        Ok(filled::unreadables(&rows).iter().any(is_later))
    }

    pub(super) async fn send(&self, jobs: Vec<Outgoing>) -> Result<(), HistoryError> {
        Ok(self.ports.queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?)
    }

    /// Sends the spans that fill the ended gaps, unless earlier spans still wait.
    async fn send_spans(&self) -> Result<(), HistoryError> {
        if !self.ports.queue.depth(QueueName::Backfill.into()).await?.is_empty() {
            return Ok(());
        }
        for team in self.web.teams().await? {
            // This machine's clock may be ahead: then future messages would count as read.
            let now = match self.web.slack_time(&team).await {
                Ok(now) => now,
                Err(error) => {
                    tracing::warn!(%team, %error, "Slack does not answer for this workspace, so its gaps wait for the next poll");
                    continue;
                }
            };
            self.send_spans_of(&team, &now).await?;
        }
        Ok(())
    }

    /// Sends the spans that fill the ended gaps of a workspace, at `now` by Slack's clock.
    pub(super) async fn send_spans_of(&self, team: &TeamId, now: &Ts) -> Result<(), HistoryError> {
        let spans = gaps::unread_spans(&*self.ports.archive, team, now, MAX_SPANS).await?;
        let job = |span: gaps::UnreadSpan| SpanJob {
            team: team.clone(),
            channel: span.channel,
            from: span.from,
            to: span.to,
            why: span.reason.as_str().to_owned(),
            page: 0,
            looked: Some(now.clone()),
        };
        let jobs: Vec<Outgoing> = spans.into_iter().map(|span| job(span).outgoing()).collect();
        if !jobs.is_empty() {
            tracing::info!(%team, spans = jobs.len(), "gaps are filled from history");
            self.send(jobs).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Historian {
    fn queue(&self) -> QueueName {
        QueueName::Backfill
    }

    fn max_batch(&self) -> usize {
        1
    }

    fn poll_interval(&self) -> Option<Duration> {
        let interval = match self.mode {
            BackfillMode::All => FILL_POLL_INTERVAL,
            BackfillMode::Gaps => POLL_INTERVAL,
            BackfillMode::Off => return None,
        };
        self.web.has_tokens().then_some(interval)
    }

    fn first_poll_delay(&self) -> Duration {
        match self.mode {
            BackfillMode::All => FIRST_FILL_POLL,
            BackfillMode::Gaps | BackfillMode::Off => FIRST_GAP_POLL,
        }
    }

    async fn poll(&self) {
        let sent = match self.mode {
            BackfillMode::All => self.begin_fills().await,
            BackfillMode::Gaps => self.send_spans().await,
            BackfillMode::Off => Ok(()),
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "the search for gaps failed; the next one runs in some minutes");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Backfill(span) = &job.payload {
                job.settle(self.read(span).await);
            } else if let DecodedPayload::Fill(fill) = &job.payload {
                job.settle(self.fill(fill).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
