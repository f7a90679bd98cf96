//! Message fields that Slack returns differently in each call although the message is unchanged.

use serde_json::{Value, json};
use slack::ids::Ts;

/// Changes the fields that do not belong to the content.
pub(crate) fn vary(message: &mut Value, ts: &Ts, nonce: usize) {
    let is_odd = nonce % 2 == 1;
    if !message["reply_count"].is_null() {
        message["reply_count"] = (message["reply_count"].as_u64().unwrap_or(0) + 1 + nonce as u64 % 3).into();
        message["latest_reply"] =
            format!("{}.{:06}", ts.micros() / 1_000_000 + 86_400, nonce % 1_000_000).into();
        message["subscribed"] = is_odd.into();
        message["last_read"] = format!("1700000000.{:06}", nonce % 1_000_000).into();
        message["unread_count"] = nonce.into();
    }
    message["user_profile"] = json!({ "avatar_hash": format!("{nonce:012x}"), "display_name": "now" });
    message["permalink"] = format!("https://example.slack.com/archives/{nonce}").into();
    message["is_starred"] = is_odd.into();
    if is_odd {
        message["saved"] = json!({ "date_created": nonce });
    }
    let files = message.get_mut("files").and_then(Value::as_array_mut);
    for file in files.into_iter().flatten().filter(|file| file.is_object()) {
        file["num_stars"] = nonce.into();
        file["comments_count"] = nonce.into();
        file["has_more_shares"] = is_odd.into();
        for (_, address) in
            file.as_object_mut().into_iter().flatten().filter(|(name, _)| name.starts_with("url_"))
        {
            if let Some(text) = address.as_str() {
                *address = format!("{text}?t=xoxe-{nonce}").into();
            }
        }
    }
}
