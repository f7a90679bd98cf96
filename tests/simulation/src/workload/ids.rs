//! The ids of channels that move.

use testkit::corpus::channel_id;

/// Returns the id under which a channel continues.
pub(crate) fn later_id(id: &str) -> String {
    format!("{id}LATER")
}

/// Whether this is the later id of a channel.
pub(crate) fn is_later_id(id: &str) -> bool {
    id.ends_with("LATER")
}

/// Returns every id that the public channels of a run may have.
pub(crate) fn public_ids(channels: usize) -> Vec<String> {
    (0..channels).map(channel_id).flat_map(|id| [later_id(&id), id]).collect()
}
