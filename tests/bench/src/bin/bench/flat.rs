//! Whether an event costs the same in a large archive as in a small one: wall and CPU time of `annalist up`
//! from the first request of a window of events until the last event is drained.

use std::time::{Duration, Instant};

use ::testkit::corpus::{Shape, Workload};
use ::tests::harness::process::{self, ServerProcess};
use anyhow::ensure;

use ports::queue::QueueName;

use crate::driver::{DrivenLoad, drive};
use crate::observer::{DEADLINE, Observer};
use crate::pool::Pool;
use crate::report::{BenchSection, Goal, median_of, row};
use crate::{Settings, machine, progress};

/// Number of events of a measured window and of a warm-up.
const WINDOW: usize = 20_000;
/// Number of rows of the small channel.
const SMALL: usize = 10_000;
/// Number of events per piece while a large archive is filled, so that the queue stays short.
const PIECE: usize = 50_000;
/// With fewer events, a piece might have only edits and add no row.
const SMALLEST_PIECE: usize = 1_000;
const LIMIT: f64 = 1.3;
/// The large channel has one event per minute, so that a million messages span two years: the statistician
/// counts whole days.
const MINUTE_MICROS: i64 = 60_000_000;
const MINUTES_OF_DAY: usize = 24 * 60;

#[derive(Debug, Clone, Copy)]
struct Cost {
    wall_us: f64,
    cpu_us: f64,
}

struct FlatArchive {
    server: ServerProcess,
    observer: Observer,
    workload: Workload,
    /// Events sent so far.
    sent: usize,
    connections: usize,
    // Dropped last.
    _data: tempfile::TempDir,
}

/// Compares a small channel with a large one, and one channel with many.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<BenchSection> {
    progress(&format!("flat: filling one channel with {} rows", settings.rows));
    let mut filled = FlatArchive::open(a_minute_apart(), settings).await?;
    filled.fill(settings.rows).await?;
    progress("flat: waiting until its days are counted");
    filled.wait_until_counted().await?;
    let (mut small, mut large, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("flat: round {round}"));
        small.push(cost_after(a_minute_apart(), SMALL, settings).await?);
        large.push(filled.window(WINDOW).await?);
        one.push(cost_after(with_channels(1), WINDOW, settings).await?);
        many.push(cost_after(with_channels(10_000), WINDOW, settings).await?);
    }
    filled.server.process.sigkill().await;
    let [small, large, one, many] = [small, large, one, many].map(|costs| median_cost(&costs));
    let row = |what: String, cost: Cost| row(what, &[cost.wall_us, cost.cpu_us]);
    Ok(BenchSection {
        title: "Cost per event",
        method: format!(
            "`annalist up`, {} connections in a closed loop; windows of {WINDOW} events from the first request until \
             the last is drained, medians of {} interleaved rounds. The channels of the first two rows have an event \
             each minute. The large one was filled within minutes, so that the deduplication ids of all its events are \
             remembered too, and its days were counted.",
            settings.connections, settings.rounds
        ),
        columns: &["archive", "wall µs/ev", "CPU µs/ev"],
        rows: vec![
            row(format!("{SMALL} rows in one channel"), small),
            row(format!("{} rows in one channel", settings.rows), large),
            row("1 channel".to_owned(), one),
            row("10,000 channels".to_owned(), many),
        ],
        goals: vec![
            Goal::at_most(
                "wall per event, large / small channel",
                large.wall_us / small.wall_us,
                LIMIT,
                " ×",
            ),
            Goal::at_most("CPU per event, large / small channel", large.cpu_us / small.cpu_us, LIMIT, " ×"),
            Goal::at_most("wall per event, 10,000 channels / 1", many.wall_us / one.wall_us, LIMIT, " ×"),
            Goal::at_most("CPU per event, 10,000 channels / 1", many.cpu_us / one.cpu_us, LIMIT, " ×"),
        ],
    })
}

fn with_channels(channels: usize) -> Shape {
    Shape { channels, ..Shape::default() }
}

fn a_minute_apart() -> Shape {
    Shape { step_micros: MINUTE_MICROS, ..with_channels(1) }
}

/// Measures a window in a new archive of this shape with `rows` rows.
async fn cost_after(shape: Shape, rows: usize, settings: &Settings) -> anyhow::Result<Cost> {
    let mut archive = FlatArchive::open(shape, settings).await?;
    archive.fill(rows).await?;
    let cost = archive.window(WINDOW).await?;
    archive.server.process.sigkill().await;
    Ok(cost)
}

impl FlatArchive {
    async fn open(shape: Shape, settings: &Settings) -> anyhow::Result<Self> {
        let data = machine::data_folder()?;
        let server = process::up(data.path()).await;
        let observer = Observer::open(data.path())?;
        let workload = Workload::new(shape);
        Ok(Self { server, observer, workload, sent: 0, connections: settings.connections(), _data: data })
    }

    /// Sends events until the archive has at least `rows` messages.
    async fn fill(&mut self, rows: usize) -> anyhow::Result<()> {
        let mut current = self.observer.rows()?;
        while current < rows {
            self.window((rows - current).clamp(SMALLEST_PIECE, PIECE)).await?;
            let now = self.observer.rows()?;
            ensure!(now > current, "no rows were added");
            current = now;
        }
        Ok(())
    }

    /// Waits until the statistician has counted the events: it follows some minutes behind.
    async fn wait_until_counted(&self) -> anyhow::Result<()> {
        self.observer.wait_until_counted(self.sent / MINUTES_OF_DAY, DEADLINE).await
    }

    /// Sends `events` events and waits until all are drained.
    async fn window(&mut self, events: usize) -> anyhow::Result<Cost> {
        let pool = Pool::generate(&mut self.workload, events)?;
        let load = DrivenLoad::whole(&pool, self.connections);
        let before = self.server.process.usage();
        let started = Instant::now();
        drive(self.server.address, &pool, load, None).await?;
        self.observer.wait_until_drained(QueueName::Events).await?;
        let elapsed = started.elapsed();
        self.sent += events;
        let cpu = self.server.process.usage().cpu - before.cpu;
        let per_event_us = |time: Duration| time.as_secs_f64() * 1e6 / events as f64;
        Ok(Cost { wall_us: per_event_us(elapsed), cpu_us: per_event_us(cpu) })
    }
}

fn median_cost(costs: &[Cost]) -> Cost {
    Cost { wall_us: median_of(costs, |cost| cost.wall_us), cpu_us: median_of(costs, |cost| cost.cpu_us) }
}
