//! Tests of what needs a backend on this machine.
#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "test code: an unwrap that fails is a test that fails")]

mod archive_search;
