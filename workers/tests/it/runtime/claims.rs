//! Claims during long work and while their table is unavailable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ports::claims::{ClaimContext, ClaimMode, Claims, ClaimsError};
use ports::clock::SharedClock;
use testkit::clock::virtual_clock;
use testkit::faults::{CallFault, FaultPlan, FaultyClaims, PortMethod};
use testkit::memory::claims::{MemoryClaims, claim_key};
use tokio::time::{Instant, sleep};
use workers::claims::{ClaimGuard, ClaimOutcome, ClaimSettings, Claimant, Lost, Sink};

use super::fixture::START;

const HOUR: Duration = Duration::from_secs(3600);

/// A claims table, and the same table with injected faults.
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

    /// A claimant whose calls fail as planned.
    fn claimant(&self, name: &str) -> Claimant {
        self.claimant_of(name, self.table.clone())
    }

    /// A claimant whose calls never fail.
    fn reliable(&self, name: &str) -> Claimant {
        self.claimant_of(name, self.memory.clone())
    }

    fn claimant_of(&self, name: &str, table: Arc<dyn Claims>) -> Claimant {
        Claimant::new(table, Arc::clone(&self.clock), name, ClaimSettings::default())
    }
}

async fn check(claimant: &Claimant, sink: Sink) -> Result<ClaimOutcome<'_>, ClaimsError> {
    claimant.claim(claim_key(1), ClaimContext::default(), sink, ClaimMode::IfFree).await
}

async fn ours(claimant: &Claimant, sink: Sink) -> ClaimGuard<'_> {
    match check(claimant, sink).await {
        Ok(ClaimOutcome::Ours(guard)) => guard,
        other => panic!("{}", describe(&other)),
    }
}

/// The remaining lease of another claimant.
async fn held_for(claimant: &Claimant) -> Duration {
    match check(claimant, Sink::Idempotent).await {
        Ok(ClaimOutcome::HeldFor(left)) => left,
        other => panic!("{}", describe(&other)),
    }
}

async fn assert_completed(claimant: &Claimant) {
    let other = check(claimant, Sink::Idempotent).await;
    assert!(matches!(other, Ok(ClaimOutcome::Completed)), "{}", describe(&other));
}

fn describe(check: &Result<ClaimOutcome<'_>, ClaimsError>) -> String {
    match check {
        Ok(ClaimOutcome::Ours(_)) => "it is ours".into(),
        Ok(ClaimOutcome::Completed) => "it is completed".into(),
        Ok(ClaimOutcome::HeldFor(left)) => format!("it is held for {left:?}"),
        Err(error) => error.to_string(),
    }
}

/// A plan in which these calls of one method fail.
fn failing(method: PortMethod, calls: std::ops::RangeInclusive<u64>) -> FaultPlan {
    FaultPlan::none().with_rule(method, calls, CallFault::FailBefore)
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_kept_for_as_long_as_the_work_takes() {
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let (worker, other) = (fixture.claimant("worker"), fixture.reliable("other"));
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
        // Until the completion is forgotten.
        sleep(HOUR * 6).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_released_claim_is_free_and_a_dropped_one_expires() {
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let (worker, other) = (fixture.claimant("worker"), fixture.reliable("other"));
    ours(&worker, Sink::Once).await.release().await;
    drop(ours(&other, Sink::Once).await);
    let left = held_for(&worker).await;
    assert_eq!(left, Duration::from_secs(30));
    sleep(left).await;
    ours(&worker, Sink::Once).await.complete().await.unwrap();
    assert_completed(&other).await;
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_process_are_two_claimants() {
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let worker = fixture.claimant("worker");
    let guard = ours(&worker, Sink::Idempotent).await;
    assert_eq!(held_for(&worker).await, Duration::from_secs(30));
    guard.release().await;
    ours(&worker, Sink::Idempotent).await.release().await;
    assert!(fixture.memory.rows().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_zombie_cannot_complete_a_claim() {
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let (zombie, heir) = (fixture.claimant("zombie"), fixture.reliable("heir"));
    for sink in [Sink::Idempotent, Sink::Once] {
        let stale_guard = ours(&zombie, sink).await;
        sleep(Duration::from_secs(30)).await;
        let guard = ours(&heir, sink).await;
        assert_eq!(stale_guard.complete().await, Err(ClaimsError::NotOwner));
        assert_eq!(held_for(&zombie).await, Duration::from_secs(30));
        guard.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn work_ends_if_another_process_has_its_claim() {
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let (zombie, heir) = (fixture.claimant("zombie"), fixture.reliable("heir"));
    let mut guard = ours(&zombie, Sink::Idempotent).await;
    // The process was suspended and resumes.
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
async fn work_that_must_be_done_once_ends_before_its_lease_if_the_table_is_unavailable() {
    // Neither an error nor a missing response proves a renewal.
    for fault in [CallFault::FailBefore, CallFault::FailAfter, CallFault::Delay(HOUR)] {
        let fixture = RuntimeClaims::new(FaultPlan::none().with_rule(PortMethod::Renew, 1..=u64::MAX, fault));
        let worker = fixture.claimant("worker");
        let mut guard = ours(&worker, Sink::Once).await;
        let began = Instant::now();
        assert_eq!(guard.keep(sleep(HOUR)).await, Err(Lost));
        assert_eq!(began.elapsed(), Duration::from_secs(25), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_brief_renewal_failure_does_not_end_the_work() {
    let fixture = RuntimeClaims::new(failing(PortMethod::Renew, 1..=3));
    let (worker, other) = (fixture.claimant("worker"), fixture.reliable("other"));
    let mut guard = ours(&worker, Sink::Once).await;
    assert_eq!(guard.keep(sleep(HOUR)).await, Ok(()));
    guard.complete().await.unwrap();
    assert_completed(&other).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_must_be_done_once_does_not_start_without_the_table() {
    let fixture = RuntimeClaims::new(failing(PortMethod::Claim, 1..=2));
    let worker = fixture.claimant("worker");
    let refused = check(&worker, Sink::Once).await;
    assert!(matches!(refused, Err(ClaimsError::Unavailable(_))), "{}", describe(&refused));
    // Nor while idempotent work continues in memory: a `Once` claim tries the table each time.
    let in_memory = ours(&worker, Sink::Idempotent).await;
    assert_eq!(fixture.table.calls(), 2);
    let held = check(&worker, Sink::Once).await;
    assert!(matches!(held, Ok(ClaimOutcome::HeldFor(_))), "{}", describe(&held));
    in_memory.release().await;
    ours(&worker, Sink::Once).await.complete().await.unwrap();
    assert_completed(&fixture.reliable("other")).await;
}

#[tokio::test(start_paused = true)]
async fn idempotent_work_is_claimed_in_memory_for_a_minute_without_the_table() {
    let fixture = RuntimeClaims::new(FaultPlan::fail_first(1));
    let worker = fixture.claimant("worker");
    let mut guard = ours(&worker, Sink::Idempotent).await;
    assert_eq!(held_for(&worker).await, Duration::from_secs(30));
    assert_eq!(guard.keep(sleep(Duration::from_secs(40))).await, Ok(()));
    assert!(held_for(&worker).await >= Duration::from_secs(20), "it is renewed there");
    guard.complete().await.unwrap();
    assert_completed(&worker).await;
    assert_eq!(fixture.table.calls(), 1, "for a minute the table is left alone");
    assert!(fixture.memory.rows().is_empty());

    sleep(Duration::from_secs(20)).await;
    ours(&worker, Sink::Idempotent).await.complete().await.unwrap();
    assert_eq!(fixture.table.calls(), 3, "it is tried again");
    assert_completed(&fixture.reliable("other")).await;
}

#[tokio::test(start_paused = true)]
async fn idempotent_work_continues_while_the_table_is_unavailable() {
    for fault in [CallFault::FailBefore, CallFault::FailAfter, CallFault::Delay(HOUR * 2)] {
        let fixture = RuntimeClaims::new(FaultPlan::none().with_rule(PortMethod::Renew, 2..=4, fault));
        let (worker, other) = (fixture.claimant("worker"), fixture.reliable("other"));
        let mut guard = ours(&worker, Sink::Idempotent).await;
        assert_eq!(guard.keep(sleep(HOUR)).await, Ok(()), "{fault:?}");
        // The table came back, and no other claimant had taken the claim.
        assert!(held_for(&other).await >= Duration::from_secs(15), "{fault:?}");
        guard.complete().await.unwrap();
        assert_completed(&other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_in_memory_claim_is_still_held_when_the_table_is_back() {
    let fixture = RuntimeClaims::new(FaultPlan::fail_first(1));
    let worker = fixture.claimant("worker");
    let mut guard = ours(&worker, Sink::Idempotent).await;
    let (kept, ()) = tokio::join!(guard.keep(sleep(HOUR)), async {
        sleep(Duration::from_secs(600)).await;
        held_for(&worker).await;
        let once = check(&worker, Sink::Once).await;
        assert!(matches!(once, Ok(ClaimOutcome::HeldFor(_))), "{}", describe(&once));
    });
    assert_eq!(kept, Ok(()));
    guard.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_could_not_be_stored_is_remembered_in_memory_and_answers_later_claims() {
    let fixture = RuntimeClaims::new(failing(PortMethod::Complete, 1..=2));
    let worker = fixture.claimant("worker");
    let unstored = ours(&worker, Sink::Once).await.complete().await;
    assert!(matches!(unstored, Err(ClaimsError::Unavailable(_))));
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
    let fixture = RuntimeClaims::new(FaultPlan::none());
    let ahead: SharedClock = Arc::new(Ahead(Arc::clone(&fixture.clock)));
    // The table uses the holder's clock, so the row expires an hour too late.
    let memory = Arc::new(MemoryClaims::new(ahead)) as Arc<dyn Claims>;
    let (holder, other) =
        (fixture.claimant_of("holder", Arc::clone(&memory)), fixture.claimant_of("other", memory));
    let _guard = ours(&holder, Sink::Idempotent).await;
    assert_eq!(held_for(&other).await, Duration::from_secs(30));
}
