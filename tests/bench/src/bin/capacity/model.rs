//! From a number of workspaces to demand, cells, cost, and what a failure reaches. Arithmetic only.

use ::tests::bill::{self, OneMessage, price};
use ports::workers::{QueueName, WORKERS, WorkerSpec};
use serde::Serialize;

use super::quotas::{self, Quota};

/// What is assumed of a workspace, apart from the counts of the bill.
pub(crate) mod demand {
    /// Events of a workspace a day, each of them counted as a message.
    pub(crate) const EVENTS_PER_DAY: f64 = 2_000.0;
    /// The busiest minute compared with the mean: eight hours of five days of a week are 4.2 times the mean, and
    /// within them some minutes are busier.
    pub(crate) const PEAK: f64 = 7.0;
    /// Slack delivers at most this to a workspace in an hour: <https://docs.slack.dev/apis/events-api/#rate-limiting>
    pub(crate) const SLACK_EVENTS_PER_HOUR: f64 = 30_000.0;
}

const DAYS_OF_A_MONTH: f64 = 30.0;

/// A stage of one cell.
#[derive(Debug, Serialize)]
pub(crate) struct Stage {
    pub(crate) stage: &'static str,
    /// Of a cell, at the peak.
    pub(crate) demand: f64,
    pub(crate) unit: &'static str,
    pub(crate) quota: &'static str,
    pub(crate) limit: f64,
    pub(crate) utilisation: f64,
    pub(crate) adjustable: bool,
    pub(crate) source: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct EventRate {
    pub(crate) mean: f64,
    pub(crate) peak: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct BindingQuota {
    pub(crate) stage: &'static str,
    pub(crate) quota: &'static str,
    pub(crate) utilisation: f64,
}

/// Dollars a month.
#[derive(Debug, Serialize)]
pub(crate) struct CellCost {
    /// Work, and what costs without work.
    pub(crate) requests: f64,
    /// Storing what a year has added.
    pub(crate) storage_year: f64,
    /// Both, for each workspace.
    pub(crate) per_workspace: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct OutageDrain {
    pub(crate) outage_h: u32,
    /// Until the events that Slack sent meanwhile are stored. None: never, at these limits.
    pub(crate) minutes: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BlastRadius {
    pub(crate) failure: &'static str,
    pub(crate) workspaces: u64,
    pub(crate) effect: &'static str,
}

/// The plan for a number of workspaces in a region.
#[derive(Debug, Serialize)]
pub(crate) struct CapacityPlan {
    pub(crate) workspaces: u64,
    pub(crate) region: String,
    pub(crate) cells: u64,
    pub(crate) events_per_s: EventRate,
    pub(crate) stages: Vec<Stage>,
    pub(crate) binding: BindingQuota,
    /// Whether each stage is within its limit as it is by default: if not, the adjustable ones have to be raised.
    pub(crate) fits: bool,
    pub(crate) cost: CellCost,
    pub(crate) drain: [OutageDrain; 2],
    pub(crate) blast_radius: [BlastRadius; 6],
}

fn mean_per_s(workspaces: f64) -> f64 {
    workspaces * demand::EVENTS_PER_DAY / 86_400.0
}

fn functions_of(queue: QueueName) -> f64 {
    WorkerSpec::for_queue(queue).concurrency.map_or(1.0, f64::from)
}

/// The events a second that the message-writer's functions store in full batches.
fn writer_quota() -> Quota {
    let functions = functions_of(QueueName::Events);
    quotas::full_batches("`MessageWriterConcurrency` (10), full batches", functions, OneMessage::WRITER_S)
}

/// The functions that a cell may run at once: those with a limit, and one for each workspace of every worker
/// without a limit.
fn concurrent_functions(workspaces: f64) -> f64 {
    let woken = WORKERS.iter().filter(|spec| spec.requires.is_none());
    let workers: f64 = woken.map(|spec| spec.concurrency.map_or(workspaces, f64::from)).sum();
    quotas::INGEST_FUNCTIONS + workers
}

/// How many workspaces a night may have before the account's functions are all in use.
pub(crate) fn workspaces_of_the_functions() -> f64 {
    let without = concurrent_functions(0.0);
    ((quotas::FUNCTIONS.limit - without) / (concurrent_functions(1.0) - without)).floor()
}

/// The stages of a cell with this number of workspaces.
fn stages(workspaces: f64, region: &str) -> Vec<Stage> {
    let (mean, peak) = (mean_per_s(workspaces), mean_per_s(workspaces) * demand::PEAK);
    let files = functions_of(QueueName::Files);
    let of = |stage, demand: f64, unit, quota: Quota| Stage {
        stage,
        demand,
        unit,
        quota: quota.name,
        limit: quota.limit,
        utilisation: demand / quota.limit,
        adjustable: quota.adjustable,
        source: quota.source,
    };
    vec![
        of("ingest", peak, "requests/s", quotas::REQUESTS),
        of("queue `events`", peak, "calls/s", quotas::queue_calls(region)),
        of("one channel", demand::SLACK_EVENTS_PER_HOUR / 3_600.0, "calls/s", quotas::GROUP_CALLS),
        of("queue `events` after an hour without workers", mean * 3_600.0, "messages", quotas::WINDOW),
        of("message-writer", peak, "events/s", writer_quota()),
        of(
            "file-downloader",
            peak * bill::FILES,
            "files/s",
            quotas::full_batches("`FileDownloaderConcurrency` (2), full batches", files, bill::FILE_S),
        ),
        of(
            "directory",
            workspaces * bill::SYNC_S / 3_600.0,
            "syncs at once",
            quotas::syncs_at_once(functions_of(QueueName::Directory)),
        ),
        of(
            "archive, writes",
            peak * (OneMessage::WRITE_UNITS + bill::FILES * bill::UNITS_OF_A_FILE),
            "units/s",
            quotas::UNITS,
        ),
        of("archive, reads", peak * OneMessage::CONFIRMED_READ as f64, "units/s", quotas::UNITS),
        of("files", peak * bill::FILES, "puts/s", quotas::PUTS),
        of("functions", concurrent_functions(workspaces), "at once, at night", quotas::FUNCTIONS),
        of("tokens", workspaces, "tokens", quotas::SECRET),
        of("workspaces", workspaces, "workspaces", quotas::CELL_WORKSPACES),
    ]
}

/// The largest cell in this region: what no limit that is fixed forbids.
fn largest_cell(region: &str) -> f64 {
    let per_cell = quotas::CELL_WORKSPACES.limit;
    let fixed = stages(per_cell, region).into_iter().filter(|stage| !stage.adjustable);
    let worst = fixed.map(|stage| stage.utilisation).fold(0.0, f64::max);
    (per_cell / worst.max(1.0)).floor()
}

/// Minutes until the backlog of an outage is stored, while events go on.
fn drain(mean: f64, outage_h: u32) -> OutageDrain {
    let spare = writer_quota().limit - mean;
    let minutes = (spare > 0.0).then(|| mean * f64::from(outage_h) * 60.0 / spare);
    OutageDrain { outage_h, minutes }
}

fn cost(workspaces: f64, cells: f64) -> CellCost {
    let messages = workspaces * demand::EVENTS_PER_DAY * DAYS_OF_A_MONTH;
    let (requests, storage) = bill::list_prices(messages / cells);
    // The tokens, and the signing secrets.
    let secrets = (workspaces / cells / quotas::TOKENS_OF_A_SECRET).ceil() + 1.0;
    let requests =
        cells * (requests + secrets * price::SECRET) + (workspaces - cells) * bill::ONE_MORE_DIRECTORY;
    let storage_year = 12.0 * cells * storage;
    CellCost { requests, storage_year, per_workspace: (requests + storage_year) / workspaces }
}

fn blast_radius(workspaces: u64, of_a_cell: u64) -> [BlastRadius; 6] {
    let of = |failure, workspaces, effect| BlastRadius { failure, workspaces, effect };
    [
        of("a token is refused", 1, "its jobs wait beside the queue and go on when the token is changed"),
        of("a signing secret is wrong", 1, "its events are refused; gaps are filled from Slack's history"),
        of(
            "a workspace sends as much as Slack allows",
            1,
            "its own channels are late; the others share the functions that it leaves",
        ),
        of("the archive's table is away or full", of_a_cell, "events wait on the queue, for 14 days"),
        of("a release is bad", of_a_cell, "the other cells still run the release before"),
        of("the region is away", workspaces, "Slack tries three times; gaps are filled from its history"),
    ]
}

/// The plan for this many workspaces, at least one.
pub(crate) fn plan(workspaces: u64, region: &str) -> CapacityPlan {
    let all = workspaces as f64;
    let cells = (all / largest_cell(region)).ceil();
    let of_a_cell = (all / cells).ceil();
    let stages = stages(of_a_cell, region);
    // The size of a cell is chosen, and no demand.
    let demands = stages.iter().filter(|stage| stage.stage != "workspaces");
    let binding = demands.max_by(|first, second| first.utilisation.total_cmp(&second.utilisation));
    let binding = binding.map_or(BindingQuota { stage: "", quota: "", utilisation: 0.0 }, |stage| {
        BindingQuota { stage: stage.stage, quota: stage.quota, utilisation: stage.utilisation }
    });
    CapacityPlan {
        workspaces,
        region: region.to_owned(),
        cells: cells as u64,
        events_per_s: EventRate { mean: mean_per_s(all), peak: mean_per_s(all) * demand::PEAK },
        fits: stages.iter().all(|stage| stage.utilisation <= 1.0),
        binding,
        stages,
        cost: cost(all, cells),
        drain: [drain(mean_per_s(of_a_cell), 1), drain(mean_per_s(of_a_cell), 24)],
        blast_radius: blast_radius(workspaces, of_a_cell as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_binding_quota_and_a_cost() {
        for workspaces in [1, 10, 500, 1_000, 100_000] {
            let plan = plan(workspaces, "us-east-1");
            assert!(plan.binding.utilisation > 0.0, "{plan:?}");
            assert!(plan.stages.iter().all(|stage| stage.utilisation <= plan.binding.utilisation
                || stage.stage == "workspaces"));
            assert!(plan.cost.requests > 0.0 && plan.cost.storage_year > 0.0, "{plan:?}");
            assert_eq!(plan.cells, workspaces.div_ceil(500), "{plan:?}");
        }
    }

    #[test]
    fn one_workspace_costs_what_the_bill_says() {
        let plan = plan(1, "us-east-1");
        let (requests, storage) = bill::list_prices(60_000.0);
        assert!((plan.cost.requests - requests - 2.0 * price::SECRET).abs() < 1e-9, "{plan:?}");
        assert!((plan.cost.storage_year - 12.0 * storage).abs() < 1e-9, "{plan:?}");
    }

    #[test]
    fn demand_is_made_of_the_counts_that_the_bills_tests_measure() {
        // An event a second.
        let stages = stages(86_400.0 / demand::EVENTS_PER_DAY / demand::PEAK, "us-east-1");
        let demand = |name: &str| stages.iter().find(|stage| stage.stage == name).unwrap().demand;
        let writes = (OneMessage::ROW_WRITES + OneMessage::CONFIRMED_WRITTEN) as f64;
        assert!(demand("archive, writes") >= writes + bill::FILES * bill::UNITS_OF_A_FILE);
        assert!((demand("archive, reads") - OneMessage::CONFIRMED_READ as f64).abs() < 1e-9);
        // A send, a receive and a delete are one call each of its action.
        assert!((demand("queue `events`") - OneMessage::SQS_REQUESTS as f64 / 3.0).abs() < 1e-9);
        assert!((demand("ingest") - 1.0).abs() < 1e-9);
    }

    #[test]
    fn regions_differ_and_an_unlisted_one_has_the_smallest_number() {
        let limit = |region| stages(500.0, region).remove(1);
        assert!(limit("eu-central-1").limit < limit("us-east-1").limit);
        assert!(limit("eu-north-1").limit <= limit("sa-east-1").limit);
        assert!(limit("eu-north-1").quota.contains("lists no number"));
    }

    #[test]
    fn a_cell_that_cannot_keep_up_never_drains() {
        assert!(drain(mean_per_s(500.0), 1).minutes.unwrap() < 10.0);
        assert!(drain(mean_per_s(50_000.0), 1).minutes.is_none());
    }
}
