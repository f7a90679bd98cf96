//! What people look at and mend while the archive runs.

pub(crate) mod files;
pub(crate) mod quarantine;
pub(crate) mod status;
pub(crate) mod sync;
