//! The monthly cost on AWS: list prices, the requests of the parts, and the table of docs/deploy-aws.md,
//! generated from both.
//!
//! The counts are upper bounds for a quiet workspace, in which each message comes alone. Tests compare them
//! with the requests that the parts really send.

use ports::workers::{WORKERS, WorkerSpec};

/// Prices in dollars, us-east-1, on demand. The table links to their sources.
pub mod price {
    /// A request of SQS FIFO.
    pub const SQS_REQUEST: f64 = 0.50e-6;
    /// A write unit of DynamoDB: a row of up to 1 KB.
    pub const WRITE_UNIT: f64 = 0.625e-6;
    /// A read unit: up to 4 KB, consistently.
    pub const READ_UNIT: f64 = 0.125e-6;
    /// A GB of rows for a month, and of their backups.
    pub const ROWS_GB: f64 = 0.25 + 0.20;
    /// A put of S3.
    pub const S3_PUT: f64 = 5e-6;
    /// A GB of files for a month.
    pub const FILES_GB: f64 = 0.023;
    /// An invocation of a function.
    pub const INVOCATION: f64 = 0.20e-6;
    /// A GB of memory for a second, on arm64.
    pub const GB_SECOND: f64 = 0.000_013_333_4;
    /// A custom metric for a month.
    pub const METRIC: f64 = 0.30;
    /// An alarm for a month.
    pub const ALARM: f64 = 0.10;
    pub const LOGS_GB: f64 = 0.50;
    /// A secret for a month.
    pub const SECRET: f64 = 0.40;
}

/// The cost, at list prices, of counting a message once with its day, in a channel with this number of
/// messages a day.
pub fn cost_of_figures(messages_of_a_day: f64) -> f64 {
    /// A message of 1.3 KB, read consistently.
    const READ_UNITS_OF_A_MESSAGE: f64 = 1.3 / 4.0;
    /// Per day: the row that requests the roll-up, written and deleted; its version; a roll-up of up to 8 KB;
    /// a first post.
    const WRITE_UNITS_OF_A_DAY: f64 = 2.0 + 1.0 + 8.0 + 1.0;
    /// Both rows and the day's, and the profiles and first posts of 30 people.
    const READ_UNITS_OF_A_DAY: f64 = 4.0 + 60.0;
    // A send, a receive and a delete, and an invocation of half a second in 256 MB.
    let job = 3.0 * price::SQS_REQUEST + price::INVOCATION + 0.5 * 0.25 * price::GB_SECOND;
    let day = WRITE_UNITS_OF_A_DAY * price::WRITE_UNIT + READ_UNITS_OF_A_DAY * price::READ_UNIT + job;
    READ_UNITS_OF_A_MESSAGE * price::READ_UNIT + day / messages_of_a_day
}

/// The free tier of every account each month, even after its first year.
mod free {
    pub(super) const INVOCATIONS: f64 = 1e6;
    pub(super) const GB_SECONDS: f64 = 400_000.0;
    pub(super) const SQS_REQUESTS: f64 = 1e6;
    pub(super) const ROWS_GB: f64 = 25.0;
    pub(super) const METRICS: f64 = 10.0;
    pub(super) const ALARMS: f64 = 10.0;
    pub(super) const LOGS_GB: f64 = 5.0;
}

const MONTH_S: u64 = 30 * 24 * 60 * 60;

/// The seconds between two SQS requests of each kind by an idle worker process.
#[derive(Debug, Clone, Copy)]
pub struct IdleWorker {
    /// Receives from its queue: one long poll after the other.
    pub receive_s: u64,
    /// Receives from its dead-letter queue: a long poll, and a pause.
    pub dead_letters_s: u64,
    /// Reads of the depth of each of the two queues.
    pub depth_s: u64,
}

impl IdleWorker {
    /// A separate process, or a part of `annalist up`.
    pub const LONG_RUNNING: Self = Self { receive_s: 20, dead_letters_s: 320, depth_s: 60 };

    /// Requests in a month.
    #[must_use]
    pub fn requests(self) -> u64 {
        MONTH_S / self.receive_s + MONTH_S / self.dead_letters_s + 2 * (MONTH_S / self.depth_s)
    }
}

/// The requests for one message on Lambda if it comes alone, the functions are new, and its existence check
/// asks Slack.
pub struct OneMessage;

impl OneMessage {
    /// One of ingest and one of the message-writer.
    pub const INVOCATIONS: u64 = 2;
    /// A send, a receive and a delete.
    pub const SQS_REQUESTS: u64 = 3;
    /// Updates of the archive's table: the message and, once an hour, that its channel is public, and that the
    /// channel's day has changes.
    pub const ROW_WRITES: u64 = 3;
    /// Those of a message whose channel and day are marked in this hour.
    pub const ROW_WRITES_IF_MARKED: u64 = 1;
    /// Those that only the first message of a channel adds: the marks of the channel and of its workspace.
    pub const ROW_WRITES_OF_A_NEW_CHANNEL: u64 = 2;
    /// Rows of the archive's table that a new function reads: these three marks, when something was last erased, and
    /// what was erased in the workspace.
    pub const ROW_READS: u64 = 5;
    /// Rows of the existence check's table that are read.
    pub const CONFIRMED_READ: u64 = 1;
    /// Rows of the existence check's table that are written.
    pub const CONFIRMED_WRITTEN: u64 = 1;
    /// Write units of both tables, without those of its file.
    pub const WRITE_UNITS: f64 = (Self::ROW_WRITES + Self::CONFIRMED_WRITTEN) as f64 + UNITS_BEYOND_ONE;
    /// The seconds for which it keeps a function of ingest, and one of the message-writer.
    pub const INGEST_S: f64 = 0.005;
    pub const WRITER_S: f64 = 0.5;
}

/// Additional write units: a message with its raw event exceeds the KB of one unit, or a reply is also in the
/// index.
const UNITS_BEYOND_ONE: f64 = 1.0;
/// A message and its index, in GB.
const ROW_GB: f64 = 2e-6;
/// Ingest, 5 ms in 512 MB; the message-writer, half a second in 256 MB, including its request to Slack.
const GB_SECONDS_OF_A_MESSAGE: f64 = OneMessage::INGEST_S * 0.5 + OneMessage::WRITER_S * 0.25;
/// Lambda's own three lines for each of the two invocations, and the line of metrics.
const LOG_GB: f64 = 1.2e-6;

/// A message in twenty has a file, of 1 MB.
pub const FILES: f64 = 0.05;
const FILE_GB: f64 = 1e-3;
/// A send, a receive, a delete; the file's row, the message's, a claim taken, renewed and completed; two
/// seconds in 512 MB.
const SQS_REQUESTS_OF_A_FILE: f64 = 3.0;
pub const UNITS_OF_A_FILE: f64 = 6.0;
/// The seconds for which it keeps a function of the file-downloader.
pub const FILE_S: f64 = 2.0;
const GB_SECONDS_OF_A_FILE: f64 = FILE_S * 0.5;

/// Each queue that wakes a function is polled by at most five of Lambda's pollers, one long poll of 20 s
/// after the other; by two if it is quiet and its function has no concurrency limit.
const POLLERS: f64 = 5.0;
const POLLERS_WITHOUT_LIMIT: f64 = 2.0;
const POLL_S: u64 = 20;
/// The directory of a workspace is synced each hour, for a minute in 512 MB.
const HOURS: f64 = 730.0;
pub const SYNC_S: f64 = 60.0;
const GB_SECONDS_OF_A_SYNC: f64 = SYNC_S * 0.5;
/// The number of alarms by default.
pub const ALARMS: f64 = 6.0;
/// The number of metrics by default, those of [`aws_resources::summary::SUMMARY`].
pub const METRICS: f64 = 6.0;

/// The cost, at list prices, of a month of the hourly directory sync of one more workspace: one is in the bill.
pub const ONE_MORE_DIRECTORY: f64 = HOURS * GB_SECONDS_OF_A_SYNC * price::GB_SECOND;

/// The cost, at list prices, of a month in which Lambda would poll the queues of all workers as if their concurrency
/// were limited.
pub fn limits_for_all() -> f64 {
    let unlimited = woken().filter(|spec| spec.concurrency.is_none()).count() as f64;
    unlimited * (POLLERS - POLLERS_WITHOUT_LIMIT) * (MONTH_S / POLL_S) as f64 * price::SQS_REQUEST
}

/// The workers whose functions are woken by queues, without those of features, which exist only if they are on.
fn woken() -> impl Iterator<Item = &'static WorkerSpec> {
    WORKERS.iter().filter(|spec| spec.requires.is_none())
}

/// A line of the bill: the list price, and the part of it that is free for every account.
struct Line {
    label: &'static str,
    list: f64,
    free: f64,
}

/// The bill of a month with this number of messages.
fn lines(messages: f64) -> Vec<Line> {
    let files = messages * FILES;
    let line = |label, price: f64, count: f64, free: f64| Line {
        label,
        list: price * count,
        free: price * count.min(free),
    };
    let of = |count: u64| messages * count as f64;
    // Each worker takes its dead letters on its schedule.
    let scheduled: f64 = woken().map(|spec| HOURS * 3_600.0 / spec.schedule.as_secs_f64()).sum();
    let pollers = |spec: &WorkerSpec| spec.concurrency.map_or(POLLERS_WITHOUT_LIMIT, |_| POLLERS);
    let invocations = of(OneMessage::INVOCATIONS) + files + scheduled + HOURS;
    let gb_seconds =
        messages * GB_SECONDS_OF_A_MESSAGE + files * GB_SECONDS_OF_A_FILE + HOURS * GB_SECONDS_OF_A_SYNC;
    let polls = woken().map(pollers).sum::<f64>() * (MONTH_S / POLL_S) as f64 + scheduled;
    let requests = of(OneMessage::SQS_REQUESTS) + files * SQS_REQUESTS_OF_A_FILE;
    let left = (free::SQS_REQUESTS - polls).max(0.0);
    let write_units = of(OneMessage::ROW_WRITES + OneMessage::CONFIRMED_WRITTEN)
        + messages * UNITS_BEYOND_ONE
        + files * UNITS_OF_A_FILE;
    let rows_gb = messages * ROW_GB;
    let mut rows = line("", price::ROWS_GB, rows_gb, 0.0);
    // Backups have no free tier.
    rows.free = 0.25 * rows_gb.min(free::ROWS_GB);
    vec![
        line(
            "[Lambda](https://aws.amazon.com/lambda/pricing/), invocations",
            price::INVOCATION,
            invocations,
            free::INVOCATIONS,
        ),
        line("Lambda, duration", price::GB_SECOND, gb_seconds, free::GB_SECONDS),
        line("[SQS](https://aws.amazon.com/sqs/pricing/), messages", price::SQS_REQUEST, requests, left),
        line("SQS, polls of empty queues", price::SQS_REQUEST, polls, free::SQS_REQUESTS),
        line(
            "[DynamoDB](https://aws.amazon.com/dynamodb/pricing/on-demand/), writes",
            price::WRITE_UNIT,
            write_units,
            0.0,
        ),
        line(
            "DynamoDB, reads",
            price::READ_UNIT,
            of(OneMessage::ROW_READS + OneMessage::CONFIRMED_READ),
            0.0,
        ),
        Line { label: "DynamoDB, this month's rows and their backup", ..rows },
        line("[S3](https://aws.amazon.com/s3/pricing/), puts", price::S3_PUT, files, 0.0),
        line("S3, this month's files", price::FILES_GB, files * FILE_GB, 0.0),
        line(
            "[CloudWatch](https://aws.amazon.com/cloudwatch/pricing/), metrics",
            price::METRIC,
            METRICS,
            free::METRICS,
        ),
        line("CloudWatch, alarms", price::ALARM, ALARMS, free::ALARMS),
        line("CloudWatch, logs", price::LOGS_GB, messages * LOG_GB, free::LOGS_GB),
        line("function URL, schedules", 0.0, 0.0, 0.0),
    ]
}

/// The total cost of a month with this number of messages, with the secrets in the functions' variables and
/// after AWS's free tier.
pub fn monthly_cost(messages: f64) -> f64 {
    lines(messages).iter().map(|line| line.list - line.free).sum()
}

/// The cost of a month with this number of messages at list prices: of its work, and of storing what it adds.
pub fn list_prices(messages: f64) -> (f64, f64) {
    let rows_and_files = messages * (ROW_GB * price::ROWS_GB + FILES * FILE_GB * price::FILES_GB);
    (lines(messages).iter().map(|line| line.list).sum::<f64>() - rows_and_files, rows_and_files)
}

/// The table of docs/deploy-aws.md.
pub fn markdown_table() -> String {
    let months = [1e4, 1e5, 1e6];
    let bills = months.map(lines);
    let row = |label: &str, dollars: [f64; 3]| {
        let [first, second, third] = dollars.map(|dollars| format!("{dollars:.2}"));
        format!("| {label} | {first} | {second} | {third} |\n")
    };
    let mut table =
        String::from("| dollars a month, for | 10,000 messages | 100,000 | 1,000,000 |\n|---|---|---|---|\n");
    for (index, line) in bills[0].iter().enumerate() {
        table += &row(line.label, bills.each_ref().map(|bill| bill[index].list));
    }
    let list = bills.each_ref().map(|bill| bill.iter().map(|line| line.list).sum::<f64>());
    table += &row("at list prices", list);
    table += &row(
        "less what is [always free](https://aws.amazon.com/free/)",
        bills.each_ref().map(|bill| -bill.iter().map(|line| line.free).sum::<f64>()),
    );
    table += &row("**in all**", months.map(monthly_cost));
    table += &row(
        "with the bot token in [Secrets Manager](https://aws.amazon.com/secrets-manager/pricing/)",
        months.map(|messages| monthly_cost(messages) + price::SECRET),
    );
    table
        + &row(
            "with the signing secret there, too",
            months.map(|messages| monthly_cost(messages) + 2.0 * price::SECRET),
        )
}

#[cfg(test)]
mod tests {
    use aws_resources::names::Names;
    use aws_resources::summary::SUMMARY;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_small_workspace_costs_little_more_than_a_dollar_a_month() {
        let dollars = monthly_cost(1e4);
        assert!(dollars < 1.3, "{dollars}");
        assert!((SUMMARY.len() as f64 - METRICS).abs() < f64::EPSILON);
    }

    #[test]
    fn the_bill_has_every_queue_that_wakes_a_function_by_default() {
        let names = Names::new("annalist", [None; 3], "bucket").unwrap();
        let template: Value = serde_json::from_str(&aws_resources::template_json(
            &names,
            aws_resources::TemplateOptions::default(),
        ))
        .unwrap();
        let is_mapping = |resource: &&Value| resource["Type"] == "AWS::Lambda::EventSourceMapping";
        let mappings = template["Resources"].as_object().unwrap().values().filter(is_mapping);
        let by_default = mappings.filter(|mapping| mapping.get("Condition").is_none()).count();
        assert_eq!(by_default, woken().count());
    }

    #[test]
    fn an_idle_fleet_of_processes_costs_about_half_a_dollar_a_month() {
        let requests = WORKERS.len() as u64 * IdleWorker::LONG_RUNNING.requests();
        let dollars = (requests as f64 - free::SQS_REQUESTS).max(0.0) * price::SQS_REQUEST;
        assert!(dollars < 0.55, "{requests} requests, {dollars} dollars");
    }

    #[test]
    fn figures_of_a_million_messages_cost_six_cents_at_most() {
        let dollars = cost_of_figures(1_000.0) * 1e6;
        assert!(dollars <= 0.06, "{dollars}");
    }
}
