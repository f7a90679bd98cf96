//! Answers a query: reads the candidates of the index from the archive and compares them with the query.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ItemKey};
use reader::access::HiddenChannels;
use reader::directory::{self, WorkspaceChannels, WorkspaceFacts};
use reader::find;
use reader::joined::{ChannelOfTeam, JoinedChannel};
use reader::names::DisplayNames;
use reader::permalink;
use reader::search::document::{self, SearchDocument};
use reader::search::matching::{self, MatchCandidate, SnippetPart};
use reader::search::query::SearchQuery;
use reader::search::resolve::{ResolvedCondition, ResolvedQuery};
use reader::text::{self, MessageText};
use reader::thread;
use rules::file::canvas_text::CanvasText;
use rules::view::MessageView;
use rules::{merge, project};
use slack::ids::{FileId, TeamId, Ts};

use crate::canvases;
pub use crate::error::SearchError;
use crate::expression::IndexQuery;
use crate::index::{IndexHit, SearchIndex};
use crate::names::NameSource;

/// Maximum and minimum number of messages per read from the archive. Most candidates match, so a read
/// requests only as many as are missing.
const PAGE: usize = 64;
const SMALLEST_PAGE: usize = 16;

/// Maximum number of messages that a search reads. Only queries that the index cannot narrow down reach it,
/// such as a query that only excludes words.
const MAX_READ: usize = 100_000;

#[derive(Debug, Clone)]
pub struct SearchRequest {
    pub query: SearchQuery,
    pub teams: Vec<TeamId>,
    /// The time zone of the query's days.
    pub zone: TimeZone,
    /// The maximum number of hits.
    pub limit: usize,
    /// Whether the best of the newest 10,000 hits come first; otherwise the newest come first.
    pub is_ranked: bool,
    /// Whether to include deleted messages.
    pub with_deleted: bool,
    /// Only the hits after this position of an earlier answer, newest first.
    pub before: Option<i64>,
    /// The channels that the archive of this search does not have. The index has their messages too.
    pub hidden: Arc<HiddenChannels>,
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchAnswer {
    /// The hits, in the requested order.
    pub hits: Vec<SearchHit>,
    /// Whether the search stopped early and there may be more hits, because too few of too many messages
    /// match.
    pub is_truncated: bool,
    /// The position after which a search that stopped early continues.
    pub next: Option<i64>,
}

/// A matching message, with its current content in the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// Its position: [`SearchRequest::before`] continues after it.
    pub position: i64,
    /// The current location of its channel.
    pub location: ChannelOfTeam,
    pub channel_name: Option<String>,
    /// Whether the channel is private now.
    pub is_private: bool,
    /// When it was written.
    pub ts: Ts,
    /// The root of its thread, if it is in one.
    pub thread_ts: Option<Ts>,
    /// The message as returned by [`rules::project::message`].
    pub message: MessageView,
    /// The author's name.
    pub author: String,
    /// The text as people read it.
    pub text: String,
    /// The part around the first match.
    pub snippet: Vec<SnippetPart>,
    /// The link to the message or the canvas in Slack.
    pub permalink: String,
    /// The canvas that matches, if the message that shares it does not: `text` is its name then.
    pub canvas: Option<FileId>,
}

/// Answers a query.
pub async fn search(
    archive: &dyn Archive,
    index: &SearchIndex,
    request: SearchRequest,
) -> Result<SearchAnswer, SearchError> {
    Ok(search_and_count(archive, index, request, 0).await?.0)
}

/// Answers a query, and counts the messages of the index that may match, up to `max`. Nearly all of them do. Nothing
/// is counted if the answer has all of them, or if the index fails meanwhile.
pub async fn search_and_count(
    archive: &dyn Archive,
    index: &SearchIndex,
    request: SearchRequest,
    max: usize,
) -> Result<(SearchAnswer, Option<u64>), SearchError> {
    let SearchRequest { query, teams, zone, limit, is_ranked, with_deleted, before, hidden } = request;
    let names = NameSource { index, archive, teams: &teams, hidden: &hidden };
    let query = names.resolved(query, &zone, with_deleted).await?;
    let index_query = IndexQuery::new(&query, &teams, hidden);
    let hits = ShownHits::new(archive, teams, query);
    let answer = if is_ranked {
        hits.best(index, &index_query, limit).await?
    } else {
        hits.newest(index, &index_query, before, limit).await?
    };
    let has_all = answer.hits.len() < limit && !answer.is_truncated;
    let count = if max == 0 || has_all { None } else { index.count_matches(&index_query, max).await.ok() };
    Ok((answer, count))
}

fn page_size(missing: usize) -> usize {
    missing.clamp(SMALLEST_PAGE, PAGE)
}

/// The hits so far, and caches of the names and channels for them.
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

/// A message that the index found, with its content.
struct FoundMessage {
    hit: IndexHit,
    message: MessageView,
    content: MessageText,
    canvases: Vec<CanvasText>,
    /// Whether it is a message, and not the canvas of a channel.
    is_message: bool,
}

/// The part of a message that matches a query.
enum MatchingPart<'f> {
    Message,
    Canvas(&'f CanvasText),
}

impl<'a> ShownHits<'a> {
    fn new(archive: &'a dyn Archive, teams: Vec<TeamId>, query: ResolvedQuery) -> Self {
        let asks_for_replies = query.terms.iter().any(|term| {
            matches!(term.condition, ResolvedCondition::HasReplies | ResolvedCondition::InThread)
        });
        Self {
            archive,
            names: DisplayNames::for_teams(archive, teams.clone()),
            teams,
            query,
            asks_for_replies,
            workspaces: BTreeMap::new(),
            channels: BTreeMap::new(),
            seen: BTreeSet::new(),
            hits: Vec::new(),
        }
    }

    /// Reads the best of the messages that the index found.
    async fn best(
        mut self,
        index: &SearchIndex,
        query: &IndexQuery,
        limit: usize,
    ) -> Result<SearchAnswer, SearchError> {
        let best = index.best(query, MAX_READ).await?;
        let mut rest = &best[..];
        while self.hits.len() < limit && !rest.is_empty() {
            let (page, others) = rest.split_at(page_size(limit - self.hits.len()).min(rest.len()));
            self.add(page, limit).await?;
            rest = others;
        }
        Ok(self.answer(None))
    }

    /// Reads the newest of the messages that the index found, before a position.
    async fn newest(
        mut self,
        index: &SearchIndex,
        query: &IndexQuery,
        mut before: Option<i64>,
        limit: usize,
    ) -> Result<SearchAnswer, SearchError> {
        let mut read = 0;
        while self.hits.len() < limit && read < MAX_READ {
            let page = index.newest(query, before, page_size(limit - self.hits.len())).await?;
            let Some(last) = page.last() else { return Ok(self.answer(None)) };
            before = Some(last.id);
            read += page.len();
            self.add(&page, limit).await?;
        }
        let is_cut = self.hits.len() < limit;
        Ok(self.answer(before.filter(|_| is_cut)))
    }

    fn answer(self, next: Option<i64>) -> SearchAnswer {
        SearchAnswer { hits: self.hits, is_truncated: next.is_some(), next }
    }

    /// Reads messages from the archive and keeps the matching ones, up to `limit`.
    async fn add(&mut self, page: &[IndexHit], limit: usize) -> Result<(), SearchError> {
        self.learn_channels(page).await?;
        let found = self.read(page).await?;
        let texts: Vec<&MessageText> = found.iter().map(|found| &found.content).collect();
        self.names.learn(texts).await?;
        for found in found {
            if self.hits.len() >= limit {
                return Ok(());
            }
            let own = document::search_document(&found.message, &found.content, &self.names);
            let canvas = match self.matching_part(&found, &own).await? {
                Some(MatchingPart::Message) => None,
                Some(MatchingPart::Canvas(canvas)) => Some(canvas.clone()),
                None => continue,
            };
            let hit = self.shown(found, own, canvas);
            self.hits.push(hit);
        }
        Ok(())
    }

    async fn learn_channels(&mut self, page: &[IndexHit]) -> Result<(), SearchError> {
        // A message of another workspace has no known channel, so it is not read.
        let is_new = |location: &&ChannelOfTeam| {
            !self.channels.contains_key(*location) && self.teams.contains(&location.team)
        };
        let new: BTreeSet<&ChannelOfTeam> = page.iter().map(|hit| &hit.location).filter(is_new).collect();
        let new: Vec<ChannelOfTeam> = new.into_iter().cloned().collect();
        let joined = find::joined_channels(self.archive, new.clone(), &self.teams).await?;
        for (location, (joined, is_private)) in new.into_iter().zip(joined) {
            let main = joined.current_location();
            if !self.workspaces.contains_key(&main.team) {
                let channels = directory::read(self.archive, &main.team).await?;
                let workspace = directory::read_workspace_facts(self.archive, &main.team).await?;
                self.workspaces.insert(main.team.clone(), (channels, workspace));
            }
            let known = self.workspaces.get(&main.team);
            let name = known.and_then(|(channels, _)| channels.name(&main.channel)).map(str::to_owned);
            let base_url = known.and_then(|(_, workspace)| workspace.base_url.clone());
            self.channels.insert(location, HitChannel { joined, name, is_private, base_url });
        }
        Ok(())
    }

    /// Reads the messages, each merged once from all locations of its channel.
    async fn read(&mut self, page: &[IndexHit]) -> Result<Vec<FoundMessage>, SearchError> {
        let mut pending: Vec<(&IndexHit, Vec<ItemKey>)> = Vec::new();
        for hit in page {
            let Some(channel) = self.channels.get(&hit.location) else { continue };
            // The main location depends on the one that was found, so the least one identifies the channel.
            let first = channel.joined.locations().iter().min().cloned();
            if self.seen.insert((first, hit.ts.to_string())) {
                let keys =
                    channel.joined.locations().iter().map(|location| location.message(&hit.ts)).collect();
                pending.push((hit, keys));
            }
        }
        let keys: Vec<&ItemKey> = pending.iter().flat_map(|(_, keys)| keys).collect();
        let mut rows = self.archive.get_all(&keys).await?.into_iter();
        let mut found = Vec::with_capacity(pending.len());
        for (hit, keys) in pending {
            let rows: Vec<_> = rows.by_ref().take(keys.len()).flatten().collect();
            let Some(merged) = merge::messages(rows).filter(|merged| !merged.row.is_erased()) else {
                continue;
            };
            let message = project::message(&merged.row);
            let is_message = message.is_some();
            if let Some(message) = message.or_else(|| project::canvas_of_channel(&merged.row)) {
                let content = text::read(&message, &document::SEARCHED_ZONE);
                let teams = self.channels.get(&hit.location).map(|channel| channel.joined.locations());
                let teams = teams.into_iter().flatten().map(|location| &location.team).collect();
                let canvases = canvases::read(self.archive, &teams, &merged.row).await?;
                if is_message || !canvases.is_empty() {
                    let hit = hit.clone();
                    found.push(FoundMessage { hit, message, content, canvases, is_message });
                }
            }
        }
        Ok(found)
    }

    /// The part of a message that matches: its own words, or otherwise the first canvas with which it does.
    /// `None` if it does not match with all its canvases.
    async fn matching_part<'f>(
        &self,
        found: &'f FoundMessage,
        own: &SearchDocument,
    ) -> Result<Option<MatchingPart<'f>>, SearchError> {
        let Some(first) = found.canvases.first() else {
            return Ok(self.fits(found, own).await?.then_some(MatchingPart::Message));
        };
        let with = |canvases: &[CanvasText]| {
            let mut document = own.clone();
            canvases::add(&mut document, canvases);
            document
        };
        if !self.fits(found, &with(&found.canvases)).await? {
            return Ok(None);
        }
        if found.is_message && self.fits(found, own).await? {
            return Ok(Some(MatchingPart::Message));
        }
        for canvas in &found.canvases {
            if self.fits(found, &with(std::slice::from_ref(canvas))).await? {
                return Ok(Some(MatchingPart::Canvas(canvas)));
            }
        }
        Ok(Some(MatchingPart::Canvas(first)))
    }

    async fn fits(&self, found: &FoundMessage, document: &SearchDocument) -> Result<bool, SearchError> {
        if !self.query.with_deleted && found.message.is_deleted() {
            return Ok(false);
        }
        let Some(channel) = self.channels.get(&found.hit.location) else { return Ok(false) };
        let has_replies = self.asks_for_replies && has_replies(&channel.joined, &found.hit.ts).await?;
        let locations = channel.joined.locations();
        Ok(matching::matches_query(
            &self.query,
            &MatchCandidate { document, locations, ts: &found.hit.ts, has_replies },
        ))
    }

    fn shown(
        &self,
        FoundMessage { hit: IndexHit { id: position, location, ts }, message, content, .. }: FoundMessage,
        document: SearchDocument,
        canvas: Option<CanvasText>,
    ) -> SearchHit {
        let channel = self.channels.get(&location);
        let location = channel.map_or(location, |channel| channel.joined.current_location().clone());
        let thread_ts = message.root_ts();
        let base_url = channel.and_then(|channel| channel.base_url.as_deref());
        let permalink = match &canvas {
            Some(canvas) => permalink::canvas_permalink(base_url, &location.team, &canvas.file),
            None => permalink::message_permalink(base_url, &location.channel, &ts, thread_ts.as_ref()),
        };
        let author = self.names.author(&content.author);
        let snippet = match &canvas {
            Some(canvas) => matching::snippet_of_text(&self.query, &canvas.text),
            None => {
                let text = document::text_without_signs(&message, &content, &self.names);
                matching::snippet(&self.query, &text, &document.notification)
            }
        };
        let (text, canvas) = match canvas {
            Some(canvas) => (canvas.name, Some(canvas.file)),
            None => (document.text, None),
        };
        let channel_name = channel.and_then(|channel| channel.name.clone());
        SearchHit {
            position,
            location,
            channel_name,
            is_private: channel.is_some_and(|channel| channel.is_private),
            ts,
            thread_ts,
            message,
            author,
            text,
            snippet,
            permalink,
            canvas,
        }
    }
}

async fn has_replies(channel: &JoinedChannel<'_>, ts: &Ts) -> Result<bool, ArchiveError> {
    let mut rows = thread::replies(channel, ts);
    while let Some(page) = rows.next().await? {
        if !page.iter().all(MessageView::is_deleted) {
            return Ok(true);
        }
    }
    Ok(false)
}
