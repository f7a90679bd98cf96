//! Channels: their rows, regardless of which process folds them, and the index.

use std::sync::Arc;

use futures_util::future::join;
use ports::archive::{Archive, ArchiveExt, Item, ItemKey, Update};
use proptest::prelude::*;
use reader::directory;
use rules::channel::ChannelEvent;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts};
use testkit::corpus::{TEAM, event};
use testkit::faults::{CrashPoint, FaultyArchive};
use testkit::memory::archive::MemoryArchive;
use workers::channel_indexer::{self, ChannelIndexer};
use workers::runtime::{JobOutcome, Worker};

use super::{DisorderedInputs, Interleaved, ListableArchive, check_property, disordered, only_in};
use testkit::deliveries::delivery;

const CHANNELS: [&str; 3] = ["C01", "C02", "C03"];

/// Three entries do not fit one shard.
const SHARD_BYTES: usize = 50;

/// A source of the indexer's input.
#[derive(Debug, Clone)]
enum IndexerSource {
    Event(Value),
    /// From the directory sync, which does not use the queue.
    Listed(Box<RawValue>, String),
}

/// A change of one of a few channels: its kind, channel, new name, and seconds since the previous change.
fn channel_change() -> impl Strategy<Value = (usize, usize, u8, u8)> {
    (0..16usize, 0..CHANNELS.len(), 0..4u8, 0..2u8)
}

/// The events and listings that Slack would send for these changes.
fn sources(changes: &[(usize, usize, u8, u8)]) -> Vec<IndexerSource> {
    let mut second = 1_700_000_000;
    let mut sources = Vec::new();
    for (kind, channel, name, later) in changes {
        second += u64::from(*later);
        let ts = format!("{second}.000000");
        let id = CHANNELS[*channel];
        let name = format!("name{name}");
        let object = json!({ "id": id, "name": name });
        let simple = |event_type: &str| json!({ "type": event_type, "channel": id, "event_ts": ts });
        let message = |subtype: &str| {
            json!({
                "type": "message", "subtype": subtype, "channel": id, "ts": ts, "event_ts": ts, "topic": name,
                "purpose": name,
            })
        };
        sources.push(IndexerSource::Event(match kind {
            0 => json!({ "type": "channel_created", "channel": object, "event_ts": ts }),
            1 | 2 => json!({ "type": "channel_rename", "channel": object, "event_ts": ts }),
            3 => json!({ "type": "group_rename", "channel": object, "event_ts": ts }),
            4 => simple("channel_archive"),
            5 => simple("channel_unarchive"),
            6 => simple("channel_deleted"),
            7 => simple("channel_left"),
            8 => message("channel_topic"),
            9 => message("channel_purpose"),
            10 => message("channel_convert_to_private"),
            13 => message("channel_convert_to_public"),
            14 => {
                json!({ "type": "channel_rename", "channel": { "id": id, "name": name, "is_private": *later == 0 }, "event_ts": ts })
            }
            11 => {
                json!({ "type": "channel_shared", "channel": id, "connected_team_id": "T9", "event_ts": ts })
            }
            12 => json!({
                "type": "channel_id_changed", "old_channel_id": id,
                "new_channel_id": CHANNELS[(channel + 1) % CHANNELS.len()], "event_ts": ts,
            }),
            _ => {
                let listed =
                    json!({ "id": id, "name": name, "is_archived": *later == 0, "topic": { "value": "t" } });
                let raw = serde_json::value::to_raw_value(&listed).unwrap();
                sources.push(IndexerSource::Listed(raw, ts));
                continue;
            }
        }));
    }
    sources
}

fn delivered() -> impl Strategy<Value = DisorderedInputs<IndexerSource>> {
    disordered(prop::collection::vec(channel_change(), 1..10).prop_map(|changes| sources(&changes)))
}

fn team() -> TeamId {
    TeamId::parse(TEAM).unwrap()
}

/// Marks all channels as public: whether events of channels that were never public are dropped depends on the
/// order by design.
async fn open<S: ListableArchive>(store: S) -> S {
    for channel in CHANNELS {
        let mark = ItemKey::public_mark(&team(), &ChannelId::parse(channel).unwrap());
        store.archive().write(&Update::mark(mark)).await.unwrap();
    }
    store
}

/// Processes these sources; returns whether all of them succeeded.
async fn process(archive: &Arc<dyn Archive>, sources: &[&IndexerSource]) -> bool {
    let indexer = ChannelIndexer::new(Arc::clone(archive), None).with_shard_bytes(SHARD_BYTES);
    let mut jobs = Vec::new();
    let mut listed = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match source {
            IndexerSource::Event(event) => {
                jobs.push(delivery(&event::envelope(TEAM, &format!("Ev{index}"), event)))
            }
            IndexerSource::Listed(raw, ts) => {
                listed.push(ChannelEvent::listed(&team(), raw, &Ts::parse(ts).unwrap()).unwrap());
            }
        }
    }
    // The directory sync does not use the queue: it folds concurrently.
    let (outcomes, stored) =
        join(indexer.handle(&jobs), channel_indexer::store(&**archive, &listed, SHARD_BYTES)).await;
    outcomes.iter().all(|outcome| *outcome == JobOutcome::Done) && stored.iter().all(Result::is_ok)
}

/// Every row except the shards, whose contents depend on the order; and the index as readers see it.
async fn seen(store: &impl ListableArchive) -> (Vec<Item>, directory::WorkspaceChannels) {
    let rows = store.items().await.into_iter().filter(|item| !item.key.item_id.starts_with("channelindex#"));
    (rows.collect(), directory::read(&*store.archive(), &team()).await.unwrap())
}

async fn in_order(sources: &[IndexerSource]) -> (Vec<Item>, directory::WorkspaceChannels) {
    let memory = open(Arc::new(MemoryArchive::new())).await;
    for source in sources {
        assert!(process(&memory.archive(), &[source]).await);
    }
    seen(&memory).await
}

async fn as_delivered(
    delivered: &DisorderedInputs<IndexerSource>,
    store: impl ListableArchive,
) -> (Vec<Item>, directory::WorkspaceChannels) {
    let store = open(store).await;
    let archive = Interleaved::interleave(store.archive(), delivered.interleaving);
    let mut lives = delivered.lives.iter();
    for pair in delivered.order.chunks(delivered.batch * 2) {
        let (one, other) = pair.split_at(delivered.batch.min(pair.len()));
        let batch =
            |indexes: &[usize]| indexes.iter().map(|index| &delivered.inputs[*index]).collect::<Vec<_>>();
        // Two batches concurrently, as after a lost lease.
        loop {
            let point = lives.next().map_or_else(CrashPoint::never, |steps| CrashPoint::after(*steps));
            let mortal: Arc<dyn Archive> =
                Arc::new(FaultyArchive::with_crash_point(Arc::clone(&archive), Arc::clone(&point)));
            let (first, second) = join(process(&mortal, &batch(one)), process(&mortal, &batch(other))).await;
            if !point.has_crashed() {
                assert!(first && second);
                break;
            }
        }
    }
    seen(&store).await
}

/// Compares `cases` cases with an in-memory archive that processes the same events in order.
pub(crate) fn converge<S: ListableArchive>(cases: u32, store: impl AsyncFn() -> S) {
    check_property(cases, &delivered(), async |delivered| {
        let expected = in_order(&delivered.inputs).await;
        let found = as_delivered(&delivered, store().await).await;
        prop_assert_eq!(only_in(&expected.0, &found.0), only_in(&found.0, &expected.0));
        prop_assert_eq!(expected.1, found.1);
        Ok(())
    });
}

#[test]
fn any_order_duplication_and_crash_gives_the_same_channels() {
    converge(1000, async || Arc::new(MemoryArchive::new()));
}

#[test]
fn a_writer_that_read_older_rows_does_not_decide_on_a_name() {
    // The channel is renamed, then listed under another name, then renamed back: a writer that sees only the
    // first two is behind, and finds the same index as before.
    let sources = sources(&[(1, 2, 2, 1), (15, 2, 0, 1), (1, 2, 2, 1)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for interleaving in 0..1_000 {
        let order = vec![0, 0, 0, 0, 2, 1, 0, 1];
        let inputs = sources.clone();
        let delivered = DisorderedInputs { inputs, order, batch: 2, lives: Vec::new(), interleaving };
        runtime.block_on(async {
            let expected = in_order(&delivered.inputs).await;
            let found = as_delivered(&delivered, Arc::new(MemoryArchive::new())).await;
            assert_eq!(expected.1, found.1, "interleaving {interleaving}");
        });
    }
}
