//! The lines of `annalist status` about an existence check that waits for Slack.

use std::io::{self, Write};

use jiff::Timestamp;
use ports::archive::{Archive, ArchiveError};
use ports::clock::{Clock, SystemClock};
use serde::Serialize;
use workers::existence::{Waiting, read_waiting};

use crate::plain;

/// A workspace whose events stay on the queue until Slack answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingCheck {
    pub(crate) team_id: String,
    /// The method that waits, if it is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    pub(crate) since: String,
    pub(crate) until: String,
    pub(crate) reason: String,
}

/// Returns the checks that wait now, as the waiting processes have reported.
pub(crate) async fn read(archive: &dyn Archive) -> Result<Vec<WaitingCheck>, ArchiveError> {
    let checks = read_waiting(archive, SystemClock.now()).await?.into_iter().map(|waiting| {
        let Waiting { team, method, since_s, until_s, reason } = waiting;
        WaitingCheck { team_id: team, method, since: at(since_s), until: at(until_s), reason }
    });
    Ok(checks.collect())
}

fn at(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |at| at.to_string())
}

/// Prints a line for each check.
pub(crate) fn print(checks: &[WaitingCheck], out: &mut dyn Write) -> io::Result<()> {
    for WaitingCheck { team_id, since, reason, .. } in checks {
        let line = format!("{team_id}: events have been waiting for the check since {since}: {reason}");
        writeln!(out, "existence    {}", plain::line(&line))?;
    }
    Ok(())
}
