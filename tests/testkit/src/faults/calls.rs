//! Calls on which nothing fails, and which are kept.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::plan::{CallFault, FaultSchedule, PortMethod};

/// Every call, in their order; each row that is written counts as one.
#[derive(Debug, Default)]
pub struct RecordedCalls(Mutex<Vec<PortMethod>>);

impl RecordedCalls {
    /// Those since this was asked last.
    pub fn take(&self) -> Vec<PortMethod> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many of them wrote to the archive.
    pub fn take_writes(&self) -> usize {
        self.take().into_iter().filter(|method| *method == PortMethod::Write).count()
    }
}

#[async_trait]
impl FaultSchedule for RecordedCalls {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(method);
        None
    }
}
