//! The names for queries: those that were read a short time ago, or the current ones.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError};
use reader::access::HiddenChannels;
use reader::search::known::{self, KnownNames};
use reader::search::query::SearchQuery;
use reader::search::resolve::{self, ResolvedQuery};
use slack::ids::TeamId;
use tokio::time::Instant;

use crate::error::SearchError;
use crate::index::SearchIndex;
use crate::recent_names::ReadNames;

/// Delay until queries use a new name of a person or a channel. Hits always show the current names.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The source of the names for a query: the cache, and the archive that the query's reader gets.
pub(crate) struct NameSource<'a> {
    pub(crate) index: &'a SearchIndex,
    pub(crate) archive: &'a dyn Archive,
    pub(crate) teams: &'a [TeamId],
    /// The channels that the archive does not have.
    pub(crate) hidden: &'a Arc<HiddenChannels>,
}

impl NameSource<'_> {
    /// Resolves a query with cached names, and with the current names if one is unknown.
    pub(crate) async fn resolved(
        &self,
        query: SearchQuery,
        zone: &TimeZone,
        with_deleted: bool,
    ) -> Result<ResolvedQuery, SearchError> {
        let in_messages = self.index.known_facets(known::names_in_messages(&query), self.teams, self.hidden);
        let in_messages = in_messages.await?;
        let resolve = async |known: &KnownNames, query| {
            let (archive, teams) = (self.archive, self.teams);
            resolve::resolve(archive, teams, known, &in_messages, query, zone, with_deleted).await
        };
        if !query.asks_for_names() {
            return Ok(resolve(&KnownNames::default(), query).await?);
        }
        let known = self.recent().await?;
        match resolve(&known, query.clone()).await {
            Err(error) if error.is_unknown_name() => {}
            resolved => return Ok(resolved?),
        }
        let known = self.refresh().await?;
        Ok(resolve(&known, query).await?)
    }

    /// Returns the names, at most a minute old.
    async fn recent(&self) -> Result<Arc<KnownNames>, ArchiveError> {
        match self.index.names.get() {
            Some(read) if read.teams != self.teams || read.at.elapsed() >= MAX_AGE => self.refresh().await,
            Some(read) if read.hidden == *self.hidden => Ok(read.names),
            // Another reader's: the people are the same, the channels are not.
            Some(read) => Ok(Arc::new(read.names.with_channels_of(self.archive, self.teams).await?)),
            None => self.refresh().await,
        }
    }

    /// Reads the current names.
    async fn refresh(&self) -> Result<Arc<KnownNames>, ArchiveError> {
        let at = Instant::now();
        let names = Arc::new(KnownNames::read(self.archive, self.teams).await?);
        let (teams, hidden) = (self.teams.to_vec(), Arc::clone(self.hidden));
        self.index.names.set(ReadNames { at, teams, hidden, names: Arc::clone(&names) });
        Ok(names)
    }
}
