//! Figures: statistics of messages and people. A figure is a function of rows, never a counter that grows.
//!
//! * [`message`]: the figures of one message: words, mentions, reactions, its position in a thread.
//! * [`person`]: which kind of author is counted where.
//! * [`day`]: a channel's day, in quarters of an hour, so that it can later be converted to each author's
//!   time zone.
//! * [`stored_day`]: such a day as the text of a row.
//! * [`rollup`]: roll-ups as rows, and jobs to count a day.
//! * [`stored_report`]: stored reports as rows.
//! * [`members`]: the number of members of a channel, day by day.
//! * [`partners`]: who replies to, mentions and reacts to one person, and the reverse.

pub mod day;
pub mod members;
pub mod message;
pub mod partners;
pub mod person;
pub mod rollup;
pub mod stored_day;
pub mod stored_report;

#[cfg(test)]
#[path = "day_tests.rs"]
mod tests;
