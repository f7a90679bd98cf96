//! What people look at and mend while the archive runs.
//!
//! [`backup`] and [`restore`] agree on [`packing`]; [`target`] is where a command writes for a user; [`backfill`] and [`reconcile`] share [`history`].

pub(crate) mod backfill;
pub(crate) mod backup;
pub(crate) mod dashboards;
pub(crate) mod date;
pub(crate) mod doctor;
pub(crate) mod erase;
pub(crate) mod files;
pub(crate) mod forget_public;
mod held;
mod history;
pub(crate) mod import;
mod packing;
pub(crate) mod quarantine;
pub(crate) mod questions;
pub(crate) mod reconcile;
pub(crate) mod restore;
pub(crate) mod status;
pub(crate) mod sync;
pub(crate) mod target;
