//! Reads an archive on any backend, with get and query only.
//!
//! * [`find`] resolves ids and names of channels and people; [`permalink`] parses and builds links.
//! * [`rows`]: pages of visible rows; [`range`]: time ranges; [`thread`]: replies.
//! * [`text`]: the content of a message as spans; [`names`]: display names; [`plain`]: text that is safe to
//!   print.
//! * [`directory`]: channel names, and the name and address of a workspace; [`channels`]: the list of
//!   channels.
//! * [`gaps`]: intervals in which events may be missing; [`history`]: what was read from Slack's history;
//!   [`coverage`]: the intervals that the archive covers; [`proof`]: what was compared with Slack.
//! * [`search`]: queries, and whether a message matches one.
//! * [`figures`]: the statistics of a period.
//! * [`waiting`]: jobs that wait for a token, a scope or Slack.
//! * [`files`]: the state of files, in words; [`numbers`]: numbers as people read them.
//! * [`access`]: who reads, and the archive without the channels that they do not see.
//! * [`memberships`]: the members of channels.
//! * [`joined`]: a channel with several ids or in several workspaces, read as one.

pub mod access;
pub mod bookmarks;
pub mod channels;
mod concurrent;
pub mod coverage;
pub mod directory;
pub mod figures;
pub mod files;
pub mod find;
#[cfg(test)]
#[path = "fixture_tests.rs"]
mod fixture;
pub mod gaps;
pub mod history;
pub mod joined;
pub mod memberships;
pub mod names;
pub mod numbers;
pub mod permalink;
pub mod pins;
pub mod plain;
mod presence;
pub mod proof;
pub mod range;
pub mod rows;
pub mod search;
pub mod text;
pub mod thread;
pub mod user_groups;
pub mod waiting;
pub mod workspaces;
