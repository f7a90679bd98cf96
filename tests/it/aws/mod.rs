//! Everything that runs on AWS's side of the ports, on whatever stack the harness finds.

mod archive;
mod commands;
mod convergence;
mod counts;
mod crash;
mod faults;
mod files;
mod fleet;
mod localstack;
mod provision;
mod queue;
mod setup;
