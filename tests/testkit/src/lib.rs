//! Test support for every crate: conformance suites, ports in memory and ports that fail, made-up events, a
//! recount of reports, a fake Slack, a real browser, and the functions that a fuzzer calls. It depends on
//! ports, rules and Slack's formats, and on no backend or process.

pub mod browser;
pub mod canvas;
pub mod clock;
pub mod conformance;
pub mod corpus;
pub mod deliveries;
pub mod fake_files;
pub mod fake_slack;
pub mod fake_socket;
pub mod faults;
pub mod fuzzed;
pub mod long_texts;
pub mod memory;
pub mod recount;
pub mod scripted_http;
