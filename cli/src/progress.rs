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
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Instant,
}

impl Progress {
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
        let elapsed = self.began.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(text(elapsed));
        } else if self.last_line.elapsed() >= BETWEEN_LINES {
            self.last_line = Instant::now();
            // There is nowhere else to say it.
            drop(writeln!(io::stderr(), "annalist: {}", text(elapsed)));
        }
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

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
