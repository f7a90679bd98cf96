//! What readers of an archive need, on any backend: get and query only.
//!
//! * [`directory`]: which channel has which name, and where a workspace is.
//! * [`gaps`]: when events may be missing.
//! * [`joined`]: a channel that lies under several ids or in several workspaces, read as one.

pub mod directory;
pub mod gaps;
pub mod joined;
