//! Figures: what is counted of messages and people. A figure is a function of rows, never a counter that grows.
//!
//! * [`message`]: what one message says of itself: words, mentions, reactions, its place in a thread.
//! * [`person`]: which kind of author counts where.
//! * [`day`]: a channel's day, in quarters of an hour, so that each author's own clock can be read from it later.
//! * [`stored_day`]: such a day as the text of a row.
//! * [`rollup`]: roll-ups as rows, and jobs to count a day.
//! * [`kept`]: stored reports as rows.
//! * [`members`]: how many people are in a channel, day by day.
//! * [`partners`]: who answers, mentions and reacts to one person, and the other way round.

pub mod day;
pub mod kept;
pub mod members;
pub mod message;
pub mod partners;
pub mod person;
pub mod rollup;
pub mod stored_day;

#[cfg(test)]
#[path = "day_tests.rs"]
mod tests;
