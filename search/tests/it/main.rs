//! The index against a real archive: what it finds is compared with what a filter over all messages finds.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod broken;
mod by_day;
mod counts;
mod fixture;
mod following;
mod hostile;
mod japanese;
mod oracle;
mod two_followers;
mod workspaces;
