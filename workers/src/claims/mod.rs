//! Claims for work that is too expensive to be done twice, or must not be: claimed before it starts, kept while it goes on, completed
//! once it is done.
//!
//! * [`Claimant`]: this process as it claims. [`ClaimGuard`]: a claim that is its own.
//! * [`memory`]: the claims while their table is unavailable, for sinks that take the same thing twice.
//!
//! What is claimed and what it is about is the caller's: this room knows keys and times.

mod guard;
mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use ports::claims::{
    About, Claim, ClaimAnswer, ClaimKey, ClaimOwner, Claims, ClaimsError, DEFAULT_TTL, Take,
};
use ports::clock::SharedClock;
use ports::metrics::{CLAIM_FALLBACK, CLAIM_FALLBACKS, CLAIM_SECONDS, CLAIM_STORE_ERRORS, CLAIMS};
use process::config::ClaimArgs;
use tokio::time::Instant;

pub use guard::{ClaimGuard, Lost};
use memory::ClaimMemory;

/// What it would mean to do the work twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// Cost and nothing else. Without the table, claims are kept in memory: two processes may do the same for a while.
    Idempotent,
    /// Harm. Without the table, nothing is done.
    Once,
}

/// Bounds of a process's claims. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct ClaimSettings {
    /// How long a claim lasts without a sign of life; renewed every third of it, as the leases of jobs are. A
    /// job whose process died comes back after as long.
    pub lease: Duration,
    /// How long it is remembered that something was done.
    pub ttl: Duration,
    /// How long claims are kept in memory before their table is tried again.
    pub fallback: Duration,
    /// Claims remembered in memory. What is beyond it may be done twice.
    pub remembered: usize,
}

impl Default for ClaimSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            ttl: DEFAULT_TTL,
            fallback: Duration::from_secs(60),
            remembered: 10_000,
        }
    }
}

impl From<&ClaimArgs> for ClaimSettings {
    fn from(args: &ClaimArgs) -> Self {
        Self { ttl: args.ttl(), ..Self::default() }
    }
}

/// This process as it claims.
pub struct Claimant {
    table: Arc<dyn Claims>,
    memory: ClaimMemory,
    clock: SharedClock,
    /// Tells this process from every other: see [`process::config::instance`].
    instance: String,
    claims_made: AtomicU64,
    settings: ClaimSettings,
}

/// What became of an attempt to claim.
pub enum ClaimOutcome<'c> {
    /// The work is the caller's.
    Ours(ClaimGuard<'c>),
    /// The work was done before.
    Completed,
    /// Another process works on it, for this long at least.
    HeldFor(Duration),
}

/// Where a claim was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantedBy {
    Table,
    Memory,
}

impl Claimant {
    /// Claims in this table, as this instance.
    pub fn new(
        table: Arc<dyn Claims>,
        clock: SharedClock,
        instance: impl Into<String>,
        settings: ClaimSettings,
    ) -> Self {
        let memory = ClaimMemory::new(settings.fallback, settings.remembered);
        Self { table, memory, clock, instance: instance.into(), claims_made: AtomicU64::new(0), settings }
    }

    /// Claims before the work is begun.
    ///
    /// # Errors
    /// [`ClaimsError::Unavailable`] if the table does not answer and the sink does not allow to go on without it.
    pub async fn claim(
        &self,
        key: ClaimKey,
        about: About,
        sink: Sink,
        take: Take,
    ) -> Result<ClaimOutcome<'_>, ClaimsError> {
        let owner = ClaimOwner::of(&self.instance, self.claims_made.fetch_add(1, Ordering::Relaxed));
        let claim = Claim { key, owner, about, lease: self.settings.lease, ttl: self.settings.ttl };
        let began = Instant::now();
        let (answer, place) = self.ask(&claim, sink, take).await;
        let took = began.elapsed();
        let result = match &answer {
            Ok(ClaimAnswer::Claimed) => "new",
            Ok(ClaimAnswer::Completed) => "duplicate",
            Ok(ClaimAnswer::HeldUntil(_)) => "held",
            Err(_) => "unavailable",
        };
        counter!(CLAIMS, "result" => result).increment(1);
        histogram!(CLAIM_SECONDS).record(took.as_secs_f64());
        let latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let fallback_mode = place == GrantedBy::Memory;
        tracing::info!(event_key = %claim.key, result, latency_ms, fallback_mode, "a claim was checked");
        Ok(match answer? {
            ClaimAnswer::Claimed => ClaimOutcome::Ours(ClaimGuard::new(self, claim, sink, place, began)),
            ClaimAnswer::Completed => ClaimOutcome::Completed,
            // A holder whose clock is ahead says too much: no lease is longer than this.
            ClaimAnswer::HeldUntil(until) => {
                ClaimOutcome::HeldFor(until.since(self.clock.now()).min(self.settings.lease))
            }
        })
    }

    async fn ask(
        &self,
        claim: &Claim,
        sink: Sink,
        take: Take,
    ) -> (Result<ClaimAnswer, ClaimsError>, GrantedBy) {
        if self.carries_on(sink) {
            return (Ok(self.memory.claim(claim, take, self.clock.now())), GrantedBy::Memory);
        }
        // Granted in memory, and the table knows nothing of it.
        if let Some(held) = self.memory.held(claim, self.clock.now()) {
            return (Ok(held), GrantedBy::Table);
        }
        match self.table.claim(claim, take).await {
            Ok(answer) => {
                self.answered();
                if answer == ClaimAnswer::Claimed {
                    self.memory.note(claim, self.clock.now());
                }
                (Ok(answer), GrantedBy::Table)
            }
            Err(error) => match self.failed("claim", &error, sink) {
                GrantedBy::Memory => {
                    (Ok(self.memory.claim(claim, take, self.clock.now())), GrantedBy::Memory)
                }
                GrantedBy::Table => (Err(error), GrantedBy::Table),
            },
        }
    }

    /// Whether claims for this sink are in memory now, and the table is left alone.
    fn carries_on(&self, sink: Sink) -> bool {
        sink == Sink::Idempotent && self.memory.carries_on(self.clock.now())
    }

    /// The table answered.
    fn answered(&self) {
        if self.memory.end_fallback() {
            gauge!(CLAIM_FALLBACK).set(0.0);
            tracing::info!("the table of claims is available again");
        }
    }

    /// The table did not answer: says where to go on.
    fn failed(&self, operation: &'static str, error: &ClaimsError, sink: Sink) -> GrantedBy {
        counter!(CLAIM_STORE_ERRORS, "operation" => operation).increment(1);
        match sink {
            Sink::Once => GrantedBy::Table,
            Sink::Idempotent => {
                self.memory.begin_fallback(self.clock.now());
                counter!(CLAIM_FALLBACKS).increment(1);
                gauge!(CLAIM_FALLBACK).set(1.0);
                let fallback_s = self.settings.fallback.as_secs();
                tracing::warn!(operation, %error, fallback_s, "the claims table is unavailable; claims are kept in memory");
                GrantedBy::Memory
            }
        }
    }
}
