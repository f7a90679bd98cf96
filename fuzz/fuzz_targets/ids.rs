//! See `tests/testkit/src/fuzzed/ids.rs`.

#![no_main]

#[path = "../../tests/testkit/src/fuzzed/ids.rs"]
mod ids;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ids::check(data));
