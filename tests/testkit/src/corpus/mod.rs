//! Simulated requests of Slack's: builders for single events, and an endless, reproducible workload with the
//! archive content that it should produce.

pub mod event;
pub mod model;
pub mod text;
pub mod workload;

pub use model::Model;
pub use workload::{Effect, GeneratedEvent, Shape, Workload};

/// The workspace every made-up event belongs to.
pub const TEAM: &str = "T0ANNALIST";

/// The `n`th channel's id.
pub fn channel_id(n: usize) -> String {
    format!("C0{n:08}")
}

/// The `n`th person's id.
pub fn user_id(n: usize) -> String {
    format!("U0{n:08}")
}

/// A timestamp in Slack's format.
pub fn ts(micros: i64) -> String {
    format!("{:010}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
}
