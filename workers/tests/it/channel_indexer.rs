//! Tests of the rows that the channel-indexer writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use ports::archive::{
    Archive, ArchiveExt, ErasureFact, ErasureScope, Item, ItemKey, Query, Update, key, query_all,
};
use ports::queue::job::encode_event_of_run;
use ports::queue::route::{refused_span_message, run_message};
use ports::queue::run::RunId;
use ports::queue::{Delivery, GroupId};
use reader::directory;
use reader::gaps;
use rules::figures::rollup::RollupDay;
use rules::gap::run::RunSpan;
use rules::project;
use rules::schedule::{AppOnDay, AppState, WorkspaceRow};
use rules::view::ChannelView;
use serde_json::{Value, json};
use slack::ids::{AppId, ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::faults::{FaultyArchive, PortMethod, RecordedCalls};
use testkit::memory::archive::MemoryArchive;
use workers::channel_indexer::ChannelIndexer;
use workers::directory::Joiner;
use workers::runtime::{JobOutcome, Worker};

use testkit::deliveries::{deliveries, delivery, delivery_of};

struct IndexerFixture {
    archive: Arc<MemoryArchive>,
    indexer: ChannelIndexer,
}

impl IndexerFixture {
    fn new() -> Self {
        Self::with_indexer(|archive| ChannelIndexer::new(archive, None))
    }

    fn with_indexer(indexer: impl FnOnce(Arc<dyn Archive>) -> ChannelIndexer) -> Self {
        let archive = Arc::new(MemoryArchive::new());
        let indexer = indexer(archive.clone());
        Self { archive, indexer }
    }

    async fn handle(&self, events: &[Value]) -> Vec<JobOutcome> {
        self.indexer.handle(&deliveries(events)).await
    }

    async fn store(&self, events: &[Value]) {
        let outcomes = self.handle(events).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
    }

    async fn rows(&self, partition: String) -> Vec<Item> {
        query_all(&*self.archive, Query::partition(partition)).await.unwrap()
    }

    /// The channel's current state as readers see it.
    async fn current(&self, channel: &str) -> Option<Value> {
        self.rows(key::channels(&team(), &id(channel)))
            .await
            .last()
            .and_then(project::channel)
            .map(ChannelView::into_json)
    }

    async fn workspace(&self) -> WorkspaceRow {
        let row = self.archive.get(&ItemKey::team(&team())).await.unwrap();
        WorkspaceRow::read(&row.unwrap()).unwrap()
    }

    async fn mark(&self, channel: &str) {
        self.archive.write(&Update::mark(ItemKey::public_mark(&team(), &id(channel)))).await.unwrap();
    }
}

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

fn id(channel: &str) -> ChannelId {
    ChannelId::parse(channel).unwrap()
}

/// The plan of capacity has channels with 100,000 events; what one more of them reads does not depend on how many.
#[tokio::test]
async fn an_event_of_a_channel_with_a_long_past_reads_a_few_rows() {
    let fixture = IndexerFixture::new();
    fixture.mark("C01").await;
    let topic = |number: usize| {
        let ts = format!("{}.000000", 1_700_000_000 + number);
        json!({ "type": "message", "subtype": "channel_topic", "channel": "C01", "channel_type": "channel",
            "ts": ts, "event_ts": ts, "topic": format!("topic {number}") })
    };
    fixture.store(&[named("channel_created", "C01", "general", "1600000000.000000")]).await;
    fixture.store(&(0..2_000).map(|number| topic(2 * number)).collect::<Vec<_>>()).await;
    fixture.archive.take_rows_read();
    fixture.store(&[topic(5_000)]).await;
    let read = fixture.archive.take_rows_read();
    assert!(read <= 30, "{read} rows");
    // A late event changes the snapshots that follow it, and no others.
    fixture.store(&[topic(3_979)]).await;
    let read = fixture.archive.take_rows_read();
    assert!(read <= 60, "{read} rows");
    let current = fixture.current("C01").await.unwrap();
    assert_eq!((&current["name"], &current["topic"]), (&json!("general"), &json!("topic 5000")));
}

fn named(kind: &str, channel: &str, name: &str, ts: &str) -> Value {
    json!({ "type": kind, "channel": { "id": channel, "name": name }, "event_ts": ts })
}

fn simple(kind: &str, channel: &str, ts: &str) -> Value {
    json!({ "type": kind, "channel": channel, "event_ts": ts })
}

#[tokio::test]
async fn ten_thousand_channels_are_listed_with_their_names_in_many_shards() {
    let shard_bytes = 20_000;
    let fixture = IndexerFixture::with_indexer(|archive| {
        ChannelIndexer::new(archive, None).with_shard_bytes(shard_bytes)
    });
    let channels: Vec<(String, String)> =
        (0..10_000).map(|n| (format!("C{n:05}"), format!("Projekt-{n}"))).collect();
    let created: Vec<Value> =
        channels.iter().map(|(id, name)| named("channel_created", id, name, "1700000000.000000")).collect();
    for batch in created.chunks(512) {
        fixture.store(batch).await;
    }
    let shards = fixture.rows(key::channel_index(&team())).await;
    assert!(shards.len() > 10, "{}", shards.len());
    for shard in &shards {
        assert!(shard.attributes["channels_map"].to_string().len() <= shard_bytes + 2);
    }
    let index = directory::read(&*fixture.archive, &team()).await.unwrap();
    let found: BTreeSet<(String, String)> =
        index.iter().map(|(id, name)| (id.to_string(), name.to_owned())).collect();
    assert_eq!(found, channels.into_iter().collect());

    // One change is one write, whichever shard it is in.
    let before = fixture.rows(key::channel_index(&team())).await;
    fixture.store(&[simple("channel_deleted", "C00003", "1700000001.000000")]).await;
    let after = fixture.rows(key::channel_index(&team())).await;
    assert_eq!(before.iter().zip(&after).filter(|(before, after)| before != after).count(), 1);
    let index = directory::read(&*fixture.archive, &team()).await.unwrap();
    assert_eq!(index.name(&id("C00003")), Some("deleted_Projekt-3"));
}

/// The gaps that readers see: reason, channel, from, to.
async fn gaps_of(fixture: &IndexerFixture) -> Vec<(&'static str, Option<String>, String, Option<String>)> {
    let gaps = gaps::read(&*fixture.archive, &team()).await.unwrap().into_iter();
    let text = |ts: Ts| ts.to_string();
    gaps.map(|gap| {
        (gap.reason.as_str(), gap.channel.map(|id| id.to_string()), text(gap.from), gap.to.map(text))
    })
    .collect()
}

#[tokio::test]
async fn spans_of_refused_requests_become_gaps_in_any_order_and_if_repeated() {
    let ts = |second: u32| Ts::parse(&format!("{second}.000100")).unwrap();
    let refusals = [(100, 100), (130, 160), (200, 260), (900, 900)]
        .map(|(from, to)| delivery_of(refused_span_message(&team(), &ts(from), &ts(to))));
    let shown = |from: u32, to: u32| ("refused", None, ts(from).to_string(), Some(ts(to).to_string()));
    for rotation in 0..refusals.len() {
        let fixture = IndexerFixture::new();
        let mut jobs = refusals.to_vec();
        jobs.rotate_left(rotation);
        jobs.extend_from_slice(&refusals[..rotation]);
        let outcomes = fixture.indexer.handle(&jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        assert_eq!(gaps_of(&fixture).await, [shown(100, 260), shown(900, 900)], "{rotation}");
        // A refusal may be the first job of its workspace.
        assert_eq!(fixture.rows(key::teams()).await.len(), 1);
    }
}

#[tokio::test]
async fn the_beginning_of_a_run_ends_a_gap_before_its_first_event() {
    let ts = |second: u32| Ts::parse(&format!("{second}.000000")).unwrap();
    let (first, second) = (RunId::begin(), RunId::begin());
    let begun = [(&first, 100), (&second, 200), (&second, 230), (&first, 120)]
        .map(|(run, at)| delivery_of(run_message(&team(), run, &ts(at))));
    for rotation in 0..begun.len() {
        let fixture = IndexerFixture::new();
        let mut jobs = begun.to_vec();
        jobs.rotate_left(rotation);
        jobs.extend_from_slice(&begun[..rotation]);
        let outcomes = fixture.indexer.handle(&jobs).await;
        assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
        let downtime = ("downtime", None, ts(120).to_string(), Some(ts(200).to_string()));
        assert_eq!(gaps_of(&fixture).await, [downtime], "{rotation}");
    }
}

#[tokio::test]
async fn a_changed_history_is_a_gap_if_the_channel_is_archived() {
    let fixture = IndexerFixture::new();
    fixture.mark("C1").await;
    let changed = |kind: &str, channel: Option<&str>, latest: &str| {
        let mut event = json!({ "type": kind, "latest": latest, "ts": "90.000000", "event_ts": "90.000000" });
        if let Some(channel) = channel {
            event["channel"] = channel.into();
        }
        event
    };
    let (in_channel, in_group) = ("channel_history_changed", "group_history_changed");
    fixture
        .store(&[changed(in_channel, Some("C1"), "50.000000"), changed(in_group, Some("C1"), "70.000000")])
        .await;
    fixture.store(&[changed(in_group, Some("C0PRIVATE"), "50.000000")]).await;
    let gap = |channel: Option<&str>, to: &str| {
        ("history_changed", channel.map(str::to_owned), "0.000000".to_owned(), Some(to.to_owned()))
    };
    assert_eq!(gaps_of(&fixture).await, [gap(Some("C1"), "70.000000")]);
    assert!(!fixture.archive.items().iter().any(|item| item.key.timestamp.contains("C0PRIVATE")));
    // Slack's reference shows the event without a channel.
    fixture.store(&[changed(in_channel, None, "60.000000")]).await;
    assert_eq!(gaps_of(&fixture).await, [gap(None, "60.000000"), gap(Some("C1"), "70.000000")]);
}

#[tokio::test]
async fn readers_see_a_changed_name() {
    let fixture = IndexerFixture::new();
    for (kind, name, event_ts) in
        [("channel_created", "before", "1700000000.000000"), ("channel_rename", "after", "1700000001.000000")]
    {
        fixture.store(&[named(kind, "C1", name, event_ts)]).await;
        let index = directory::read(&*fixture.archive, &team()).await.unwrap();
        assert_eq!(index.name(&id("C1")), Some(name));
    }
}

#[tokio::test]
async fn a_private_channel_is_kept_only_if_it_was_public_before() {
    let fixture = IndexerFixture::new();
    let private = [
        named("group_rename", "C1", "secret", "1700000000.000000"),
        simple("group_archive", "C2", "1700000000.000000"),
        json!({ "type": "channel_shared", "channel": "C3", "connected_team_id": "T9", "event_ts": "1700000000.000000" }),
        json!({ "type": "channel_created", "channel": { "id": "C4", "name": "secret", "is_private": true },
            "event_ts": "1700000000.000000" }),
        json!({ "type": "channel_id_changed", "old_channel_id": "C5", "new_channel_id": "C6",
            "event_ts": "1700000000.000000" }),
    ];
    fixture.store(&private).await;
    for channel in ["C1", "C2", "C3", "C4", "C5", "C6"] {
        assert_eq!(fixture.current(channel).await, None, "{channel}");
    }
    for channel in ["C1", "C2", "C3", "C5"] {
        fixture.mark(channel).await;
    }
    fixture.store(&private).await;
    assert_eq!(fixture.current("C1").await.unwrap()["name"], "secret");
    assert_eq!(fixture.current("C2").await.unwrap()["archived"], true);
    assert_eq!(fixture.current("C3").await.unwrap()["shared_with"], json!(["T9"]));
    assert_eq!(fixture.current("C6").await.unwrap()["prev_channel_id"], "C5");
    assert_eq!(fixture.current("C4").await, None);
}

#[tokio::test]
async fn an_event_that_shows_a_channel_is_public_admits_later_events_of_the_same_batch() {
    let fixture = IndexerFixture::new();
    fixture
        .store(&[
            named("channel_created", "C1", "news", "1700000000.000000"),
            json!({ "type": "channel_shared", "channel": "C1", "connected_team_id": "T9", "event_ts": "1700000001.000000" }),
        ])
        .await;
    let now = fixture.current("C1").await.unwrap();
    assert_eq!((&now["name"], &now["ext_shared"]), (&json!("news"), &json!(true)));
    assert!(
        now.as_object().unwrap().keys().all(|name| !name.starts_with("raw#") && name != "folded"),
        "{now}"
    );
}

#[tokio::test]
async fn lost_minutes_lost_membership_and_a_lost_token_are_gaps() {
    let fixture = IndexerFixture::new();
    let minute = json!({ "type": "app_rate_limited", "team_id": TEAM, "minute_rate_limited": 1_700_000_040, "token": "x" });
    let jobs = [
        delivery(&minute.to_string()),
        delivery(&event::envelope(TEAM, "Ev1", &simple("channel_left", "C1", "1700000000.000100"))),
        delivery(&event::envelope(
            TEAM,
            "Ev2",
            &json!({ "type": "tokens_revoked", "tokens": { "bot": ["U1"] }, "event_ts": "1700000001.000000" }),
        )),
    ];
    for _ in 0..2 {
        assert!(fixture.indexer.handle(&jobs).await.iter().all(|outcome| *outcome == JobOutcome::Done));
    }
    let gaps = fixture.rows(key::gaps(&team())).await;
    let reasons: Vec<_> = gaps.iter().map(|gap| gap.text("reason").unwrap()).collect();
    assert_eq!(reasons, ["left", "revoked", "rate_limited"]);
    assert_eq!(gaps[2].text("to"), Some("1700000100.000000"));
    // `status` finds the gaps through this row.
    assert!(fixture.archive.get(&ItemKey::team(&team())).await.unwrap().is_some());
}

#[tokio::test]
async fn the_removal_of_the_app_is_the_state_of_its_workspace_in_any_order_and_after_each_redelivery() {
    let revoked = |bots: &[&str], second: u32| {
        json!({ "type": "tokens_revoked", "tokens": { "oauth": ["U1"], "bot": bots },
            "event_ts": format!("{second}.000000") })
    };
    let uninstalled =
        |second: u32| json!({ "type": "app_uninstalled", "event_ts": format!("{second}.000000") });
    let (early, late) = (1_700_000_001, 1_700_000_002);
    for (first, second, state, reason) in [
        (revoked(&["U0BOT"], early), uninstalled(late), AppState::Uninstalled, "app_uninstalled"),
        (uninstalled(early), revoked(&["U0BOT"], late), AppState::TokenFailed, "tokens_revoked"),
        // The token of a person is not the app's.
        (uninstalled(early), revoked(&[], late), AppState::Uninstalled, "app_uninstalled"),
    ] {
        for events in [[&first, &second], [&second, &first]] {
            let fixture = IndexerFixture::new();
            for event in [events[0], events[1], events[0], events[1], events[0]] {
                fixture.store(std::slice::from_ref(event)).await;
            }
            let row = fixture.workspace().await;
            assert_eq!((row.state, row.state_reason.as_deref()), (state, Some(reason)), "{events:?}");
            assert_eq!(fixture.rows(key::teams()).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn the_row_of_a_workspace_says_which_app_sent_events_at_one_read_and_write_a_day() {
    let calls = Arc::<RecordedCalls>::default();
    let counted = Arc::clone(&calls);
    let fixture = IndexerFixture::with_indexer(|archive| {
        ChannelIndexer::new(Arc::new(FaultyArchive::with_schedule(archive, counted)), None)
    });
    let day = RollupDay::from_date("2023-11-14".parse().unwrap()).unwrap();
    // An event that stores nothing but its own fact.
    let left = |second: i64| {
        let ts = format!("{}.000000", day.number() * 86_400 + second);
        simple("channel_left", "C1", &ts)
    };
    let calls_for = async |second: i64| {
        fixture.store(&[left(second)]).await;
        calls.take_calls()
    };
    let first = calls_for(0).await;
    let quiet = calls_for(1).await;
    assert_eq!(first.len(), quiet.len() + 2, "{first:?} {quiet:?}");
    assert_eq!(calls_for(86_399).await, quiet);
    let expected = |day| Some(AppOnDay { day, app: AppId::parse("A0ANNALIST").unwrap() });
    assert_eq!(fixture.workspace().await.app, expected(day));

    assert_eq!(calls_for(86_400).await.len(), quiet.len() + 2);
    assert!(!calls_for(5).await.contains(&PortMethod::Get), "a late event says nothing new");
    assert_eq!(fixture.workspace().await.app, expected(day.next().unwrap()));

    // Another process only reads it.
    let other = IndexerFixture {
        archive: fixture.archive.clone(),
        indexer: ChannelIndexer::new(
            Arc::new(FaultyArchive::with_schedule(fixture.archive.clone(), calls.clone())),
            None,
        ),
    };
    other.store(&[left(86_401)]).await;
    assert_eq!(calls.take_calls().len(), quiet.len() + 1);
}

#[tokio::test]
async fn the_app_joining_a_channel_is_a_mark_unless_the_channel_never_was_public() {
    let fixture = IndexerFixture::new();
    let join = |user: &str, channel: &str, letter: &str| {
        json!({ "type": "member_joined_channel", "user": user, "channel": channel, "channel_type": letter,
            "event_ts": "1700000000.000100" })
    };
    let app = "U0ANNALIST";
    let joins =
        [join(app, "C1", "C"), join("U0FIRST", "C2", "C"), join(app, "C3", "G"), join(app, "C4", "G")];
    fixture.mark("C4").await;
    let jobs = joins.iter().enumerate().map(|(n, payload)| {
        let body = event::envelope(TEAM, &format!("Ev{n}"), payload);
        let to_events = delivery(&body);
        // The join of a person is routed to the message-writer; here the indexer receives it anyway.
        Delivery { group: GroupId::from_parts(&[TEAM]), ..to_events }
    });
    let outcomes = fixture.indexer.handle(&jobs.collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| *outcome == JobOutcome::Done), "{outcomes:?}");
    for (channel, marks) in [("C1", 1), ("C2", 0), ("C3", 0), ("C4", 1)] {
        assert_eq!(fixture.rows(key::joins(&team(), &id(channel))).await.len(), marks, "{channel}");
    }
}

#[tokio::test]
async fn the_event_range_of_an_ingest_run_is_stored_even_if_its_events_are_quarantined() {
    let fixture = IndexerFixture::new();
    let run = RunId::begin();
    let job = |payload: &Value| {
        let body = event::envelope(TEAM, "Ev1", payload);
        Delivery { body: encode_event_of_run(&run, &body), ..delivery(&body) }
    };
    let odd = json!({ "type": "channel_rename", "channel": { "id": "C1" }, "event_ts": "1700000009.000000" });
    let jobs = [
        job(&simple("channel_archive", "C1", "1700000005.000000")),
        job(&odd),
        job(&simple("channel_wonder", "C1", "1700000002.000000")),
    ];
    for _ in 0..2 {
        let outcomes = fixture.indexer.handle(&jobs).await;
        assert!(
            matches!(outcomes.as_slice(), [JobOutcome::Done, JobOutcome::Quarantine(_), JobOutcome::Done]),
            "{outcomes:?}"
        );
    }
    let rows = fixture.rows(key::runs(&team())).await;
    let seen: Vec<Option<RunSpan>> = rows.iter().map(RunSpan::read).collect();
    let ts = |text: &str| Ts::parse(text).unwrap();
    assert_eq!(seen, [Some(RunSpan { first: ts("1700000002.000000"), last: ts("1700000009.000000") })]);
}

#[tokio::test]
async fn a_malformed_event_is_quarantined_and_blocks_no_other_job() {
    let fixture = IndexerFixture::new();
    let outcomes = fixture
        .handle(&[
            json!({ "type": "channel_rename", "channel": { "id": "C1" }, "event_ts": "1700000000.000000" }),
            named("channel_rename", "C1", &"x".repeat(10_000), "1700000000.000000"),
            named("channel_rename", "c#1", "x", "1700000000.000000"),
            json!({ "type": "channel_id_changed", "old_channel_id": "C1", "event_ts": "1700000000.000000" }),
            json!({ "type": "channel_archive", "channel": ["C1"], "event_ts": "1700000000.000000" }),
            named("channel_created", "C1", "fine", "1700000001.000000"),
            json!({ "type": "channel_history_changed", "channel": "C1", "event_ts": "1700000002.000000" }),
            json!({ "type": "channel_wonder", "channel": "C1", "event_ts": "1700000003.000000" }),
        ])
        .await;
    let quarantined: Vec<bool> =
        outcomes.iter().map(|outcome| matches!(outcome, JobOutcome::Quarantine(_))).collect();
    assert_eq!(quarantined, [true, true, true, true, true, false, true, false], "{outcomes:?}");
    assert_eq!(fixture.current("C1").await.unwrap()["names_history"], json!(["fine"]));
}

#[tokio::test]
async fn only_new_public_channels_are_joined() {
    let (joiner, mut join_requests) = Joiner::new();
    let fixture = IndexerFixture::with_indexer(|archive| ChannelIndexer::new(archive, Some(joiner)));
    fixture
        .store(&[
            named("channel_rename", "C1", "a", "1700000000.000000"),
            named("channel_created", "C2", "b", "1700000000.000000"),
            json!({ "type": "channel_created", "channel": { "id": "C3", "name": "c", "is_private": true },
                "event_ts": "1700000000.000000" }),
        ])
        .await;
    assert_eq!(join_requests.next_asked().unwrap(), (team(), id("C2")));
    assert!(join_requests.next_asked().is_none());
}

#[tokio::test]
async fn an_erased_channel_returns_only_with_later_events() {
    let fixture = IndexerFixture::new();
    let scope = ErasureScope::Channel(id("C01"));
    let fact = ErasureFact { team: team(), scope, until: Ts::parse("1700000100.000000").unwrap() };
    fixture.archive.write(&fact.update()).await.unwrap();
    let early = [
        named("channel_created", "C01", "MARKER", "1700000001.000000"),
        named("channel_rename", "C01", "MARKER-2", "1700000099.999999"),
        named("channel_created", "C02", "other", "1700000002.000000"),
    ];
    let holds =
        |text: &str| fixture.archive.items().iter().any(|item| item.to_json().to_string().contains(text));
    for _ in 0..2 {
        fixture.store(&early).await;
        assert!(!holds("MARKER") && holds("other"));
    }
    assert_eq!(fixture.current("C01").await, None);
    fixture.store(&[named("channel_rename", "C01", "again", "1700000100.000000")]).await;
    fixture.store(&early).await;
    let now = fixture.current("C01").await.unwrap();
    assert_eq!((&now["name"], &now["names_history"]), (&json!("again"), &json!(["again"])));
    assert_eq!(directory::read(&*fixture.archive, &team()).await.unwrap().name(&id("C01")), Some("again"));
    assert!(!holds("MARKER"));
}
