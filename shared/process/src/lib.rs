//! Process-level infrastructure: settings and the choice of a backend, log and metrics, and shutdown signals.

pub mod config;
pub mod failure;
pub mod shutdown;
pub mod telemetry;

/// The allocator of every program: it is fast for many small allocations, such as those of an event.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
