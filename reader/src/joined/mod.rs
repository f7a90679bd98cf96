//! A channel that may have several locations, because Slack gave it a new id or several workspaces share it.
//! Readers see one history; the rows of each location stay unchanged.
//!
//! * [`locations`] finds the locations.
//! * [`JoinedChannel`] reads them as one channel; [`rules::merge`] merges the rows of a message.

pub mod locations;

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query, key, query_all};
use rules::merge::{self, MergedMessage};
use rules::message;
use slack::ids::{TeamId, Ts};

pub use locations::ChannelOfTeam;

/// A channel with all its locations. Reading a channel with a single location has no additional cost.
pub struct JoinedChannel<'a> {
    archive: &'a dyn Archive,
    /// At least one. The first is the current location.
    locations: Vec<ChannelOfTeam>,
}

/// The rows of all locations, by timestamp.
type RowsByTime = BTreeMap<String, Vec<Item>>;

impl<'a> JoinedChannel<'a> {
    /// Joins the channel's current location `main` with its other ones.
    pub fn new(archive: &'a dyn Archive, main: ChannelOfTeam, others: Vec<ChannelOfTeam>) -> Self {
        let mut locations = vec![main];
        for location in others {
            if !locations.contains(&location) {
                locations.push(location);
            }
        }
        Self { archive, locations }
    }

    pub fn current_location(&self) -> &ChannelOfTeam {
        &self.locations[0]
    }

    /// All locations, [`JoinedChannel::current_location`] first.
    pub fn locations(&self) -> &[ChannelOfTeam] {
        &self.locations
    }

    /// The workspaces of all locations, that of [`JoinedChannel::current_location`] first.
    pub fn teams(&self) -> Vec<TeamId> {
        let mut teams: Vec<TeamId> = Vec::new();
        for location in &self.locations {
            if !teams.contains(&location.team) {
                teams.push(location.team.clone());
            }
        }
        teams
    }

    /// Reads a message, merged from all locations.
    pub async fn message(&self, ts: &Ts) -> Result<Option<Item>, ArchiveError> {
        Ok(self.merged(ts).await?.map(|merged| merged.row))
    }

    /// Reads messages, in the order of `timestamps`.
    pub async fn messages(&self, timestamps: &[&Ts]) -> Result<Vec<Option<Item>>, ArchiveError> {
        if self.locations.len() == 1 {
            let keys: Vec<ItemKey> =
                timestamps.iter().map(|ts| self.current_location().message(ts)).collect();
            return self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await;
        }
        let mut rows = Vec::with_capacity(timestamps.len());
        for ts in timestamps {
            rows.push(self.message(ts).await?);
        }
        Ok(rows)
    }

    /// Returns the revisions of a message from all locations, without duplicates. If there are several
    /// locations, the current content of each is included, because the content of another location may have
    /// replaced it.
    pub async fn revisions(&self, ts: &Ts) -> Result<Vec<Item>, ArchiveError> {
        let mut rows = Vec::new();
        for ChannelOfTeam { team, channel } in &self.locations {
            rows.extend(query_all(self.archive, Query::partition(key::revisions(team, channel, ts))).await?);
        }
        if self.locations.len() > 1
            && let Some(MergedMessage { row, replaced }) = self.merged(ts).await?
        {
            rows.extend(message::as_revision(&row).into_iter().chain(replaced));
            rows = merge::revisions(rows);
        }
        Ok(rows)
    }

    async fn merged(&self, ts: &Ts) -> Result<Option<MergedMessage>, ArchiveError> {
        let keys: Vec<ItemKey> = self.locations.iter().map(|location| location.message(ts)).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        Ok(merge::messages(rows.into_iter().flatten().collect()))
    }

    /// Returns a page of rows like [`Archive::query`]. A query for the messages of [`JoinedChannel::current_location`],
    /// or for the threads or files of its workspace, covers all locations; each row has the key of the
    /// location with its content. Any other query goes to the archive unchanged.
    pub async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let main = self.current_location();
        if self.locations.len() == 1 {
            return self.archive.query(query).await;
        }
        match &query.partition {
            Partition::Item(partition) if *partition == main.messages() => {
                let partitions: Vec<String> = self.locations.iter().map(ChannelOfTeam::messages).collect();
                self.page(query, &partitions, |rows| Some(merge::messages(rows)?.row)).await
            }
            Partition::Item(partition) if *partition == key::files(&main.team) => {
                let partitions: Vec<String> = self.teams().iter().map(key::files).collect();
                self.page(query, &partitions, merge::files).await
            }
            Partition::Parent(parent) => match parent.rsplit('#').next().map(Ts::parse) {
                Some(Ok(root_ts)) if *parent == key::thread_parent(&main.team, &root_ts) => {
                    self.thread(query, &root_ts).await
                }
                Some(_) | None => self.archive.query(query).await,
            },
            Partition::Item(_) => self.archive.query(query).await,
        }
    }

    /// Returns a page of the merged rows of several partitions. The page ends where the shortest page of a
    /// partition ends, so that each row is merged from all partitions.
    async fn page(
        &self,
        query: &Query,
        partitions: &[String],
        merge: impl Fn(Vec<Item>) -> Option<Item>,
    ) -> Result<Page, ArchiveError> {
        let mut rows = RowsByTime::new();
        // The last timestamp to which all partitions were read, if one of them has more rows.
        let mut reached: Option<String> = None;
        let is_before = |one: &str, other: &str| if query.descending { one > other } else { one < other };
        for partition in partitions {
            let after =
                query.after.as_ref().map(|after| ItemKey::new(partition.clone(), after.timestamp.clone()));
            let part = Query { partition: Partition::Item(partition.clone()), after, ..query.clone() };
            let page = self.archive.query(&part).await?;
            if let Some(next) = page.next
                && reached.as_ref().is_none_or(|reached| is_before(&next.timestamp, reached))
            {
                reached = Some(next.timestamp);
            }
            for item in page.items {
                rows.entry(item.key.timestamp.clone()).or_default().push(item);
            }
        }
        let is_whole = |time: &str| reached.as_ref().is_none_or(|reached| !is_before(reached, time));
        rows.retain(|time, _| is_whole(time));
        let mut in_order: Vec<(String, Vec<Item>)> = rows.into_iter().collect();
        if query.descending {
            in_order.reverse();
        }
        let rest = in_order.split_off(query.limit.min(in_order.len()));
        let next = if rest.is_empty() { reached } else { in_order.last().map(|(time, _)| time.clone()) };
        let items = in_order.into_iter().filter_map(|(_, rows)| merge(rows)).collect();
        Ok(Page { items, next: next.map(|time| ItemKey::new(self.current_location().messages(), time)) })
    }

    /// Reads a whole thread at once, because a thread is bounded, unlike a channel. The index has every row
    /// that names the thread; rows of the same messages at other locations are read by key.
    async fn thread(&self, query: &Query, root_ts: &Ts) -> Result<Page, ArchiveError> {
        let mut rows = RowsByTime::new();
        for team in self.teams() {
            for item in query_all(self.archive, Query::parent(key::thread_parent(&team, root_ts))).await? {
                if self.locations.iter().any(|location| location.messages() == item.key.item_id) {
                    rows.entry(item.key.timestamp.clone()).or_default().push(item);
                }
            }
        }
        let missing: Vec<ItemKey> = rows
            .iter()
            .flat_map(|(time, rows)| {
                let keys = self
                    .locations
                    .iter()
                    .map(move |location| ItemKey::new(location.messages(), time.as_str()));
                keys.filter(move |key| rows.iter().all(|row| row.key != *key))
            })
            .collect();
        for item in self.archive.get_all(&missing.iter().collect::<Vec<_>>()).await?.into_iter().flatten() {
            rows.entry(item.key.timestamp.clone()).or_default().push(item);
        }
        let is_after = |time: &str| match &query.after {
            Some(after) if query.descending => time < after.timestamp.as_str(),
            Some(after) => time > after.timestamp.as_str(),
            None => true,
        };
        let is_before_until = |time: &str| query.until.as_deref().is_none_or(|until| time < until);
        let mut items: Vec<Item> = rows
            .into_iter()
            .filter(|(time, _)| is_after(time) && is_before_until(time))
            .filter_map(|(_, rows)| Some(merge::messages(rows)?.row))
            .collect();
        if query.descending {
            items.reverse();
        }
        Ok(Page { items, next: None })
    }
}
