//! Claims while work goes on, and without their table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ports::claims::{About, Claims, ClaimsError, Take};
use ports::clock::SharedClock;
use testkit::clock::virtual_clock;
use testkit::faults::{CallFault, FaultPlan, FaultyClaims, PortMethod};
use testkit::memory::claims::{MemoryClaims, claim_key};
use tokio::time::{Instant, sleep};
use workers::claims::{ClaimGuard, ClaimOutcome, ClaimSettings, Claimant, Lost, Sink};

use super::fixture::START;

const HOUR: Duration = Duration::from_secs(3600);

/// A table, and what goes wrong on the way to it.
struct RuntimeClaims {
    clock: SharedClock,
    memory: Arc<MemoryClaims>,
    table: Arc<FaultyClaims>,
}

impl RuntimeClaims {
    fn new(plan: FaultPlan) -> Self {
        let clock = virtual_clock(START);
        let memory = Arc::new(MemoryClaims::new(Arc::clone(&clock)));
        let table = Arc::new(FaultyClaims::new(memory.clone(), plan));
        Self { clock, memory, table }
    }

    /// Whose way to the table is as planned.
    fn claimant(&self, name: &str) -> Claimant {
        self.of(name, self.table.clone())
    }

    /// Whose way to the table is whole.
    fn unharmed(&self, name: &str) -> Claimant {
        self.of(name, self.memory.clone())
    }

    fn of(&self, name: &str, table: Arc<dyn Claims>) -> Claimant {
        Claimant::new(table, Arc::clone(&self.clock), name, ClaimSettings::default())
    }
}

async fn check(claimant: &Claimant, sink: Sink) -> Result<ClaimOutcome<'_>, ClaimsError> {
    claimant.claim(claim_key(1), About::default(), sink, Take::IfFree).await
}

async fn ours(claimant: &Claimant, sink: Sink) -> ClaimGuard<'_> {
    match check(claimant, sink).await {
        Ok(ClaimOutcome::Ours(guard)) => guard,
        other => panic!("{}", said(&other)),
    }
}

/// For how long another claimant has it.
async fn held_for(claimant: &Claimant) -> Duration {
    match check(claimant, Sink::Idempotent).await {
        Ok(ClaimOutcome::HeldFor(left)) => left,
        other => panic!("{}", said(&other)),
    }
}

async fn assert_completed(claimant: &Claimant) {
    let other = check(claimant, Sink::Idempotent).await;
    assert!(matches!(other, Ok(ClaimOutcome::Completed)), "{}", said(&other));
}

fn said(check: &Result<ClaimOutcome<'_>, ClaimsError>) -> String {
    match check {
        Ok(ClaimOutcome::Ours(_)) => "it is ours".into(),
        Ok(ClaimOutcome::Completed) => "it is completed".into(),
        Ok(ClaimOutcome::HeldFor(left)) => format!("it is held for {left:?}"),
        Err(error) => error.to_string(),
    }
}

/// These calls of one method fail.
fn failing(method: PortMethod, calls: std::ops::RangeInclusive<u64>) -> FaultPlan {
    FaultPlan::none().and(method, calls, CallFault::FailBefore)
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_kept_for_as_long_as_the_work_takes() {
    let bench = RuntimeClaims::new(FaultPlan::none());
    let (worker, other) = (bench.claimant("worker"), bench.unharmed("other"));
    for sink in [Sink::Idempotent, Sink::Once] {
        let mut guard = ours(&worker, sink).await;
        let (kept, held) = tokio::join!(guard.keep(sleep(HOUR)), async {
            sleep(HOUR / 2).await;
            held_for(&other).await
        });
        assert_eq!(kept, Ok(()));
        assert!(held > Duration::from_secs(10), "{held:?}");
        guard.complete().await.unwrap();
        assert_completed(&other).await;
        // Until it is forgotten.
        sleep(HOUR * 6).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_released_is_free_and_what_is_dropped_ends_by_itself() {
    let bench = RuntimeClaims::new(FaultPlan::none());
    let (worker, other) = (bench.claimant("worker"), bench.unharmed("other"));
    ours(&worker, Sink::Once).await.release().await;
    drop(ours(&other, Sink::Once).await);
    let left = held_for(&worker).await;
    assert_eq!(left, Duration::from_secs(30));
    sleep(left).await;
    ours(&worker, Sink::Once).await.complete().await.unwrap();
    assert_completed(&other).await;
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_process_are_two() {
    let bench = RuntimeClaims::new(FaultPlan::none());
    let worker = bench.claimant("worker");
    let guard = ours(&worker, Sink::Idempotent).await;
    assert_eq!(held_for(&worker).await, Duration::from_secs(30));
    guard.release().await;
    ours(&worker, Sink::Idempotent).await.release().await;
    assert!(bench.memory.rows().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_zombie_completes_nothing() {
    let bench = RuntimeClaims::new(FaultPlan::none());
    let (zombie, heir) = (bench.claimant("zombie"), bench.unharmed("heir"));
    for sink in [Sink::Idempotent, Sink::Once] {
        let was_away = ours(&zombie, sink).await;
        sleep(Duration::from_secs(30)).await;
        let guard = ours(&heir, sink).await;
        assert_eq!(was_away.complete().await, Err(ClaimsError::NotOwner));
        assert_eq!(held_for(&zombie).await, Duration::from_secs(30));
        guard.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_ends_if_another_process_has_its_claim() {
    let bench = RuntimeClaims::new(FaultPlan::none());
    let (zombie, heir) = (bench.claimant("zombie"), bench.unharmed("heir"));
    let mut guard = ours(&zombie, Sink::Idempotent).await;
    // The process was stopped, and goes on.
    sleep(Duration::from_secs(30)).await;
    let _theirs = ours(&heir, Sink::Idempotent).await;
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let kept = guard
        .keep(async {
            sleep(HOUR).await;
            done.store(true, Ordering::SeqCst);
        })
        .await;
    assert_eq!(kept, Err(Lost));
    assert!(!done.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_must_be_done_once_ends_before_its_lease_where_the_table_is_gone() {
    // Neither an error nor silence is an answer.
    for fault in [CallFault::FailBefore, CallFault::FailAfter, CallFault::Delay(HOUR)] {
        let bench = RuntimeClaims::new(FaultPlan::none().and(PortMethod::Renew, 1..=u64::MAX, fault));
        let worker = bench.claimant("worker");
        let mut guard = ours(&worker, Sink::Once).await;
        let began = Instant::now();
        assert_eq!(guard.keep(sleep(HOUR)).await, Err(Lost));
        assert_eq!(began.elapsed(), Duration::from_secs(25), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_for_a_moment_ends_nothing() {
    let bench = RuntimeClaims::new(failing(PortMethod::Renew, 1..=3));
    let (worker, other) = (bench.claimant("worker"), bench.unharmed("other"));
    let mut guard = ours(&worker, Sink::Once).await;
    assert_eq!(guard.keep(sleep(HOUR)).await, Ok(()));
    guard.complete().await.unwrap();
    assert_completed(&other).await;
}

#[tokio::test(start_paused = true)]
async fn what_must_be_done_once_is_not_done_without_the_table() {
    let bench = RuntimeClaims::new(failing(PortMethod::Claim, 1..=2));
    let worker = bench.claimant("worker");
    let refused = check(&worker, Sink::Once).await;
    assert!(matches!(refused, Err(ClaimsError::Unavailable(_))), "{}", said(&refused));
    // Nor while others carry on in memory: it asks the table each time.
    let carries_on = ours(&worker, Sink::Idempotent).await;
    assert_eq!(bench.table.calls(), 2);
    let held = check(&worker, Sink::Once).await;
    assert!(matches!(held, Ok(ClaimOutcome::HeldFor(_))), "{}", said(&held));
    carries_on.release().await;
    ours(&worker, Sink::Once).await.complete().await.unwrap();
    assert_completed(&bench.unharmed("other")).await;
}

#[tokio::test(start_paused = true)]
async fn what_may_be_done_twice_is_claimed_in_memory_for_a_minute_without_the_table() {
    let bench = RuntimeClaims::new(FaultPlan::fail_first(1));
    let worker = bench.claimant("worker");
    let mut guard = ours(&worker, Sink::Idempotent).await;
    assert_eq!(held_for(&worker).await, Duration::from_secs(30));
    assert_eq!(guard.keep(sleep(Duration::from_secs(40))).await, Ok(()));
    assert!(held_for(&worker).await >= Duration::from_secs(20), "it is renewed there");
    guard.complete().await.unwrap();
    assert_completed(&worker).await;
    assert_eq!(bench.table.calls(), 1, "for a minute the table is left alone");
    assert!(bench.memory.rows().is_empty());

    sleep(Duration::from_secs(20)).await;
    ours(&worker, Sink::Idempotent).await.complete().await.unwrap();
    assert_eq!(bench.table.calls(), 3, "it is tried again");
    assert_completed(&bench.unharmed("other")).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_may_be_done_twice_outlives_the_table() {
    for fault in [CallFault::FailBefore, CallFault::FailAfter, CallFault::Delay(HOUR * 2)] {
        let bench = RuntimeClaims::new(FaultPlan::none().and(PortMethod::Renew, 2..=4, fault));
        let (worker, other) = (bench.claimant("worker"), bench.unharmed("other"));
        let mut guard = ours(&worker, Sink::Idempotent).await;
        assert_eq!(guard.keep(sleep(HOUR)).await, Ok(()), "{fault:?}");
        // The table came back, and no other claimant had taken the claim.
        assert!(held_for(&other).await >= Duration::from_secs(15), "{fault:?}");
        guard.complete().await.unwrap();
        assert_completed(&other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_claimed_in_memory_is_held_when_the_table_is_back() {
    let bench = RuntimeClaims::new(FaultPlan::fail_first(1));
    let worker = bench.claimant("worker");
    let mut guard = ours(&worker, Sink::Idempotent).await;
    let (kept, ()) = tokio::join!(guard.keep(sleep(HOUR)), async {
        sleep(Duration::from_secs(600)).await;
        held_for(&worker).await;
        let once = check(&worker, Sink::Once).await;
        assert!(matches!(once, Ok(ClaimOutcome::HeldFor(_))), "{}", said(&once));
    });
    assert_eq!(kept, Ok(()));
    guard.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_could_not_be_stored_is_remembered_in_memory_and_answers_later_claims() {
    let bench = RuntimeClaims::new(failing(PortMethod::Complete, 1..=2));
    let worker = bench.claimant("worker");
    let unheard = ours(&worker, Sink::Once).await.complete().await;
    assert!(matches!(unheard, Err(ClaimsError::Unavailable(_))));
    sleep(Duration::from_secs(30)).await;
    drop(ours(&worker, Sink::Idempotent).await.complete().await);
    assert_completed(&worker).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_clock_is_ahead_does_not_keep_others_for_longer_than_a_lease() {
    struct Ahead(SharedClock);
    impl ports::clock::Clock for Ahead {
        fn now(&self) -> ports::clock::TimestampMs {
            self.0.now().plus(HOUR)
        }
    }
    let bench = RuntimeClaims::new(FaultPlan::none());
    let ahead: SharedClock = Arc::new(Ahead(Arc::clone(&bench.clock)));
    // The table's clock is the holder's: the row says an hour too much.
    let memory = Arc::new(MemoryClaims::new(ahead)) as Arc<dyn Claims>;
    let (holder, other) = (bench.of("holder", Arc::clone(&memory)), bench.of("other", memory));
    let _guard = ours(&holder, Sink::Idempotent).await;
    assert_eq!(held_for(&other).await, Duration::from_secs(30));
}
