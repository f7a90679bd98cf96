//! What readers see of an item: stored attribute names, without the registers' bookkeeping.

use serde_json::Value;

use super::directory::VERSION;
use super::message::CONTENT_VERSION;
use super::reaction;
use crate::archive::Item;

/// A message or a revision as readers see it. `None` for a row that only holds registers waiting for their message: a
/// reaction to something that was never seen.
#[must_use]
pub fn message(item: &Item) -> Option<Value> {
    if item.text(CONTENT_VERSION).is_none() && !item.is("deleted") {
        return None;
    }
    let mut visible = item.clone();
    let reactions = reaction::project(&item.attributes);
    visible.attributes.retain(|name, _| name != CONTENT_VERSION && !reaction::is_register(name));
    if let Some(reactions) = reactions {
        visible.attributes.insert("reactions".into(), reactions);
    }
    Some(visible.to_json())
}

/// A row of the directory as readers see it.
#[must_use]
pub fn directory(item: &Item) -> Value {
    let mut visible = item.clone();
    visible.attributes.remove(VERSION);
    visible.to_json()
}
