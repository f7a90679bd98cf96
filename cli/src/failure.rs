//! What a person is told if a command fails, and with which exit code it ends.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use process::config::ConfigError;
use process::config::backend::BackendError;
use slack_api::ApiError;

use crate::{USAGE, UsageError, plain};

/// What to do about a token that Slack does not take.
pub(crate) const ASK_DOCTOR: &str = "`annalist doctor` says what to do about the token";

/// What clap says about the arguments: help as it is, a mistake on one line.
pub(crate) fn refused(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        // Ignore a write error: there is nowhere left to report it.
        drop(error.print());
        return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
    }
    say(&usage_line(&error.render().to_string()));
    ExitCode::from(USAGE)
}

/// Clap's paragraphs as one line: the mistake, what may have been meant, and how the command is used.
pub(crate) fn usage_line(rendered: &str) -> String {
    let mut parts: Vec<String> = rendered
        .trim_start_matches("error: ")
        .split("\n\n")
        .filter(|part| !part.trim().is_empty() && !part.starts_with("For more information"))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ").replace("Usage: ", "usage: "))
        .collect();
    if let [_] = parts.as_slice() {
        parts.push("--help says more".to_owned());
    }
    parts.join("; ")
}

pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    // `annalist messages … | head` has seen enough.
    let nobody_reads = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    });
    if nobody_reads {
        return ExitCode::SUCCESS;
    }
    say(&line(error));
    let misconfigured = error.is::<ConfigError>()
        || error.is::<UsageError>()
        || error.downcast_ref().is_some_and(BackendError::is_usage);
    if misconfigured { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// An error and its causes, each said once: some errors name their cause themselves.
fn line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(ApiError::is_of_token) {
        line.push_str("; ");
        line.push_str(ASK_DOCTOR);
    }
    line
}

/// One line on standard error.
fn say(text: &str) {
    // There is nowhere else to complain.
    drop(writeln!(io::stderr(), "annalist: {}", plain::line(text)));
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use ports::archive::ArchiveError;
    use slack_api::Method;
    use workers::import::ImportError;

    use super::*;

    #[test]
    fn a_cause_is_said_once_even_if_the_error_names_it() {
        let failed = ImportError::from(ArchiveError::Unavailable("no space left".to_owned()));
        let error = Err::<(), _>(failed).context("cannot import a.zip").unwrap_err();
        let expected = "cannot import a.zip: the archive is unavailable: no space left; what was imported stays: import it \
            again once this is solved";
        assert_eq!(line(&error), expected);
        let unnamed =
            anyhow::Error::new(io::Error::other("no such folder")).context("cannot open the archive");
        assert_eq!(line(&unnamed), "cannot open the archive: no such folder");
    }

    #[test]
    fn a_token_that_slack_does_not_take_is_a_matter_for_the_doctor() {
        let refused = |error: &str| {
            let (method, error, needed) = (Method::AuthTest, error.to_owned(), None);
            line(&anyhow::Error::new(ApiError::Refused { method, error, needed }))
        };
        let expected =
            "Slack refused auth.test: token_revoked; `annalist doctor` says what to do about the token";
        assert_eq!(refused("token_revoked"), expected);
        assert_eq!(refused("channel_not_found"), "Slack refused auth.test: channel_not_found");
    }
}
