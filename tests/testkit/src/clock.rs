//! A clock that follows the runtime's, which tests stop and move.

use std::sync::Arc;

use ports::clock::{Clock, SharedClock, TimestampMs};
use tokio::time::Instant;

struct VirtualClock {
    start: TimestampMs,
    began: Instant,
}

impl Clock for VirtualClock {
    fn now(&self) -> TimestampMs {
        self.start.plus(self.began.elapsed())
    }
}

/// A clock that shows `start` now, and later what passes of the runtime's time.
pub fn virtual_clock(start: TimestampMs) -> SharedClock {
    Arc::new(VirtualClock { start, began: Instant::now() })
}
