//! Removes what has expired by a retention rule: only the rows of the period that became due, by their keys.
//!
//! The facts are read again before each page of rows, and a row is removed by [`Archive::expire`], so that a hold
//! that is set meanwhile keeps its messages. A message is removed after its files and earlier versions, so that the
//! next run completes a killed one.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use ports::archive::erasure::ErasureFacts;
use ports::archive::{Archive, ArchiveError, Item, ItemKey, Query, key};
use ports::files::Files;
use rules::figures::rollup::RollupDay;
use rules::file::row;
use rules::project;
use slack::ids::{ChannelId, FileId, TeamId, Ts};

use super::{AT_ONCE, ErasedAhead, Eraser, EraserCounts, EraserMode, PAGE};
use crate::failure::PortError;
use crate::statistician;

/// The part of a channel that became due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredPeriod {
    pub channel: ChannelId,
    /// What is before this time was removed by an earlier run.
    pub from: Option<Ts>,
    /// What is before this time has expired.
    pub until: Ts,
}

/// Removes, or counts, what has expired in a workspace.
pub struct Expiry<'a> {
    eraser: Eraser<'a>,
    team: TeamId,
    /// The files that were counted: several messages may share one.
    files: BTreeSet<FileId>,
}

impl<'a> Expiry<'a> {
    /// `covered` are the facts as they are stored, or as they would be if nothing is changed.
    pub fn begin(
        archive: &'a dyn Archive,
        files: &'a dyn Files,
        team: TeamId,
        covered: ErasureFacts,
        mode: EraserMode,
    ) -> Self {
        let eraser = Eraser {
            archive,
            files,
            facts: Vec::new(),
            covered,
            mode,
            pictures: std::collections::BTreeMap::default(),
            ahead: ErasedAhead::default(),
            is_expiry: true,
            rows_read: AtomicU64::default(),
        };
        Self { eraser, team, files: BTreeSet::new() }
    }

    /// Removes what has expired in a period of a channel.
    ///
    /// # Errors
    /// [`PortError`]; the period can be repeated.
    pub async fn period(&mut self, period: &ExpiredPeriod) -> Result<EraserCounts, PortError> {
        let mut counts = EraserCounts::default();
        if period.from.as_ref().is_some_and(|from| *from >= period.until) {
            return Ok(counts);
        }
        self.messages(period, &mut counts).await?;
        self.questions(period, &mut counts).await?;
        self.figures(period, &mut counts).await?;
        Ok(counts)
    }

    async fn messages(&mut self, period: &ExpiredPeriod, counts: &mut EraserCounts) -> Result<(), PortError> {
        let channel = &period.channel;
        let from = period.from.as_ref().map(Ts::as_str);
        let mut query = Some(range(key::messages(&self.team, channel), "", from, period.until.as_str()));
        while query.is_some() {
            let rows = self.page(&mut query, counts).await?;
            let is_held = |row: &&Item| self.eraser.covered.hold_of(row).is_some();
            counts.held +=
                rows.iter().filter(is_held).filter(|row| project::message(row).is_some()).count() as u64;
            let due: Vec<&Item> = rows.iter().filter(|row| self.eraser.covered.expires(row)).collect();
            let files: Vec<FileId> = due
                .iter()
                .flat_map(|row| row::files_of_message(row))
                .filter(|file| self.files.insert(file.clone()))
                .collect();
            for files in files.chunks(PAGE) {
                let keys: Vec<ItemKey> = files.iter().map(|file| ItemKey::file(&self.team, file)).collect();
                let rows = self.eraser.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
                *counts +=
                    self.eraser.erase_unshared(&self.team, rows.into_iter().flatten().collect()).await?;
                for file in files {
                    *counts += self.eraser.erase_remains(&self.team, file).await?;
                }
            }
            let mut removals = Vec::with_capacity(due.len());
            for row in due {
                removals.push(self.eraser.message(&self.team, channel, row));
            }
            let add = |mut sum: EraserCounts, counts: EraserCounts| {
                sum += counts;
                async move { Ok(sum) }
            };
            let removed = stream::iter(removals).buffer_unordered(AT_ONCE);
            *counts += removed.try_fold(EraserCounts::default(), add).await?;
        }
        Ok(())
    }

    /// Removes questions to the responder, their answers, and the posts of answers, each by its own time.
    async fn questions(
        &mut self,
        period: &ExpiredPeriod,
        counts: &mut EraserCounts,
    ) -> Result<(), PortError> {
        let (team, prefix) = (&self.team, format!("{}#", period.channel));
        let partitions =
            [key::questions(team), key::answers(team), key::responded(team), key::bot_messages(team)];
        for partition in partitions {
            let from = period.from.as_ref().map(Ts::as_str);
            let mut query = Some(range(partition, &prefix, from, period.until.as_str()));
            while query.is_some() {
                let rows = self.page(&mut query, counts).await?;
                for row in rows.iter().filter(|row| self.eraser.covered.expires(row)) {
                    counts.erased(row);
                    self.eraser.erase(&row.key).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the counts of days that have expired: they name people, and nothing can count them again.
    async fn figures(&mut self, period: &ExpiredPeriod, counts: &mut EraserCounts) -> Result<(), PortError> {
        let Some(until) = RollupDay::from_ts(&period.until) else { return Ok(()) };
        let from = period.from.as_ref().and_then(RollupDay::from_ts).map(RollupDay::text);
        let partition = key::rollups(&self.team, &period.channel);
        let mut query = Some(range(partition, "", from.as_deref(), &until.text()));
        while query.is_some() {
            let rows = self.page(&mut query, counts).await?;
            for row in rows.iter().filter(|row| !row.is_erased()) {
                counts.erased(row);
                if self.eraser.acts() {
                    self.eraser.archive.erase(&row.key).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes what is not of one channel: jobs in quarantine that carry what has expired, and stored reports, which
    /// are made again without it.
    ///
    /// # Errors
    /// [`PortError`]; it can be repeated.
    pub async fn of_workspace(&self) -> Result<EraserCounts, PortError> {
        let counts = self
            .eraser
            .quarantine_of(|job| super::cover::cover_of_content(&job.payload, &self.eraser.covered))
            .await?;
        if self.eraser.acts() {
            statistician::remove_reports(self.eraser.archive, &self.team).await?;
        }
        Ok(counts)
    }

    /// Reads the next page of rows, and the facts again if rows are removed.
    async fn page(
        &mut self,
        query: &mut Option<Query>,
        counts: &mut EraserCounts,
    ) -> Result<Vec<Item>, ArchiveError> {
        let Some(next) = query else { return Ok(Vec::new()) };
        let page = self.eraser.archive.query(next).await?;
        match page.next {
            Some(after) => next.after = Some(after),
            None => *query = None,
        }
        if self.eraser.acts() && !page.items.is_empty() {
            self.eraser.covered = ErasureFacts::load(self.eraser.archive, &self.team).await?;
        }
        self.eraser.read(counts, &page.items);
        Ok(page.items)
    }
}

/// The rows of a partition whose sort keys have this prefix, from `from` to before `until`.
fn range(partition: String, prefix: &str, from: Option<&str>, until: &str) -> Query {
    // The last text before `from`.
    let after = match from {
        Some(from) => Some(format!("{prefix}{}", &from[..from.len() - 1])),
        None if prefix.is_empty() => None,
        None => Some(prefix.to_owned()),
    };
    let after = after.map(|after| ItemKey::new(&*partition, &after));
    let until = Some(format!("{prefix}{until}"));
    Query { limit: PAGE, after, until, ..Query::partition(partition) }
}
