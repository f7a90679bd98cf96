//! Which pages of the days of a month stay as they are. A channel with many messages has a page for each day, and a new
//! message changes one of them, so the others are neither read nor rendered again.
//!
//! A page stays if neither its day nor what it shows is marked, if its threads are not marked either, and if the pages
//! before and after it are those that it links to.

use std::collections::{BTreeMap, BTreeSet};

use reader::range::{TimeRange, ts_from_micros};
use rules::publishing::{UNDATED, day};
use slack::ids::Ts;

use super::PublishError;
use super::month::{MonthPages, PAGE};
use super::state::{SiteState, SiteUnit};
use super::timeline::range_of;
use super::write::MonthPart;

/// What happens to a part of a month.
pub(super) enum MonthStep {
    /// It is read and rendered.
    Read(TimeRange),
    /// It stays.
    Keep(DayPage),
}

/// A page of a day as it was rendered.
pub(super) struct DayPage {
    pub(super) path: String,
    /// Its file name without the extension.
    pub(super) name: String,
    pub(super) part: MonthPart,
    tags: Vec<String>,
}

/// The page of a thread as it was rendered.
struct KnownThread {
    path: String,
    tags: Option<Vec<String>>,
}

/// The pages of days that stay.
#[derive(Default)]
pub(super) struct KeptDays {
    /// The days are not read, so that a reply that comes to one of them or leaves it is not seen.
    pub(super) paths: BTreeSet<String>,
    /// The one that links to a page that is not known yet.
    pub(super) waiting: Option<DayPage>,
    /// The threads of the month, by their roots.
    threads: BTreeMap<String, KnownThread>,
    /// The paths of all pages of the month.
    all_paths: BTreeSet<String>,
}

impl DayPage {
    /// The range of its messages.
    pub(super) fn range(&self) -> TimeRange {
        let until = ts_from_micros(self.part.last.micros() + 1);
        TimeRange { since: Some(self.part.first.clone()), until: Some(until) }
    }
}

impl KeptDays {
    /// The threads whose roots are on a page.
    fn threads_of(&self, part: &MonthPart) -> impl Iterator<Item = (&String, &KnownThread)> {
        self.threads.range(part.first.to_string()..=part.last.to_string())
    }
}

impl MonthPages<'_> {
    /// Notes a page that stays, with the threads that begin on it.
    pub(super) fn note_kept(&mut self, page: DayPage) {
        self.messages += page.part.messages;
        for (root_ts, thread) in self.kept.threads_of(&page.part) {
            self.threads.insert(root_ts.clone());
            // A long thread has more pages, whose names go on with `-`.
            let stem = thread.path.trim_end_matches(".html");
            self.paths.extend(self.kept.all_paths.range(stem.to_owned()..format!("{stem}/")).cloned());
            self.tags.extend(thread.tags.iter().flatten().cloned());
        }
        self.tags.extend(page.tags);
        self.paths.insert(page.path);
    }
}

impl SiteState {
    /// Returns what happens to the parts of a month, oldest first: all of it is read, unless what stays is more than a
    /// page.
    pub(super) fn steps(&self, unit: &SiteUnit) -> Result<(KeptDays, Vec<MonthStep>), PublishError> {
        let month = range_of(&unit.month);
        let known = if unit.month == UNDATED { Vec::new() } else { self.day_pages(unit)? };
        let days = if known.is_empty() { KeptDays::default() } else { self.kept_days(unit)? };
        // The parts of a day change together.
        let mut marked = BTreeSet::new();
        let mut pages = Vec::new();
        for (first, page) in known {
            let is_whole =
                |page: &DayPage| days.threads_of(&page.part).all(|(_, thread)| thread.tags.is_some());
            match page.filter(is_whole) {
                Some(page) => pages.push(page),
                None => drop(marked.insert(day(&first))),
            }
        }
        pages.retain(|page| !marked.contains(&day(&page.part.first)));
        let messages: u64 = pages.iter().map(|page| u64::from(page.part.messages)).sum();
        if messages <= PAGE as u64 {
            return Ok((KeptDays::default(), vec![MonthStep::Read(month)]));
        }
        let mut steps = Vec::with_capacity(pages.len() * 2 + 1);
        let mut since = month.since;
        for page in pages {
            let next = ts_from_micros(page.part.last.micros() + 1);
            let until = Some(page.part.first.clone());
            steps.push(MonthStep::Read(TimeRange { since: since.replace(next), until }));
            steps.push(MonthStep::Keep(page));
        }
        steps.push(MonthStep::Read(TimeRange { since, until: month.until }));
        Ok((days, steps))
    }

    /// The pages of a month's days, oldest first, each with its first message; `None` instead of one that is marked.
    fn day_pages(&self, unit: &SiteUnit) -> Result<Vec<(Ts, Option<DayPage>)>, PublishError> {
        let query = "SELECT path, first_ts, last_ts, messages, older, newer, iif(hash IS NULL, NULL, tags) FROM page \
            WHERE channel = ?1 AND month = ?2 \
            AND first_ts IS NOT NULL ORDER BY first_ts, last_ts";
        let mut statement = self.db().prepare_cached(query)?;
        let mut rows = statement.query([&unit.channel, &unit.month])?;
        let mut pages = Vec::new();
        while let Some(row) = rows.next()? {
            let (path, first, last): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (Ok(first), Ok(last)) = (Ts::parse(&first), Ts::parse(&last)) else { continue };
            let (messages, older, newer) = (row.get::<_, Option<u32>>(3)?, row.get(4)?, row.get(5)?);
            let tags = row.get::<_, Option<String>>(6)?;
            let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".html")).map(str::to_owned);
            let page = name.zip(messages).zip(tags).map(|((name, messages), tags)| {
                let part = MonthPart { first: first.clone(), last, messages, older, newer };
                DayPage { path, name, part, tags: tags.lines().map(str::to_owned).collect() }
            });
            pages.push((first, page));
        }
        Ok(pages)
    }

    fn kept_days(&self, unit: &SiteUnit) -> Result<KeptDays, PublishError> {
        let query = "SELECT root_ts, path, iif(hash IS NULL, NULL, tags) FROM page WHERE channel = ?1 AND month = ?2 AND root_ts IS NOT NULL";
        let mut statement = self.db().prepare_cached(query)?;
        let threads = statement.query_map([&unit.channel, &unit.month], |row| {
            let tags: Option<String> = row.get(2)?;
            let tags = tags.map(|tags| tags.lines().map(str::to_owned).collect());
            Ok((row.get(0)?, KnownThread { path: row.get(1)?, tags }))
        })?;
        let threads = threads.collect::<rusqlite::Result<_>>()?;
        Ok(KeptDays { threads, all_paths: self.paths(unit)?, ..KeptDays::default() })
    }
}
