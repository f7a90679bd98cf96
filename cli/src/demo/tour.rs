//! What the demo says in the end: what happened, and what to type next.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use super::play::Acks;
use super::tally::Tally;
use super::workspace::{Kind, Request, Sights};

/// What was sent, and how it was answered.
pub(super) fn sent(
    out: &mut dyn Write,
    ingest: SocketAddr,
    requests: &[Kind],
    acks: &Acks,
) -> io::Result<()> {
    let count = |kind| requests.iter().filter(|request| **request == kind).count();
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
        count(Kind::Retry) + count(Kind::Twin),
        "of them bring an event again, and all are out of order",
    )?;
    row(out, count(Kind::Forged), "with a forged signature: refused")?;
    row(out, count(Kind::Private), "from a direct message and a private channel: not kept")?;
    row(out, count(Kind::Poison), "with ids that cannot be: put in quarantine")
}

/// What came of it.
pub(super) fn kept(out: &mut dyn Write, tally: &Tally) -> io::Result<()> {
    writeln!(out, "\nKept, every event exactly once:\n")?;
    row(out, tally.messages, &format!("messages in {} channels", tally.channels))?;
    row(out, tally.replies, &format!("of them replies in {} threads", tally.threads))?;
    row(out, tally.edited, &format!("edited, with {} earlier versions", tally.revisions))?;
    row(out, tally.deleted, "deleted in Slack, but not here")?;
    row(out, tally.reactions, &format!("reactions of {} people", tally.people))
}

fn row(out: &mut dyn Write, count: usize, what: &str) -> io::Result<()> {
    writeln!(out, "{count:>7}  {what}")
}

/// Commands that show it.
pub(super) fn commands(out: &mut dyn Write, program: &OsStr, data: &Path, sights: &Sights) -> io::Result<()> {
    let program = quoted(&program.to_string_lossy());
    let data = quoted(&data.to_string_lossy());
    let Sights { channel, thread_ts, edited_ts } = sights;
    writeln!(out, "\nLook around:\n")?;
    for (what, command) in [
        ("the newest messages of a channel", format!("messages {channel} --limit 12")),
        ("a thread, with an answer that somebody regretted", format!("thread {channel} {thread_ts}")),
        ("what a message said before its edits", format!("revisions {channel} {edited_ts}")),
        ("everything as JSON", format!("messages {channel} --json")),
        ("the event that could not be stored, and why", "quarantine list".to_owned()),
        ("how the queues are", "status".to_owned()),
    ] {
        writeln!(out, "  # {what}\n  {program} {command} --data {data}\n")?;
    }
    writeln!(out, "For a workspace of your own, start with the Slack app:\n\n  {program} manifest")
}

/// A word that a shell takes for itself.
fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The kinds of the requests, which outlive their bodies.
pub(super) fn kinds(requests: &[Request]) -> Vec<Kind> {
    requests.iter().map(|request| request.kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_would_split_it() {
        assert_eq!(quoted("target/release/annalist"), "target/release/annalist");
        assert_eq!(quoted("/home/a b/it's"), r"'/home/a b/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
