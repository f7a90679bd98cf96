//! What belongs to a process: its settings and the choice of a backend, its log and metrics, and how it is asked to end.

pub mod config;
pub mod requests;
pub mod shutdown;
pub mod telemetry;

/// Every program of Annalist allocates with it: a backlog is drained with a tenth less processor time than with the
/// system's allocator (BENCHMARKS.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
