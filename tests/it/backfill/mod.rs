//! Slack's history in the archive, by real processes beside a Slack that has one.

mod closing;
mod flags;
mod killed;
