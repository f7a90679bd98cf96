//! Which calls go wrong, and how.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

/// A method of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortMethod {
    /// `Queue::send`.
    Send,
    /// `Queue::receive`.
    Receive,
    /// `Queue::change_visibility`.
    ChangeVisibility,
    /// `Queue::ack`.
    Ack,
    /// `Queue::depth`.
    Depth,
    /// `Archive::write`.
    Write,
    /// `Archive::get`.
    Get,
    /// `Archive::query`.
    Query,
    /// `Archive::delete_unchanged`.
    DeleteUnchanged,
    /// `Archive::erase`.
    Erase,
    /// `Files::create`.
    CreateFile,
    /// `FileWriter::write`.
    WriteFile,
    /// `FileWriter::publish`.
    PublishFile,
    /// `Files::open`.
    OpenFile,
    /// `FileReader::next`.
    ReadFile,
    /// `Files::delete`.
    DeleteFile,
    /// `Claims::claim`.
    Claim,
    /// `Claims::renew`.
    Renew,
    /// `Claims::complete`.
    Complete,
    /// `Claims::release`.
    Release,
    /// `ready` of any port.
    Ready,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// It fails and was not done.
    FailBefore,
    /// It was done and fails: the answer was lost.
    FailAfter,
    /// Only this entry of the batch fails and is not done. A call that is no batch fails before it is done.
    FailEntry(usize),
    /// It is done after this long.
    Delay(Duration),
}

#[derive(Debug, Clone)]
struct FaultRule {
    method: Option<PortMethod>,
    calls: RangeInclusive<u64>,
    fault: CallFault,
}

/// Which calls go wrong. Calls are counted from 1: of one method where the rule names one, else of all of them.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// The first `calls` calls fail before they are done.
    pub fn fail_first(calls: u64) -> Self {
        Self::none().and(None, 1..=calls, CallFault::FailBefore)
    }

    /// Call number `call` fails before it is done.
    pub fn fail_before(call: u64) -> Self {
        Self::none().and(None, call..=call, CallFault::FailBefore)
    }

    /// Call number `call` is done and its answer is lost.
    pub fn fail_after(call: u64) -> Self {
        Self::none().and(None, call..=call, CallFault::FailAfter)
    }

    /// Call number `call` is done after a delay.
    pub fn delay(call: u64, by: Duration) -> Self {
        Self::none().and(None, call..=call, CallFault::Delay(by))
    }

    /// One more rule. The first that fits a call decides.
    #[must_use]
    pub fn and(
        mut self,
        method: impl Into<Option<PortMethod>>,
        calls: RangeInclusive<u64>,
        fault: CallFault,
    ) -> Self {
        self.rules.push(FaultRule { method: method.into(), calls, fault });
        self
    }
}

/// Does a call that has one result, and meets what goes wrong with it.
pub(super) async fn meet<T, E>(
    fault: Option<CallFault>,
    done: impl Future<Output = Result<T, E>>,
    failed: impl FnOnce(String) -> E,
) -> Result<T, E> {
    match fault {
        None => done.await,
        Some(CallFault::Delay(by)) => {
            tokio::time::sleep(by).await;
            done.await
        }
        Some(CallFault::FailBefore | CallFault::FailEntry(_)) => Err(failed(REASON.to_owned())),
        Some(CallFault::FailAfter) => {
            drop(done.await);
            Err(failed(REASON.to_owned()))
        }
    }
}

/// Decides call by call what goes wrong, and may hold a call up before and after it is done. A [`FaultPlan`] is one way to
/// decide, a seed another.
#[async_trait]
pub trait FaultSchedule: Send + Sync + 'static {
    /// What goes wrong with a call that is about to be made, with `entries` entries.
    async fn before(&self, method: PortMethod, entries: usize) -> Option<CallFault>;

    /// The call is done; its answer is on its way.
    async fn after(&self, _method: PortMethod) {}
}

#[async_trait]
impl FaultSchedule for PlanProgress {
    async fn before(&self, method: PortMethod, _: usize) -> Option<CallFault> {
        self.next(method)
    }
}

/// A plan being followed.
#[derive(Debug)]
pub(super) struct PlanProgress {
    plan: FaultPlan,
    called: Mutex<Vec<PortMethod>>,
}

impl PlanProgress {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self { plan, called: Mutex::new(Vec::new()) }
    }

    /// Counts a call and says what goes wrong with it.
    pub(super) fn next(&self, method: PortMethod) -> Option<CallFault> {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push(method);
        let all = called.len() as u64;
        let same = called.iter().filter(|called| **called == method).count() as u64;
        let fits = |rule: &&FaultRule| match rule.method {
            None => rule.calls.contains(&all),
            Some(of) => of == method && rule.calls.contains(&same),
        };
        self.plan.rules.iter().find(fits).map(|rule| rule.fault)
    }
}

/// What a failed call says.
pub(super) const REASON: &str = "a fault of the plan";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_one_method_counts_only_its_calls() {
        let progress = PlanProgress::new(FaultPlan::none().and(PortMethod::Ack, 2..=2, CallFault::FailAfter));
        let faults = [PortMethod::Ack, PortMethod::Send, PortMethod::Send, PortMethod::Ack, PortMethod::Ack]
            .map(|m| progress.next(m));
        assert_eq!(faults, [None, None, None, Some(CallFault::FailAfter), None]);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let progress = PlanProgress::new(FaultPlan::fail_first(2).and(None, 1..=3, CallFault::FailAfter));
        let faults = [PortMethod::Send; 4].map(|method| progress.next(method));
        let (before, after) = (Some(CallFault::FailBefore), Some(CallFault::FailAfter));
        assert_eq!(faults, [before, before, after, None]);
    }
}
