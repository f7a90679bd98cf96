//! The ports in memory, written in the plainest possible way: the reference the durable backends are compared with.

pub mod archive;
pub mod claims;
pub mod existence;
pub mod files;
pub mod queue;
pub mod watched;
