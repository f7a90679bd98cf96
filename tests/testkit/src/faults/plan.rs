//! Which calls go wrong, and how.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

/// A method of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
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
    /// `Writer::write`.
    WriteFile,
    /// `Writer::publish`.
    PublishFile,
    /// `Files::open`.
    OpenFile,
    /// `Reader::next`.
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
pub enum Fault {
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
struct Rule {
    method: Option<Method>,
    calls: RangeInclusive<u64>,
    fault: Fault,
}

/// Which calls go wrong. Calls are counted from 1: of one method where the rule names one, else of all of them.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    rules: Vec<Rule>,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// The first `calls` calls fail before they are done.
    pub fn fail_first(calls: u64) -> Self {
        Self::none().and(None, 1..=calls, Fault::FailBefore)
    }

    /// Call number `call` fails before it is done.
    pub fn fail_before(call: u64) -> Self {
        Self::none().and(None, call..=call, Fault::FailBefore)
    }

    /// Call number `call` is done and its answer is lost.
    pub fn fail_after(call: u64) -> Self {
        Self::none().and(None, call..=call, Fault::FailAfter)
    }

    /// Call number `call` is done after a delay.
    pub fn delay(call: u64, by: Duration) -> Self {
        Self::none().and(None, call..=call, Fault::Delay(by))
    }

    /// One more rule. The first that fits a call decides.
    #[must_use]
    pub fn and(
        mut self,
        method: impl Into<Option<Method>>,
        calls: RangeInclusive<u64>,
        fault: Fault,
    ) -> Self {
        self.rules.push(Rule { method: method.into(), calls, fault });
        self
    }
}

/// Does a call that has one result, and meets what goes wrong with it.
pub(super) async fn meet<T, E>(
    fault: Option<Fault>,
    done: impl Future<Output = Result<T, E>>,
    failed: impl FnOnce(String) -> E,
) -> Result<T, E> {
    match fault {
        None => done.await,
        Some(Fault::Delay(by)) => {
            tokio::time::sleep(by).await;
            done.await
        }
        Some(Fault::FailBefore | Fault::FailEntry(_)) => Err(failed(REASON.to_owned())),
        Some(Fault::FailAfter) => {
            drop(done.await);
            Err(failed(REASON.to_owned()))
        }
    }
}

/// Decides call by call what goes wrong, and may hold a call up before and after it is done. A [`Plan`] is one way to
/// decide, a seed another.
#[async_trait]
pub trait FaultSchedule: Send + Sync + 'static {
    /// What goes wrong with a call that is about to be made, with `entries` entries.
    async fn before(&self, method: Method, entries: usize) -> Option<Fault>;

    /// The call is done; its answer is on its way.
    async fn after(&self, _method: Method) {}
}

#[async_trait]
impl FaultSchedule for Progress {
    async fn before(&self, method: Method, _: usize) -> Option<Fault> {
        self.next(method)
    }
}

/// A plan being followed.
#[derive(Debug)]
pub(super) struct Progress {
    plan: Plan,
    called: Mutex<Vec<Method>>,
}

impl Progress {
    pub(super) fn new(plan: Plan) -> Self {
        Self { plan, called: Mutex::new(Vec::new()) }
    }

    /// Counts a call and says what goes wrong with it.
    pub(super) fn next(&self, method: Method) -> Option<Fault> {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        called.push(method);
        let all = called.len() as u64;
        let same = called.iter().filter(|called| **called == method).count() as u64;
        let fits = |rule: &&Rule| match rule.method {
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
        let progress = Progress::new(Plan::none().and(Method::Ack, 2..=2, Fault::FailAfter));
        let faults =
            [Method::Ack, Method::Send, Method::Send, Method::Ack, Method::Ack].map(|m| progress.next(m));
        assert_eq!(faults, [None, None, None, Some(Fault::FailAfter), None]);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let progress = Progress::new(Plan::fail_first(2).and(None, 1..=3, Fault::FailAfter));
        let faults = [Method::Send; 4].map(|method| progress.next(method));
        let (before, after) = (Some(Fault::FailBefore), Some(Fault::FailAfter));
        assert_eq!(faults, [before, before, after, None]);
    }
}
