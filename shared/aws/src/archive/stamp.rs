//! What tells one write to an item from every other.
//!
//! Every write gives the item's stamp a value that no other write has. Three things need it:
//!
//! * An item may be deleted only if it is exactly what was expected. A condition can say that each expected attribute
//!   is unchanged, but not that none was added. With the stamp, read and delete are one step for every other client.
//!   A counter would not do: an item that is deleted and written anew would count from the start.
//! * A write whose answer was lost is sent again by the SDK, and then meets its own first attempt. It knows it by the
//!   stamp, so that no guard loses against itself.
//! * What is too large for one expression is read, changed here, and put back if the stamp is still the one read.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes stamps.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Keys that the operating system drew at random, so that no two processes count alike.
    keys: RandomState,
    made: AtomicU64,
}

impl Stamps {
    /// A stamp that was never given: a number, which takes half the room of its digits.
    pub(super) fn next(&self) -> String {
        self.keys.hash_one(self.made.fetch_add(1, Ordering::Relaxed)).to_string()
    }
}
