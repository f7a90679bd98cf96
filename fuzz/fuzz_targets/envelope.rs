//! See `tests/testkit/src/fuzzed/envelope.rs`.

#![no_main]

#[path = "../../tests/testkit/src/fuzzed/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|data: &[u8]| envelope::check(data));
