//! The progress text of an import.

use std::time::Duration;

use workers::import::ImportProgress;

use crate::plain::{counted, grouped};

/// Returns the number of messages, the rate, and the remaining time at this rate.
pub(super) fn rate(progress: &ImportProgress, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let per_second = (progress.messages as f64 / seconds) as u64;
    let messages = counted(progress.messages, "message", "messages");
    let line = format!("{messages}, {} a second", grouped(per_second));
    if progress.read_bytes == 0 {
        return line;
    }
    let left_bytes = progress.total_bytes.saturating_sub(progress.read_bytes) as f64;
    let left_s = (seconds * left_bytes / progress.read_bytes as f64).round();
    format!("{line}, {left_s:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_and_the_remaining_time_are_computed_from_the_progress() {
        let progress = ImportProgress { messages: 50_000, read_bytes: 250, total_bytes: 1_000 };
        let line = rate(&progress, Duration::from_secs(2));
        assert_eq!(line, "50,000 messages, 25,000 a second, 6 s left");
        let nothing = ImportProgress { messages: 0, read_bytes: 0, total_bytes: 1_000 };
        assert_eq!(rate(&nothing, Duration::ZERO), "0 messages, 0 a second");
    }
}
