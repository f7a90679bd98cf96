//! The error codes of refusals (HTTP 200 with `"ok": false`), as each method's page lists them.
//! <https://docs.slack.dev/reference/methods>

/// Codes of every method. They say nothing about the object that the caller asked for.
pub const COMMON_ERRORS: [&str; 31] = [
    "access_denied",
    "accesslimited",
    "account_inactive",
    "deprecated_endpoint",
    "ekm_access_denied",
    "enterprise_is_restricted",
    "fatal_error",
    "internal_error",
    "invalid_arg_name",
    "invalid_arguments",
    "invalid_array_arg",
    "invalid_auth",
    "invalid_charset",
    "invalid_form_data",
    "invalid_post_type",
    "method_deprecated",
    "missing_post_type",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "not_authed",
    "org_login_required",
    "ratelimited",
    "request_timeout",
    "service_unavailable",
    "team_access_not_granted",
    "team_added_to_org",
    "token_expired",
    "token_revoked",
    "two_factor_setup_required",
    "is_bot",
];

/// Returns the other codes of a method.
pub fn errors_of(method: &str) -> &'static [&'static str] {
    match method {
        "conversations.list" => {
            &["invalid_cursor", "invalid_limit", "invalid_types", "limit_required", "missing_argument"]
        }
        "users.list" => &["invalid_cursor", "limit_required", "missing_argument"],
        "conversations.info" => {
            &["channel_not_found", "method_not_supported_for_channel_type", "missing_argument"]
        }
        "users.info" => &["user_not_found", "user_not_visible", "missing_argument"],
        "bots.info" => &["bot_not_found", "missing_argument"],
        "team.info" => &["enterprise_not_found", "team_not_found", "domain_not_found"],
        "files.info" => {
            &["file_not_found", "file_deleted", "not_visible", "timezone_count", "not_allowed_for_user"]
        }
        "conversations.join" => {
            &["channel_not_found", "is_archived", "method_not_supported_for_channel_type", "limits"]
        }
        "conversations.history" => &[
            "channel_not_found",
            "not_in_channel",
            "invalid_cursor",
            "invalid_limit",
            "invalid_ts_latest",
            "invalid_ts_oldest",
            "invalid_metadata_filter_keys",
            "metadata_must_be_valid",
        ],
        "conversations.replies" => &[
            "channel_not_found",
            "thread_not_found",
            "not_in_channel",
            "invalid_cursor",
            "invalid_limit",
            "invalid_ts_latest",
            "invalid_ts_oldest",
            "missing_ts",
        ],
        "chat.postMessage" => &[
            "channel_not_found",
            "not_in_channel",
            "is_archived",
            "no_text",
            "msg_too_long",
            "msg_blocks_too_long",
            "restricted_action",
            "restricted_action_thread_locked",
            "cannot_reply_to_message",
            "duplicate_message_not_found",
            "as_user_not_supported",
            "invalid_blocks",
            "invalid_blocks_format",
            "metadata_too_large",
            "rate_limited",
            "message_limit_exceeded",
            "slack_connect_blocked_file_type",
            "too_many_attachments",
        ],
        _ => &[],
    }
}
