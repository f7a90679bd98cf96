//! How far an import is: a bar on a terminal, a line every few seconds elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use workers::import::ImportProgress;

/// Between two lines.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

const TEMPLATE: &str = "{bar:32} {percent:>3} %  {msg}";

/// Says on standard error how far an import is.
pub(super) struct ProgressReport {
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Instant,
}

impl ProgressReport {
    /// Nothing is done yet.
    pub(super) fn begin() -> Self {
        let now = Instant::now();
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE);
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, began: now, last_line: now }
    }

    /// This much is done.
    pub(super) fn update(&mut self, progress: &ImportProgress) {
        let elapsed = self.began.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total_bytes);
            bar.set_position(progress.read_bytes);
            bar.set_message(rate(progress, elapsed));
        } else if self.last_line.elapsed() >= BETWEEN_LINES {
            self.last_line = Instant::now();
            let percent = progress.read_bytes * 100 / progress.total_bytes.max(1);
            // There is nowhere else to say it.
            drop(writeln!(io::stderr(), "annalist: {percent} %, {}", rate(progress, elapsed)));
        }
    }

    /// Prints something without the bar in its way.
    pub(super) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How many messages there are, how many come in a second, and how long the rest takes at this rate.
fn rate(progress: &ImportProgress, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let per_second = progress.messages as f64 / seconds;
    let line = format!("{} messages, {per_second:.0} a second", progress.messages);
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
    fn the_rate_and_the_time_left_follow_from_what_is_done() {
        let progress = ImportProgress { messages: 50_000, read_bytes: 250, total_bytes: 1_000 };
        let line = rate(&progress, Duration::from_secs(2));
        assert_eq!(line, "50000 messages, 25000 a second, 6 s left");
        let nothing = ImportProgress { messages: 0, read_bytes: 0, total_bytes: 1_000 };
        assert_eq!(rate(&nothing, Duration::ZERO), "0 messages, 0 a second");
    }
}
