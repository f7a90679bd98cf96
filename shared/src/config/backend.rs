//! The one place where a backend is chosen.

use std::sync::Arc;

use super::DataArgs;
use crate::archive::Archive;
use crate::clock::SharedClock;
use crate::embedded::{Database, OpenError};
use crate::files::Files;
use crate::queue::Queue;

/// The ports of the chosen backend. Take only those you need.
pub struct Backend {
    /// Where jobs travel.
    pub queue: Arc<dyn Queue>,
    /// Where rows are kept.
    pub archive: Arc<dyn Archive>,
    /// Where files are kept.
    pub files: Arc<dyn Files>,
    database: Database,
}

impl Backend {
    /// Opens the data folder, making it where it does not exist yet.
    ///
    /// # Errors
    /// [`OpenError`] says what to do next.
    pub fn open(args: &DataArgs, clock: SharedClock) -> Result<Self, OpenError> {
        Ok(Self::of(Database::open(&args.data, clock)?))
    }

    /// Opens a data folder that holds an archive already.
    ///
    /// # Errors
    /// [`OpenError::Missing`] where it does not.
    pub fn open_existing(args: &DataArgs, clock: SharedClock) -> Result<Self, OpenError> {
        Ok(Self::of(Database::open_existing(&args.data, clock)?))
    }

    fn of(database: Database) -> Self {
        Self { queue: database.queue(), archive: database.archive(), files: database.files(), database }
    }

    /// Waits until everything is durable and closes the backend.
    pub async fn close(&self) {
        self.database.close().await;
    }
}
