//! Channels: every event is kept as it came, and each row is folded from all the events up to its time.
//!
//! * [`event`]: what happened to a channel, and how it is kept.
//! * [`fold`]: from kept events to the snapshots in a channel's rows.
//! * [`index`]: the ChannelIndex, a projection of the newest rows.
//!
//! An event inserts itself as the attribute `raw#{kind}#{hash}` of the row at its clock; then the channel is folded
//! again from all its rows, and a snapshot is replaced only by one folded from more events. Whatever the order, the
//! duplicates and the crashes, who inserts last sees everything.

pub mod event;
pub mod fold;
pub mod index;

pub use event::{ChannelEvent, created, is_news};
