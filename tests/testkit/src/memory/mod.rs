//! The ports in memory, as simple as possible: the reference that the durable backends are compared with.

pub mod archive;
pub mod claims;
pub mod existence;
pub mod files;
pub mod queue;
pub mod watched;
