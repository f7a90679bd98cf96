//! Search: what is looked for, and whether a message is it. Where messages are found quickly is not known here.
//!
//! * [`query`] reads what a person typed; [`resolve`] looks up the people, channels and days in it.
//! * [`units`] reads texts into what is compared; [`document`] says what of a message can be found.
//! * [`matching`] holds a message against a query, and cuts out what is shown of it.

pub mod document;
pub mod matching;
pub mod query;
pub mod resolve;
pub mod units;
