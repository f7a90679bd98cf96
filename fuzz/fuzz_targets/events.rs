//! See `tests/testkit/src/fuzzed/events.rs`.

#![no_main]

#[path = "../../tests/testkit/src/fuzzed/events.rs"]
mod events;

libfuzzer_sys::fuzz_target!(|data: &[u8]| events::check(data));
