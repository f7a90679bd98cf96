//! Channels: every event is stored unchanged, and each row is folded from all the events up to its time.
//!
//! * [`event`]: the events of a channel, and how they are stored.
//! * [`fold`]: from stored events to the snapshots in a channel's rows.
//! * [`index`]: the ChannelIndex, a projection of the newest rows.
//!
//! An event is inserted as the attribute `raw#{kind}#{hash}` of the row at its clock. Then the channel is
//! folded again from all its rows, and a snapshot is replaced only by one folded from more events. The writer
//! that inserts last sees all the events, regardless of order, duplicates and crashes.

pub mod event;
pub mod fold;
pub mod index;

pub use event::{ChannelEvent, created, is_channel_changed};
