//! The summary that the demo prints: what happened, and which commands to try next.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use super::play::Acks;
use super::week::ArchiveCounts;
use super::week::{DeliveryKind, DemoRequest, WeekHead};
use crate::plain;

/// Prints the numbers of requests by kind.
pub(super) fn print_requests(
    out: &mut dyn Write,
    ingest: SocketAddr,
    requests: &[DemoRequest],
    acks: &Acks,
) -> io::Result<()> {
    let count = |kind| requests.iter().filter(|request| request.kind == kind).count();
    let rate = acks.count as f64 / acks.took.as_secs_f64().max(0.001);
    writeln!(out, "Sent to http://{ingest}/slack/events, signed as Slack signs:\n")?;
    row(
        out,
        acks.count,
        &format!(
            "requests in {:.2} s, {rate:.0} a second; the slowest took {} ms; each event on disk before its answer",
            acks.took.as_secs_f64(),
            acks.slowest.as_millis()
        ),
    )?;
    row(
        out,
        count(DeliveryKind::Retry) + count(DeliveryKind::Twin),
        "of them repeat an event, and all are out of order",
    )?;
    row(out, count(DeliveryKind::Forged), "with a forged signature: refused")?;
    row(out, count(DeliveryKind::Private), "from a direct message and a private channel: not kept")?;
    row(out, count(DeliveryKind::Poison), "with invalid ids: quarantined")
}

/// Prints what the app read from the Web API before and after the week.
pub(super) fn print_directory(out: &mut dyn Write, joined: usize, week: &WeekHead) -> io::Result<()> {
    writeln!(out, "\nRead from the made-up Slack's Web API, page by page, before the week and after it:\n")?;
    row(out, week.before.channels.len(), "channels that were there before the app, by name")?;
    row(out, week.after.people.len(), "people and their pictures")?;
    row(out, joined, "public channels joined, because Slack sends events only from channels the app is in")
}

/// Prints what the archive contains.
pub(super) fn print_archive(out: &mut dyn Write, tally: &ArchiveCounts) -> io::Result<()> {
    writeln!(out, "\nKept, every event exactly once:\n")?;
    row(
        out,
        tally.channels,
        &format!(
            "channels: {} archived, {} deleted, {} private by now; with {} former names",
            tally.archived, tally.deleted_channels, tally.private, tally.former_names
        ),
    )?;
    row(out, tally.messages, "messages")?;
    row(out, tally.replies, &format!("of them replies in {} threads", tally.threads))?;
    row(out, tally.edited, &format!("edited, with {} earlier versions", tally.revisions))?;
    row(out, tally.deleted, "deleted in Slack, but not here")?;
    row(out, tally.reactions, &format!("reactions of {} people", tally.people))?;
    let (shared, deleted) = (tally.files_shared, tally.files_deleted);
    let files_label =
        format!("files, byte for byte, shared in {shared} messages; {deleted} was deleted in Slack since");
    row(out, tally.files_stored, &files_label)?;
    row(out, tally.files_skipped, "files that Slack has no bytes of: it says why")?;
    row(out, tally.files_failed, "file that came as a login page: refused, and marked as failed")?;
    row(out, tally.images, "pictures of people and emoji")?;
    row(out, tally.gaps, "minute in which Slack delivered nothing, as Slack itself reported: a gap")
}

/// Prints a question and the app's answer in its thread.
pub(super) fn print_answer(out: &mut dyn Write, asked: &str, answer: &str) -> io::Result<()> {
    writeln!(out, "\nAsked in #general, and answered in its thread by the archive's own search:\n")?;
    writeln!(out, "    @annalist {asked}")?;
    for line in plain::lines(answer) {
        writeln!(out, "      {line}")?;
    }
    Ok(())
}

fn row(out: &mut dyn Write, count: usize, label: &str) -> io::Result<()> {
    writeln!(out, "{count:>7}  {label}")
}

/// Prints commands that show the archive.
pub(super) fn print_commands(
    out: &mut dyn Write,
    program: &OsStr,
    data: &Path,
    week: &WeekHead,
) -> io::Result<()> {
    let program = quoted(&program.to_string_lossy());
    let data = quoted(&data.to_string_lossy());
    let WeekHead { thread_ts, edited_ts, .. } = week;
    writeln!(out, "\nLook around:\n")?;
    for (description, command) in [
        ("all of it in a browser, until Ctrl-C", "view".to_owned()),
        ("the channels: those of the first day, later ones, and their present state", "channels".to_owned()),
        ("the newest messages of a channel", "messages '#general' --limit 12".to_owned()),
        ("every message with a word in it, the newest first", "search release".to_owned()),
        ("a thread, with an answer that its author deleted", format!("thread '#release' {thread_ts}")),
        ("what a message said before its edits", format!("revisions '#release' {edited_ts}")),
        ("a channel that was renamed twice", "channel '#release' --history".to_owned()),
        ("the files: stored, skipped, failed, and why", "files".to_owned()),
        ("everything as JSON", "messages '#general' --json".to_owned()),
        ("the event that could not be stored, and why", "quarantine list".to_owned()),
        ("when events may be missing, and why", "gaps".to_owned()),
        ("the state of the queues", "status".to_owned()),
    ] {
        writeln!(out, "  # {description}\n  {program} {command} --data {data}\n")?;
    }
    writeln!(out, "For a workspace of your own, begin with:\n\n  {program} setup")
}

/// Quotes a word if a shell would not take it literally.
fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_if_a_shell_would_split_it() {
        assert_eq!(quoted("target/release/annalist"), "target/release/annalist");
        assert_eq!(quoted("/home/a b/it's"), r"'/home/a b/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
