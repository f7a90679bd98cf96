//! What people look at and mend while the archive runs.
//!
//! [`backup`] and [`restore`] agree on [`packing`].

pub(crate) mod backfill;
pub(crate) mod backup;
pub(crate) mod dashboards;
mod date;
pub(crate) mod doctor;
pub(crate) mod files;
pub(crate) mod forget_public;
mod held;
pub(crate) mod import;
mod packing;
mod progress;
pub(crate) mod quarantine;
pub(crate) mod restore;
pub(crate) mod status;
pub(crate) mod sync;
