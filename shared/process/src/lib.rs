//! What belongs to a process: its settings and the choice of a backend, its log and metrics, and how it is asked to end.

pub mod config;
pub mod failure;
pub mod requests;
pub mod shutdown;
pub mod telemetry;

/// Every program allocates with it: it is made for many small allocations, such as those of an event.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
