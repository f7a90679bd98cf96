//! Fault plans: which calls fail, and how.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

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
    /// `Files::list`.
    ListFiles,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFault {
    /// The call fails and has no effect.
    FailBefore,
    /// The call takes effect and fails: its response is lost.
    FailAfter,
    /// Only this entry of the batch fails and has no effect. A call without a batch fails and has no effect.
    FailEntry(usize),
    /// The call is made after this delay.
    Delay(Duration),
}

#[derive(Debug, Clone)]
struct FaultRule {
    method: Option<PortMethod>,
    calls: RangeInclusive<u64>,
    fault: CallFault,
}

/// The calls that fail. Calls are counted from 1: those of one method if the rule names one, otherwise all of
/// them.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// No call fails.
    pub fn none() -> Self {
        Self::default()
    }

    /// The first `calls` calls fail without an effect.
    pub fn fail_first(calls: u64) -> Self {
        Self::none().with_rule(None, 1..=calls, CallFault::FailBefore)
    }

    /// Call number `call` fails without an effect.
    pub fn fail_before(call: u64) -> Self {
        Self::none().with_rule(None, call..=call, CallFault::FailBefore)
    }

    /// Call number `call` takes effect, but its response is lost.
    pub fn fail_after(call: u64) -> Self {
        Self::none().with_rule(None, call..=call, CallFault::FailAfter)
    }

    /// Adds a rule. The first rule that matches a call decides.
    #[must_use]
    pub fn with_rule(
        mut self,
        method: impl Into<Option<PortMethod>>,
        calls: RangeInclusive<u64>,
        fault: CallFault,
    ) -> Self {
        self.rules.push(FaultRule { method: method.into(), calls, fault });
        self
    }
}

/// Makes a call with one result, and applies the fault that the schedule decides.
pub(super) async fn call<T, E>(
    schedule: &dyn FaultSchedule,
    method: PortMethod,
    failed: impl FnOnce(String) -> E,
    done: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = match schedule.before(method, 1).await {
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
    };
    schedule.after(method).await;
    result
}

/// Decides call by call which fault to inject, and may delay a call before and after its effect. A
/// [`FaultPlan`] is one such schedule, a seeded one another.
#[async_trait]
pub trait FaultSchedule: Send + Sync + 'static {
    /// Returns the fault of a call of `entries` entries that is about to be made.
    async fn before(&self, method: PortMethod, entries: usize) -> Option<CallFault>;

    /// The call is done, but has not returned yet.
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

    /// Counts a call and returns its fault.
    pub(super) fn next(&self, method: PortMethod) -> Option<CallFault> {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push(method);
        let all = called.len() as u64;
        let same = called.iter().filter(|called| **called == method).count() as u64;
        let fits = |rule: &&FaultRule| match rule.method {
            None => rule.calls.contains(&all),
            Some(rule_method) => rule_method == method && rule.calls.contains(&same),
        };
        self.plan.rules.iter().find(fits).map(|rule| rule.fault)
    }
}

/// The error text of a failed call.
pub(super) const REASON: &str = "a fault of the plan";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_one_method_counts_only_its_calls() {
        let progress =
            PlanProgress::new(FaultPlan::none().with_rule(PortMethod::Ack, 2..=2, CallFault::FailAfter));
        let faults = [PortMethod::Ack, PortMethod::Send, PortMethod::Send, PortMethod::Ack, PortMethod::Ack]
            .map(|m| progress.next(m));
        assert_eq!(faults, [None, None, None, Some(CallFault::FailAfter), None]);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let progress =
            PlanProgress::new(FaultPlan::fail_first(2).with_rule(None, 1..=3, CallFault::FailAfter));
        let faults = [PortMethod::Send; 4].map(|method| progress.next(method));
        let (before, after) = (Some(CallFault::FailBefore), Some(CallFault::FailAfter));
        assert_eq!(faults, [before, before, after, None]);
    }
}
