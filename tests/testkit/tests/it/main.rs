//! The test doubles pass the conformance suites of their ports, and the fuzz checks hold for every stored
//! input.
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

mod conformance;
mod fuzzed;
