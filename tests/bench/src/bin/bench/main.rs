//! The bench: measures Annalist and its baselines in one run on one machine. The report is Markdown for
//! `BENCHMARKS.md`.

mod acks;
mod aws;
mod baseline;
mod beside;
mod channels;
mod compare;
mod connection;
mod directory;
mod drain;
mod driver;
mod erase;
mod existence;
mod export;
mod figures;
mod files;
mod filling;
mod flat;
mod import;
mod keep;
mod lambda;
mod machine;
mod observer;
mod pages;
mod pool;
mod publish;
mod questions;
mod report;
mod search;
mod slack;
mod startup;
mod sustained;
mod texts;
mod waiting;
mod watched;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};

use report::{BenchReport, BenchSection};

/// Measures Annalist against its baselines and prints a report
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct BenchArgs {
    #[command(subcommand)]
    what: BenchCommand,
    #[command(flatten)]
    settings: Settings,
}

/// The duration and size of the measurements.
#[derive(Debug, Clone, clap::Args)]
struct Settings {
    /// Seconds of load per run
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rounds of interleaved runs; medians are reported
    #[arg(long, global = true, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Number of keep-alive connections
    #[arg(long, global = true, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Events per second of the open-loop runs of `sustained`
    #[arg(long, global = true, value_delimiter = ',', default_values_t = [10_000, 12_000, 15_000])]
    rates: Vec<u64>,
    /// Events of the backlog of `drain`, `keep` and `compare`
    #[arg(long, global = true, default_value_t = 100_000)]
    backlog: usize,
    /// Formats of `export`: a million messages take half a minute to two minutes in each
    #[arg(long, global = true, value_delimiter = ',', default_values = export::FORMATS, value_parser = export::FORMATS)]
    formats: Vec<String>,
    /// Rows of the large channel of `flat`, messages of `import`, `export`, `keep`, `publish`, `search`, `pages` and `compare`
    #[arg(long, global = true, default_value_t = 1_000_000)]
    rows: usize,
    /// The other binary of `compare`
    #[arg(long, global = true)]
    before: Option<PathBuf>,
}

#[derive(Debug, Clone, Subcommand)]
enum BenchCommand {
    #[command(flatten)]
    Part(BenchPart),
    /// All parts except `aws`, `lambda` and `compare`
    All,
    /// The baseline that only checks the signature
    #[command(hide = true)]
    ServeBare,
    /// The baseline that commits each event
    #[command(hide = true)]
    ServeCommitPerEvent {
        /// Folder of its database
        #[arg(long)]
        data: PathBuf,
    },
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum BenchPart {
    /// Durable acks against a bare handler and one commit per event
    Acks,
    /// How fast a backlog drains
    Drain,
    /// Time from ack to readable row, at fixed rates and at full speed
    Sustained,
    /// Whether an event costs the same in a large archive
    Flat,
    /// The cost of the existence check
    Existence,
    /// How fast jobs are set aside and sent back, and in how much memory
    Waiting,
    /// How fast channel events are folded
    Channels,
    /// Whether channels and files slow messages down
    Beside,
    /// Whether reading history slows live events down
    Filling,
    /// How long the sync of a large directory takes
    Directory,
    /// How fast files are fetched, and in how much memory
    Files,
    /// How fast an export is imported, and again, and in how much memory
    Import,
    /// How fast an archive is exported in each format, and in how much memory
    Export,
    /// How long erasing a person takes
    Erase,
    /// What copies and nights cost events, and what copies write
    Keep,
    /// How fast a public site is made, and brought up to date
    Publish,
    /// How long a weekly report takes
    Figures,
    /// How fast messages are found, and how large the index is
    Search,
    /// Import, index, search, pages and acks, compared with another binary of `annalist`: `--before`
    Compare,
    /// Pages of an archive, as `annalist view` serves them
    Pages,
    /// Whether the time of long texts grows with their length alone
    Texts,
    /// How fast questions are answered, and how much that slows messages down
    Questions,
    /// Whether a fleet that answers keeps Slack's pace
    Pace,
    /// Time from start to the first 200, and memory
    Startup,
    /// Requests to AWS, their cost, and several writers there
    Aws,
    /// The parts as Lambda functions: size, startup, memory, a batch
    Lambda,
}

/// The parts of `all`, in the order of the report.
const ALL: [BenchPart; 23] = [
    BenchPart::Startup,
    BenchPart::Acks,
    BenchPart::Sustained,
    BenchPart::Drain,
    BenchPart::Flat,
    BenchPart::Existence,
    BenchPart::Waiting,
    BenchPart::Channels,
    BenchPart::Beside,
    BenchPart::Filling,
    BenchPart::Directory,
    BenchPart::Files,
    BenchPart::Import,
    BenchPart::Export,
    BenchPart::Erase,
    BenchPart::Keep,
    BenchPart::Publish,
    BenchPart::Figures,
    BenchPart::Search,
    BenchPart::Pages,
    BenchPart::Texts,
    BenchPart::Questions,
    BenchPart::Pace,
];

impl BenchPart {
    async fn measure(self, settings: &Settings) -> anyhow::Result<Vec<BenchSection>> {
        let section = match self {
            Self::Acks => acks::measure(settings).await?,
            Self::Drain => drain::measure(settings).await?,
            Self::Sustained => sustained::measure(settings).await?,
            Self::Flat => flat::measure(settings).await?,
            Self::Existence => existence::measure(settings).await?,
            Self::Waiting => waiting::measure(settings).await?,
            Self::Channels => channels::measure(settings).await?,
            Self::Beside => beside::measure(settings).await?,
            Self::Filling => filling::measure(settings).await?,
            Self::Directory => directory::measure(settings).await?,
            Self::Files => files::measure(settings).await?,
            Self::Import => import::measure(settings).await?,
            Self::Export => export::measure(settings).await?,
            Self::Erase => erase::measure(settings).await?,
            Self::Keep => return keep::measure(settings).await,
            Self::Publish => publish::measure(settings).await?,
            Self::Figures => figures::measure(settings).await?,
            Self::Search => search::measure(settings).await?,
            Self::Compare => compare::measure(settings).await?,
            Self::Pages => return pages::measure(settings).await,
            Self::Texts => texts::measure().await?,
            Self::Questions => return questions::measure(settings).await,
            Self::Pace => questions::pace::measure().await?,
            Self::Startup => startup::measure().await?,
            Self::Aws => return aws::measure(settings).await,
            Self::Lambda => return lambda::measure().await,
        };
        Ok(vec![section])
    }
}

impl Settings {
    fn load_time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn connections(&self) -> usize {
        usize::try_from(self.connections).unwrap_or(usize::MAX)
    }
}

fn main() -> anyhow::Result<()> {
    let args = BenchArgs::parse();
    let parts = match &args.what {
        // The baseline servers use all cores, as a real server would.
        BenchCommand::ServeBare => return runtime(true)?.block_on(baseline::serve_bare()),
        BenchCommand::ServeCommitPerEvent { data } => {
            return runtime(true)?.block_on(baseline::serve_commit_per_event(data));
        }
        BenchCommand::All => &ALL,
        BenchCommand::Part(part) => std::slice::from_ref(part),
    };
    progress("building the binaries");
    tests::harness::binaries::binaries();
    let watch = machine::LoadMonitor::start();
    let report = runtime(false)?.block_on(measure(parts, &args.settings))?;
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let command = format!("--profile {} -p bench --bin bench -- {arguments}", machine::profile()?);
    write!(std::io::stdout().lock(), "{}", report.markdown(&watch.summary_line(), &command))
        .context("cannot write the report")
}

async fn measure(parts: &[BenchPart], settings: &Settings) -> anyhow::Result<BenchReport> {
    let mut report = BenchReport::default();
    for part in parts {
        report.sections.extend(part.measure(settings).await?);
    }
    Ok(report)
}

fn runtime(all_cores: bool) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = if all_cores {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build().context("cannot start")
}

/// Prints progress to standard error: standard output has only the report.
fn progress(what: &str) {
    // Standard error may be closed.
    drop(writeln!(std::io::stderr(), "bench: {what}"));
}
