//! Figures for readers: what is counted of a period, from the rows of the archive.
//!
//! * [`period`]: from when to when; [`counting`]: rows as roll-ups of days.
//! * [`stored`]: reports that were made before.
//! * [`rollups`]: what was counted before, and what of it holds.
//! * [`making`] makes a [`report`]; [`json`] is how scripts read it.
//! * [`message`], [`channel`] and [`person`]: the figures of single messages, of channels and of people; [`wording`]: figures in words.

mod basis;
pub mod channel;
pub mod counting;
mod firsts;
mod grounds;
pub mod json;
pub mod making;
pub mod message;
pub mod period;
pub mod person;
pub mod report;
pub mod rollups;
pub mod stored;
mod summary;
mod tables;
pub mod wording;

#[cfg(test)]
#[path = "report_model_tests.rs"]
mod report_model;
#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
