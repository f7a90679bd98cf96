//! What a person is told if a command fails, and with which exit code it ends.

use std::io::{self, Write};
use std::process::ExitCode;

use process::failure::{self, USAGE};
use slack_api::ApiError;

use crate::{UsageError, plain};

/// What to do about a token that Slack does not take.
pub(crate) const ASK_DOCTOR: &str = "`annalist doctor` says what to do about the token";

/// What clap says about the arguments: help as it is, a mistake on one line.
pub(crate) fn refused(error: &clap::Error) -> ExitCode {
    failure::refused(error, say)
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
    let is_usage = error.is::<UsageError>() || failure::is_of_settings(error.as_ref());
    if is_usage { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// An error and its causes, and who knows what to do about a token.
fn line(error: &anyhow::Error) -> String {
    let mut line = failure::line(error.as_ref());
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
