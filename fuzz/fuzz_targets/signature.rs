//! See `tests/testkit/src/fuzzed/signature.rs`.

#![no_main]

#[path = "../../tests/testkit/src/fuzzed/signature.rs"]
mod signature;

libfuzzer_sys::fuzz_target!(|data: &[u8]| signature::check(data));
