//! The results of a comparison, for people and for scripts.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::json;
use slack::ids::Ts;
use workers::historian::{FoundDifferences, ReadSnapshot};

use crate::operate::history::channels::PlannedChannel;
use crate::operate::history::reading::ReadingState;
use crate::plain;

/// Maximum number of messages that a line lists.
const MAX_LISTED: usize = 10;

/// The differences in a channel.
pub(super) struct DifferenceReport<'a> {
    pub(super) planned: &'a PlannedChannel,
    pub(super) found: FoundDifferences,
    pub(super) tally: ReadSnapshot,
    pub(super) state: ReadingState,
}

impl DifferenceReport<'_> {
    pub(super) fn print(&self, as_json: bool, is_dry_run: bool, out: &mut dyn Write) -> io::Result<()> {
        let Self { planned, found, tally, state } = self;
        let FoundDifferences { missing, changed, extra, filled, .. } = found;
        let is_done = matches!(state, ReadingState::Done);
        if as_json {
            let mut line = json!({ "channel_id": planned.channel, "missing": missing, "changed": changed,
                "extra": extra, "filled": filled });
            if is_dry_run {
                line["missing_ts"] = json!(found.missing_ts);
            }
            if !is_done {
                line["state"] = state.as_str().into();
                line["error"] = state.error().into();
            }
            return plain::json_line(out, &line);
        }
        write!(out, "{}: {}", planned.display_name(), sum(found))?;
        state.print_end(tally, out)?;
        if is_dry_run {
            print_named("missing", *missing, &found.missing_ts, out)?;
        }
        let marked = if found.marked > 0 { "marked as deleted" } else { "extra" };
        print_named(marked, *extra, &found.extra_ts, out)
    }
}

/// Prints the newest messages, and the number of further ones.
fn print_named(label: &str, count: u64, named: &BTreeSet<Ts>, out: &mut dyn Write) -> io::Result<()> {
    let newest: Vec<&str> = named.iter().rev().take(MAX_LISTED).map(Ts::as_str).collect();
    if newest.is_empty() {
        return Ok(());
    }
    let more = count.saturating_sub(newest.len() as u64);
    let more = if more > 0 { format!(" and {more} older") } else { String::new() };
    writeln!(out, "  {label}: {}{more}", newest.join(", "))
}

/// Formats the counts of differences and of the changes that were made.
fn sum(found: &FoundDifferences) -> String {
    let FoundDifferences { missing, changed, extra, reactions_removed, filled, marked, .. } = found;
    let mut sum = format!("missing {missing}, changed {changed}, extra {extra}");
    for (count, label) in [
        (*filled, "filled"),
        (*marked, "marked as deleted"),
        (*reactions_removed, "reactions that Slack no longer has"),
    ] {
        if count > 0 {
            sum += &format!("; {count} {label}");
        }
    }
    sum
}

/// Returns the progress of the channel that is being compared.
pub(super) fn progress_text(
    planned: &PlannedChannel,
    tally: &ReadSnapshot,
    found: &FoundDifferences,
) -> String {
    let ReadSnapshot { messages, threads, .. } = tally;
    format!(
        "{}, {}, {}, {}",
        planned.display_name(),
        plain::counted(*messages, "message", "messages"),
        plain::counted(*threads, "thread", "threads"),
        sum(found)
    )
}

/// The totals of all channels.
#[derive(Default)]
pub(super) struct DifferenceTotals {
    found: FoundDifferences,
    skipped: u64,
    done: usize,
}

impl DifferenceTotals {
    pub(super) fn add(&mut self, report: &DifferenceReport<'_>) {
        let FoundDifferences { missing, changed, extra, reactions_removed, filled, marked, .. } =
            &report.found;
        self.found.missing += missing;
        self.found.changed += changed;
        self.found.extra += extra;
        self.found.reactions_removed += reactions_removed;
        self.found.filled += filled;
        self.found.marked += marked;
        self.skipped += report.tally.skipped;
        self.done += usize::from(matches!(report.state, ReadingState::Done));
    }

    pub(super) fn print(&self, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
        let FoundDifferences { missing, changed, extra, reactions_removed, filled, .. } = &self.found;
        if as_json {
            let line = json!({ "missing": missing, "changed": changed, "extra": extra, "filled": filled,
                "reactions_removed": reactions_removed });
            return plain::json_line(out, &line);
        }
        writeln!(out, "{}", sum(&self.found))
    }

    /// Describes the remaining differences in this number of channels, with the next step; `None` if nothing
    /// remains.
    pub(super) fn remainder(&self, channels: usize, is_dry_run: bool) -> Option<String> {
        let FoundDifferences { missing, changed, extra, filled, marked, .. } = &self.found;
        let unfilled = (missing + changed).saturating_sub(*filled);
        let gone = extra.saturating_sub(*marked);
        let unread = (channels - self.done) as u64;
        let next = if is_dry_run { "without --dry-run they are filled" } else { "they could not be stored" };
        let parts = [
            (unfilled, format!("{unfilled} missing or changed: {next}")),
            (self.skipped, format!("{} of Slack's messages cannot be stored", self.skipped)),
            (gone, format!("{gone} extra: --mark-deleted marks as deleted what Slack no longer lists")),
            (unread, format!("channels that were not compared to their end: {unread}")),
        ];
        let left: Vec<String> =
            parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, part)| part).collect();
        (!left.is_empty()).then(|| format!("not in order: {}", left.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use slack::ids::ChannelId;

    use super::*;

    fn printed(found: &FoundDifferences, as_json: bool, is_dry_run: bool) -> String {
        let planned =
            PlannedChannel { channel: ChannelId::parse("C1").unwrap(), name: Some("general".to_owned()) };
        let report = DifferenceReport {
            planned: &planned,
            found: found.clone(),
            tally: ReadSnapshot::default(),
            state: ReadingState::Done,
        };
        let mut totals = DifferenceTotals::default();
        totals.add(&report);
        let mut out = Vec::new();
        report.print(as_json, is_dry_run, &mut out).unwrap();
        totals.print(as_json, &mut out).unwrap();
        String::from_utf8(out).unwrap() + &totals.remainder(1, is_dry_run).unwrap_or_default()
    }

    #[test]
    fn a_report_is_a_line_and_lists_differences() {
        let found = FoundDifferences::default();
        assert_eq!(
            printed(&found, false, false),
            "#general: missing 0, changed 0, extra 0\nmissing 0, changed 0, extra 0\n"
        );
        let ts = |n: i64| Ts::parse(&format!("{}.000000", 1_700_000_000 + n)).unwrap();
        let found = FoundDifferences {
            missing: 12,
            extra: 1,
            reactions_removed: 2,
            missing_ts: (0..12).map(ts).collect(),
            extra_ts: BTreeSet::from([ts(50)]),
            ..FoundDifferences::default()
        };
        let dry = printed(&found, false, true);
        assert!(
            dry.starts_with(
                "#general: missing 12, changed 0, extra 1; 2 reactions that Slack no longer has\n"
            ),
            "{dry}"
        );
        assert!(dry.contains("  missing: 1700000011.000000, 17") && dry.contains(" and 2 older\n"), "{dry}");
        assert!(dry.contains("\n  extra: 1700000050.000000\n"), "{dry}");
        let left = "not in order: 12 missing or changed: without --dry-run they are filled; \
                    1 extra: --mark-deleted marks as deleted what Slack no longer lists";
        assert!(dry.ends_with(left), "{dry}");
        let filled = FoundDifferences { filled: 12, marked: 1, ..found };
        assert!(
            printed(&filled, false, false)
                .ends_with("extra 1; 12 filled; 1 marked as deleted; 2 reactions that Slack no longer has\n")
        );
        let named = FoundDifferences { missing_ts: BTreeSet::from([ts(0)]), ..FoundDifferences::default() };
        let lines: Vec<serde_json::Value> =
            printed(&named, true, true).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let zeros = json!({ "missing": 0, "changed": 0, "extra": 0, "filled": 0 });
        let with = |name: &str, value: serde_json::Value| {
            let mut line = zeros.clone();
            line[name] = value;
            line
        };
        let mut channel_line = with("channel_id", "C1".into());
        channel_line["missing_ts"] = json!([ts(0)]);
        assert_eq!(lines, [channel_line, with("reactions_removed", 0.into())]);
    }
}
