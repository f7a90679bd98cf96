//! Reads everything that Slack still shows of a workspace: in each turn the newest unread page, then the next, over
//! all channels. So all of them grow backwards together, and one enormous channel delays no other.
//!
//! The facts in the archive say what is next: a crash, a redelivery or two historians only repeat a page. Gaps come
//! first, as spans of their own, between two turns.

use std::collections::BTreeSet;

use ports::archive::{ArchiveExt, ItemKey, Query, key, query_all};
use ports::queue::QueueName;
use reader::history;
use rules::filled;
use rules::history::job::FillJob;
use rules::history::progress::HistoryProgress;
use rules::interval::Interval;
use slack::ids::{ChannelId, TeamId, Ts};
use std::sync::Arc;
use tokio::time::Instant;

use super::calls::{HistoryCalls, PausePolicy};
use super::error::{Consequence, HistoryError};
use super::page::{ChannelReader, ReadCounts, ThreadChoice};
use super::plan::plan_unread_spans;
use super::span::{PageBudget, PlannedSpan, SpanEnd};
use super::worker::{Historian, LOOK_BACK_MICROS, PAGES, READING_TIME};
use crate::runtime::{JobOutcome, JobRetry};

/// The spans that are left of a turn.
struct Rest {
    spans: Vec<(ChannelId, PlannedSpan)>,
    refused: usize,
    /// Channels that failed in this turn for a reason that no fact records.
    failed: BTreeSet<ChannelId>,
}

impl Rest {
    fn take_newest(&mut self) -> Option<(ChannelId, PlannedSpan)> {
        let newest = (0..self.spans.len()).max_by_key(|at| self.spans[*at].1.span.to)?;
        Some(self.spans.swap_remove(newest))
    }

    fn leave(&mut self, channel: &ChannelId) {
        self.spans.retain(|(other, _)| other != channel);
    }

    /// The channels that are neither read nor refused.
    fn channels(&self) -> usize {
        let left: BTreeSet<&ChannelId> = self.spans.iter().map(|(channel, _)| channel).collect();
        left.union(&self.failed.iter().collect()).count()
    }
}

impl Historian {
    /// Sends the first turn for each workspace that may have something unread, unless the last ones still wait.
    pub(super) async fn begin_fills(&self) -> Result<(), HistoryError> {
        if !self.ports.queue.depth(QueueName::Backfill.into()).await?.is_empty() {
            return Ok(());
        }
        for team in self.web.teams().await? {
            let known = self.known(&team).await?;
            if self.looks.is_due(&team, Some(known)) {
                let began_ms = self.ports.clock.now().0;
                self.send(vec![FillJob { team: team.clone(), n: 0, began_ms }.outgoing()]).await?;
                // Another process may handle it.
                self.looks.note(&team, known);
            }
        }
        Ok(())
    }

    /// The numbers of channels and of runs of ingest.
    async fn known(&self, team: &TeamId) -> Result<(usize, usize), HistoryError> {
        let archive = &*self.ports.archive;
        let runs = query_all(archive, Query::partition(key::runs(team))).await?;
        Ok((history::channels_with_public_mark(archive, team).await?.len(), runs.len()))
    }

    /// Runs a turn.
    pub(super) async fn fill(&self, job: &FillJob) -> JobOutcome {
        match self.fill_turn(job).await {
            Ok(()) => JobOutcome::Done,
            Err(error) => match error.consequence() {
                Consequence::Later(after) => JobOutcome::Retry(JobRetry { reason: error.to_string(), after }),
                // A later poll begins again.
                Consequence::Channel(_) | Consequence::Workspace => {
                    tracing::warn!(team = %job.team, %error, "history cannot be read");
                    JobOutcome::Done
                }
            },
        }
    }

    async fn fill_turn(&self, job: &FillJob) -> Result<(), HistoryError> {
        let team = &job.team;
        let archive = &*self.ports.archive;
        let until = Instant::now() + READING_TIME;
        let calls = HistoryCalls::new(Arc::clone(&self.web), team.clone(), PausePolicy::Return);
        let began = calls.now().await?;
        if job.n == 0 || self.looks.is_due(team, None) {
            self.looks.note(team, self.known(team).await?);
            self.send_spans_of(team, &began).await?;
        }
        let found = history::unread(archive, team, &began).await?;
        let planned = found.unread.into_iter().flat_map(|(channel, whole, spans)| {
            let spans = plan_unread_spans(whole, &spans);
            spans.into_iter().map(move |span| (channel.clone(), span))
        });
        let mut rest = Rest { spans: planned.collect(), refused: found.refused, failed: BTreeSet::new() };
        let counts = ReadCounts::default();
        let mut since = None;
        for _ in 0..PAGES {
            if Instant::now() >= until {
                break;
            }
            let Some((channel, planned)) = rest.take_newest() else { break };
            let reader = ChannelReader {
                archive,
                queue: Some(&*self.ports.queue),
                calls: &calls,
                channel: &channel,
                look_back_micros: LOOK_BACK_MICROS,
                counts: &counts,
                threads: ThreadChoice::Each,
            };
            match reader.read_span(&planned, &mut PageBudget::limited(1, until)).await {
                Ok(SpanEnd::Whole) => {}
                Ok(SpanEnd::Limited) => rest.leave(&channel),
                Ok(SpanEnd::Paused) => {
                    let left = self.unread_part(team, &channel, planned).await?;
                    rest.spans.extend(left.map(|left| (channel.clone(), left)));
                }
                Err(error) => match error.consequence() {
                    Consequence::Channel(reason) => {
                        tracing::warn!(%team, %channel, %error, "the history of a channel cannot be read");
                        rest.leave(&channel);
                        match reason {
                            Some(_) => rest.refused += 1,
                            None => drop(rest.failed.insert(channel.clone())),
                        }
                    }
                    Consequence::Later(_) | Consequence::Workspace => return Err(error),
                },
            }
            since = since.into_iter().chain(self.oldest_message(team, &channel).await?).min();
        }
        let (left, read) = (rest.channels(), counts.snapshot());
        let progress = HistoryProgress {
            team: team.clone(),
            mode: self.mode.as_str().to_owned(),
            channels: number(found.channels),
            read: number(found.channels.saturating_sub(rest.refused + left)),
            unreadable: number(rest.refused),
            is_restricted: calls.is_restricted(),
            since,
            turn: began,
        };
        for update in progress.updates(job.n) {
            archive.write(&update).await?;
        }
        tracing::info!(%team, new = read.new, updated = read.updated, channels_left = left, "history was read");
        // What failed without a fact is tried again after a later poll.
        if !rest.spans.is_empty() {
            self.send(vec![job.next().outgoing()]).await?;
        }
        Ok(())
    }

    /// The part of a span that is unread after a page.
    async fn unread_part(
        &self,
        team: &TeamId,
        channel: &ChannelId,
        planned: PlannedSpan,
    ) -> Result<Option<PlannedSpan>, HistoryError> {
        let fact = self.ports.archive.get(&ItemKey::filled(team, channel, &planned.to)).await?;
        let reached = filled::spans(fact.as_slice()).pop().map_or(planned.span.to, |span| span.from.micros());
        let span = Interval { to: reached, ..planned.span };
        Ok((span.from < span.to).then_some(PlannedSpan { span, ..planned }))
    }

    async fn oldest_message(&self, team: &TeamId, channel: &ChannelId) -> Result<Option<Ts>, HistoryError> {
        let first = Query { limit: 1, ..Query::partition(key::messages(team, channel)) };
        let first = self.ports.archive.query(&first).await?;
        Ok(first.items.first().and_then(|row| Ts::parse(&row.key.timestamp).ok()))
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
