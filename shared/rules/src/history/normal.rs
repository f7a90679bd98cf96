//! The part of a message object that is stored. Two copies of one version must be equal text however and
//! whenever they were fetched: copies that differ are ordered by their hashes, and each refetch could write
//! the row again.

use serde_json::{Map, Value};

use super::links;

/// Members that change although the message does not, or that only some sources have, in alphabetical order.
/// Replies and reactions are stored elsewhere, and so is what the message says about its author: see
/// [`crate::author`].
const LEFT_OUT: [&str; 21] = [
    "is_locked",
    "is_starred",
    "last_read",
    "latest_reply",
    "parent_user_id",
    "permalink",
    "pinned_info",
    "pinned_to",
    "reactions",
    "replies",
    "reply_count",
    "reply_users",
    "reply_users_count",
    "root",
    "saved",
    "source_team",
    "subscribed",
    "team",
    "unread_count",
    "user_profile",
    "user_team",
];

/// Members of a file object that change although the file does not.
const LEFT_OUT_OF_FILES: [&str; 5] =
    ["comments_count", "has_more_shares", "is_starred", "num_stars", "shares"];

/// Addresses of a file. Slackdump used to write a path in its export there.
const ADDRESSES: [&str; 2] = ["url_private", "url_private_download"];

/// Members with timestamps, which are numbers in old exports.
const TIMESTAMPS: [&str; 3] = ["ts", "thread_ts", "latest_reply"];

/// Converts numeric timestamps to Slack's current format.
pub(super) fn timestamps(message: &mut Map<String, Value>) {
    let convert = |value: Option<&mut Value>| {
        if let Some(value) = value
            && let Some(number) = value.as_f64()
        {
            *value = format!("{number:.6}").into();
        }
    };
    for name in TIMESTAMPS {
        convert(message.get_mut(name));
    }
    convert(message.get_mut("edited").and_then(|edited| edited.get_mut("ts")));
}

/// Removes the members that are not stored.
pub(super) fn reduce(message: &mut Map<String, Value>) {
    message.retain(|name, _| LEFT_OUT.binary_search(&name.as_str()).is_err());
    // A root gets it with the first reply; the attribute `thread_ts` of its row stores it.
    if message.get("thread_ts") == message.get("ts") {
        message.remove("thread_ts");
    }
    members(message);
}

fn members(object: &mut Map<String, Value>) {
    for (name, value) in object.iter_mut() {
        match value {
            Value::Array(files) if name == "files" => files.iter_mut().for_each(file),
            Value::Object(_) if name == "file" => file(value),
            Value::String(_) | Value::Array(_) | Value::Object(_) => clean(value),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn file(file: &mut Value) {
    if let Some(file) = file.as_object_mut() {
        for name in LEFT_OUT_OF_FILES {
            file.remove(name);
        }
        let is_path = |address: &Value| {
            address.as_str().is_some_and(|address| !address.is_empty() && !address.contains("://"))
        };
        for name in ADDRESSES {
            if file.get(name).is_some_and(is_path) {
                file.remove(name);
            }
        }
    }
    clean(file);
}

/// Removes the credentials from every address in a value.
pub(super) fn clean(value: &mut Value) {
    match value {
        Value::String(text) => links::clean(text),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(object) => members(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_that_are_left_out_are_sorted() {
        assert!(LEFT_OUT.is_sorted());
    }
}
