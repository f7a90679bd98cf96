//! Reads the messages of a channel that are on its pages, as the site shows them.

use std::collections::{BTreeSet, HashMap};

use ports::archive::Query;
use reader::range::TimeRange;
use reader::rows::VisibleRows;
use rules::project;
use rules::publishing::{UNDATED, is_published, month};
use rules::view::MessageView;
use slack::ids::Ts;
use viewer::gather::timeline::page_message;
use viewer::pages::message::PageMessage;

use super::PublishError;
use super::channels::SiteChannel;
use super::run::PublishRun;
use super::tags::UnitTags;

/// Rows that are read at once for a feed.
const FEED_ROWS: usize = 128;

/// Maximum rows that are read for a feed: if nearly all messages of a channel are replies, it has fewer entries.
const MAX_FEED_ROWS: usize = 4_096;

/// The roots of threads, and whether they have a page.
pub(super) type KnownRoots = HashMap<Ts, bool>;

/// Returns the rows of a channel in this range, oldest first.
pub(super) fn rows_of<'c>(channel: &'c SiteChannel<'_>, range: &TimeRange) -> VisibleRows<'c> {
    let query = Query::partition(channel.joined.current_location().messages());
    VisibleRows::all(&channel.joined, query, project::message).within(range)
}

/// The range of a month; of undated messages, that of everything.
pub(super) fn range_of(month: &str) -> TimeRange {
    let start = |month: &str| {
        let day: jiff::civil::Date = format!("{month}-01").parse().ok()?;
        viewer::times::day_start(day, &jiff::tz::TimeZone::UTC)
    };
    let after = || {
        let day: jiff::civil::Date = format!("{month}-01").parse().ok()?;
        start(&day.checked_add(jiff::Span::new().months(1)).ok()?.strftime("%Y-%m").to_string())
    };
    if month == UNDATED { TimeRange::default() } else { TimeRange { since: start(month), until: after() } }
}

impl PublishRun<'_> {
    /// Reads whether the roots of these rows have pages.
    pub(super) async fn learn_roots(
        &self,
        channel: &SiteChannel<'_>,
        rows: &[MessageView],
        roots: &mut KnownRoots,
    ) -> Result<(), PublishError> {
        let unknown: BTreeSet<Ts> = rows
            .iter()
            .filter_map(MessageView::replies_to)
            .filter(|root| !roots.contains_key(root))
            .collect();
        if !unknown.is_empty() {
            let found = channel.joined.messages(&unknown.iter().collect::<Vec<_>>()).await?;
            let has_page = found.iter().map(|row| {
                row.as_ref()
                    .and_then(project::message)
                    .is_some_and(|row| row.replies_to().is_none() && is_published(&row, true))
            });
            roots.extend(unknown.iter().cloned().zip(has_page));
        }
        Ok(())
    }

    /// Returns the messages of these rows that are on the channel's pages, as the site shows them, and notes
    /// what they depend on. The roots of the rows are known.
    pub(super) fn on_pages(
        &self,
        channel: &SiteChannel<'_>,
        rows: Vec<MessageView>,
        roots: &KnownRoots,
        tags: &mut UnitTags,
    ) -> Result<Vec<PageMessage>, PublishError> {
        let times: Vec<Ts> = rows.iter().filter_map(MessageView::written_at).collect();
        let texts = || times.iter().map(Ts::as_str);
        let mut threads = match texts().min().zip(texts().max()) {
            Some((first, last)) => self.state.thread_sizes(&channel.folder, [first, last])?,
            None => HashMap::new(),
        };
        let mut messages = Vec::new();
        for row in rows {
            let Some(ts) = row.written_at() else { continue };
            let mut thread = None;
            if let Some(root_ts) = row.replies_to() {
                let is_in_thread = !row.is_broadcast() && roots.get(&root_ts) == Some(&true);
                if is_in_thread || !is_published(&row, false) {
                    continue;
                }
            } else {
                thread = threads.remove(&ts);
                if !is_published(&row, thread.is_some()) {
                    continue;
                }
            }
            if let Some(mut message) = self.shown(row, tags) {
                message.thread = thread;
                messages.push(message);
            }
        }
        Ok(messages)
    }

    /// Returns a row as the site shows it.
    pub(super) fn shown(&self, row: MessageView, tags: &mut UnitTags) -> Option<PageMessage> {
        tags.note_quotes(&row);
        page_message(self.public.shown(row), &self.settings.zone)
    }

    /// Returns the newest messages on a channel's pages, newest first.
    pub(super) async fn newest(
        &self,
        channel: &SiteChannel<'_>,
        limit: usize,
        tags: &mut UnitTags,
    ) -> Result<Vec<PageMessage>, PublishError> {
        let mut query = Query {
            descending: true,
            limit: FEED_ROWS,
            ..Query::partition(channel.joined.current_location().messages())
        };
        let (mut messages, mut roots, mut read) = (Vec::new(), KnownRoots::new(), 0);
        while messages.len() < limit && read < MAX_FEED_ROWS {
            let page = channel.joined.query(&query).await?;
            read += page.items.len();
            let rows = page.items.iter().filter_map(project::message);
            let rows = rows.filter(|row| row.written_at().is_some_and(|ts| month(&ts) != UNDATED));
            let rows: Vec<MessageView> = rows.collect();
            self.learn_roots(channel, &rows, &mut roots).await?;
            messages.extend(self.on_pages(channel, rows, &roots, tags)?);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        messages.truncate(limit);
        Ok(messages)
    }

    /// Reads one message as the site shows it.
    pub(super) async fn message(
        &self,
        channel: &SiteChannel<'_>,
        ts: &Ts,
        tags: &mut UnitTags,
    ) -> Result<Option<PageMessage>, PublishError> {
        let row = channel.joined.message(ts).await?.as_ref().and_then(project::message);
        Ok(row.and_then(|row| self.shown(row, tags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_contains_its_messages_and_not_the_adjacent_ones() {
        for (name, before, first, last, after) in [
            ("2026-11", "1793491199.999999", "1793491200.000000", "1796083199.999999", "1796083200.000000"),
            ("2025-12", "1764547199.999999", "1764547200.000000", "1767225599.999999", "1767225600.000000"),
        ] {
            let range = range_of(name);
            let contains = |ts: &str| range.contains(&Ts::parse(ts).unwrap());
            assert_eq!([before, first, last, after].map(contains), [false, true, true, false], "{name}");
            assert_eq!(range.key_before().unwrap(), before);
        }
        assert_eq!(range_of(UNDATED), TimeRange::default());
    }
}
