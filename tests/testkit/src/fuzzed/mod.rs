//! What must hold for any bytes at all, one file per door through which bytes from outside come.
//!
//! `fuzz/` feeds these functions what a fuzzer makes up; `it fuzzed` feeds them every input that once was interesting.
//! They know nothing but `shared`, so that a fuzzer has little to build.

pub mod envelope;
pub mod events;
pub mod ids;
pub mod signature;
