//! The parameters of a call for messages, and the check whether its token may read the channel.

use serde_json::Value;

use crate::answer::refused;
use crate::paging::Paging;
use crate::workspace::FakeWorkspace;

/// Page size if the caller does not set a limit.
const DEFAULT_LIMIT: usize = 100;
/// Maximum page size.
const MAX_LIMIT: usize = 999;
/// Default and maximum page size of an app that Slack restricts.
const RESTRICTED_LIMIT: usize = 15;

/// The requested interval and page. `after` and `before` are the exclusive ends in microseconds.
pub(crate) struct SpanRequest {
    pub(crate) after: i64,
    pub(crate) before: i64,
    /// Messages before this time, in microseconds, are hidden.
    pub(crate) visible_from: i64,
    pub(crate) limit: usize,
    pub(crate) metadata: bool,
    /// The position of the cursor.
    pub(crate) position: Option<i64>,
}

impl SpanRequest {
    pub(crate) fn read<'a>(
        workspace: &FakeWorkspace,
        parameter: &impl Fn(&str) -> &'a str,
        paging: Paging,
    ) -> Result<Self, Value> {
        check_access(workspace, parameter("channel"))?;
        let inclusive = i64::from(matches!(parameter("inclusive"), "true" | "1"));
        let end = |name: &str, error: &str| match parameter(name) {
            "" => Ok(None),
            text => micros(text).map(Some).ok_or_else(|| refused(error)),
        };
        let after = end("oldest", "invalid_ts_oldest")?.map_or(-1, |oldest| oldest - inclusive);
        let before = end("latest", "invalid_ts_latest")?.map_or(i64::MAX, |latest| latest + inclusive);
        let (default, most) = if workspace.restricted {
            (RESTRICTED_LIMIT, RESTRICTED_LIMIT)
        } else {
            (DEFAULT_LIMIT, MAX_LIMIT)
        };
        let limit = parameter("limit").parse().unwrap_or(default).clamp(1, most).min(paging.max_entries);
        let visible_from = workspace.visible_from_s.map_or(0, |from_s| from_s.saturating_mul(1_000_000));
        let metadata = matches!(parameter("include_all_metadata"), "true" | "1");
        let position = paging.position(parameter("cursor"))?;
        Ok(Self { after, before, visible_from, limit, metadata, position })
    }
}

/// Refuses a channel that this token may not read.
fn check_access(workspace: &FakeWorkspace, id: &str) -> Result<(), Value> {
    if let Some(error) = workspace.unreadable.get(id) {
        return Err(refused(error));
    }
    let Some(channel) = workspace.channel(id) else { return Err(refused("channel_not_found")) };
    let is_private = channel["is_private"] == true;
    workspace.check_scope(if is_private { "groups:history" } else { "channels:history" })?;
    match (channel["is_member"] == false, is_private) {
        (true, true) => Err(refused("channel_not_found")),
        (true, false) => Err(refused("not_in_channel")),
        (false, _) => Ok(()),
    }
}

/// Parses a time in Slack's format: seconds, with or without a fraction. Returns microseconds.
fn micros(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = format!("{fraction:0<6}");
    Some(seconds.parse::<i64>().ok()?.checked_mul(1_000_000)? + fraction.get(..6)?.parse::<i64>().ok()?)
}
