//! The second key: what a correctly signed event claims must exist.

mod alone;
mod caches;
mod exceptions;
mod fixture;
mod floods;
mod forged;
mod moved;
mod settings;
mod trouble;
mod unseen;
