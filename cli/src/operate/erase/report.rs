//! Prints the result of an erasure.

use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use ports::archive::erasure::ErasureScope;
use ports::queue::topology::RETENTION;
use process::config::backend::BackendKind;
use rules::message::rfc3339;
use serde_json::json;
use slack::ids::Ts;
use workers::eraser::EraserCounts;

use super::EraseArgs;
use super::request::EraseRequest;
use crate::plain;
use crate::read::human_size;

/// How long ago the state may be to which a table on AWS can be restored.
const POINT_IN_TIME_RECOVERY: Duration = Duration::from_secs(35 * 24 * 3600);

/// Price in dollars of a read unit and of a write unit, on demand in us-east-1.
/// <https://aws.amazon.com/dynamodb/pricing/on-demand/>
const READ_UNIT: f64 = 0.125e-6;
const WRITE_UNIT: f64 = 0.625e-6;

/// The counts of an erasure, or of a dry run.
pub(super) struct EraseReport<'a> {
    pub(super) request: &'a EraseRequest,
    pub(super) args: &'a EraseArgs,
    pub(super) sum: EraserCounts,
    pub(super) jobs: u64,
    pub(super) until: &'a Ts,
}

impl EraseReport<'_> {
    pub(super) fn print(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let Self { request, args, sum, jobs, until } = self;
        if args.json {
            let line = json!({
                "scope": request.label,
                "dry_run": !args.yes,
                "messages": sum.messages,
                "revisions": sum.revisions,
                "files": sum.files,
                "unnamed_files": sum.unnamed,
                "bytes": sum.bytes,
                "users": sum.users,
                "reports": sum.reports,
                "quarantined": sum.quarantined,
                "jobs": jobs,
                "until": until.as_str(),
            });
            return Ok(plain::json_line(out, &line)?);
        }
        if request.facts.is_empty() {
            return Ok(writeln!(out, "Nothing was erased before: there is nothing to erase again.")?);
        }
        if args.yes {
            return Ok(writeln!(out, "Erased for good: {}. {}", self.counts(), self.stays())?);
        }
        writeln!(out, "{}, before {}: {}.", self.subject(), rfc3339(until), self.counts())?;
        if let Some(cost) = self.cost() {
            writeln!(out, "{cost}")?;
        }
        writeln!(out, "{}", self.stays())?;
        Ok(writeln!(out, "Nothing was changed: --yes erases it for good.")?)
    }

    fn subject(&self) -> String {
        let subjects: Vec<String> = self
            .request
            .facts
            .iter()
            .take(3)
            .map(|fact| format!("{} in {}", super::recorded::label(&fact.scope), fact.team))
            .collect();
        let more = self.request.facts.len().saturating_sub(subjects.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        subjects.join(", ") + &more
    }

    fn counts(&self) -> String {
        let EraserCounts {
            messages,
            revisions,
            files,
            unnamed,
            bytes,
            users,
            states,
            reports,
            quarantined,
            ..
        } = self.sum;
        let optional = [
            (revisions, "earlier version", "earlier versions"),
            (files, "file", "files"),
            (unnamed, "file that no row names", "files that no row names"),
            (users, "person", "people"),
            (states, "state of a channel", "states of channels"),
            (reports, "stored report", "stored reports"),
            (quarantined, "job in quarantine", "jobs in quarantine"),
            (self.jobs, "job on a queue", "jobs on queues"),
        ];
        let mut counts = vec![plain::counted(messages, "message", "messages")];
        counts.extend(
            optional
                .into_iter()
                .filter(|(count, ..)| *count > 0)
                .map(|(count, singular, plural)| plain::counted(count, singular, plural)),
        );
        if bytes > 0 {
            counts.push(format!("{} of files and pictures", human_size(bytes)));
        }
        counts.join(", ")
    }

    /// What it costs on AWS, which bills each row that is read.
    fn cost(&self) -> Option<String> {
        let EraserCounts { rows_read, read_units, write_units, .. } = self.sum;
        if self.args.backend.backend == BackendKind::Embedded {
            return None;
        }
        let rows_were = plain::counted(rows_read, "row was", "rows were");
        Some(format!(
            "{rows_were} read to find it, which cost about ${:.4}; to erase it costs about ${:.4}.",
            dollars(read_units, READ_UNIT),
            dollars(read_units, READ_UNIT) + dollars(write_units, WRITE_UNIT),
        ))
    }

    /// Describes the copies that no command removes, and until when they exist.
    fn stays(&self) -> String {
        let is_person = self.request.facts.iter().any(|fact| matches!(fact.scope, ErasureScope::User(_)));
        let written = if is_person { "in names and topics that this person gave to channels, " } else { "" };
        let others =
            format!("in backups, in what others quoted of it, {written}and as ids in mentions and reactions");
        if self.args.backend.backend == BackendKind::Aws {
            let (restorable, queued) = (self.after(POINT_IN_TIME_RECOVERY), self.after(RETENTION));
            return format!(
                "It stays in point-in-time recovery until {restorable}, on queues until they are drained, at the latest on \
                 {queued}, where workers refuse it; {others}, and for some hours in the table of claims; and in search indexes on \
                 other machines until they follow."
            );
        }
        if self.args.compact {
            return format!("It stays {others}.");
        }
        format!(
            "It stays {others}; and until the same command with --compact, parts of it may be readable in free pages of the \
             database and in the search index."
        )
    }

    /// Returns the day this long after the erasure.
    fn after(&self, time: Duration) -> String {
        let at =
            Timestamp::from_microsecond(self.until.micros()).ok().and_then(|at| at.checked_add(time).ok());
        at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d").to_string())
    }
}

#[expect(clippy::cast_precision_loss, reason = "four digits behind the point are shown")]
fn dollars(units: u64, price: f64) -> f64 {
    units as f64 * price
}
