//! The harness that drives real processes, and their monthly cost on AWS.

pub mod bill;
pub mod harness;
