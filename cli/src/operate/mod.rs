//! Commands that inspect, repair and maintain the archive while it runs.
//!
//! [`backup`] and [`restore`] share the format in [`packing`]; [`named_files`] says what a backup packs; [`target`] is the output path of a command;
//! [`backfill`] and [`reconcile`] share [`history`].

pub(crate) mod backfill;
pub(crate) mod backup;
pub(crate) mod copy;
pub(crate) mod dashboards;
pub(crate) mod date;
mod directory_status;
pub(crate) mod doctor;
pub(crate) mod erase;
pub(crate) mod files;
pub(crate) mod files_move;
pub(crate) mod forget_public;
mod history;
pub(crate) mod history_status;
mod hold;
pub(crate) mod import;
pub(crate) mod keep;
mod named_files;
mod optout;
mod packing;
pub(crate) mod quarantine;
pub(crate) mod questions;
pub(crate) mod reconcile;
pub(crate) mod restore;
mod retain;
mod scope;
pub(crate) mod status;
mod sums;
pub(crate) mod sync;
pub(crate) mod target;
pub(crate) mod token;
mod verify;
pub(crate) mod waiting_status;
pub(crate) mod workspaces;
