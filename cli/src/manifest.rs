//! `annalist manifest`: prints the Slack app's manifest.
//!
//! <https://docs.slack.dev/reference/app-manifest>

use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;

use hyper::Uri;
use ingest::EVENTS_PATH;
use oidc::issuer::SiteAddress;
use serde_json::{Value, json};
use slack::catalogue::{EVENTS, Subscription};
use workers::directory::asked::EMAIL_SCOPE;

use crate::plain;

/// The Request URL if no host is given.
const PLACEHOLDER: &str = "https://YOUR-HOST/slack/events";

/// Slack's page for a new app, which takes a manifest as a parameter.
const NEW_APP: &str = "https://api.slack.com/apps?new_app=1&manifest_json=";

/// The long description that people read about the app.
const ABOUT: &str = "Annalist keeps the messages of the public channels it is a member of, with their threads, edits, \
    deletions, reactions and files, and the names and pictures of people, on a machine of the people who own this \
    workspace. It joins public channels automatically unless that is turned off. Private channels that never were public \
    and direct messages are not kept. Ask the person who installed it where the archive is and who can read it.";

/// Added to the description of an app that answers questions.
const ABOUT_RESPONDER: &str = " Mention it to ask a question: it answers in the thread.";

/// Added to the description of an app that reads e-mail addresses.
const ABOUT_EMAILS: &str = " When the workspace moves to another chat, it reads the e-mail addresses of people for it; \
    they are not kept.";

/// The name with which people mention and invite the app. Slack's reference allows no capital letters here.
const BOT_USER: &str = "annalist";

/// `annalist manifest`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManifestArgs {
    /// Where Slack reaches `annalist up`, such as https://slack.example.com/slack/events
    #[arg(long, value_name = "URL", value_parser = request_url)]
    pub(crate) url: Option<String>,
    /// For an app that gets its events over a socket, which needs no address
    #[arg(long, conflicts_with = "url")]
    pub(crate) socket: bool,
    /// Print only a link: Slack's page for a new app, filled in
    #[arg(long)]
    pub(crate) link: bool,
    /// For an app that also answers questions: one scope more, to post messages
    #[arg(long)]
    pub(crate) responder: bool,
    /// For an export with the e-mail addresses of people: one scope more, to read them
    #[arg(long)]
    pub(crate) emails: bool,
    /// The public address of the pages, for an app with which readers sign in, such as https://archive.example
    #[arg(long, value_name = "URL")]
    pub(crate) viewer_url: Option<SiteAddress>,
}

/// The app's scopes, and the purpose of each. They do not cover direct messages.
pub(crate) const BOT_SCOPES: [(&str, &str); 13] = [
    ("bookmarks:read", "the bookmarks of channels"),
    ("channels:history", "the messages of public channels"),
    ("channels:join", "joining public channels"),
    ("channels:read", "the names of public channels, and what happens to them"),
    ("emoji:read", "custom emoji"),
    ("files:read", "files"),
    ("groups:history", "the messages of channels that were public once"),
    ("groups:read", "what happens to channels that were public once"),
    ("pins:read", "which messages are pinned"),
    ("reactions:read", "reactions"),
    ("team:read", "the name of the workspace, and whether an event is of it"),
    ("usergroups:read", "the names and members of user groups"),
    ("users:read", "the names and pictures of people"),
];

/// The additional scope of an app that answers questions.
pub(crate) const RESPONDER_SCOPE: &str = "chat:write";

/// Returns the events that the app subscribes to, and the scope that each needs.
fn bot_events() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    EVENTS.iter().filter_map(|event_type| match event_type.subscription {
        Subscription::Scope(scope) => Some((event_type.name, Some(scope))),
        Subscription::NoScope => Some((event_type.name, None)),
        Subscription::Unsubscribed => None,
    })
}

/// How Slack delivers the events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventDelivery<'a> {
    /// By requests to this address.
    Requests(&'a str),
    /// Over a socket that Annalist opens.
    Socket,
}

pub(crate) fn print(args: &ManifestArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let delivery = match &args.url {
        _ if args.socket => EventDelivery::Socket,
        Some(url) => EventDelivery::Requests(url),
        None => EventDelivery::Requests(PLACEHOLDER),
    };
    let mut manifest = manifest(delivery, args.responder);
    if args.emails {
        add_emails(&mut manifest);
    }
    if let Some(site) = &args.viewer_url {
        add_sign_in(&mut manifest, site);
    }
    if args.link {
        writeln!(out, "{}", link_of(&manifest))?;
    } else {
        writeln!(out, "{}", serde_json::to_string_pretty(&manifest)?)?;
    }
    out.flush()?;
    let mut err = io::stderr();
    if args.url.is_none() && !args.socket {
        writeln!(err, "Replace YOUR-HOST, or give the address with --url.")?;
    }
    if io::stdout().is_terminal() && !args.link {
        writeln!(err, "Paste it at https://api.slack.com/apps: Create New App, From a manifest, JSON.")?;
    }
    Ok(())
}

/// Returns the link to Slack's page for a new app with its manifest.
pub(crate) fn link(delivery: EventDelivery<'_>, responder: bool) -> String {
    link_of(&manifest(delivery, responder))
}

fn link_of(manifest: &Value) -> String {
    format!("{NEW_APP}{}", plain::query_value(&manifest.to_string()))
}

/// Adds the scope for the e-mail addresses of people.
fn add_emails(manifest: &mut Value) {
    if let Some(scopes) = manifest["oauth_config"]["scopes"]["bot"].as_array_mut() {
        scopes.push(EMAIL_SCOPE.into());
        scopes.sort_unstable_by(|one, other| one.as_str().cmp(&other.as_str()));
    }
    if let Some(Value::String(about)) = manifest["display_information"].get_mut("long_description") {
        about.push_str(ABOUT_EMAILS);
    }
}

/// Adds what the sign-in of readers needs: where Slack sends them back, and the scopes that say who they are.
fn add_sign_in(manifest: &mut Value, site: &SiteAddress) {
    manifest["oauth_config"]["redirect_urls"] = json!([site.with_path("/login/callback")]);
    manifest["oauth_config"]["scopes"]["user"] = json!(["openid", "profile"]);
}

fn manifest(delivery: EventDelivery<'_>, responder: bool) -> Value {
    let mut scopes: Vec<&str> = BOT_SCOPES.iter().map(|(scope, _)| *scope).collect();
    scopes.extend(responder.then_some(RESPONDER_SCOPE));
    scopes.sort_unstable();
    let mut about = ABOUT.to_owned();
    if responder {
        about.push_str(ABOUT_RESPONDER);
    }
    let mut subscriptions = json!({ "bot_events": bot_events().map(|(event, _)| event).collect::<Vec<_>>() });
    if let EventDelivery::Requests(url) = delivery {
        subscriptions["request_url"] = url.into();
    }
    json!({
        "_metadata": { "major_version": 1, "minor_version": 1 },
        "display_information": {
            "name": "Annalist",
            "description": "Keeps this workspace's history",
            "background_color": "#2f3e46",
            "long_description": about,
        },
        "features": { "bot_user": { "display_name": BOT_USER, "always_online": false } },
        "oauth_config": { "scopes": { "bot": scopes } },
        "settings": {
            "event_subscriptions": subscriptions,
            "org_deploy_enabled": false,
            "socket_mode_enabled": matches!(delivery, EventDelivery::Socket),
            "token_rotation_enabled": false,
        },
    })
}

/// Checks an absolute URL. A URL without a path gets the path of ingest.
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
        "http" => return Err("Slack only accepts a Request URL that begins with https://".to_owned()),
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

/// Whether the host is this machine, which needs no encryption.
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use ports::queue::QueueName;
    use ports::queue::route::{Route, route};
    use rules::channel::ChannelEvent;
    use rules::{SlackEvent, gap};
    use slack::catalogue::{ChannelChange, EventRule};
    use slack::envelope::Envelope;

    use super::*;

    fn has_scope(scope: &str) -> bool {
        BOT_SCOPES.iter().any(|(known, _)| *known == scope)
    }

    #[test]
    fn the_scopes_cover_the_events_and_reach_no_direct_messages() {
        for (event, scope) in bot_events() {
            assert!(scope.is_none_or(has_scope), "{event} needs {scope:?}");
        }
        for (scope, _) in BOT_SCOPES {
            assert!(!scope.starts_with("im:") && !scope.starts_with("mpim:"), "{scope}");
        }
        assert!(bot_events().is_sorted() && BOT_SCOPES.is_sorted());
    }

    /// Returns an event of this type that should have an effect.
    fn example(event: &str) -> Value {
        let ts = "1700000000.000100";
        let channel = json!({ "id": "C1", "name": "general", "created": 1, "creator": "U1" });
        let mut example = match event {
            "message.channels" | "message.groups" => {
                let channel_type = if event == "message.channels" { "channel" } else { "group" };
                json!({ "type": "message", "channel": "C1", "channel_type": channel_type, "user": "U1", "text": "a",
                    "ts": ts })
            }
            "reaction_added" | "reaction_removed" => {
                json!({ "user": "U1", "reaction": "eyes", "item": { "type": "message", "channel": "C1", "ts": ts } })
            }
            "pin_added" | "pin_removed" => {
                json!({ "user": "U1", "channel_id": "C1", "item": { "type": "message", "channel": "C1",
                    "message": { "ts": ts } } })
            }
            "channel_created" | "channel_rename" | "group_rename" => json!({ "channel": channel }),
            "channel_id_changed" => json!({ "old_channel_id": "C1", "new_channel_id": "C2" }),
            "channel_history_changed" | "group_history_changed" => json!({ "latest": ts }),
            "emoji_changed" => {
                json!({ "subtype": "add", "name": "blob", "value": "https://emoji.slack-edge.com/b" })
            }
            "file_change" => json!({ "file_id": "F1", "file": { "id": "F1" } }),
            "file_deleted" => json!({ "file_id": "F1" }),
            "member_joined_channel" => json!({ "user": "U0APP", "channel": "C1", "channel_type": "C" }),
            "team_domain_change" => json!({ "url": "https://acme.slack.com", "domain": "acme" }),
            "team_rename" => json!({ "name": "Acme" }),
            "team_join" | "user_change" => json!({ "user": { "id": "U1", "name": "ada" } }),
            "subteam_created" | "subteam_updated" => json!({ "subteam": { "id": "S1", "handle": "oncall" } }),
            "subteam_members_changed" => json!({ "subteam_id": "S1", "added_users": ["U1"] }),
            "tokens_revoked" => json!({ "tokens": { "bot": ["U0APP"] } }),
            _ => json!({ "channel": "C1", "user": "U1" }),
        };
        example["event_ts"] = ts.into();
        if example["type"].is_null() {
            example["type"] = event.into();
        }
        example
    }

    /// Returns the queues of an event whose workers handle it with an effect.
    fn effects(event: &Value) -> Vec<QueueName> {
        let body = json!({
            "type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event_time": 1_700_000_000, "event": event,
            "authorizations": [{ "team_id": "T1", "user_id": "U0APP", "is_bot": true }],
        })
        .to_string();
        let envelope = Envelope::peek(body.as_bytes()).unwrap();
        let Route::Queues(sends) = route(&envelope, &body) else { return Vec::new() };
        let read = SlackEvent::read(&envelope).unwrap();
        let has_effect = |queue| {
            if queue == QueueName::Events {
                // The workers look up what these two stand for.
                matches!(
                    read.rule(),
                    Some(EventRule::Channel(ChannelChange::IdChanged) | EventRule::FileChanged)
                ) || !read.changes().unwrap().is_empty()
            } else {
                ChannelEvent::read(&read).unwrap().is_some()
                    || !gap::facts(&read).unwrap().is_empty()
                    || gap::joined(&read).unwrap().is_some()
            }
        };
        sends.into_iter().map(|send| send.queue).filter(|queue| has_effect(*queue)).collect()
    }

    #[test]
    fn every_subscribed_event_has_an_effect() {
        for (event, _) in bot_events() {
            assert!(!effects(&example(event)).is_empty(), "{event}");
        }
        let ignored = EVENTS.iter().filter(|event_type| matches!(event_type.rule, EventRule::Ignored(_)));
        for ignored_event in ignored.map(|event_type| event_type.name) {
            assert_eq!(effects(&example(ignored_event)), [], "{ignored_event}");
            assert!(bot_events().all(|(event, _)| event != ignored_event), "{ignored_event}");
        }
        for ignored_event in ["file_created", "file_public", "file_shared", "member_left_channel"] {
            assert!(
                matches!(EventRule::by_name(ignored_event), Some(EventRule::Ignored(_))),
                "{ignored_event}"
            );
        }
    }

    #[test]
    fn the_scopes_cover_the_web_api_methods() {
        // conversations.list and .info, .join, files.info and downloads, users.list, emoji.list,
        // usergroups.list, bookmarks.list.
        for scope in [
            "channels:read",
            "groups:read",
            "channels:join",
            "files:read",
            "users:read",
            "emoji:read",
            "usergroups:read",
            "bookmarks:read",
        ] {
            assert!(has_scope(scope), "{scope}");
        }
    }

    #[test]
    fn an_app_that_answers_questions_has_one_additional_scope() {
        let scopes = |responder: bool| -> Vec<Value> {
            let manifest = manifest(EventDelivery::Requests(PLACEHOLDER), responder);
            manifest["oauth_config"]["scopes"]["bot"].as_array().unwrap().clone()
        };
        let (without, with) = (scopes(false), scopes(true));
        assert!(!without.contains(&RESPONDER_SCOPE.into()));
        let more: Vec<&Value> = with.iter().filter(|scope| !without.contains(scope)).collect();
        assert_eq!((more, with.len()), (vec![&Value::from(RESPONDER_SCOPE)], without.len() + 1));
    }

    #[test]
    fn an_app_for_sign_in_has_the_address_of_the_pages_and_two_user_scopes() {
        let plain = manifest(EventDelivery::Socket, false);
        let mut with_sign_in = plain.clone();
        add_sign_in(&mut with_sign_in, &"https://archive.example/".parse().unwrap());
        let config = with_sign_in["oauth_config"].as_object_mut().unwrap();
        assert_eq!(config.remove("redirect_urls"), Some(json!(["https://archive.example/login/callback"])));
        assert_eq!(
            config["scopes"].as_object_mut().unwrap().remove("user"),
            Some(json!(["openid", "profile"]))
        );
        assert_eq!(with_sign_in, plain);
    }

    #[test]
    fn an_app_for_e_mail_addresses_has_one_additional_scope_and_says_so() {
        let plain = manifest(EventDelivery::Socket, false);
        let mut with_emails = plain.clone();
        add_emails(&mut with_emails);
        let scopes = with_emails["oauth_config"]["scopes"]["bot"].as_array_mut().unwrap();
        assert!(scopes.is_sorted_by_key(|scope| scope.as_str()));
        scopes.retain(|scope| scope != EMAIL_SCOPE);
        assert_eq!(with_emails["oauth_config"], plain["oauth_config"]);
        let about = with_emails["display_information"]["long_description"].as_str().unwrap();
        assert!(about.contains("e-mail addresses"), "{about}");
    }

    #[test]
    fn the_manifest_is_within_slacks_limits() {
        let mut manifest = manifest(EventDelivery::Requests(PLACEHOLDER), true);
        add_emails(&mut manifest);
        let length = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap().chars().count();
        assert!(length("/display_information/name") <= 35);
        assert!(length("/display_information/description") <= 140);
        assert!((175..4000).contains(&length("/display_information/long_description")));
        assert!(length("/features/bot_user/display_name") <= 80);
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        assert!(BOT_USER.bytes().all(allowed), "{BOT_USER}");
        assert!(bot_events().count() <= 100);
        const { assert!(BOT_SCOPES.len() <= 255) };
        assert_eq!(manifest["settings"]["event_subscriptions"]["request_url"], PLACEHOLDER);
    }

    #[test]
    fn a_manifest_for_a_socket_has_no_address_and_the_same_events_and_scopes() {
        let (socket, requests) =
            (manifest(EventDelivery::Socket, true), manifest(EventDelivery::Requests(PLACEHOLDER), true));
        assert_eq!(socket["settings"]["socket_mode_enabled"], true);
        assert_eq!(requests["settings"]["socket_mode_enabled"], false);
        let mut same = requests.clone();
        same["settings"]["event_subscriptions"].as_object_mut().unwrap().remove("request_url");
        same["settings"]["socket_mode_enabled"] = true.into();
        assert_eq!(socket, same);
    }

    #[test]
    fn a_link_is_short_enough_for_browsers_and_contains_the_manifest() {
        let long = format!("https://{}.example/slack/events", "a".repeat(200));
        for (delivery, responder) in [
            (EventDelivery::Socket, false),
            (EventDelivery::Socket, true),
            (EventDelivery::Requests(&long), true),
        ] {
            let link = link(delivery, responder);
            assert!(link.len() < 8_000, "{}", link.len());
            let url: slack_api::transport::Url = link.parse().unwrap();
            assert_eq!(url.host_str(), Some("api.slack.com"));
            let parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            assert_eq!(parameters[0], ("new_app".to_owned(), "1".to_owned()));
            assert_eq!(parameters[1].0, "manifest_json");
            let decoded: Value = serde_json::from_str(&parameters[1].1).unwrap();
            assert_eq!(decoded, manifest(delivery, responder));
        }
    }

    #[test]
    fn the_request_url_is_absolute_and_a_host_alone_gets_the_path() {
        for (text, expected) in [
            ("https://a.example/slack/events", "https://a.example/slack/events"),
            ("https://a.example/slack/events/A0123ABCD", "https://a.example/slack/events/A0123ABCD"),
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
