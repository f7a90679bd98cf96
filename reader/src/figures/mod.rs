//! Figures for readers: statistics of a period, computed from the rows of the archive.
//!
//! * [`period`]: the period of a report; [`counting`] counts rows by day.
//! * [`stored`]: reports that were made before.
//! * [`rollups`]: days that were counted before, and which of them are still valid; [`trend`] counts the periods before.
//! * [`making`] makes a [`report`]; [`json`] converts it for scripts.
//! * [`message`], [`channel`] and [`person`]: the figures of single messages, channels and people;
//!   [`wording`]: figures in words; [`excerpts`]: the beginnings of messages.

mod basis;
pub mod channel;
pub mod counting;
pub mod excerpts;
mod first_posts;
mod inputs;
pub mod json;
pub mod making;
pub mod message;
pub mod people;
pub mod period;
pub mod person;
pub mod report;
pub mod rollups;
pub mod stored;
mod summary;
mod tables;
mod trend;
pub mod wording;

#[cfg(test)]
#[path = "report_model_tests.rs"]
mod report_model;
#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
