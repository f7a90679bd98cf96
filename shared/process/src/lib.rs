//! What belongs to a process: its settings and the choice of a backend, its log and metrics, and how it is asked to end.

pub mod config;
pub mod shutdown;
pub mod telemetry;
