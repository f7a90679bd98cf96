//! See `tests/src/fuzzed/ids.rs`.

#![no_main]

#[path = "../../tests/src/fuzzed/ids.rs"]
mod ids;

libfuzzer_sys::fuzz_target!(|data: &[u8]| ids::check(data));
