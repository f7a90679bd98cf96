//! Queues channel events with no worker, then folds them with one `channel-indexer`.

use std::path::Path;

use ::testkit::corpus::{TEAM, event};
use ::tests::harness::process;
use anyhow::ensure;
use ports::queue::route::{Route, route};
use ports::queue::{Outgoing, QueueName};
use serde_json::{Value, json};
use slack::envelope::Envelope;

use crate::observer::Observer;
use crate::report::{BenchSection, Goal, RunCost};
use crate::{Settings, files, machine, progress};

pub(crate) const EVENTS: usize = 10_000;

/// The channel counts over which the events are spread.
const SHAPES: [usize; 3] = [10_000, 1_000, 1];

/// Folds each shape once per round.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    let mut rows = Vec::new();
    let mut slowest = f64::INFINITY;
    for channels in SHAPES {
        let mut runs = Vec::new();
        for round in 1..=settings.rounds {
            progress(&format!("channels: {channels} channels, round {round}"));
            runs.push(run(channels).await?);
        }
        let cost = RunCost::median(&runs);
        slowest = slowest.min(cost.per_second);
        rows.push(cost.row(channels.to_string()));
    }
    Ok(BenchSection {
        title: "Folding channel events",
        method: format!(
            "{EVENTS} channel events queued with no worker, spread over the given number of channels: each is created, then \
             renamed, archived and unarchived in turn. Then one `channel-indexer`, timed from its start until the \
             queue is empty. Medians of {} rounds.",
            settings.rounds
        ),
        columns: &["channels", "ev/s", "CPU µs/ev", "RSS peak MiB"],
        rows,
        goals: vec![Goal::at_least("channel events are folded at", slowest, 3_000.0, " ev/s")],
    })
}

/// Returns the nth event, which is about channel `n % channels`.
fn channel_event(n: usize, channels: usize) -> Value {
    let (channel, turn) = (format!("C{:05}", n % channels), n / channels);
    let ts = format!("{}.{:06}", 1_700_000_000 + n / 1000, n % 1000);
    let object = json!({ "id": channel, "name": format!("channel-{}-{turn}", n % channels) });
    match turn % 3 {
        0 if turn == 0 => json!({ "type": "channel_created", "channel": object, "event_ts": ts }),
        0 => json!({ "type": "channel_rename", "channel": object, "event_ts": ts }),
        1 => json!({ "type": "channel_archive", "channel": channel, "user": "U1", "event_ts": ts }),
        _ => json!({ "type": "channel_unarchive", "channel": channel, "user": "U1", "event_ts": ts }),
    }
}

/// Queues [`EVENTS`] events of `channels` channels.
pub(crate) async fn fill(data: &Path, channels: usize) -> anyhow::Result<()> {
    let messages: Vec<Outgoing> = (0..EVENTS)
        .flat_map(|n| {
            let body = event::envelope(TEAM, &format!("Ev{n}"), &channel_event(n, channels));
            match Envelope::peek(body.as_bytes()).map(|envelope| route(&envelope, &body)) {
                Ok(Route::Queues(messages)) => messages,
                Ok(Route::DirectMessage) | Err(_) => Vec::new(),
            }
        })
        .collect();
    files::queue_jobs(data, &messages).await
}

async fn run(channels: usize) -> anyhow::Result<RunCost> {
    let data = machine::data_folder()?;
    fill(data.path(), channels).await?;
    let observer = Observer::open(data.path())?;
    let queued = observer.backlog(QueueName::Channels)?;
    ensure!(queued == EVENTS, "{queued} of {EVENTS} are queued");
    let indexer = process::channel_indexer(data.path());
    let cost = observer.drain(QueueName::Channels, EVENTS, indexer).await?;
    let rows = observer.rows_of("channel")?;
    ensure!(rows == EVENTS, "{rows} rows instead of {EVENTS}");
    Ok(cost)
}
