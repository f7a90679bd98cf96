//! One channel as people know it, which may lie in several places: Slack gave it another id, or several workspaces share
//! it. Readers see one history; the places stay as they were written.
//!
//! * [`places`] finds them.
//! * [`JoinedChannel`] reads them as one: rows of one message are merged by [`rules::merge`].

pub mod places;

use std::collections::BTreeMap;

use ports::archive::{Archive, ArchiveError, Item, ItemKey, Page, Partition, Query, key, query_all};
use rules::merge::{self, MergedMessage};
use rules::message;
use slack::ids::{TeamId, Ts};

pub use places::ChannelOfTeam;

/// A channel to be read, in all its places. One that is in one place alone is read as it is, at no further cost.
pub struct JoinedChannel<'a> {
    archive: &'a dyn Archive,
    /// At least one; the first is the channel now.
    places: Vec<ChannelOfTeam>,
}

/// Rows by their time, each as what the places say of it.
type RowsByTime = BTreeMap<String, Vec<Item>>;

impl<'a> JoinedChannel<'a> {
    /// The channel that goes on in `main`, and was or is in the others too.
    pub fn new(archive: &'a dyn Archive, main: ChannelOfTeam, others: Vec<ChannelOfTeam>) -> Self {
        let mut places = vec![main];
        for place in others {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Self { archive, places }
    }

    /// Where the channel goes on.
    pub fn main(&self) -> &ChannelOfTeam {
        &self.places[0]
    }

    /// All its places, [`JoinedChannel::main`] in front.
    pub fn places(&self) -> &[ChannelOfTeam] {
        &self.places
    }

    /// Its workspaces, that of [`JoinedChannel::main`] in front.
    pub fn teams(&self) -> Vec<TeamId> {
        let mut teams: Vec<TeamId> = Vec::new();
        for place in &self.places {
            if !teams.contains(&place.team) {
                teams.push(place.team.clone());
            }
        }
        teams
    }

    /// A message, whatever place has something of it.
    pub async fn message(&self, ts: &Ts) -> Result<Option<Item>, ArchiveError> {
        Ok(self.merged(ts).await?.map(|merged| merged.row))
    }

    /// Messages, in the order of their timestamps in `of`.
    pub async fn messages(&self, of: &[&Ts]) -> Result<Vec<Option<Item>>, ArchiveError> {
        if self.places.len() == 1 {
            let keys: Vec<ItemKey> = of.iter().map(|ts| self.main().message(ts)).collect();
            return self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await;
        }
        let mut rows = Vec::with_capacity(of.len());
        for ts in of {
            rows.push(self.message(ts).await?);
        }
        Ok(rows)
    }

    /// The revisions of a message in every place, each once. Where there are several places, what each has as its
    /// content is among them: it may have lost to that of another.
    pub async fn revisions(&self, ts: &Ts) -> Result<Vec<Item>, ArchiveError> {
        let mut rows = Vec::new();
        for ChannelOfTeam { team, channel } in &self.places {
            rows.extend(query_all(self.archive, Query::partition(key::revisions(team, channel, ts))).await?);
        }
        if self.places.len() > 1
            && let Some(MergedMessage { row, replaced }) = self.merged(ts).await?
        {
            rows.extend(message::as_revision(&row).into_iter().chain(replaced));
            rows = merge::revisions(rows);
        }
        Ok(rows)
    }

    async fn merged(&self, ts: &Ts) -> Result<Option<MergedMessage>, ArchiveError> {
        let keys: Vec<ItemKey> = self.places.iter().map(|place| place.message(ts)).collect();
        let rows = self.archive.get_all(&keys.iter().collect::<Vec<_>>()).await?;
        Ok(merge::messages(rows.into_iter().flatten().collect()))
    }

    /// A page of rows, as [`Archive::query`] answers. The messages of [`JoinedChannel::main`], the threads and the files
    /// of its workspace are those of all places, each row under the key it has where its content is; any other query
    /// passes as it is.
    pub async fn query(&self, query: &Query) -> Result<Page, ArchiveError> {
        let main = self.main();
        if self.places.len() == 1 {
            return self.archive.query(query).await;
        }
        match &query.partition {
            Partition::Item(partition) if *partition == main.messages() => {
                let partitions: Vec<String> = self.places.iter().map(ChannelOfTeam::messages).collect();
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

    /// A page of what several partitions have, each row once. What a page of one of them does not reach is left for the
    /// next page, so that no row is seen before all of it is.
    async fn page(
        &self,
        query: &Query,
        partitions: &[String],
        merge: impl Fn(Vec<Item>) -> Option<Item>,
    ) -> Result<Page, ArchiveError> {
        let mut rows = RowsByTime::new();
        // How far every partition was read, where one goes on.
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
        Ok(Page { items, next: next.map(|time| ItemKey::new(self.main().messages(), time)) })
    }

    /// A thread, as a whole: unlike a channel it has an end. The index knows each row that names the thread; what
    /// another place says of the same message is asked for by its key.
    async fn thread(&self, query: &Query, root_ts: &Ts) -> Result<Page, ArchiveError> {
        let mut rows = RowsByTime::new();
        for team in self.teams() {
            for item in query_all(self.archive, Query::parent(key::thread_parent(&team, root_ts))).await? {
                if self.places.iter().any(|place| place.messages() == item.key.item_id) {
                    rows.entry(item.key.timestamp.clone()).or_default().push(item);
                }
            }
        }
        let missing: Vec<ItemKey> = rows
            .iter()
            .flat_map(|(time, rows)| {
                let keys = self.places.iter().map(move |place| ItemKey::new(place.messages(), time.as_str()));
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
