//! Reads what is unread of a workspace, in turns: first the gaps that have ended, then, if it is asked for, everything
//! that Slack still shows. A turn reads the newest unread page, then the next, over all channels. So all of them grow
//! backwards together, and one enormous channel delays no other.
//!
//! The facts in the archive say what is next: a crash or a redelivery only repeats a page. The row of the workspace
//! says which job was sent last: any other one ends at once, so that a workspace is read by one job at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ports::archive::{ArchiveExt, ItemKey, Query, WriteOutcome, key, query_all};
use reader::{gaps, history, workspaces};
use rules::filled;
use rules::history::job::FillJob;
use rules::history::progress::HistoryProgress;
use rules::interval::Interval;
use rules::public_mark::MarkState;
use rules::schedule::{AppState, WorkKind, WorkspaceRow};
use slack::ids::{ChannelId, TeamId, Ts};
use tokio::time::Instant;

use super::BackfillMode;
use super::calls::{HistoryCalls, PausePolicy};
use super::error::{Consequence, HistoryError};
use super::looks::KnownCounts;
use super::page::{ChannelReader, ReadCounts, ThreadChoice};
use super::plan::plan_unread_spans;
use super::span::{PageBudget, PlannedSpan, SpanEnd};
use super::worker::{Historian, LOOK_BACK_MICROS};
use crate::runtime::{JobOutcome, JobRetry};

/// The limit of one turn: a process reads some workspaces at once, and the others wait for a turn to end.
const PAGES: u32 = 20;

/// The limit of each part of a turn, the gaps and the rest, without the time that finding them takes.
const READING_TIME: Duration = Duration::from_secs(30);

/// Spans of gaps that a turn considers; the next turn considers the rest.
const MAX_SPANS: usize = 1_000;

/// A turn of reading.
struct Turn {
    calls: HistoryCalls,
    counts: ReadCounts,
    pages_left: u32,
}

/// The spans that are left of a turn.
#[derive(Default)]
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
    /// Sends a turn for each workspace that is due, or in which something may be new to this process.
    pub(super) async fn send_due(&self) -> Result<(), HistoryError> {
        let archive = &*self.ports.archive;
        let with_token: BTreeSet<TeamId> = self.web.teams().await?.into_iter().collect();
        let rows = workspaces::read(archive).await?.into_iter();
        for row in rows.filter(|row| with_token.contains(&row.team)) {
            let (team, now) = (&row.team, self.ports.clock.now());
            if row.state == AppState::Uninstalled || row.is_sent(WorkKind::History, now) {
                continue;
            }
            let known = match self.mode {
                BackfillMode::All => self.known(team).await?,
                // A process looks once after its start: a downtime may have ended.
                BackfillMode::Gaps | BackfillMode::Off => KnownCounts::default(),
            };
            if !self.looks.is_changed(team, known) && !row.is_due(WorkKind::History, now, "") {
                continue;
            }
            // Only one process sends it.
            if archive.write(&row.sent(WorkKind::History, now)).await? == WriteOutcome::Applied {
                self.send(vec![FillJob { team: team.clone(), n: 0, began_ms: now.0 }.outgoing()]).await?;
            }
            // Another process may handle it.
            self.looks.note(team, known);
        }
        Ok(())
    }

    /// The numbers of channels and of runs of ingest.
    async fn known(&self, team: &TeamId) -> Result<KnownCounts, HistoryError> {
        let archive = &*self.ports.archive;
        let runs = query_all(archive, Query::partition(key::runs(team))).await?;
        Ok((history::channels_with_public_mark(archive, team).await?.len(), runs.len()))
    }

    /// Runs a turn.
    pub(super) async fn fill(&self, job: &FillJob) -> JobOutcome {
        match self.fill_if_last(job).await {
            Ok(()) => JobOutcome::Done,
            Err(error) => {
                let Consequence::Later(after) = error.consequence() else { return JobOutcome::retry(error) };
                JobOutcome::Retry(JobRetry { reason: error.to_string(), after })
            }
        }
    }

    /// Runs a turn, unless another job was sent after this one. Then sends the next turn, or records that none is
    /// needed for some minutes.
    async fn fill_if_last(&self, job: &FillJob) -> Result<(), HistoryError> {
        let archive = &*self.ports.archive;
        let row = archive.get(&ItemKey::team(&job.team)).await?;
        let row = row.as_ref().and_then(WorkspaceRow::read);
        let row = row.unwrap_or_else(|| WorkspaceRow::new(job.team.clone()));
        if row.schedule(WorkKind::History).sent_ms.is_some_and(|sent_ms| sent_ms != job.began_ms) {
            return Ok(());
        }
        let has_more = match self.fill_turn(job).await {
            Err(error) if !matches!(error.consequence(), Consequence::Later(_)) => {
                tracing::warn!(team = %job.team, %error, "history cannot be read; the next try is in some minutes");
                false
            }
            ended => ended?,
        };
        let now = self.ports.clock.now();
        // If the process ends in between, this job is delivered again and is still the last one.
        let update = if has_more {
            let next = job.next(now);
            self.send(vec![next.outgoing()]).await?;
            row.sent(WorkKind::History, now)
        } else {
            row.has_read(now)
        };
        // If the row has changed, another job was sent meanwhile, and goes on.
        Ok(archive.write(&update).await.map(drop)?)
    }

    /// Runs a turn; returns whether something is left that can be read now.
    async fn fill_turn(&self, job: &FillJob) -> Result<bool, HistoryError> {
        let (team, archive) = (&job.team, &*self.ports.archive);
        let calls = HistoryCalls::new(Arc::clone(&self.web), team.clone(), PausePolicy::Return);
        // This machine's clock may be ahead: then future messages would count as read.
        let began = calls.now().await?;
        let mut turn = Turn { calls, counts: ReadCounts::default(), pages_left: PAGES };
        let mut missed = self.missed(team, &began).await?;
        let gaps = missed.spans.len();
        self.read_newest(&mut missed, &mut turn).await?;
        let mut rest = Rest::default();
        if self.mode == BackfillMode::All {
            let found = history::unread(archive, team, &began).await?;
            let planned = found.unread.into_iter().flat_map(|(channel, whole, spans)| {
                let spans = plan_unread_spans(whole, &spans);
                spans.into_iter().map(move |span| (channel.clone(), span))
            });
            rest = Rest { spans: planned.collect(), refused: found.refused, ..Rest::default() };
            let since = self.read_newest(&mut rest, &mut turn).await?;
            let progress = HistoryProgress {
                team: team.clone(),
                mode: self.mode.as_str().to_owned(),
                channels: number(found.channels),
                read: number(found.channels.saturating_sub(rest.refused + rest.channels())),
                unreadable: number(rest.refused),
                is_restricted: turn.calls.is_restricted(),
                since,
                turn: began,
            };
            for update in progress.updates(job.n) {
                archive.write(&update).await?;
            }
        }
        if turn.pages_left < PAGES {
            let (left, read) = (rest.channels(), turn.counts.snapshot());
            tracing::info!(%team, gaps, new = read.new, updated = read.updated, channels_left = left, "history was read");
        }
        // What failed without a fact is tried again after a later poll.
        Ok(!missed.spans.is_empty() || !rest.spans.is_empty())
    }

    /// The spans of gaps that have ended, at `now` by Slack's clock.
    async fn missed(&self, team: &TeamId, now: &Ts) -> Result<Rest, HistoryError> {
        let mut rest = Rest::default();
        for missed in gaps::unread_spans(&*self.ports.archive, team, now, MAX_SPANS).await? {
            let span = Interval { from: missed.from.micros(), to: missed.to.micros() };
            let planned = PlannedSpan { span, to: missed.to };
            let left = self.unread_part(team, &missed.channel, planned).await?;
            rest.spans.extend(left.map(|left| (missed.channel, left)));
        }
        Ok(rest)
    }

    /// Reads the newest of these spans page by page, within the limits of the turn. Returns the oldest message of the
    /// channels that were read.
    async fn read_newest(&self, rest: &mut Rest, turn: &mut Turn) -> Result<Option<Ts>, HistoryError> {
        let (until, mut since) = (Instant::now() + READING_TIME, None);
        let archive = &*self.ports.archive;
        let team = turn.calls.team().clone();
        while turn.pages_left > 0 && Instant::now() < until {
            let Some((channel, planned)) = rest.take_newest() else { break };
            let mark = archive.get(&ItemKey::public_mark(&team, &channel)).await?;
            if MarkState::from_row(mark.as_ref()) != MarkState::Public {
                rest.leave(&channel);
                continue;
            }
            turn.pages_left -= 1;
            let reader = ChannelReader {
                archive,
                queue: Some(&*self.ports.queue),
                calls: &turn.calls,
                channel: &channel,
                look_back_micros: LOOK_BACK_MICROS,
                counts: &turn.counts,
                threads: ThreadChoice::Each,
            };
            match reader.read_span(&planned, &mut PageBudget::limited(1, until)).await {
                Ok(SpanEnd::Whole) => {}
                Ok(SpanEnd::Limited) => rest.leave(&channel),
                Ok(SpanEnd::Paused) => {
                    let left = self.unread_part(&team, &channel, planned).await?;
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
            let oldest = self.oldest_message(&team, &channel).await?;
            since = since.into_iter().chain(oldest).min();
        }
        Ok(since)
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
