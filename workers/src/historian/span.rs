//! Reads a span of a channel's history, newest first, page by page.
//!
//! A page takes effect in this order: its rows, the replies of its roots, the jobs of its files, then the
//! fact that the channel was read from there on. Stopping between two steps loses at most one page, and never
//! records a page that is not stored.
//! While a page is stored, the next one is fetched.

use ports::archive::ArchiveExt;
use rules::filled::{self, SpanSource};
use rules::history::HistoryMessage;
use rules::interval::Interval;
use slack::ids::Ts;
use tokio::time::Instant;

use super::calls::PageBounds;
use super::error::{Consequence, HistoryError};
use super::page::{ChannelReader, MAX_EMPTY_PAGES, ThreadChoice};
use super::reconcile::PageTimes;

/// A span to be read, and the fact that records how far it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSpan {
    /// The span to be read.
    pub span: Interval,
    /// The end of the fact: the end of this span, or of a span that was read before and starts where this one
    /// ends.
    pub to: Ts,
}

/// The limit of one turn of reading, so that other jobs get theirs.
#[derive(Debug, Clone)]
pub struct PageBudget {
    pages: Option<u32>,
    until: Option<Instant>,
}

impl PageBudget {
    /// A budget without a limit.
    pub fn unlimited() -> Self {
        Self { pages: None, until: None }
    }

    /// A budget of this number of pages, with no page after this moment.
    pub fn limited(pages: u32, until: Instant) -> Self {
        Self { pages: Some(pages), until: Some(until) }
    }

    /// Takes a page from the budget; returns whether it may be read.
    fn use_page(&mut self) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        match &mut self.pages {
            None => in_time,
            Some(0) => false,
            Some(pages) => {
                *pages -= u32::from(in_time);
                in_time
            }
        }
    }
}

/// The result of reading a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanEnd {
    /// The whole span was read.
    Whole,
    /// Slack's plan hides the rest.
    Limited,
    /// The budget is used up.
    Paused,
}

struct FetchedPage {
    messages: Vec<HistoryMessage>,
    times: PageTimes,
    /// The oldest message of this page and the pages before it.
    oldest: Option<Ts>,
    is_limited: bool,
    next: Option<PageBounds>,
    /// Consecutive pages without a message.
    empty_pages: u32,
}

impl ChannelReader<'_> {
    /// Reads spans, newest first.
    ///
    /// # Errors
    /// As [`ChannelReader::read_span`]; spans that were already read stay recorded.
    pub async fn read_spans(
        &self,
        spans: &[PlannedSpan],
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        for span in spans {
            match self.read_span(span, budget).await? {
                SpanEnd::Whole => {}
                // Older messages are hidden too.
                end @ (SpanEnd::Limited | SpanEnd::Paused) => return Ok(end),
            }
        }
        Ok(SpanEnd::Whole)
    }

    /// Reads a span, and older roots whose replies may be in it.
    ///
    /// # Errors
    /// [`HistoryError`]; if the channel cannot be read, a fact records the reason, unless the comparison records
    /// what is read.
    pub async fn read_span(
        &self,
        planned: &PlannedSpan,
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        let end = self.read_pages(planned, budget).await;
        if let Err(error) = &end
            && !matches!(self.threads, ThreadChoice::Proven(_))
            && let Consequence::Channel(Some(reason)) = error.consequence()
        {
            let (team, to) = (self.calls.team(), planned.span.to_ts());
            let asked = self.calls.now().await?;
            let refused = filled::refusal_update(team, self.channel, &to, reason, &asked);
            self.archive.write(&refused).await?;
        }
        end
    }

    async fn read_pages(
        &self,
        planned: &PlannedSpan,
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        let span = planned.span;
        if !budget.use_page() {
            return Ok(SpanEnd::Paused);
        }
        let floor = span.from.saturating_sub(self.look_back_micros).max(0);
        // Slack excludes the oldest one.
        let oldest = (floor > 0).then(|| Interval { from: floor - 1, to: floor }.from_ts());
        let mut page = self.fetch(PageBounds { oldest, latest: span.to_ts(), cursor: None }, None, 0).await?;
        loop {
            let FetchedPage { messages, times, oldest, is_limited, next, empty_pages } = page;
            let has_more = next.is_some();
            let is_covered = oldest.as_ref().is_some_and(|oldest| oldest.micros() <= span.from);
            // Roots whose threads may reach into the span are read without a budget: only all of them
            // complete the span. A page without messages is not one either: only its cursor leads on.
            let next = next.filter(|next| is_covered || next.cursor.is_some() || budget.use_page());
            let storing = self.store_page(messages, &times, span);
            let (stored, fetched) = match next {
                Some(next) => {
                    let fetching = self.fetch(next, oldest.clone(), empty_pages);
                    let (stored, fetched) = tokio::join!(storing, fetching);
                    (stored, Some(fetched))
                }
                None => (storing.await, None),
            };
            stored?;
            if !has_more && (is_covered || !is_limited) {
                self.note_reached(&span.from_ts(), &planned.to).await?;
                return Ok(SpanEnd::Whole);
            }
            if let Some(oldest) = oldest.as_ref().filter(|_| !is_covered) {
                self.note_reached(oldest, &planned.to).await?;
            }
            match fetched {
                Some(fetched) => page = fetched?,
                None if has_more => return Ok(SpanEnd::Paused),
                None => {
                    let shown = oldest.unwrap_or_else(|| span.to_ts());
                    if let ThreadChoice::Proven(comparison) = self.threads {
                        comparison.note_reached(&shown);
                        return Ok(SpanEnd::Limited);
                    }
                    let limited = filled::plan_limit_update(self.calls.team(), self.channel, &shown);
                    self.archive.write(&limited).await?;
                    return Ok(SpanEnd::Limited);
                }
            }
        }
    }

    async fn fetch(
        &self,
        mut between: PageBounds,
        before: Option<Ts>,
        empty_pages: u32,
    ) -> Result<FetchedPage, HistoryError> {
        let mut page = self.calls.history(self.channel, &between).await;
        if let Err(error) = &page
            && error.refusal_code() == Some("invalid_cursor")
            && between.cursor.take().is_some()
        {
            page = self.calls.history(self.channel, &between).await;
        }
        let page = page?;
        let mut messages = self.messages(&page.messages);
        let is_whole = !page.is_short && messages.len() == page.messages.len();
        messages.retain(|message| message.ts < between.latest);
        let oldest = messages.iter().map(|message| message.ts.clone()).min();
        let newest = messages.iter().map(|message| message.ts.clone()).max();
        let newest = before.as_ref().or(newest.as_ref());
        let times = PageTimes::new(oldest.as_ref(), newest, &between.latest, is_whole);
        let empty_pages = if oldest.is_some() { 0 } else { empty_pages + 1 };
        let next = match (&oldest, page.cursor) {
            (_, None) if !page.has_more => None,
            (Some(oldest), _) => Some(PageBounds { latest: oldest.clone(), cursor: None, ..between }),
            (None, Some(cursor)) if empty_pages <= MAX_EMPTY_PAGES => {
                Some(PageBounds { cursor: Some(cursor), ..between })
            }
            (None, Some(_) | None) => return Err(HistoryError::Stuck),
        };
        let oldest = oldest.or(before);
        Ok(FetchedPage { messages, times, oldest, is_limited: page.is_limited, next, empty_pages })
    }

    async fn note_reached(&self, from: &Ts, to: &Ts) -> Result<(), HistoryError> {
        if let ThreadChoice::Proven(comparison) = self.threads {
            comparison.note_reached(from);
            return Ok(());
        }
        let reached = filled::filled_update(self.calls.team(), self.channel, from, to, SpanSource::History);
        Ok(self.archive.write(&reached).await.map(drop)?)
    }
}
