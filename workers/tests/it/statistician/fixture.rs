//! An archive with a statistician that follows its changes, and a generator of random changes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveExt, Item, ItemKey, Query, Update, key, query_all};
use ports::clock::{Clock, ManualClock, TimestampMs};
use ports::queue::QueueName;
use reader::figures::counting::count_day;
use reader::figures::json;
use reader::figures::making::{ReportScope, ReportSources, make_report};
use reader::figures::period::Period;
use reader::figures::rollups::Rollups;
use reader::figures::stored;
use reader::find;
use reader::joined::ChannelOfTeam;
use rules::figures::rollup::{self, ChannelDay, RollupDay};
use rules::public_mark;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::deliveries;
use testkit::memory::archive::MemoryArchive;
use testkit::memory::queue::MemoryQueue;
use testkit::recount::{RecountRows, RecountScope, assert_recounted_as};
use workers::runtime::{JobOutcome, Ports, Worker};
use workers::statistician::{Statistician, store_report};

pub(super) const CHANNELS: [&str; 3] = ["C1", "C2", "C3"];
/// The last one is an app; the one before it has no user row.
pub(super) const PEOPLE: [&str; 6] = ["U1", "U2", "U3", "U4", "U5", "U6"];
pub(super) const DAY: i64 = 86_400;
/// Monday of 2026-W46.
pub(super) const MONDAY: i64 = 1_794_182_400;
/// Two weeks later, at noon.
const NOW: i64 = MONDAY + 14 * DAY + DAY / 2;

pub(super) fn team() -> TeamId {
    TeamId::parse("T1").unwrap()
}

pub(super) fn channel(id: &str) -> ChannelId {
    ChannelId::parse(id).unwrap()
}

/// A message in the archive.
#[derive(Clone)]
pub(super) struct WrittenMessage {
    pub(super) channel: &'static str,
    pub(super) ts: Ts,
    pub(super) is_reply: bool,
    /// The root, if the message is a reply.
    pub(super) root: Option<Ts>,
}

impl WrittenMessage {
    pub(super) fn key(&self) -> ItemKey {
        ItemKey::message(&team(), &channel(self.channel), &self.ts)
    }

    pub(super) fn day(&self) -> ChannelDay {
        let day = RollupDay::from_ts(&self.ts).unwrap();
        ChannelDay { team: team(), channel: channel(self.channel), day }
    }
}

/// An archive with a statistician that follows its changes, and a generator of random changes.
pub(super) struct StatisticianFixture {
    pub(super) archive: Arc<MemoryArchive>,
    pub(super) queue: Arc<MemoryQueue>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) random: fastrand::Rng,
    pub(super) written: Vec<WrittenMessage>,
}

impl StatisticianFixture {
    pub(super) async fn new(seed: u64) -> Self {
        let clock = ManualClock::starting_at(TimestampMs(NOW * 1_000));
        let queue = Arc::new(MemoryQueue::new(clock.clone()));
        let random = fastrand::Rng::with_seed(seed);
        let fixture = Self { archive: Arc::default(), queue, clock, random, written: Vec::new() };
        fixture.set(ItemKey::team(&team()), json!({ "seen": true })).await;
        for id in CHANNELS {
            fixture.archive.write(&public_mark::opening(&team(), &channel(id))).await.unwrap();
        }
        for (index, id) in PEOPLE.iter().enumerate().filter(|(index, _)| *index != 4) {
            let raw = if index == 2 { json!({ "is_restricted": true }) } else { json!({}) };
            let mut row =
                json!({ "name": id, "tz_offset": (index as i64 - 2) * 2_700, "raw_event": raw.to_string() });
            if index == 3 {
                row["deleted"] = true.into();
            } else {
                row["tz"] = ["Asia/Kathmandu", "Europe/Berlin"][index % 2].into();
            }
            fixture.set(ItemKey::user(&team(), &UserId::parse(id).unwrap()), row).await;
        }
        fixture.set_bot("U6", true).await;
        fixture
    }

    pub(super) async fn with_messages(seed: u64, messages: usize) -> Self {
        let mut fixture = Self::new(seed).await;
        for _ in 0..messages {
            fixture.post().await;
        }
        fixture
    }

    pub(super) async fn set(&self, key: ItemKey, row: Value) {
        let set = row.as_object().cloned().unwrap();
        self.archive.write(&Update { set, ..Update::new(key) }).await.unwrap();
    }

    pub(super) async fn set_bot(&self, id: &str, is_bot: bool) {
        self.set(ItemKey::user(&team(), &UserId::parse(id).unwrap()), json!({ "is_bot": is_bot })).await;
    }

    pub(super) async fn set_name(&self, id: &str, name: &str) {
        self.set(ItemKey::user(&team(), &UserId::parse(id).unwrap()), json!({ "name": name })).await;
    }

    /// Replies to a message today.
    pub(super) async fn reply_now(&self, root: &WrittenMessage) {
        let ts = Ts::parse(&format!("{}.000002", self.clock.now().0 / 1_000)).unwrap();
        let row = json!({ "user": "U3", "text": "late", "thread_ts": root.ts, "raw_event": "{}",
            "parent": key::thread_parent(&team(), &root.ts),
            "content_version": "000000000001.000000/000000000001.000000/x" });
        self.set(ItemKey::message(&team(), &channel(root.channel), &ts), row).await;
    }

    pub(super) fn ports(&self) -> Ports {
        Ports { queue: self.queue.clone(), archive: self.archive.clone(), clock: self.clock.clone() }
    }

    pub(super) fn statistician(&self) -> Statistician {
        Statistician::new(self.ports(), self.archive.clone())
    }

    pub(super) fn statistician_on(&self, archive: Arc<dyn Archive>) -> Statistician {
        Statistician::new(Ports { archive, ..self.ports() }, self.archive.clone())
    }

    /// Handles jobs until the queue is empty.
    pub(super) async fn drain(&self, statistician: &Statistician) {
        self.clock.advance(Duration::from_secs(91));
        loop {
            let are_left = Cell::new(false);
            deliveries::drain(&*self.queue, QueueName::Stats, async |jobs| {
                let outcomes = statistician.handle(jobs).await;
                let are_done: Vec<bool> =
                    outcomes.iter().map(|outcome| *outcome == JobOutcome::Done).collect();
                are_left.set(are_left.get() || are_done.contains(&false));
                are_done
            })
            .await;
            if !are_left.get() {
                return;
            }
            self.clock.advance(Duration::from_secs(31));
        }
    }

    pub(super) async fn settle(&self) {
        let statistician = self.statistician();
        statistician.poll().await;
        self.drain(&statistician).await;
    }

    pub(super) async fn due(&self) -> usize {
        query_all(&*self.archive, Query::partition(key::rollups_due(&team()))).await.unwrap().len()
    }

    /// Stores a random message of the last 28 days, sometimes by an app, sometimes a reply.
    pub(super) async fn post(&mut self) -> WrittenMessage {
        let second = MONDAY - 14 * DAY + self.random.i64(0..28 * DAY);
        let ts = Ts::parse(&format!("{second}.{:06}", self.written.len())).unwrap();
        let id = self.random.usize(0..CHANNELS.len());
        let roots: Vec<&WrittenMessage> = self
            .written
            .iter()
            .filter(|other| other.channel == CHANNELS[id] && other.ts < ts && !other.is_reply)
            .collect();
        let root = self.random.choice(roots).filter(|_| self.random.u8(0..3) == 0).cloned();
        let words = vec!["word"; self.random.usize(0..9)].join(" ");
        let mentioned = self.random.choice(PEOPLE).unwrap();
        let user = self.random.choice(PEOPLE).unwrap();
        let mut row = json!({ "ts": ts, "user": user, "text": format!("{words} <@{mentioned}>"), "raw_event": "{}",
            "content_version": format!("{}/{}/x", ts.padded(), ts.padded()), "team_id": "T1", "channel_id": CHANNELS[id] });
        match self.random.u8(0..8) {
            0 => row["subtype"] = "channel_join".into(),
            1 => row["bot_id"] = "B1".into(),
            3 if root.is_none() => row["thread_ts"] = ts.as_str().into(),
            2 => row["files"] = json!([{ "id": "F1" }]),
            _ => {}
        }
        if let Some(root) = &root {
            row["thread_ts"] = root.ts.as_str().into();
            row["parent"] = key::thread_parent(&team(), &root.ts).into();
            if self.random.bool() {
                row["raw_event"] = json!({ "parent_user_id": self.random.choice(PEOPLE) }).to_string().into();
            }
        }
        let root = root.map(|root| root.ts);
        let written = WrittenMessage { channel: CHANNELS[id], ts, is_reply: root.is_some(), root };
        self.set(written.key(), row).await;
        self.written.push(written.clone());
        written
    }

    /// Makes an edit, a deletion, a reaction, an erasure, another message, or a page of history. Returns the
    /// changed days.
    pub(super) async fn change(&mut self) -> Vec<ChannelDay> {
        let (_, before) = self.days_since(None).await;
        self.change_something().await;
        self.days_since(Some(&before)).await.0
    }

    async fn change_something(&mut self) {
        let index = self.random.usize(0..self.written.len());
        let written = self.written[index].clone();
        match self.random.u8(0..10) {
            0 => {
                self.post().await;
            }
            8 => self.page().await,
            // An edit that turns the message into a notice, or back into a message.
            9 => {
                let version = self.newer_version();
                let subtype = if self.random.bool() { json!("channel_topic") } else { Value::Null };
                self.set(written.key(), json!({ "subtype": subtype, "content_version": version })).await;
            }
            1 => {
                self.archive.erase(&written.key()).await.unwrap();
            }
            2 => self.set(written.key(), json!({ "deleted": true })).await,
            3 | 4 => {
                let name = format!("reaction#tada#{}", self.random.choice(PEOPLE).unwrap());
                let state = if self.random.bool() { "added" } else { "removed" };
                self.set(written.key(), json!({ name: format!("000000000001.000000/{state}") })).await;
            }
            _ => {
                let version = self.newer_version();
                let text = vec!["edited"; self.random.usize(0..30)].join(" ");
                self.set(
                    written.key(),
                    json!({ "text": text, "content_version": version, "updated_ts": "x" }),
                )
                .await;
            }
        }
    }

    /// A version that is newer than that of any posted message.
    fn newer_version(&mut self) -> String {
        let second = 900_000_000_000_u64 + u64::from(self.random.u32(..));
        format!("{second:012}.000000/000000000001.000000/x")
    }

    /// All roll-ups in the archive.
    pub(super) fn rollups(&self) -> BTreeMap<ItemKey, Item> {
        self.rows("rollup#")
    }

    /// All rows whose partition starts with `kind`.
    pub(super) fn rows(&self, kind: &str) -> BTreeMap<ItemKey, Item> {
        let rows = self.archive.items().into_iter().filter(|row| row.key.item_id.starts_with(kind));
        rows.map(|row| (row.key.clone(), row)).collect()
    }

    /// Asserts that each closed day with messages has a roll-up that equals a recount of its rows.
    pub(super) async fn assert_recounted(&self, when: &str) {
        assert_eq!(self.due().await, 0, "{when}: no day is due");
        let rollups = self.rollups();
        let closed = RollupDay::closed_at(self.clock.now()).unwrap();
        let rows = self.archive.items();
        let messages = rows.iter().filter(|row| row.key.item_id.starts_with("message#"));
        let days: BTreeSet<ChannelDay> = messages
            .map(|row| {
                let (_, id) = row.key.item_id.rsplit_once('#').unwrap();
                let day = RollupDay::from_ts(&Ts::parse(&row.key.timestamp).unwrap()).unwrap();
                ChannelDay { team: team(), channel: channel(id), day }
            })
            .collect();
        assert!(days.len() > 20);
        for day in days {
            let row = rollups.get(&day.rollup_key());
            if day.day > closed {
                assert_eq!(row, None, "{when}: {day:?} is open");
                continue;
            }
            let counted = row.map(|row| rollup::figures(row).unwrap()).unwrap_or_default();
            assert_eq!(counted, count_day(&*self.archive, &day).await.unwrap(), "{when}: {day:?}");
        }
    }

    /// The scope of a report, as the reader takes it.
    async fn report_scope(&self, scope: RecountScope) -> ReportScope<'_> {
        match scope {
            RecountScope::Team => ReportScope::Team,
            RecountScope::Channel(id) => {
                let location = ChannelOfTeam { team: team(), channel: channel(id) };
                let joined = find::joined_channel(&*self.archive, &location, &[team()]).await;
                ReportScope::Channel(joined.unwrap())
            }
            RecountScope::User(id) => ReportScope::User(UserId::parse(id).unwrap()),
        }
    }

    /// Asserts that reports are the same with and without roll-ups.
    pub(super) async fn assert_same_reports(&self, when: &str) -> Option<Rollups> {
        self.assert_same_and_stored(when).await.0
    }

    /// Asserts the same, also for stored reports. Returns how many of these were still valid; stores the
    /// others.
    pub(super) async fn assert_same_and_stored(&self, when: &str) -> (Option<Rollups>, usize) {
        let mut valid = 0;
        let rows = RecountRows::new(self.archive.items());
        let rollups = Rollups::read(&*self.archive, &*self.archive, &team()).await.unwrap();
        let now = Timestamp::from_millisecond(self.clock.now().0).unwrap();
        let weeks = ["2026-W45", "2026-W46", "2026-W47"].map(|week| Period::week(week).unwrap());
        let ts = |second: i64| Ts::parse(&format!("{second}.000000")).unwrap();
        let hours = Period::between(&ts(MONDAY + 5_000), &ts(MONDAY + 3 * DAY - 77)).unwrap();
        for period in weeks.into_iter().chain([hours]) {
            for recount_scope in [RecountScope::Team, RecountScope::Channel("C2"), RecountScope::User("U2")] {
                let mut reports = Vec::new();
                for rollups in [None, rollups.as_ref()] {
                    let scope = self.report_scope(recount_scope).await;
                    let report =
                        make_report(&*self.archive, &team(), scope, period, rollups, now).await.unwrap();
                    reports.push(json::report_json(&report).to_string());
                }
                assert_eq!(reports[0], reports[1], "{when}, {:?}", period.bounds());
                let recounted = rows.report(recount_scope, period.from(), period.to());
                assert_recounted_as(
                    &reports[0],
                    &recounted,
                    &format!("{when}, {recount_scope:?}, {:?}", period.bounds()),
                );
                if matches!(recount_scope, RecountScope::User(_)) {
                    continue;
                }
                let (team, scope) = (team(), self.report_scope(recount_scope).await);
                let sources =
                    ReportSources::read(&*self.archive, &team, scope, period, rollups.as_ref(), now)
                        .await
                        .unwrap();
                if let Some(stored) = sources.stored().await.unwrap() {
                    assert_eq!(stored, reports[0], "{when}, stored, {:?}", period.bounds());
                    assert!(stored.contains(&stored::read(&stored).unwrap().basis));
                    valid += 1;
                } else if let Some(stamp) = sources.stamp() {
                    let made = sources.make().await.unwrap();
                    let kept = made.to_kept_report(stamp, reports[0].clone(), now);
                    assert!(store_report(&*self.archive, &kept).await.unwrap());
                }
            }
        }
        (rollups, valid)
    }
}
