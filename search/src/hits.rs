//! Answers a query: what the index finds is read from the archive, compared with the query, and shown.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ItemKey};
use reader::directory::{self, WorkspaceChannels, WorkspaceFacts};
use reader::find;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use reader::permalink;
use reader::search::document::{self, SearchDocument};
use reader::search::matching::{self, MatchCandidate, SnippetPart};
use reader::search::query::SearchQuery;
use reader::search::resolve::{self, KnownNames, ResolveError, ResolvedCondition, ResolvedQuery};
use reader::text::{self, MessageText};
use reader::thread;
use rules::{merge, project};
use serde_json::Value;
use slack::ids::{TeamId, Ts};

use crate::expression::IndexQuery;
use crate::index::{IndexError, IndexHit, SearchIndex};

/// Messages that are read from the archive at once, at the most and at the least: most of what the index finds fits, so no more
/// are read than are wanted.
const PAGE: usize = 64;
const SMALLEST_PAGE: usize = 16;

/// Messages that are read before a search ends without enough hits. Only queries that the index cannot narrow down come to
/// it, such as one that only says what is not wanted.
const MAX_READ: usize = 100_000;

/// What is asked.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// What is looked for.
    pub query: SearchQuery,
    /// In which workspaces.
    pub teams: Vec<TeamId>,
    /// In which zone its days are.
    pub zone: TimeZone,
    /// The greatest number of hits.
    pub limit: usize,
    /// The best of the newest 10,000 first; otherwise the newest.
    pub is_ranked: bool,
    /// Deleted messages too.
    pub with_deleted: bool,
}

/// What was found.
#[derive(Debug)]
pub struct SearchAnswer {
    /// The hits, in their order.
    pub hits: Vec<SearchHit>,
    /// Whether there may be more than were looked at: the query fits too few of too many messages.
    pub is_cut: bool,
}

/// A message that fits, as the archive has it.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Its channel, where it goes on.
    pub place: ChannelOfTeam,
    /// What the channel is called.
    pub channel_name: Option<String>,
    /// Whether the channel is private now.
    pub is_private: bool,
    /// When it was written.
    pub ts: Ts,
    /// The root of its thread, if it is in one.
    pub thread_ts: Option<Ts>,
    /// The message as [`rules::project::message`] gives it.
    pub message: Value,
    /// What its author is called.
    pub author: String,
    /// What it says, as people read it.
    pub text: String,
    /// The part around the first match.
    pub snippet: Vec<SnippetPart>,
    /// Its link.
    pub permalink: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The query names something that is not there.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Answers a query.
///
/// # Errors
/// [`SearchError`]
pub async fn search(
    archive: &dyn Archive,
    index: &SearchIndex,
    request: SearchRequest,
) -> Result<SearchAnswer, SearchError> {
    let SearchRequest { query, teams, zone, limit, is_ranked, with_deleted } = request;
    let query = resolved(archive, index, &teams, query, &zone, with_deleted).await?;
    let asked = IndexQuery::of(&query, &teams);
    let mut shown = ShownHits::new(archive, teams, query);
    let mut read = 0;
    if is_ranked {
        let best = index.best(&asked, MAX_READ).await?;
        let mut rest = &best[..];
        while shown.hits.len() < limit && !rest.is_empty() {
            let (page, others) = rest.split_at(page_size(limit - shown.hits.len()).min(rest.len()));
            shown.add(page, limit).await?;
            rest = others;
        }
        return Ok(shown.answer(false));
    }
    let mut before = None;
    while shown.hits.len() < limit && read < MAX_READ {
        let page = index.newest(&asked, before, page_size(limit - shown.hits.len())).await?;
        let Some(last) = page.last() else { return Ok(shown.answer(false)) };
        before = Some(last.id);
        read += page.len();
        shown.add(&page, limit).await?;
    }
    let is_cut = shown.hits.len() < limit;
    Ok(shown.answer(is_cut))
}

/// The query with the names of the last minute; with those of now if one of them is unknown.
async fn resolved(
    archive: &dyn Archive,
    index: &SearchIndex,
    teams: &[TeamId],
    query: SearchQuery,
    zone: &TimeZone,
    with_deleted: bool,
) -> Result<ResolvedQuery, SearchError> {
    if !query.asks_for_names() {
        let known = KnownNames::default();
        return Ok(resolve::resolve(archive, teams, &known, query, zone, with_deleted).await?);
    }
    let known = index.names.recent(archive, teams).await?;
    match resolve::resolve(archive, teams, &known, query.clone(), zone, with_deleted).await {
        Err(error) if error.is_unknown_name() => {}
        resolved => return Ok(resolved?),
    }
    let known = index.names.reread(archive, teams).await?;
    Ok(resolve::resolve(archive, teams, &known, query, zone, with_deleted).await?)
}

fn page_size(wanted: usize) -> usize {
    wanted.clamp(SMALLEST_PAGE, PAGE)
}

/// The hits so far, and what was looked up for them.
struct ShownHits<'a> {
    archive: &'a dyn Archive,
    teams: Vec<TeamId>,
    query: ResolvedQuery,
    asks_for_replies: bool,
    names: DisplayNames<'a>,
    workspaces: BTreeMap<TeamId, (WorkspaceChannels, WorkspaceFacts)>,
    channels: BTreeMap<ChannelOfTeam, HitChannel<'a>>,
    seen: BTreeSet<(Option<ChannelOfTeam>, String)>,
    hits: Vec<SearchHit>,
}

struct HitChannel<'a> {
    joined: JoinedChannel<'a>,
    name: Option<String>,
    is_private: bool,
    base_url: Option<String>,
}

/// A row that the index found, and the text that is read in it.
struct FoundMessage {
    place: ChannelOfTeam,
    ts: Ts,
    message: Value,
    said: MessageText,
}

impl<'a> ShownHits<'a> {
    fn new(archive: &'a dyn Archive, teams: Vec<TeamId>, query: ResolvedQuery) -> Self {
        let asks_for_replies = query.terms.iter().any(|term| {
            matches!(term.condition, ResolvedCondition::HasReplies | ResolvedCondition::InThread)
        });
        Self {
            archive,
            names: DisplayNames::in_teams(archive, teams.clone()),
            teams,
            query,
            asks_for_replies,
            workspaces: BTreeMap::new(),
            channels: BTreeMap::new(),
            seen: BTreeSet::new(),
            hits: Vec::new(),
        }
    }

    fn answer(self, is_cut: bool) -> SearchAnswer {
        SearchAnswer { hits: self.hits, is_cut }
    }

    /// Reads messages from the archive, and keeps those that fit, up to `limit`.
    async fn add(&mut self, page: &[IndexHit], limit: usize) -> Result<(), SearchError> {
        for hit in page {
            self.learn_channel(&hit.place).await?;
        }
        let found = self.read(page).await?;
        let texts: Vec<&MessageText> = found.iter().map(|found| &found.said).collect();
        self.names.learn(texts).await?;
        for found in found {
            if self.hits.len() >= limit {
                return Ok(());
            }
            let document = document::of(&found.message, &found.said, &self.names);
            if self.fits(&found, &document).await? {
                let hit = self.shown(found, document);
                self.hits.push(hit);
            }
        }
        Ok(())
    }

    async fn learn_channel(&mut self, place: &ChannelOfTeam) -> Result<(), SearchError> {
        // What is of another workspace is in no channel that is learned, and is not read.
        if self.channels.contains_key(place) || !self.teams.contains(&place.team) {
            return Ok(());
        }
        let joined = find::joined(self.archive, place, &self.teams).await?;
        let main = joined.main();
        if !self.workspaces.contains_key(&main.team) {
            let channels = directory::read(self.archive, &main.team).await?;
            let workspace = directory::workspace(self.archive, &main.team).await?;
            self.workspaces.insert(main.team.clone(), (channels, workspace));
        }
        let known = self.workspaces.get(&main.team);
        let name = known.and_then(|(channels, _)| channels.name(&main.channel)).map(str::to_owned);
        let base_url = known.and_then(|(_, workspace)| workspace.base_url.clone());
        let snapshot = main.newest(self.archive).await?;
        let is_private = snapshot.is_some_and(|snapshot| snapshot["visibility"] == "private");
        self.channels.insert(place.clone(), HitChannel { joined, name, is_private, base_url });
        Ok(())
    }

    /// The messages as all places of their channels have them, each once.
    async fn read(&mut self, page: &[IndexHit]) -> Result<Vec<FoundMessage>, SearchError> {
        let mut wanted: Vec<(ChannelOfTeam, Ts, Vec<ItemKey>)> = Vec::new();
        for hit in page {
            let Some(channel) = self.channels.get(&hit.place) else { continue };
            // The main place is the one that was found, in each workspace that shares the channel another one.
            let first = channel.joined.places().iter().min().cloned();
            if self.seen.insert((first, hit.ts.to_string())) {
                let keys = channel.joined.places().iter().map(|place| place.message(&hit.ts)).collect();
                wanted.push((hit.place.clone(), hit.ts.clone(), keys));
            }
        }
        let keys: Vec<&ItemKey> = wanted.iter().flat_map(|(_, _, keys)| keys).collect();
        let mut rows = self.archive.get_all(&keys).await?.into_iter();
        let mut found = Vec::with_capacity(wanted.len());
        for (place, ts, keys) in wanted {
            let rows: Vec<_> = rows.by_ref().take(keys.len()).flatten().collect();
            let Some(merged) = merge::messages(rows).filter(|merged| !merged.row.is_erased()) else {
                continue;
            };
            if let Some(message) = project::message(&merged.row) {
                let said = text::read(&message);
                found.push(FoundMessage { place, ts, message, said });
            }
        }
        Ok(found)
    }

    async fn fits(&self, found: &FoundMessage, document: &SearchDocument) -> Result<bool, SearchError> {
        if !self.query.with_deleted && found.message["deleted"] == true {
            return Ok(false);
        }
        let Some(channel) = self.channels.get(&found.place) else { return Ok(false) };
        let has_replies = self.asks_for_replies && has_replies(&channel.joined, &found.ts).await?;
        let places = channel.joined.places();
        Ok(matching::fits(&self.query, &MatchCandidate { document, places, ts: &found.ts, has_replies }))
    }

    fn shown(
        &self,
        FoundMessage { place, ts, message, said }: FoundMessage,
        document: SearchDocument,
    ) -> SearchHit {
        let channel = self.channels.get(&place);
        let place = channel.map_or(place, |channel| channel.joined.main().clone());
        let thread_ts = thread::root_ts(&message);
        let base_url = channel.and_then(|channel| channel.base_url.as_deref());
        let permalink = permalink::of(base_url, &place.channel, &ts, thread_ts.as_ref());
        let author = self.names.author(&said.author);
        let snippet = matching::snippet(&self.query, &document.text);
        let channel_name = channel.and_then(|channel| channel.name.clone());
        SearchHit {
            place,
            channel_name,
            is_private: channel.is_some_and(|channel| channel.is_private),
            ts,
            thread_ts,
            message,
            author,
            text: document.text,
            snippet,
            permalink,
        }
    }
}

async fn has_replies(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<bool, ArchiveError> {
    let mut rows = thread::replies(channel, ts);
    while let Some(page) = rows.next().await? {
        if page.iter().any(|reply| reply["deleted"] != true) {
            return Ok(true);
        }
    }
    Ok(false)
}
