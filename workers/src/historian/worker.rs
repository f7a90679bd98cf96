//! The worker: spans of history as jobs, and the look for gaps that are to be filled.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ItemKey, Query, key, query_all};
use ports::queue::{Outgoing, QueueName};
use process::config::backfill::BackfillMode;
use reader::gaps;
use rules::filled::{self, UnreadableBefore};
use rules::history::job::SpanJob;
use rules::interval::Interval;
use rules::public_mark::MarkState;
use slack_api::WebApi;
use tokio::time::Instant;

use super::calls::{HistoryCalls, PausePolicy};
use super::page::{ChannelReader, ReadCounts, ThreadChoice};
use super::span::{PageBudget, PlannedSpan, SpanEnd};
use super::trouble::{Consequence, HistoryError};
use crate::runtime::{Batch, DecodedPayload, JobOutcome, JobRetry, Ports, Worker};

/// What one job reads at most: then other spans of the workspace have their turn, so that a short one waits for no long one.
const PAGES: u32 = 20;
const READING_TIME: Duration = Duration::from_secs(60);

/// Roots this long before a gap may have replies in it.
const LOOK_BACK_MICROS: i64 = 30 * 86_400 * 1_000_000;

/// Between two looks for gaps. A gap is filled within minutes of its end.
const BETWEEN_LOOKS: Duration = Duration::from_secs(300);

/// Spans sent after one look; the next one sends what is left.
const MAX_SPANS: usize = 1_000;

/// Reads spans of Slack's history.
pub struct Historian {
    ports: Ports,
    web: Arc<WebApi>,
    mode: BackfillMode,
}

impl Historian {
    /// A historian that reads this Slack.
    pub fn new(ports: Ports, web: Arc<WebApi>, mode: BackfillMode) -> Self {
        Self { ports, web, mode }
    }

    async fn read(&self, job: &SpanJob) -> JobOutcome {
        match self.read_rest(job).await {
            Ok(()) => JobOutcome::Done,
            Err(error) => match error.consequence() {
                Consequence::Later(after) => JobOutcome::Retry(JobRetry { reason: error.to_string(), after }),
                // The gap stays open or missing. A later look asks again: for what Slack refuses to show, after a day, or once the
                // app has joined the channel.
                Consequence::Channel(_) | Consequence::Workspace => {
                    let SpanJob { team, channel, from, to, why, .. } = job;
                    tracing::warn!(%team, %channel, %from, %to, why, %error, "a gap cannot be filled from history");
                    JobOutcome::Done
                }
            },
        }
    }

    /// Reads what is left of a span, as far as the turn goes.
    async fn read_rest(&self, job: &SpanJob) -> Result<(), HistoryError> {
        let SpanJob { team, channel, from, to, .. } = job;
        let archive = &*self.ports.archive;
        let mark = archive.get(&ItemKey::public_mark(team, channel)).await?;
        if MarkState::of(mark.as_ref()) != MarkState::Public {
            return Ok(());
        }
        let fact = archive.get(&ItemKey::filled(team, channel, to)).await?;
        let reached = filled::spans(fact.as_slice()).pop().map_or_else(|| to.clone(), |span| span.from);
        let span = Interval { from: from.micros(), to: reached.micros() };
        if span.from >= span.to || self.is_refused_since(job).await? {
            return Ok(());
        }
        let calls = HistoryCalls::new(Arc::clone(&self.web), team.clone(), PausePolicy::HandBack);
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
        let mut budget = PageBudget::of(PAGES, Instant::now() + READING_TIME);
        let end = reader.read_span(&PlannedSpan { span, to: to.clone() }, &mut budget).await?;
        let tally = counts.tally();
        tracing::info!(%team, %channel, %from, %to, new = tally.new, updated = tally.updated, ?end, "history was read");
        if end == SpanEnd::Paused {
            self.send(vec![SpanJob { page: job.page + 1, ..job.clone() }.outgoing()]).await?;
        }
        Ok(())
    }

    /// Whether Slack has refused to show the channel since the job was sent: another span of the same look asked for it.
    async fn is_refused_since(&self, job: &SpanJob) -> Result<bool, HistoryError> {
        let Some(looked) = &job.looked else { return Ok(false) };
        let partition = key::unreadable(&job.team);
        let after = Some(ItemKey::new(partition.clone(), format!("{}#", job.channel)));
        // The sign that comes next after `#`: the bound of this channel's keys.
        let until = Some(format!("{}$", job.channel));
        let rows = Query { after, until, ..Query::partition(partition) };
        let rows = query_all(&*self.ports.archive, rows).await?;
        let is_later = |fact: &UnreadableBefore| fact.asked.as_ref().is_some_and(|asked| asked >= looked);
        Ok(filled::unreadables(&rows).iter().any(is_later))
    }

    async fn send(&self, jobs: Vec<Outgoing>) -> Result<(), HistoryError> {
        Ok(self.ports.queue.send(jobs).await.into_iter().collect::<Result<(), _>>()?)
    }

    /// Sends the spans that fill the gaps that have ended, unless earlier ones still wait.
    async fn send_spans(&self) -> Result<(), HistoryError> {
        if !self.ports.queue.depth(QueueName::Backfill.into()).await?.is_empty() {
            return Ok(());
        }
        for team in self.web.teams().await? {
            // This machine's clock may be ahead: then what is still to come would be taken for read.
            let now = match self.web.now(&team).await {
                Ok(now) => now,
                Err(error) => {
                    tracing::warn!(%team, %error, "Slack does not answer for this workspace, so its gaps wait for the next look");
                    continue;
                }
            };
            let wanted = gaps::wanted(&*self.ports.archive, &team, &now, MAX_SPANS).await?;
            let job = |span: gaps::UnreadSpan| SpanJob {
                team: team.clone(),
                channel: span.channel,
                from: span.from,
                to: span.to,
                why: span.reason.as_str().to_owned(),
                page: 0,
                looked: Some(now.clone()),
            };
            let jobs: Vec<Outgoing> = wanted.into_iter().map(|span| job(span).outgoing()).collect();
            if !jobs.is_empty() {
                tracing::info!(%team, spans = jobs.len(), "gaps are filled from history");
                self.send(jobs).await?;
            }
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

    fn looks_every(&self) -> Option<Duration> {
        (self.mode == BackfillMode::Gaps && self.web.has_tokens()).then_some(BETWEEN_LOOKS)
    }

    async fn look(&self) {
        if let Err(error) = self.send_spans().await {
            tracing::warn!(%error, "gaps cannot be looked for; the next look is in some minutes");
        }
    }

    async fn work(&self, batch: &Batch<'_>) {
        for job in batch.jobs() {
            if let DecodedPayload::Backfill(span) = &job.payload {
                job.settle(self.read(span).await);
            } else {
                job.refuse_payload();
            }
        }
    }
}
