//! Stamps, which identify each write to an item.
//!
//! Every write gives the item a unique stamp. There are three reasons:
//!
//! * An item may be deleted only if it is exactly as expected. A condition can check that each expected
//!   attribute is unchanged, but not that none was added. With the stamp, read and delete are atomic for
//!   every other client. A counter would not work: an item that is deleted and written again would restart
//!   it.
//! * The SDK retries a write whose response was lost, and the retry meets its own first attempt. It
//!   recognises it by the stamp, so that a guard does not fail because of the write's own first attempt.
//! * An update that is too large for one expression reads the item, changes it here, and puts it back if the
//!   stamp is still the same.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Generates stamps.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Random keys from the operating system, so that two processes do not generate the same stamps.
    keys: RandomState,
    made: AtomicU64,
}

impl Stamps {
    /// Returns a new stamp: a number, which DynamoDB stores in half the bytes of its digits.
    pub(super) fn next(&self) -> String {
        self.keys.hash_one(self.made.fetch_add(1, Ordering::Relaxed)).to_string()
    }
}
