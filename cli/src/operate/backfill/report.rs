//! The results of a backfill, for people and for scripts.

use std::io::{self, Write};

use serde_json::json;
use workers::historian::{PlannedSpan, ReadSnapshot};

use crate::operate::history::channels::PlannedChannel;
use crate::operate::history::reading::ReadingState;
use crate::plain;

/// The result of a channel.
pub(super) struct ChannelReport<'a> {
    pub(super) planned: &'a PlannedChannel,
    pub(super) spans: &'a [PlannedSpan],
    pub(super) tally: ReadSnapshot,
    pub(super) calls: u64,
    pub(super) state: ReadingState,
}

impl ChannelReport<'_> {
    pub(super) fn print(&self, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
        let Self { planned, spans: wanted, tally, calls, state } = self;
        let ReadSnapshot { messages, new, updated, threads, .. } = tally;
        if as_json {
            let from = wanted.last().map(|wanted| wanted.span.from_ts());
            let to = wanted.first().map(|wanted| wanted.span.to_ts());
            let line = json!({ "channel_id": planned.channel, "name": planned.name, "from": from, "to": to,
                "messages": messages, "new": new, "updated": updated, "threads": threads, "calls": calls,
                "state": state.as_str(), "error": state.error() });
            return plain::json_line(out, &line);
        }
        write!(
            out,
            "{}: {}, {} new, {} updated; {}, {}",
            planned.display_name(),
            plain::counted(*messages, "message", "messages"),
            plain::grouped(*new),
            plain::grouped(*updated),
            plain::counted(*threads, "thread", "threads"),
            plain::counted(*calls, "call", "calls")
        )?;
        state.print_end(tally, out)
    }
}

/// Returns the progress of the channel that is being read.
pub(super) fn progress_text(planned: &PlannedChannel, tally: &ReadSnapshot, calls: u64) -> String {
    let ReadSnapshot { messages, new, threads, .. } = tally;
    format!(
        "{}, {}, {} new, {}, {}",
        planned.display_name(),
        plain::counted(*messages, "message", "messages"),
        plain::grouped(*new),
        plain::counted(*threads, "thread", "threads"),
        plain::counted(calls, "call", "calls")
    )
}

/// The totals of all channels.
#[derive(Default)]
pub(super) struct Totals {
    tally: ReadSnapshot,
    calls: u64,
    done: usize,
}

impl Totals {
    pub(super) fn add(&mut self, report: &ChannelReport<'_>) {
        let ReadSnapshot { messages, new, updated, threads, skipped, reactions_cut } = report.tally;
        self.tally.messages += messages;
        self.tally.new += new;
        self.tally.updated += updated;
        self.tally.threads += threads;
        self.tally.skipped += skipped;
        self.tally.reactions_cut += reactions_cut;
        self.calls += report.calls;
        self.done += usize::from(matches!(report.state, ReadingState::Done));
    }

    /// Returns the number of channels that were not read to the end.
    pub(super) fn remaining(&self, channels: usize) -> usize {
        channels - self.done
    }

    /// Describes what remains of the request; `None` if nothing does.
    pub(super) fn remainder(&self, channels: usize) -> Option<String> {
        let unread = match self.remaining(channels) {
            0 => None,
            remaining => {
                let were_not_read = plain::counted(remaining, "channel was", "channels were");
                Some(format!("{were_not_read} not read to the end"))
            }
        };
        let skipped = self.tally.skipped;
        let skipped = (skipped > 0).then(|| format!("{skipped} of Slack's messages cannot be stored"));
        let left: Vec<String> = unread.into_iter().chain(skipped).collect();
        (!left.is_empty()).then(|| left.join("; "))
    }

    pub(super) fn print(&self, channels: usize, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
        let ReadSnapshot { messages, new, updated, threads, .. } = self.tally;
        let (calls, remaining) = (self.calls, self.remaining(channels));
        if as_json {
            let line = json!({ "channels": channels, "messages": messages, "new": new, "updated": updated,
                "threads": threads, "calls": calls, "remaining": remaining });
            return plain::json_line(out, &line);
        }
        writeln!(
            out,
            "{}: {}, {} new, {} updated; {}, {}",
            plain::counted(channels, "channel", "channels"),
            plain::counted(messages, "message", "messages"),
            plain::grouped(new),
            plain::grouped(updated),
            plain::counted(threads, "thread", "threads"),
            plain::counted(calls, "call", "calls")
        )
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;

    #[test]
    fn the_remainder_lists_unread_channels_and_skipped_messages() {
        let planned = PlannedChannel { channel: ChannelId::parse("C1").unwrap(), name: None };
        let left = |skipped, done: usize| {
            let mut totals = Totals::default();
            for _ in 0..done {
                let tally = ReadSnapshot { skipped, ..ReadSnapshot::default() };
                let state = ReadingState::Done;
                totals.add(&ChannelReport { planned: &planned, spans: &[], tally, calls: 1, state });
            }
            totals.remainder(3)
        };
        assert_eq!(left(0, 3), None);
        assert_eq!(left(0, 2).as_deref(), Some("1 channel was not read to the end"));
        assert_eq!(left(2, 3).as_deref(), Some("6 of Slack's messages cannot be stored"));
        let both = "2 channels were not read to the end; 1 of Slack's messages cannot be stored";
        assert_eq!(left(1, 1).as_deref(), Some(both));
    }
}
