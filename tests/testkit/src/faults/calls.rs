//! A schedule without faults that records the calls.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::plan::{CallFault, FaultSchedule, PortMethod};

/// All calls in order; each written row counts as one call.
#[derive(Debug, Default)]
pub struct RecordedCalls(Mutex<Vec<PortMethod>>);

impl RecordedCalls {
    /// Takes the recorded calls.
    pub fn take_calls(&self) -> Vec<PortMethod> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the recorded calls and returns how many of them wrote to the archive.
    pub fn take_writes(&self) -> usize {
        self.take_calls().into_iter().filter(|method| *method == PortMethod::Write).count()
    }
}

#[async_trait]
impl FaultSchedule for RecordedCalls {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(method);
        None
    }
}
