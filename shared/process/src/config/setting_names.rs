//! The names of all settings.

use slack::credentials::{APP_TOKEN, BOT_TOKEN, MODEL_KEY, PROCESSOR_TOKEN, SIGNING_SECRET};

use super::viewer::CLIENT_SECRET;

/// Every setting of every program. One that a program does not use is no mistake: several share a file.
pub(super) const NAMES: [&str; 80] = [
    "ANNALIST_ACCESS_LOG",
    "ANNALIST_BACKEND",
    "ANNALIST_BACKFILL",
    "ANNALIST_BUCKET",
    "ANNALIST_CLAIMS_TABLE",
    "ANNALIST_CLAIM_TTL_S",
    "ANNALIST_CONTEXT_BYTES",
    "ANNALIST_COPY_KEEP",
    "ANNALIST_COPY_TO",
    DATA,
    "ANNALIST_EXISTENCE_CHECK",
    "ANNALIST_EXISTENCE_TABLE",
    "ANNALIST_FILES",
    "ANNALIST_FILES_PER_MINUTE",
    "ANNALIST_INDEX",
    "ANNALIST_LISTEN",
    "ANNALIST_LOG",
    "ANNALIST_MAX_FILE_BYTES",
    "ANNALIST_MEMBERS",
    "ANNALIST_METRICS",
    "ANNALIST_METRICS_LISTEN",
    "ANNALIST_MODEL",
    "ANNALIST_NIGHTLY_AT",
    "ANNALIST_NO_JOIN",
    "ANNALIST_OIDC_CLIENT_ID",
    CLIENT_SECRET,
    "ANNALIST_OIDC_ISSUER",
    "ANNALIST_OIDC_REQUIRE",
    "ANNALIST_OIDC_SCOPE",
    "ANNALIST_OIDC_USER_CLAIM",
    "ANNALIST_PAGEFIND",
    "ANNALIST_PREFIX",
    "ANNALIST_PROCESSOR_CMD",
    "ANNALIST_PROCESSOR_TIMEOUT_S",
    PROCESSOR_TOKEN.value,
    PROCESSOR_TOKEN.arn,
    "ANNALIST_PROCESSOR_URL",
    "ANNALIST_PUBLISH_CHANNELS_FILE",
    "ANNALIST_PUBLISH_FILES",
    "ANNALIST_PUBLISH_NAMES",
    "ANNALIST_PUBLISH_OUT",
    "ANNALIST_PUBLISH_SEARCH",
    "ANNALIST_PUBLISH_TITLE",
    "ANNALIST_PUBLISH_UPLOAD",
    "ANNALIST_PUBLISH_URL",
    "ANNALIST_QUESTION_MAX_AGE_S",
    "ANNALIST_REPLIES_PER_MINUTE",
    "ANNALIST_REPLIES_PER_SECOND",
    "ANNALIST_RESPONDER",
    "ANNALIST_RESPONDER_CONCURRENCY",
    "ANNALIST_RESPONDER_PER_HOUR",
    "ANNALIST_RESPONDER_PER_THREAD",
    "ANNALIST_RESPONDER_PER_USER_HOUR",
    SETTINGS,
    "ANNALIST_SOCKET_CONNECTIONS",
    "ANNALIST_SYSTEM_PROMPT_FILE",
    "ANNALIST_TABLE",
    "ANNALIST_TZ",
    "ANNALIST_VIEWER_ADMINS",
    "ANNALIST_VIEWER_API_PER_MINUTE",
    "ANNALIST_VIEWER_GUESTS",
    "ANNALIST_VIEWER_HOST",
    "ANNALIST_VIEWER_LISTEN",
    "ANNALIST_VIEWER_PASSWORD_FILE",
    "ANNALIST_VIEWER_PEOPLE_FILE",
    "ANNALIST_VIEWER_PRIVATE",
    "ANNALIST_VIEWER_URL",
    "ANNALIST_VIEWER_USER_HEADER",
    "ANNALIST_WAIT_DAYS",
    MODEL_KEY.value,
    MODEL_KEY.arn,
    "ANTHROPIC_BASE_URL",
    API_URL,
    APP_TOKEN,
    BOT_TOKENS_FILE,
    BOT_TOKEN.value,
    BOT_TOKEN.arn,
    SIGNING_SECRETS_FILE,
    SIGNING_SECRET.value,
    SIGNING_SECRET.arn,
];

/// The names that this program reads. Other programs may keep their settings in the same file.
const PREFIXES: [&str; 3] = ["ANNALIST_", "ANTHROPIC_", "SLACK_"];

/// The settings that lead to the file.
pub(super) const DATA: &str = "ANNALIST_DATA";
pub(super) const SETTINGS: &str = "ANNALIST_SETTINGS";

/// The variable of the base of Slack's Web API.
pub(super) const API_URL: &str = "SLACK_API_URL";

/// The variable that names a file of tokens: a JSON object of workspace ids and bot tokens.
pub(super) const BOT_TOKENS_FILE: &str = "SLACK_BOT_TOKENS_FILE";

/// The variable that names a file of signing secrets: a JSON object of app ids and secrets.
pub(super) const SIGNING_SECRETS_FILE: &str = "SLACK_SIGNING_SECRETS_FILE";

/// Whether a program reads this setting.
#[must_use]
pub fn is_setting(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn is_ours(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
