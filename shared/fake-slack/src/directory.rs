//! The methods for a workspace, its channels, people, bots, emoji, user groups and files.

use serde_json::{Value, json};

use crate::answer::refused;
use crate::paging::Paging;
use crate::workspace::FakeWorkspace;

/// Answers a method.
pub(crate) fn answer<'a>(
    workspace: &mut FakeWorkspace,
    method: &str,
    parameter: &impl Fn(&str) -> &'a str,
    paging: Paging,
) -> Value {
    let FakeWorkspace { team, name, url, bot_user, .. } = &*workspace;
    match method {
        "auth.test" => json!({
            "ok": true, "url": url, "team": name, "user": "annalist", "team_id": team, "user_id": bot_user,
            "bot_id": "B0BOT", "is_enterprise_install": false,
        }),
        "team.info" => match parameter("team") {
            "" => json!({ "ok": true, "team": { "id": team, "name": name } }),
            other if other == team => json!({ "ok": true, "team": { "id": team, "name": name } }),
            other => object_or_refusal("team", workspace.organisations.get(other).cloned()),
        },
        "conversations.list" => paging.list("channels", &workspace.channels, parameter("cursor")),
        "users.list" => people(workspace, parameter("cursor"), paging),
        "emoji.list" => json!({ "ok": true, "emoji": workspace.emoji }),
        "usergroups.list" => user_groups(workspace, parameter),
        "conversations.members" => channel_members(workspace, parameter, paging),
        "bookmarks.list" => bookmarks(workspace, parameter("channel_id")),
        "conversations.info" => object_or_refusal("channel", workspace.channel(parameter("channel"))),
        "users.info" => object_or_refusal("user", workspace.member(parameter("user"))),
        "bots.info" => object_or_refusal("bot", bot(workspace, parameter("bot"))),
        "files.info" => object_or_refusal("file", workspace.files.get(parameter("file")).cloned()),
        "pins.list" => pins(workspace, parameter("channel")),
        "conversations.join" => join(workspace, parameter("channel")),
        _ => refused("unknown_method"),
    }
}

/// Lists the people. Without the scope for it, they have no e-mail address, and Slack says nothing about that.
fn people(workspace: &FakeWorkspace, cursor: &str, paging: Paging) -> Value {
    let mut listed = paging.list("members", &workspace.members, cursor);
    if workspace.check_scope("users:read.email").is_err() {
        let people = listed.get_mut("members").and_then(Value::as_array_mut).into_iter().flatten();
        for profile in people.filter_map(|person| person.get_mut("profile")?.as_object_mut()) {
            profile.remove("email");
        }
    }
    listed
}

fn user_groups<'a>(workspace: &FakeWorkspace, parameter: &impl Fn(&str) -> &'a str) -> Value {
    if let Err(refused) = workspace.check_scope("usergroups:read") {
        return refused;
    }
    let is_disabled = |group: &Value| group["date_delete"].as_u64().is_some_and(|time| time > 0);
    let includes = |name: &str| parameter(name) == "true";
    let listed = workspace.user_groups.iter();
    let listed = listed.filter(|group| includes("include_disabled") || !is_disabled(group)).cloned();
    let listed: Vec<Value> = listed
        .map(|mut group| {
            if let (false, Value::Object(fields)) = (includes("include_users"), &mut group) {
                fields.remove("users");
            }
            group
        })
        .collect();
    json!({ "ok": true, "usergroups": listed })
}

fn channel_members<'a>(
    workspace: &FakeWorkspace,
    parameter: &impl Fn(&str) -> &'a str,
    paging: Paging,
) -> Value {
    let id = parameter("channel");
    let Some(channel) = workspace.channel(id) else { return refused("channel_not_found") };
    let scope = if channel["is_private"] == true { "groups:read" } else { "channels:read" };
    if let Err(refused) = workspace.check_scope(scope) {
        return refused;
    }
    // Of a private channel, Slack shows nothing to an app that is not in it.
    if channel["is_private"] == true && channel["is_member"] == false {
        return refused("channel_not_found");
    }
    let members = workspace.channel_members.get(id).map_or(&[][..], Vec::as_slice);
    paging.list("members", members, parameter("cursor"))
}

fn bookmarks(workspace: &FakeWorkspace, channel: &str) -> Value {
    match (workspace.check_scope("bookmarks:read"), workspace.channel(channel)) {
        (Err(refused), _) => refused,
        (Ok(()), None) => refused("channel_not_found"),
        (Ok(()), Some(_)) => {
            json!({ "ok": true, "bookmarks": workspace.bookmarks.get(channel).map_or(&[][..], Vec::as_slice) })
        }
    }
}

fn object_or_refusal(kind: &str, found: Option<Value>) -> Value {
    match found {
        Some(found) => json!({ "ok": true, kind: found }),
        None => refused(&format!("{kind}_not_found")),
    }
}

fn bot(workspace: &FakeWorkspace, id: &str) -> Option<Value> {
    let known = workspace.bots.contains(id) || workspace.exists(id);
    known.then(|| json!({ "id": id, "name": "a bot", "deleted": false }))
}

fn pins(workspace: &FakeWorkspace, channel: &str) -> Value {
    let known = workspace.channel(channel).is_some() || workspace.history.contains_key(channel);
    let items = || workspace.history.get(channel).map(|history| history.pins(channel)).unwrap_or_default();
    match workspace.check_scope("pins:read") {
        Err(refused) => refused,
        Ok(()) if known => json!({ "ok": true, "items": items() }),
        Ok(()) => refused("channel_not_found"),
    }
}

fn join(workspace: &mut FakeWorkspace, id: &str) -> Value {
    let listed = workspace.channels.iter().find(|listed| listed["id"] == id).cloned();
    let Some(mut channel) = listed.or_else(|| workspace.channel(id)) else {
        return refused("channel_not_found");
    };
    if channel["is_archived"] == true {
        return refused("is_archived");
    }
    channel["is_member"] = true.into();
    workspace.joined.insert(id.to_owned());
    let listed = workspace.channels.iter_mut().chain(&mut workspace.unlisted_channels);
    for listed in listed.filter(|listed| listed["id"] == id) {
        listed["is_member"] = true.into();
    }
    json!({ "ok": true, "channel": channel })
}
