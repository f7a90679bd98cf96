//! Fixture: an archive and its index.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use embedded::Database;
use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ArchiveExt, Item, ItemKey, Update, key};
use ports::changes::{ChangeBatch, ChangeCursor, ChangedSpan, Changes};
use ports::clock::SystemClock;
use reader::search::query::SearchQuery;
use rules::history;
use search::follower;
use search::hits::{self, SearchAnswer, SearchHit, SearchRequest};
use search::index::SearchIndex;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use tempfile::TempDir;
use testkit::memory::archive::MemoryArchive;
use workers::store::store_history;

pub(crate) fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

/// Reports changes like the archive on AWS: first one channel after another, then changed days of channels.
pub(crate) struct DailyChanges(Arc<MemoryArchive>);

impl DailyChanges {
    async fn rows(&self, cursor: Option<&ChangeCursor>, limit: usize) -> (Vec<Item>, ChangeCursor) {
        match self.0.since(cursor, limit).await.unwrap() {
            ChangeBatch::Items { items, next } => (items, next),
            other @ (ChangeBatch::Spans { .. } | ChangeBatch::Rebuild) => panic!("{other:?}"),
        }
    }
}

#[async_trait]
impl Changes for DailyChanges {
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError> {
        let first_pass =
            cursor.map_or(Some("0|"), |cursor| Some(cursor.as_str()).filter(|text| text.contains('|')));
        let mut cursor = cursor.cloned();
        if let Some((number, begin)) = first_pass.and_then(|pass| pass.split_once('|')) {
            let (rows, end) = self.rows(None, 1_000_000).await;
            let begin = if begin.is_empty() { end } else { ChangeCursor::new(begin) };
            let number: usize = number.parse().unwrap();
            let days = rows.iter().map(|row| ChangedSpan::for_row(&row.key).unwrap());
            let channels: BTreeSet<_> = days.map(|day| (day.team, day.channel)).collect();
            if let Some((team, channel)) = channels.into_iter().nth(number) {
                let next = ChangeCursor::new(format!("{}|{}", number + 1, begin.as_str()));
                return Ok(ChangeBatch::Spans { spans: vec![ChangedSpan::whole(team, channel)], next });
            }
            cursor = Some(begin);
        }
        let (rows, next) = self.rows(cursor.as_ref(), limit).await;
        let days: BTreeSet<_> = rows.iter().map(|row| ChangedSpan::for_row(&row.key).unwrap()).collect();
        Ok(ChangeBatch::Spans { spans: days.into_iter().collect(), next })
    }

    async fn backlog_estimate(&self, _: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        Ok(None)
    }
}

/// An archive and its index in a folder that is removed on drop.
pub(crate) struct SearchFixture {
    folder: TempDir,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) changes: Arc<dyn Changes>,
}

impl SearchFixture {
    /// Opens an embedded archive, which reports changed rows.
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        Self::new(folder, database.archive(), database.changes()).await
    }

    /// Creates an archive that reports changed days of channels.
    pub(crate) async fn by_day() -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let changes = Arc::new(DailyChanges(Arc::clone(&archive)));
        Self::new(tempfile::tempdir().unwrap(), archive, changes).await
    }

    async fn new(folder: TempDir, archive: Arc<dyn Archive>, changes: Arc<dyn Changes>) -> Self {
        let fixture = Self { folder, archive, changes };
        fixture.put(ItemKey::team(&team()), json!({})).await;
        fixture
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("index.db")
    }

    pub(crate) async fn put(&self, key: ItemKey, set: Value) {
        let set: Map<String, Value> = set.as_object().unwrap().clone();
        self.archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
    }

    pub(crate) async fn person(&self, id: &str, name: &str) {
        let key = ItemKey::user(&team(), &UserId::parse(id).unwrap());
        self.put(key, json!({ "user_id": id, "display_name": name })).await;
    }

    pub(crate) async fn channels(&self, names: &[(&str, &str)]) {
        let map: Map<String, Value> =
            names.iter().map(|(id, name)| ((*id).to_owned(), json!(name))).collect();
        self.put(ItemKey::new(key::channel_index(&team()), "0"), json!({ "channels_map": map })).await;
    }

    /// Stores messages in the format of Slack's history.
    pub(crate) async fn store(&self, channel: &str, messages: &[Value]) {
        self.store_in(&team(), channel, messages).await;
    }

    /// Stores messages in a workspace.
    pub(crate) async fn store_in(&self, team: &TeamId, channel: &str, messages: &[Value]) {
        let channel = ChannelId::parse(channel).unwrap();
        let read = |message: &Value| history::read(team, &channel, &to_raw_value(message).unwrap()).unwrap();
        let messages: Vec<_> = messages.iter().map(read).collect();
        for stored in store_history(&*self.archive, &messages).await {
            stored.unwrap();
        }
    }

    /// Erases a message of the channel `C1`.
    pub(crate) async fn erase(&self, ts: &str) {
        let key = ItemKey::message(&team(), &ChannelId::parse("C1").unwrap(), &Ts::parse(ts).unwrap());
        self.put(key, json!({ "erased": true })).await;
    }

    pub(crate) async fn index(&self) -> SearchIndex {
        SearchIndex::open(&self.file()).await.unwrap()
    }

    /// Opens the index and catches up with the archive.
    pub(crate) async fn caught_up(&self) -> SearchIndex {
        let index = self.index().await;
        let (changes, archive) = (&*self.changes, &*self.archive);
        assert!(follower::catch_up(&index, changes, archive, follower::BATCH_SIZE, |_| true).await.unwrap());
        index
    }

    pub(crate) async fn answer(&self, index: &SearchIndex, request: SearchRequest) -> SearchAnswer {
        hits::search(&*self.archive, index, request).await.unwrap()
    }

    pub(crate) async fn hits(&self, index: &SearchIndex, query: &str) -> Vec<SearchHit> {
        self.answer(index, request(query)).await.hits
    }

    /// Returns the timestamps of all hits.
    pub(crate) async fn found(&self, index: &SearchIndex, query: &str) -> Vec<String> {
        self.hits(index, query).await.iter().map(|hit| hit.ts.to_string()).collect()
    }
}

/// Returns a request without a limit, in UTC.
pub(crate) fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: SearchQuery::parse(query).unwrap_or_else(|error| panic!("{query}: {error}")),
        teams: vec![team()],
        zone: TimeZone::UTC,
        limit: usize::MAX,
        is_ranked: false,
        with_deleted: false,
        before: None,
        hidden: Arc::default(),
    }
}

pub(crate) fn message(ts: &str, text: &str) -> Value {
    json!({ "type": "message", "ts": ts, "user": "U1", "text": text })
}
