//! Tests the index with a real archive and compares its hits with a filter over all messages.
#![expect(clippy::unwrap_used, reason = "test code: a failed unwrap fails the test")]

mod broken;
mod by_day;
mod canvases;
mod checked;
mod counts;
mod fixture;
mod following;
mod hidden;
mod hostile;
mod japanese;
mod names;
mod oracle;
mod size;
mod two_followers;
mod workspaces;
