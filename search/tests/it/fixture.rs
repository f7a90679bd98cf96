//! An archive on disk and its index.

use std::path::PathBuf;
use std::sync::Arc;

use embedded::Database;
use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveExt, ItemKey, Update, key};
use ports::changes::Changes;
use ports::clock::SystemClock;
use reader::search::query::SearchQuery;
use rules::history;
use search::follower;
use search::hits::{self, SearchAnswer, SearchHit, SearchRequest};
use search::index::SearchIndex;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use workers::store::store_history;

pub(crate) fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

/// A folder that is removed when this is dropped.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) changes: Arc<dyn Changes>,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), SystemClock::shared()).unwrap();
        let fixture = Self { folder, archive: database.archive(), changes: database.changes() };
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

    /// Stores messages as Slack's history lists them.
    pub(crate) async fn store(&self, channel: &str, messages: &[Value]) {
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

    /// The index, with everything that the archive has.
    pub(crate) async fn caught_up(&self) -> SearchIndex {
        let index = self.index().await;
        let (changes, archive) = (&*self.changes, &*self.archive);
        assert!(follower::catch_up(&index, changes, archive, follower::BATCH, |_| true).await.unwrap());
        index
    }

    pub(crate) async fn answer(&self, index: &SearchIndex, request: SearchRequest) -> SearchAnswer {
        hits::search(&*self.archive, index, request).await.unwrap()
    }

    pub(crate) async fn hits(&self, index: &SearchIndex, query: &str) -> Vec<SearchHit> {
        self.answer(index, request(query)).await.hits
    }

    /// The timestamps of everything that is found.
    pub(crate) async fn found(&self, index: &SearchIndex, query: &str) -> Vec<String> {
        self.hits(index, query).await.iter().map(|hit| hit.ts.to_string()).collect()
    }
}

/// A search without bounds, in UTC.
pub(crate) fn request(query: &str) -> SearchRequest {
    SearchRequest {
        query: SearchQuery::parse(query).unwrap_or_else(|error| panic!("{query}: {error}")),
        teams: vec![team()],
        zone: TimeZone::UTC,
        limit: usize::MAX,
        is_ranked: false,
        with_deleted: false,
    }
}

pub(crate) fn message(ts: &str, text: &str) -> Value {
    json!({ "type": "message", "ts": ts, "user": "U1", "text": text })
}
        self.store_in(&team(), channel, messages).await;
    }

    /// The same in another workspace.
    pub(crate) async fn store_in(&self, team: &TeamId, channel: &str, messages: &[Value]) {
