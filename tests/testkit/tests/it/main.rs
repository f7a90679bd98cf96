//! The doubles keep the contracts of the ports, and what the fuzzer calls holds for every input that is kept.
#![expect(clippy::unwrap_used, reason = "all of it is test code: what it unwraps is what it claims")]

mod conformance;
mod fuzzed;
