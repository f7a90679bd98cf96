//! Runs the cases of a suite, each on its own fixture.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream;
use tokio::time::timeout;

/// The concurrency and the time limit of a suite's cases.
#[derive(Debug, Clone, Copy)]
pub struct SuitePace {
    /// The number of concurrent cases, each on its own fixture. More than one requires that no case moves
    /// another's time.
    pub at_once: usize,
    /// A case that takes longer is reported as hanging.
    pub time_limit: Duration,
}

impl SuitePace {
    /// One case after another, for cases that do not wait for real time.
    pub const ONE_BY_ONE: Self = Self { at_once: 1, time_limit: Duration::from_secs(120) };
}

/// One test case of a port.
pub(super) struct Case<F> {
    pub(super) name: &'static str,
    pub(super) run: fn(F) -> BoxFuture<'static, ()>,
}

/// Lists async functions as cases under their names.
macro_rules! cases {
    ($($theme:ident :: { $($case:ident),+ $(,)? }),+ $(,)?) => {
        vec![$($(crate::conformance::run::Case {
            name: concat!(stringify!($theme), "::", stringify!($case)),
            run: |fixture| Box::pin($theme::$case(fixture)),
        }),+),+]
    };
}
pub(super) use cases;

/// Runs all cases at this pace, and then panics with the names of those that failed.
pub(super) async fn run_paced<F: Send + 'static, Making: Future<Output = F>>(
    cases: Vec<Case<F>>,
    pace: SuitePace,
    mut fixture: impl FnMut() -> Making,
) {
    let all = cases.len();
    let running = stream::iter(cases).map(|case| {
        let making = fixture();
        async move {
            let fixture = making.await;
            match tokio::spawn(timeout(pace.time_limit, (case.run)(fixture))).await {
                Ok(Ok(())) => None,
                Ok(Err(_)) => Some(format!("{}: hangs", case.name)),
                Err(panic) => Some(format!("{}: {}", case.name, panic_text(panic))),
            }
        }
    });
    let mut failed: Vec<String> = running.buffer_unordered(pace.at_once).filter_map(ready).collect().await;
    failed.sort_unstable();
    assert!(failed.is_empty(), "{} of {all} cases failed:\n{}", failed.len(), failed.join("\n"));
}

fn panic_text(panic: tokio::task::JoinError) -> String {
    let Ok(payload) = panic.try_into_panic() else { return "cancelled".into() };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast::<&str>().map_or_else(|_| "panicked".into(), |text| (*text).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod theme {
        pub(super) async fn holds(_: ()) {}
        pub(super) async fn fails(_: ()) {
            panic!("it does not hold");
        }
    }

    #[tokio::test]
    async fn a_failing_case_fails_the_suite_under_its_name() {
        let cases = cases![theme::{holds, fails}];
        let suite = tokio::spawn(run_paced(cases, SuitePace::ONE_BY_ONE, || ready(())));
        let text = panic_text(suite.await.unwrap_err());
        assert_eq!(text, "1 of 2 cases failed:\ntheme::fails: it does not hold");
    }
}
