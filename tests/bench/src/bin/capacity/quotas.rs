//! The limits: AWS's quotas, each with its page, and those that this program sets itself.

/// A limit of a cell. A cell is an installation in an account of its own.
pub(crate) struct Quota {
    pub(crate) name: &'static str,
    pub(crate) limit: f64,
    /// Whether a parameter of the template or a request to AWS raises it.
    pub(crate) adjustable: bool,
    /// The vendor's page, or the page of this project.
    pub(crate) source: &'static str,
}

const fn quota(name: &'static str, limit: f64, adjustable: bool, source: &'static str) -> Quota {
    Quota { name, limit, adjustable, source }
}

const PARAMETERS: &str = "deploy-aws.md#3-the-stack";
const SQS_MESSAGES: &str =
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html";

/// Calls a second of each action on FIFO queues with high throughput. AWS's page does not say whether they can
/// be raised, so they count as fixed.
const CALLS_PER_S: [(&[&str], f64); 4] = [
    (&["us-east-1", "us-west-2", "eu-west-1"], 70_000.0),
    (&["us-east-2", "eu-central-1"], 19_000.0),
    (&["ap-south-1", "ap-southeast-1", "ap-southeast-2", "ap-northeast-1"], 9_000.0),
    (&["eu-west-2", "sa-east-1"], 4_500.0),
];

/// That of a region that the page does not list: the smallest.
const OTHER_CALLS_PER_S: f64 = 2_400.0;

/// The calls a second in a region, and whether the page lists it.
pub(crate) fn calls_per_s(region: &str) -> (f64, bool) {
    let listed = CALLS_PER_S.iter().find(|(regions, _)| regions.contains(&region));
    listed.map_or((OTHER_CALLS_PER_S, false), |(_, limit)| (*limit, true))
}

/// The table of regions, for the page.
pub(crate) fn regions() -> impl Iterator<Item = (String, f64)> {
    let listed = CALLS_PER_S.iter().map(|(regions, limit)| (regions.join(", "), *limit));
    listed.chain([("every other region".to_owned(), OTHER_CALLS_PER_S)])
}

pub(crate) fn queue_calls(region: &str) -> Quota {
    let (limit, is_listed) = calls_per_s(region);
    let name = if is_listed {
        "SQS FIFO, calls of an action"
    } else {
        "SQS FIFO, calls of an action: AWS lists no number for this region, so this is the smallest"
    };
    quota(name, limit, false, SQS_MESSAGES)
}

/// Whether this could be the name of a region: `eu-central-1`, `us-gov-west-1`.
pub(crate) fn is_region(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [first, words @ .., number] = parts.as_slice() else { return false };
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    first.len() == 2
        && is_word(first)
        && !words.is_empty()
        && words.iter().all(is_word)
        && number.len() == 1
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// A message group is on one partition.
pub(crate) const GROUP_CALLS: Quota =
    quota("SQS FIFO, calls of an action on one partition", 300.0, false, SQS_MESSAGES);

/// SQS looks for groups among these messages only.
pub(crate) const WINDOW: Quota = quota(
    "SQS FIFO, messages among which a receive looks for groups",
    120_000.0,
    false,
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/avoiding-processing-large-message-backlogs-with-same-group-id.html",
);

/// `IngestConcurrency`, and the requests a second of each of its functions.
pub(crate) const INGEST_FUNCTIONS: f64 = 20.0;
pub(crate) const REQUESTS: Quota = quota(
    "`IngestConcurrency` (20), ten requests a second each",
    INGEST_FUNCTIONS * 10.0,
    true,
    "https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html",
);

pub(crate) const FUNCTIONS: Quota = quota(
    "Lambda, concurrent functions of an account",
    1_000.0,
    true,
    "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
);

pub(crate) const UNITS: Quota = quota(
    "DynamoDB on demand, units of a table",
    40_000.0,
    true,
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html",
);

/// S3 splits a busy prefix without being asked.
pub(crate) const PUTS: Quota = quota(
    "S3, puts under a prefix, before S3 splits it",
    3_500.0,
    false,
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html",
);

/// What the functions of the directory sync at once: `DirectoryConcurrency`, from the table of workers.
pub(crate) const fn syncs_at_once(functions: f64) -> Quota {
    quota("`DirectoryConcurrency` (5)", functions, true, PARAMETERS)
}

/// What full batches of ten allow: `MessageWriterConcurrency` and `FileDownloaderConcurrency`, from the table
/// of workers.
pub(crate) const fn full_batches(name: &'static str, functions: f64, batch_s: f64) -> Quota {
    quota(name, functions * 10.0 / batch_s, true, PARAMETERS)
}

/// A secret has at most 64 KiB: a token of 57 characters, its workspace and their quotes take 74 bytes.
/// `BotTokenArn` takes several.
pub(crate) const TOKENS_OF_A_SECRET: f64 = 65_536.0 / 74.0;
pub(crate) const SECRET: Quota = quota(
    "Secrets Manager, tokens in one secret",
    TOKENS_OF_A_SECRET,
    true,
    "https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_limits.html",
);

/// A cell holds no more, so that a bad release or a full table reaches no more than these.
pub(crate) const CELL_WORKSPACES: Quota = quota("a cell", 500.0, false, "several-workspaces.md#cells");
