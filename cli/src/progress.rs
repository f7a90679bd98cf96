//! Progress of long work: a bar on a terminal, otherwise a line every few seconds.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The interval between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The interval between two updates for work that does not report its progress itself; short enough for a
/// bar.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);

const TEMPLATE: &str = "{bar:24} {percent:>3} %  {msg}";

/// Prints progress on standard error. On a terminal, the bar is cleared on drop.
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Instant,
}

impl ProgressLine {
    /// Starts at zero.
    pub(crate) fn begin() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE);
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let now = Instant::now();
        Self { bar, began: now, last_line: now }
    }

    /// Updates the progress. `text` describes it, and receives the elapsed time.
    pub(crate) fn update(&mut self, done: u64, total: u64, text: impl FnOnce(Duration) -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(text(self.began.elapsed()));
        } else if let Some(line) = self.line(Instant::now(), text) {
            // A failed write is ignored: there is nowhere else to report it.
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    /// Returns a line if one is due.
    fn line(&mut self, now: Instant, text: impl FnOnce(Duration) -> String) -> Option<String> {
        let is_due = now.duration_since(self.last_line) >= LINE_INTERVAL;
        is_due.then(|| {
            self.last_line = now;
            format!("annalist: {}", text(now.duration_since(self.began)))
        })
    }

    /// Runs work that does not report its progress itself, and updates the progress meanwhile.
    pub(crate) async fn watch<T>(
        &mut self,
        work: impl Future<Output = T>,
        (done, total): (u64, u64),
        text: impl Fn() -> String,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(UPDATE_INTERVAL) => self.update(done, total, |_| text()),
            }
        }
    }

    /// Hides the bar while `print` runs.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_line_is_printed_every_five_seconds() {
        let began = Instant::now();
        let mut progress = ProgressLine { bar: None, began, last_line: began };
        let mut lines = Vec::new();
        for after_ms in (0..=12_000).step_by(500) {
            let now = began + Duration::from_millis(after_ms);
            lines.extend(
                progress.line(now, |elapsed| format!("half of it after {} s", elapsed.as_secs_f32())),
            );
        }
        assert_eq!(lines, ["annalist: half of it after 5 s", "annalist: half of it after 10 s"]);
    }
}
