//! Properties that must hold for all bytes, one file per entry point for untrusted bytes.
//!
//! `fuzz/` calls these functions with a fuzzer's inputs; `it fuzzed` calls them with every stored input.
//! They depend only on `shared`, so that a fuzzer has little to build.

pub mod envelope;
pub mod events;
pub mod ids;
pub mod signature;
