//! How far long work is: a bar on a terminal, a line every few seconds elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// Between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// Between two looks of a bar.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

const TEMPLATE: &str = "{bar:24} {pos}/{len}  {msg}  {elapsed}";

/// Says on standard error how much is done of a number of things.
pub(crate) struct ProgressLines {
    bar: Option<ProgressBar>,
    ticks: Interval,
    total: u64,
    done: u64,
}

impl ProgressLines {
    /// Nothing of this many things is done yet.
    pub(crate) fn of(total: usize) -> Self {
        let total = total as u64;
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(TEMPLATE);
            ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let period = if bar.is_some() { BETWEEN_LOOKS } else { BETWEEN_LINES };
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset_at(Instant::now() + period);
        Self { bar, ticks, total, done: 0 }
    }

    /// Does something of it, and says meanwhile what `doing` says.
    pub(crate) async fn watch<T>(&mut self, work: impl Future<Output = T>, doing: impl Fn() -> String) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = self.ticks.tick() => self.say(&doing()),
            }
        }
    }

    /// One more is done.
    pub(crate) fn one_done(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
    }

    /// Prints something without the bar in its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn say(&self, doing: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(doing.to_owned()),
            // There is nowhere else to say it.
            None => drop(writeln!(io::stderr(), "annalist: {} of {}: {doing}", self.done + 1, self.total)),
        }
    }
}

impl Drop for ProgressLines {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
