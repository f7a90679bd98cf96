//! The second key: what a correctly signed event claims must exist.

mod caches;
mod exceptions;
mod fixture;
mod forged;
mod processes;
mod settings;
mod trouble;
