//! Backfills of Slack's history, by real processes with a Slack that has a history.

mod closing;
mod first_start;
mod flags;
mod killed;
mod token_alone;
