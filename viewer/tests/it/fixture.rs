//! Fixture: an archive on disk that is filled by events, and its pages.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use embedded::Database;
use http_body_util::BodyExt;
use jiff::tz::TimeZone;
use ports::archive::{Archive, ArchiveError, ArchiveExt, ItemKey, Update};
use ports::changes::{ChangeBatch, ChangeCursor, Changes};
use ports::clock::{ManualClock, TimestampMs};
use ports::files::FileKey;
use ports::queue::Delivery;
use rules::file::FileObject;
use rules::file::row::{self, Share, StoredBytes};
use rules::file::state::FileState;
use rules::history::proof::{ProvenSpan, VerifiedChannel};
use search::follower::{self, BATCH_SIZE};
use search::index::SearchIndex;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::event;
use testkit::deliveries;
use tower::ServiceExt;
use viewer::Viewer;
use viewer::access::people::PeopleSettings;
use viewer::access::{Access, CookieKey, ViewerAccess};
use viewer::index::IndexSource;
use workers::channel_indexer::ChannelIndexer;
use workers::message_writer::MessageWriter;
use workers::runtime::{JobOutcome, Worker};

/// Noon on a Friday.
pub(crate) const NOW_MS: i64 = 1_795_178_096_000;

pub(crate) struct ViewerFixture {
    folder: tempfile::TempDir,
    database: Database,
    clock: Arc<ManualClock>,
    /// Whether every reader sees the channels that are private now.
    pub(crate) is_private_for_all: bool,
}

/// Changes of which the index has not seen the last ones.
pub(crate) struct LateChanges(pub(crate) Arc<dyn Changes>);

#[async_trait]
impl Changes for LateChanges {
    async fn since(&self, cursor: Option<&ChangeCursor>, limit: usize) -> Result<ChangeBatch, ArchiveError> {
        self.0.since(cursor, limit).await
    }

    async fn backlog_estimate(&self, _: Option<&ChangeCursor>) -> Result<Option<u64>, ArchiveError> {
        Ok(Some(7))
    }
}

/// A complete response.
pub(crate) struct ServedAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl ServedAnswer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl ViewerFixture {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::starting_at(TimestampMs(NOW_MS));
        let database = Database::open(folder.path(), clock.clone()).unwrap();
        Self { folder, database, clock, is_private_for_all: false }
    }

    pub(crate) fn archive(&self) -> Arc<dyn Archive> {
        self.database.archive()
    }

    pub(crate) fn changes(&self) -> Arc<dyn Changes> {
        self.database.changes()
    }

    pub(crate) fn router_for(&self, readers: ViewerAccess) -> Router {
        self.router_with(readers, self.changes())
    }

    pub(crate) fn router_with(&self, readers: ViewerAccess, changes: Arc<dyn Changes>) -> Router {
        self.router_admitting(readers, PeopleSettings::default(), changes)
    }

    pub(crate) fn router_admitting(
        &self,
        readers: ViewerAccess,
        people: PeopleSettings,
        changes: Arc<dyn Changes>,
    ) -> Router {
        let index = IndexSource {
            file: self.folder.path().join("index.db"),
            changes,
            poll_interval: Duration::ZERO,
            batch_size: BATCH_SIZE,
        };
        viewer::router(Viewer {
            archive: self.archive(),
            files: self.database.files(),
            index,
            clock: self.clock.clone(),
            zone: TimeZone::UTC,
            access: Access::new(
                "127.0.0.1:3002".parse().unwrap(),
                &[],
                readers,
                people,
                &CookieKey::new([7; 32]),
            ),
            is_private_for_all: self.is_private_for_all,
            has_live: true,
            logs_access: true,
            programs: Router::new(),
        })
    }

    pub(crate) fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Stores a person as Slack describes them at this time.
    pub(crate) async fn account(&self, user: &str, event_ts: &str, fields: Value) {
        let mut user = json!({ "id": user, "name": user });
        user.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.write(&json!({ "type": "user_change", "event_ts": event_ts, "user": user })).await;
    }

    pub(crate) fn router(&self) -> Router {
        self.router_for(ViewerAccess::All)
    }

    /// Requests a page and returns its body; the page must exist.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    pub(crate) async fn get(&self, path: &str) -> ServedAnswer {
        send_request(self.router(), Method::GET, path, &[("host", "localhost:3002")], "").await
    }

    /// Returns the target of a path's redirect.
    pub(crate) async fn redirect_target(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}: {}", answer.body);
        answer.header("location").to_owned()
    }

    pub(crate) async fn post(&self, channel: &str, ts: &str, text: &str) {
        self.message(channel, json!({ "ts": ts, "text": text })).await;
    }

    pub(crate) async fn reply(&self, channel: &str, ts: &str, root_ts: &str, text: &str) {
        self.message(channel, json!({ "ts": ts, "thread_ts": root_ts, "text": text })).await;
    }

    /// Stores a message of a person with these fields.
    pub(crate) async fn message(&self, channel: &str, fields: Value) {
        self.messages(channel, &[fields]).await;
    }

    /// Stores several messages.
    pub(crate) async fn messages(&self, channel: &str, all: &[Value]) {
        let event = |fields: &Value| {
            let mut event = json!({ "type": "message", "channel": channel, "channel_type": "channel", "user": "U1",
                "event_ts": fields["ts"] });
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            delivery(&event)
        };
        let writer = MessageWriter::new(self.archive(), self.database.queue());
        for chunk in all.chunks(500) {
            let deliveries: Vec<Delivery> = chunk.iter().map(event).collect();
            assert!(writer.handle(&deliveries).await.iter().all(|outcome| *outcome == JobOutcome::Done));
        }
    }

    pub(crate) async fn edit(&self, channel: &str, ts: &str, edited_ts: &str, text: &str) {
        let after = json!({ "type": "message", "user": "U1", "text": text, "ts": ts,
            "edited": { "user": "U1", "ts": edited_ts } });
        self.write(&json!({ "type": "message", "subtype": "message_changed", "channel": channel,
            "channel_type": "channel", "ts": edited_ts, "event_ts": edited_ts, "message": after }))
            .await;
    }

    pub(crate) async fn delete(&self, channel: &str, ts: &str, clock: &str) {
        self.write(&json!({ "type": "message", "subtype": "message_deleted", "channel": channel,
            "channel_type": "channel", "ts": clock, "event_ts": clock, "deleted_ts": ts }))
            .await;
    }

    pub(crate) async fn person(&self, user: &str, name: &str) {
        self.write(&json!({ "type": "user_change", "event_ts": "1700000001.000000",
            "user": { "id": user, "name": user, "profile": { "display_name": name } } }))
            .await;
    }

    /// Stores a person with a picture.
    pub(crate) async fn person_with_picture(&self, user: &str, name: &str, hash: &str) {
        let url = "https://avatars.example/a.png";
        self.write(&json!({ "type": "user_change", "event_ts": "1700000001.000000",
            "user": { "id": user, "name": user, "profile": { "display_name": name, "image_192": url } } }))
            .await;
        let (team, user) = (TeamId::parse("T1").unwrap(), UserId::parse(user).unwrap());
        let mut update = Update::new(ItemKey::user(&team, &user));
        let picture = format!("image#{}", ports::files::key::image_hash(url));
        update.set.insert(picture, format!("slack/T1/images/{hash}").into());
        self.archive().write(&update).await.unwrap();
    }

    pub(crate) async fn react(&self, channel: &str, ts: &str, name: &str, user: &str) {
        self.write(&json!({ "type": "reaction_added", "user": user, "reaction": name, "event_ts": "1795000000.000000",
            "item": { "type": "message", "channel": channel, "ts": ts } }))
            .await;
    }

    pub(crate) async fn channel(&self, channel: &str, name: &str) {
        self.index(&event::channel_created(channel, name, "1700000001.000000")).await;
    }

    pub(crate) async fn channel_event(&self, kind: &str, channel: &str) {
        self.index(&json!({ "type": kind, "channel": channel, "event_ts": "1700000002.000000" })).await;
    }

    async fn write(&self, event: &Value) {
        let writer = MessageWriter::new(self.archive(), self.database.queue());
        assert_eq!(writer.handle(&[delivery(event)]).await, [JobOutcome::Done]);
    }

    pub(crate) async fn index(&self, event: &Value) {
        self.index_in("T1", event).await;
    }

    /// Indexes an event of a channel in a workspace.
    pub(crate) async fn index_in(&self, team: &str, event: &Value) {
        let indexer = ChannelIndexer::new(self.archive(), None);
        assert_eq!(indexer.handle(&[delivery_in(team, event)]).await, [JobOutcome::Done]);
    }

    pub(crate) async fn index_messages(&self) {
        let index = SearchIndex::open(&self.folder.path().join("index.db")).await.unwrap();
        let (changes, archive) = (self.changes(), self.archive());
        assert!(follower::catch_up(&index, &*changes, &*archive, BATCH_SIZE, |_| true).await.unwrap());
    }

    /// Records that a channel was compared with Slack up to a midnight.
    pub(crate) async fn prove(&self, channel: &str, midnight: &str) {
        let ts = |text: &str| Ts::parse(text).unwrap();
        let span = ProvenSpan {
            from: ts("1700000000.000000"),
            through: ts(midnight),
            at: ts(midnight),
            is_whole: true,
            is_archived: false,
        };
        let channel = VerifiedChannel::new(TeamId::parse("T1").unwrap(), ChannelId::parse(channel).unwrap());
        self.archive().write(&channel.prove(&span)).await.unwrap();
    }

    /// Makes the search index unusable.
    pub(crate) fn break_index(&self) {
        std::fs::create_dir(self.folder.path().join("index.db")).unwrap();
    }

    /// Stores a message with a file and its bytes.
    pub(crate) async fn share(&self, channel: &str, ts: &str, file: Value, bytes: &[u8]) {
        self.message(channel, json!({ "ts": ts, "text": "look", "files": [file] })).await;
        let team = TeamId::parse("T1").unwrap();
        let object = FileObject::read(&file).unwrap();
        let share = Share { channel: ChannelId::parse(channel).unwrap(), ts: Ts::parse(ts).unwrap() };
        let key = FileKey::shared(&team, &share.channel, &share.ts, &object.id);
        let mut writer = self.database.files().create(&key).await.unwrap();
        writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        writer.publish().await.unwrap();
        let held = StoredBytes {
            key: key.clone(),
            source: "own".to_owned(),
            size_bytes: bytes.len() as u64,
            sha256: String::new(),
        };
        let archive = self.archive();
        archive.write(&row::seen(&team, &object, Some(&share))).await.unwrap();
        archive.write(&row::stored(&team, &object.id, &held)).await.unwrap();
        let state = FileState::Stored(key);
        archive.write(&row::on_message(&team, &share, &object.id, &state)).await.unwrap();
    }

    /// Stores a version of a canvas that a message shares; its page is its text.
    pub(crate) async fn canvas(&self, share: (&str, &str), file: &str, name: &str, updated: u64, text: &str) {
        let (key, updates) = testkit::canvas::version(share, file, name, updated, text);
        let mut writer = self.database.files().create(&key).await.unwrap();
        writer.write(Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
        writer.publish().await.unwrap();
        for update in &updates {
            self.archive().write(update).await.unwrap();
        }
    }

    /// Stores a picture.
    pub(crate) async fn picture(&self, hash: &str, bytes: &[u8]) {
        let key = FileKey::parse(&format!("slack/T1/images/{hash}")).unwrap();
        let mut writer = self.database.files().create(&key).await.unwrap();
        writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        writer.publish().await.unwrap();
    }

    /// Deletes a file's bytes from the store.
    pub(crate) async fn delete_file_bytes(&self, channel: &str, ts: &str, file: &str) {
        let key = FileKey::parse(&format!("slack/T1/{channel}/{ts}/{file}")).unwrap();
        assert!(self.database.files().delete(&key).await.unwrap());
    }

    pub(crate) async fn emoji(&self, name: &str, value: &str, picture: Option<&str>) {
        let team = TeamId::parse("T1").unwrap();
        let mut set = json!({ "type": "emoji", "team_id": "T1", "name": name, "value": value });
        if let Some(hash) = picture {
            let url = ports::files::key::image_hash(value);
            set[format!("image#{url}")] = format!("slack/T1/images/{hash}").into();
        }
        let set = set.as_object().unwrap().clone();
        let update = Update { set, ..Update::new(ItemKey::emoji(&team, name)) };
        self.archive().write(&update).await.unwrap();
    }
}

fn delivery(event: &Value) -> Delivery {
    delivery_in("T1", event)
}

/// Returns a delivery that was sent after the event's time.
fn delivery_in(team: &str, event: &Value) -> Delivery {
    let delivery = deliveries::delivery(&event::envelope(team, "Ev1", event));
    Delivery { sent_at: TimestampMs(i64::MAX), ..delivery }
}

/// Sends a request and reads the complete response. Invalid UTF-8 in the body is replaced.
pub(crate) async fn send_request(
    router: Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> ServedAnswer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    ServedAnswer { status, headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Returns the values of `data-ts` in a page, in order.
pub(crate) fn timestamps(page: &str) -> Vec<&str> {
    page.split("data-ts=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the address of the first link with this `rel`.
pub(crate) fn link_with_rel(page: &str, rel: &str) -> Option<String> {
    let (_, rest) = page.split_once(&format!("rel=\"{rel}\" href=\""))?;
    Some(rest.split('"').next()?.to_owned())
}
