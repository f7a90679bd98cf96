//! A clock that follows the runtime's clock, which tests pause and advance.

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

/// A clock that shows `start` now and advances with the runtime's time.
pub fn virtual_clock(start: TimestampMs) -> SharedClock {
    Arc::new(VirtualClock { start, began: Instant::now() })
}
