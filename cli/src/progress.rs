//! How far long work is: a bar on a terminal, a line every few seconds elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// How often work that says nothing itself is looked at: often enough for a bar.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

const TEMPLATE: &str = "{bar:24} {percent:>3} %  {msg}";

/// Says on standard error how far work is; what it says is gone from a terminal once this is dropped.
pub(crate) struct ProgressLine {
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Instant,
}

impl ProgressLine {
    /// Nothing is done yet.
    pub(crate) fn begin() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE);
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let now = Instant::now();
        Self { bar, began: now, last_line: now }
    }

    /// This much of a total is done; `text` says it in words, from the time that it took.
    pub(crate) fn say(&mut self, done: u64, total: u64, text: impl FnOnce(Duration) -> String) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(text(self.began.elapsed()));
        } else if let Some(line) = self.line(Instant::now(), text) {
            // There is nowhere else to say it.
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    /// The line for this moment, if it is time for one.
    fn line(&mut self, now: Instant, text: impl FnOnce(Duration) -> String) -> Option<String> {
        let is_time = now.duration_since(self.last_line) >= BETWEEN_LINES;
        is_time.then(|| {
            self.last_line = now;
            format!("annalist: {}", text(now.duration_since(self.began)))
        })
    }

    /// Does something that does not say itself how far it is.
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
                () = tokio::time::sleep(BETWEEN_LOOKS) => self.say(done, total, |_| text()),
            }
        }
    }

    /// Prints something without the bar in its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
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
    fn a_line_says_how_far_it_is_every_five_seconds() {
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
