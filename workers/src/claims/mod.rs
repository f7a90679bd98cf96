//! Claims for work that is too expensive to be done twice, or must not be: claimed before it starts, renewed
//! during the work, completed once it is done.
//!
//! * [`Claimant`]: makes claims for this process. [`ClaimGuard`]: a claim that this process owns.
//! * [`memory`]: the claims while their table is unavailable, for idempotent sinks.
//!
//! The caller decides what it claims and for which subject: this module knows only keys and times.

mod guard;
mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{counter, gauge, histogram};
use ports::claims::{
    Claim, ClaimAnswer, ClaimContext, ClaimKey, ClaimMode, ClaimOwner, Claims, ClaimsError, DEFAULT_TTL,
};
use ports::clock::SharedClock;
use ports::lease::MAX_LEASE;
use ports::metrics::{CLAIM_FALLBACK, CLAIM_FALLBACKS, CLAIM_SECONDS, CLAIM_STORE_ERRORS, CLAIMS};
use tokio::time::Instant;

pub use guard::{ClaimGuard, Lost};
use memory::ClaimMemory;

/// The consequence of doing the work twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// Only cost. While the table is unavailable, claims are kept in memory: two processes may do the same
    /// work for a while.
    Idempotent,
    /// Harm. While the table is unavailable, no work is done.
    Once,
}

/// Limits of a process's claims. The defaults are for production; tests shorten them.
#[derive(Debug, Clone)]
pub struct ClaimSettings {
    /// How long a claim lasts without a renewal; it is renewed every third of it, as the leases of jobs are.
    /// A job whose process died is retried after the same time.
    pub lease: Duration,
    /// How long a completed claim is remembered.
    pub ttl: Duration,
    /// How long claims are kept in memory before the table is tried again.
    pub fallback: Duration,
    /// Maximum number of claims remembered in memory. Work beyond it may be done twice.
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

/// Makes claims for this process.
pub struct Claimant {
    table: Arc<dyn Claims>,
    memory: ClaimMemory,
    clock: SharedClock,
    /// Distinguishes this process from every other.
    instance: String,
    claims_made: AtomicU64,
    settings: ClaimSettings,
}

/// The outcome of an attempt to claim.
pub enum ClaimOutcome<'c> {
    /// The caller owns the work.
    Ours(ClaimGuard<'c>),
    /// The work was done before.
    Completed,
    /// Another process works on it, for at least this long.
    HeldFor(Duration),
}

/// Where a claim was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantedBy {
    Table,
    Memory,
}

impl Claimant {
    /// A claimant that claims in this table, as this instance.
    pub fn new(
        table: Arc<dyn Claims>,
        clock: SharedClock,
        instance: impl Into<String>,
        settings: ClaimSettings,
    ) -> Self {
        let memory = ClaimMemory::new(settings.fallback, settings.remembered);
        Self { table, memory, clock, instance: instance.into(), claims_made: AtomicU64::new(0), settings }
    }

    /// Claims work before it starts.
    ///
    /// # Errors
    /// [`ClaimsError::Unavailable`] if the table does not answer and the sink requires it.
    pub async fn claim(
        &self,
        key: ClaimKey,
        about: ClaimContext,
        sink: Sink,
        take: ClaimMode,
    ) -> Result<ClaimOutcome<'_>, ClaimsError> {
        let owner = ClaimOwner::new(&self.instance, self.claims_made.fetch_add(1, Ordering::Relaxed));
        let claim =
            Claim { key, owner, about, lease: self.settings.lease.min(MAX_LEASE), ttl: self.settings.ttl };
        let began = Instant::now();
        let (answer, granted_by) = self.ask(&claim, sink, take).await;
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
        let fallback_mode = granted_by == GrantedBy::Memory;
        tracing::info!(event_key = %claim.key, result, latency_ms, fallback_mode, "a claim was checked");
        Ok(match answer? {
            ClaimAnswer::Claimed => {
                let until = began + guard::safe(claim.lease);
                ClaimOutcome::Ours(ClaimGuard { claimant: self, claim, sink, granted_by, until })
            }
            ClaimAnswer::Completed => ClaimOutcome::Completed,
            // A holder whose clock is ahead reports too late a time: no lease is longer than this.
            ClaimAnswer::HeldUntil(until) => {
                ClaimOutcome::HeldFor(until.since(self.clock.now()).min(self.settings.lease))
            }
        })
    }

    async fn ask(
        &self,
        claim: &Claim,
        sink: Sink,
        take: ClaimMode,
    ) -> (Result<ClaimAnswer, ClaimsError>, GrantedBy) {
        if self.is_in_fallback(sink) {
            return (Ok(self.memory.claim(claim, take, self.clock.now())), GrantedBy::Memory);
        }
        // A claim granted in memory, unknown to the table.
        if let Some(held) = self.memory.held_by_other(claim, self.clock.now()) {
            return (Ok(held), GrantedBy::Table);
        }
        match self.table.claim(claim, take).await {
            Ok(answer) => {
                self.note_table_answer();
                if answer == ClaimAnswer::Claimed {
                    self.memory.record_claim(claim, self.clock.now());
                }
                (Ok(answer), GrantedBy::Table)
            }
            Err(error) => match self.note_table_failure("claim", &error, sink) {
                GrantedBy::Memory => {
                    (Ok(self.memory.claim(claim, take, self.clock.now())), GrantedBy::Memory)
                }
                GrantedBy::Table => (Err(error), GrantedBy::Table),
            },
        }
    }

    /// Whether claims for this sink are kept in memory now, without asking the table.
    fn is_in_fallback(&self, sink: Sink) -> bool {
        sink == Sink::Idempotent && self.memory.is_in_fallback(self.clock.now())
    }

    /// Ends the fallback, because the table answered.
    fn note_table_answer(&self) {
        if self.memory.end_fallback() {
            gauge!(CLAIM_FALLBACK).set(0.0);
            tracing::info!("the claims table is available again");
        }
    }

    /// Handles a failure of the table; returns where claims are granted from now on.
    fn note_table_failure(&self, operation: &'static str, error: &ClaimsError, sink: Sink) -> GrantedBy {
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
