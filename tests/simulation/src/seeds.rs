//! Runs many seeds. Each run stays on one thread.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `work` with each seed, on this number of threads.
pub fn for_each_seed(seeds: Range<u64>, threads: usize, work: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    work(seed);
                }
            });
        }
    });
}
