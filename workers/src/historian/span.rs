//! Reads a span of a channel's history, newest first, page by page.
//!
//! The order of effects of a page is: its rows, the replies of its roots, the jobs of its files, then the fact that the
//! channel was read from there on. Stopping between two of them loses a page at most, and claims nothing that is not there.
//! While a page is stored, the next one is fetched.

use ports::archive::ArchiveExt;
use rules::filled::{self, SpanSource};
use rules::history::HistoryMessage;
use rules::interval::Interval;
use slack::ids::Ts;
use tokio::time::Instant;

use super::calls::Between;
use super::page::{ChannelReader, MAX_EMPTY_PAGES};
use super::reconcile::PageTimes;
use super::trouble::{Consequence, HistoryError};

/// A span to be read, and the fact that keeps how far it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSpan {
    /// What is to be read.
    pub span: Interval,
    /// The end of the fact: of the span, or of what was read in front of it and ends where it begins.
    pub to: Ts,
}

/// How much may be read before others have their turn.
#[derive(Debug, Clone)]
pub struct PageBudget {
    pages: Option<u32>,
    until: Option<Instant>,
}

impl PageBudget {
    /// As much as there is.
    pub fn unlimited() -> Self {
        Self { pages: None, until: None }
    }

    /// At most this number of pages, and none after this moment.
    pub fn of(pages: u32, until: Instant) -> Self {
        Self { pages: Some(pages), until: Some(until) }
    }

    /// Whether another page may be read; counts it.
    fn take(&mut self) -> bool {
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

/// How the reading of a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanEnd {
    /// All of it was read.
    Whole,
    /// Slack's plan hides the rest.
    Limited,
    /// The budget is used up.
    Paused,
}

/// A page that was fetched.
struct FetchedPage {
    messages: Vec<HistoryMessage>,
    times: PageTimes,
    /// The oldest message of this page and those before it.
    oldest: Option<Ts>,
    is_limited: bool,
    next: Option<Between>,
    /// Pages in a row without a message.
    empty_pages: u32,
}

impl ChannelReader<'_> {
    /// Reads spans, newest first.
    ///
    /// # Errors
    /// As [`ChannelReader::read_span`]; what was read before stays.
    pub async fn read_spans(
        &self,
        wanted: &[PlannedSpan],
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        for wanted in wanted {
            match self.read_span(wanted, budget).await? {
                SpanEnd::Whole => {}
                // What is older is hidden as well.
                end @ (SpanEnd::Limited | SpanEnd::Paused) => return Ok(end),
            }
        }
        Ok(SpanEnd::Whole)
    }

    /// Reads a span, and before it as far as replies may reach into it.
    ///
    /// # Errors
    /// [`HistoryError`]; if the channel cannot be read, a fact says why.
    pub async fn read_span(
        &self,
        wanted: &PlannedSpan,
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        let end = self.read_pages(wanted, budget).await;
        if let Err(error) = &end
            && let Consequence::Channel(Some(reason)) = error.consequence()
        {
            let (team, to) = (self.calls.team(), wanted.span.to_ts());
            let asked = self.calls.now().await?;
            let refused = filled::refused(team, self.channel, &to, reason, &asked);
            self.archive.write(&refused).await?;
        }
        end
    }

    async fn read_pages(
        &self,
        wanted: &PlannedSpan,
        budget: &mut PageBudget,
    ) -> Result<SpanEnd, HistoryError> {
        let span = wanted.span;
        if !budget.take() {
            return Ok(SpanEnd::Paused);
        }
        let floor = span.from.saturating_sub(self.look_back_micros).max(0);
        // Slack leaves the oldest one out.
        let oldest = (floor > 0).then(|| Interval { from: floor - 1, to: floor }.from_ts());
        let mut page = self.fetch(Between { oldest, latest: span.to_ts(), cursor: None }, None, 0).await?;
        loop {
            let FetchedPage { messages, times, oldest, is_limited, next, empty_pages } = page;
            let has_more = next.is_some();
            let is_covered = oldest.as_ref().is_some_and(|oldest| oldest.micros() <= span.from);
            // What may reach into the span is looked at in one go: only all of it completes the claim.
            let next = next.filter(|_| is_covered || budget.take());
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
                self.note_reached(&span.from_ts(), &wanted.to).await?;
                return Ok(SpanEnd::Whole);
            }
            if let Some(oldest) = oldest.as_ref().filter(|_| !is_covered) {
                self.note_reached(oldest, &wanted.to).await?;
            }
            match fetched {
                Some(fetched) => page = fetched?,
                None if has_more => return Ok(SpanEnd::Paused),
                None => {
                    let shown = oldest.unwrap_or_else(|| span.to_ts());
                    let limited = filled::limited(self.calls.team(), self.channel, &shown);
                    self.archive.write(&limited).await?;
                    return Ok(SpanEnd::Limited);
                }
            }
        }
    }

    async fn fetch(
        &self,
        mut between: Between,
        before: Option<Ts>,
        empty_pages: u32,
    ) -> Result<FetchedPage, HistoryError> {
        let mut page = self.calls.history(self.channel, &between).await;
        if let Err(error) = &page
            && error.refusal() == Some("invalid_cursor")
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
        let times = PageTimes::of(oldest.as_ref(), newest, &between.latest, is_whole);
        let empty_pages = if oldest.is_some() { 0 } else { empty_pages + 1 };
        let next = match (&oldest, page.cursor) {
            (_, None) if !page.has_more => None,
            (Some(oldest), _) => Some(Between { latest: oldest.clone(), cursor: None, ..between }),
            (None, Some(cursor)) if empty_pages <= MAX_EMPTY_PAGES => {
                Some(Between { cursor: Some(cursor), ..between })
            }
            (None, Some(_) | None) => return Err(HistoryError::Stuck),
        };
        let oldest = oldest.or(before);
        Ok(FetchedPage { messages, times, oldest, is_limited: page.is_limited, next, empty_pages })
    }

    async fn note_reached(&self, from: &Ts, to: &Ts) -> Result<(), HistoryError> {
        let reached = filled::reached(self.calls.team(), self.channel, from, to, SpanSource::History);
        Ok(self.archive.write(&reached).await.map(drop)?)
    }
}
