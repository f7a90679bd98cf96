//! Search queries, and whether a message matches one. This module does not depend on any index.
//!
//! * [`query`] parses a query; [`resolve`] looks up its people, channels and days among the [`known`] names.
//! * [`units`] splits texts into comparable units; [`document`] extracts the searchable parts of a message.
//! * [`matching`] matches a message against a query and creates snippets.

pub mod document;
pub mod known;
pub mod matching;
pub mod query;
pub mod resolve;
pub mod units;
