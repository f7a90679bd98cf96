//! Running a suite's cases, each on a fixture of its own.

use std::time::Duration;

use futures_util::future::BoxFuture;

/// A case that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// One claim about a port.
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

/// Runs all cases, whichever fail, and then fails with the names of those.
pub(super) async fn run_all<F: Send + 'static>(cases: Vec<Case<F>>, mut fixture: impl FnMut() -> F) {
    let mut failed = Vec::new();
    let all = cases.len();
    for case in cases {
        let run = tokio::spawn(tokio::time::timeout(PATIENCE, (case.run)(fixture())));
        match run.await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => failed.push(format!("{}: hangs", case.name)),
            Err(panic) => failed.push(format!("{}: {}", case.name, panic_text(panic))),
        }
    }
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
        let suite = tokio::spawn(run_all(cases![theme::{holds, fails}], || ()));
        let text = panic_text(suite.await.unwrap_err());
        assert_eq!(text, "1 of 2 cases failed:\ntheme::fails: it does not hold");
    }
}
