//! `annalist manifest`: the Slack app, as Slack's own description of one.
//!
//! <https://docs.slack.dev/reference/app-manifest>

use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;

use hyper::Uri;
use ingest::EVENTS_PATH;
use serde_json::{Value, json};

/// What stands in the manifest until the host is known.
const PLACEHOLDER: &str = "https://YOUR-HOST/slack/events";

/// What people call the app when they invite it. Slack's reference allows no capital letters here.
const BOT_USER: &str = "annalist";

/// `annalist manifest`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManifestArgs {
    /// Where Slack reaches `annalist up`, such as https://slack.example.com/slack/events
    #[arg(long, value_name = "URL", value_parser = request_url)]
    pub(crate) url: Option<String>,
}

/// What the app may see, and what that is for. Direct messages are not among it.
pub(crate) const BOT_SCOPES: [(&str, &str); 10] = [
    ("channels:history", "the messages of public channels"),
    ("channels:join", "joining public channels"),
    ("channels:read", "the names of public channels, and what happens to them"),
    ("emoji:read", "custom emoji"),
    ("files:read", "files"),
    ("groups:history", "the messages of channels that were public once"),
    ("groups:read", "what happens to channels that were public once"),
    ("reactions:read", "reactions"),
    ("team:read", "the name of the workspace, and whether an event is of it"),
    ("users:read", "the names and pictures of people"),
];

/// What Slack sends, and the scope it asks for.
const BOT_EVENTS: [(&str, Option<&str>); 35] = [
    ("app_uninstalled", None),
    ("channel_archive", Some("channels:read")),
    ("channel_created", Some("channels:read")),
    ("channel_deleted", Some("channels:read")),
    ("channel_history_changed", Some("channels:history")),
    ("channel_id_changed", Some("channels:read")),
    ("channel_left", Some("channels:read")),
    ("channel_rename", Some("channels:read")),
    ("channel_shared", Some("channels:read")),
    ("channel_unarchive", Some("channels:read")),
    ("channel_unshared", Some("channels:read")),
    ("emoji_changed", Some("emoji:read")),
    ("file_change", Some("files:read")),
    ("file_created", Some("files:read")),
    ("file_deleted", Some("files:read")),
    ("file_public", Some("files:read")),
    ("file_shared", Some("files:read")),
    ("file_unshared", Some("files:read")),
    ("group_archive", Some("groups:read")),
    ("group_deleted", Some("groups:read")),
    ("group_history_changed", Some("groups:history")),
    ("group_left", Some("groups:read")),
    ("group_rename", Some("groups:read")),
    ("group_unarchive", Some("groups:read")),
    ("member_joined_channel", Some("channels:read")),
    ("member_left_channel", Some("channels:read")),
    ("message.channels", Some("channels:history")),
    ("message.groups", Some("groups:history")),
    ("reaction_added", Some("reactions:read")),
    ("reaction_removed", Some("reactions:read")),
    ("team_domain_change", Some("team:read")),
    ("team_join", Some("users:read")),
    ("team_rename", Some("team:read")),
    ("tokens_revoked", None),
    ("user_change", Some("users:read")),
];

/// Prints the manifest.
pub(crate) fn print(args: &ManifestArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let manifest = manifest(args.url.as_deref().unwrap_or(PLACEHOLDER));
    writeln!(out, "{}", serde_json::to_string_pretty(&manifest)?)?;
    out.flush()?;
    let mut err = io::stderr();
    if args.url.is_none() {
        writeln!(err, "Replace YOUR-HOST, or give the address with --url.")?;
    }
    if io::stdout().is_terminal() {
        writeln!(err, "Paste it at https://api.slack.com/apps: Create New App, From a manifest, JSON.")?;
    }
    Ok(())
}

fn manifest(request_url: &str) -> Value {
    json!({
        "_metadata": { "major_version": 1, "minor_version": 1 },
        "display_information": {
            "name": "Annalist",
            "description": "Keeps this workspace's history",
            "background_color": "#2f3e46",
            "long_description": "Annalist keeps the messages of the public channels it is a member of, with their \
                threads, edits, deletions, reactions and files, and the names and pictures of people, on a machine of \
                the people who own this workspace. It joins public channels by itself unless it was told not to. \
                Private channels that never were public and direct messages are not kept. Ask whoever installed it \
                where the archive is and who can read it.",
        },
        "features": { "bot_user": { "display_name": BOT_USER, "always_online": false } },
        "oauth_config": { "scopes": { "bot": BOT_SCOPES.map(|(scope, _)| scope) } },
        "settings": {
            "event_subscriptions": {
                "request_url": request_url,
                "bot_events": BOT_EVENTS.map(|(event, _)| event).as_slice(),
            },
            "org_deploy_enabled": false,
            "socket_mode_enabled": false,
            "token_rotation_enabled": false,
        },
    })
}

/// Checks an absolute URL. One without a path is taken for the host alone.
pub(crate) fn request_url(text: &str) -> Result<String, String> {
    let mistake = "give the whole address, such as https://slack.example.com/slack/events";
    let url: Uri = text.parse().map_err(|_| mistake.to_owned())?;
    let host = url.host().filter(|host| !host.is_empty());
    let (Some(scheme), Some(host), Some(authority)) = (url.scheme_str(), host, url.authority()) else {
        return Err(mistake.to_owned());
    };
    match scheme {
        "https" => {}
        "http" if is_this_machine(host) => {}
        "http" => return Err("Slack takes a Request URL that begins with https:// only".to_owned()),
        _ => return Err(mistake.to_owned()),
    }
    if authority.as_str().contains('@') {
        return Err("Slack sends no user name or password: leave them out".to_owned());
    }
    match url.path() {
        "" | "/" if url.query().is_none() => Ok(format!("{}{EVENTS_PATH}", text.trim_end_matches('/'))),
        _ => Ok(text.to_owned()),
    }
}

/// Where no encryption is needed to try things out.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks_for(scope: &str) -> bool {
        BOT_SCOPES.iter().any(|(known, _)| *known == scope)
    }

    #[test]
    fn the_scopes_cover_the_events_and_reach_no_direct_messages() {
        for (event, scope) in BOT_EVENTS {
            assert!(scope.is_none_or(asks_for), "{event} needs {scope:?}");
        }
        for (scope, _) in BOT_SCOPES {
            assert!(!scope.starts_with("im:") && !scope.starts_with("mpim:"), "{scope}");
        }
        assert!(BOT_EVENTS.is_sorted() && BOT_SCOPES.is_sorted());
    }

    #[test]
    fn everything_that_is_stored_is_subscribed_to_and_every_method_has_its_scope() {
        let subscribed = |name: &str| BOT_EVENTS.iter().any(|(event, _)| *event == name);
        for event in [
            "app_uninstalled",
            "channel_archive",
            "channel_created",
            "channel_deleted",
            "channel_id_changed",
            "channel_left",
            "channel_rename",
            "channel_shared",
            "channel_unarchive",
            "channel_unshared",
            "emoji_changed",
            "file_deleted",
            "group_archive",
            "group_deleted",
            "group_left",
            "group_rename",
            "group_unarchive",
            "message.channels",
            "message.groups",
            "reaction_added",
            "reaction_removed",
            "team_join",
            "tokens_revoked",
            "user_change",
        ] {
            assert!(subscribed(event), "{event}");
        }
        // conversations.list and .info, .join, files.info and downloads, users.list, emoji.list.
        for scope in
            ["channels:read", "groups:read", "channels:join", "files:read", "users:read", "emoji:read"]
        {
            assert!(asks_for(scope), "{scope}");
        }
    }

    #[test]
    fn slacks_limits_are_kept() {
        let manifest = manifest(PLACEHOLDER);
        let length = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap().chars().count();
        assert!(length("/display_information/name") <= 35);
        assert!(length("/display_information/description") <= 140);
        assert!((175..4000).contains(&length("/display_information/long_description")));
        assert!(length("/features/bot_user/display_name") <= 80);
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        assert!(BOT_USER.bytes().all(allowed), "{BOT_USER}");
        const { assert!(BOT_EVENTS.len() <= 100 && BOT_SCOPES.len() <= 255) };
        assert_eq!(manifest["settings"]["event_subscriptions"]["request_url"], PLACEHOLDER);
    }

    #[test]
    fn the_request_url_is_absolute_and_a_host_alone_gets_the_path() {
        for (text, expected) in [
            ("https://a.example/slack/events", "https://a.example/slack/events"),
            ("https://a.example", "https://a.example/slack/events"),
            ("https://a.example:8443/", "https://a.example:8443/slack/events"),
            ("http://127.0.0.1:3000/other", "http://127.0.0.1:3000/other"),
            ("http://[::1]:3000", "http://[::1]:3000/slack/events"),
        ] {
            assert_eq!(request_url(text).as_deref(), Ok(expected));
        }
        for text in [
            "",
            "a.example",
            "/slack/events",
            "ftp://a.example/x",
            "https://",
            "https://a b/",
            "https://u:p@a/",
            "http://a.example/slack/events",
            "http://127.0.0.1.a.example/",
        ] {
            assert!(request_url(text).is_err(), "{text}");
        }
    }
}
