//! The error message and the exit code of a failed command.

use std::io::{self, Write};
use std::process::ExitCode;

use process::config::{self, ConfigError};
use process::failure::{self, USAGE};
use slack_api::ApiError;

use crate::operate::sync::NO_TOKEN;
use crate::plain;
use crate::publish::PublishError;
use crate::read::ReadError;

/// What to do about a token that Slack rejects.
pub(crate) const ASK_DOCTOR: &str = "`annalist doctor` says what to do about the token";

/// Arguments that are invalid or contradict each other.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Prints clap's output: help unchanged, a usage error on one line. Prints other errors as [`report_error`] does.
pub(crate) fn report_config_error(error: ConfigError) -> ExitCode {
    if let ConfigError::Arguments(arguments) = &error {
        return failure::report_usage_error(arguments, say);
    }
    report_error(&error.into())
}

pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    // The reader of a pipe may stop early: `annalist messages … | head`.
    let is_closed_pipe = error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    });
    if is_closed_pipe {
        return ExitCode::SUCCESS;
    }
    let of_site = match error.downcast_ref() {
        Some(PublishError::Read(error)) => Some(error),
        Some(_) | None => None,
    };
    let is_usage = error.downcast_ref().or(of_site).is_some_and(ReadError::is_wrong_argument)
        || error.is::<UsageError>()
        || failure::is_config_error(error.as_ref());
    let mut line = line(error);
    let may_lack_setting = is_usage || error.to_string() == NO_TOKEN;
    if let Some(file) = config::forbidden_settings_file().filter(|_| may_lack_setting) {
        line.push_str(&format!("; this user may not read the settings in {}", file.display()));
    }
    say(&line);
    if is_usage { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// Formats an error with its causes, and with a hint if Slack rejected the token.
fn line(error: &anyhow::Error) -> String {
    let mut line = failure::error_line(error.as_ref());
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(ApiError::is_token_error) {
        line.push_str("; ");
        line.push_str(ASK_DOCTOR);
    }
    line
}

/// Prints one line on standard error.
pub(crate) fn say(text: &str) {
    // A failed write is ignored: there is nowhere else to report it.
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
    fn a_cause_is_printed_once_even_if_the_error_contains_it() {
        let import_error = ImportError::from(ArchiveError::Unavailable("no space left".to_owned()));
        let error = Err::<(), _>(import_error).context("cannot import a.zip").unwrap_err();
        let expected = "cannot import a.zip: the archive is unavailable: no space left; what was imported stays: import it \
            again once this is solved";
        assert_eq!(line(&error), expected);
        let unnamed =
            anyhow::Error::new(io::Error::other("no such folder")).context("cannot open the archive");
        assert_eq!(line(&unnamed), "cannot open the archive: no such folder");
    }

    #[test]
    fn a_rejected_token_adds_a_hint_to_run_the_doctor() {
        let error_line = |error: &str| {
            let (method, error, needed) = (Method::AuthTest, error.to_owned(), None);
            line(&anyhow::Error::new(ApiError::Refused { method, error, needed }))
        };
        let expected =
            "Slack refused auth.test: token_revoked; `annalist doctor` says what to do about the token";
        assert_eq!(error_line("token_revoked"), expected);
        assert_eq!(error_line("channel_not_found"), "Slack refused auth.test: channel_not_found");
    }
}
