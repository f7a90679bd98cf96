//! What readers of an archive need, on any backend: get and query only.
//!
//! * [`find`]: which channel or person is meant; [`permalink`]: what a link names.
//! * [`rows`]: pages of what readers see, [`range`]: from when to when; [`thread`]: replies.
//! * [`text`]: what a message says, as spans; [`names`]: what people and channels are called; [`plain`]: text made safe to
//!   show.
//! * [`directory`]: which channel has which name, and where a workspace is; [`channels`]: all of them.
//! * [`gaps`]: when events may be missing; [`history`]: what was read of Slack's history; [`coverage`]: what is held.
//! * [`search`]: what is looked for, and whether a message is it.
//! * [`figures`]: what is counted of a period.
//! * [`files`]: what is held of files, in words; [`numbers`]: numbers as people read them.
//! * [`joined`]: a channel that lies under several ids or in several workspaces, read as one.

pub mod channels;
mod concurrent;
pub mod coverage;
pub mod directory;
pub mod figures;
pub mod files;
pub mod find;
pub mod gaps;
pub mod history;
pub mod joined;
pub mod names;
pub mod numbers;
pub mod permalink;
pub mod plain;
pub mod range;
pub mod rows;
pub mod search;
pub mod text;
pub mod thread;
