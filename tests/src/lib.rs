//! The harness that drives real processes, and what a month of them costs on AWS.

pub mod bill;
pub mod harness;
