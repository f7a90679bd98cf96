//! What a person is told if a command fails, and with which exit code it ends.

use std::io::{self, Write};
use std::process::ExitCode;

use process::config::ConfigError;
use process::config::backend::BackendError;
use process::failure::{self, USAGE};

use crate::{UsageError, plain};

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
    say(&failure::line(error.as_ref()));
    let misconfigured = error.is::<ConfigError>()
        || error.is::<UsageError>()
        || error.downcast_ref().is_some_and(BackendError::is_usage);
    if misconfigured { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
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
    use workers::import::ImportError;

    use super::*;

    #[test]
    fn a_cause_is_said_once_even_if_the_error_names_it() {
        let failed = ImportError::from(ArchiveError::Unavailable("no space left".to_owned()));
        let error = Err::<(), _>(failed).context("cannot import a.zip").unwrap_err();
        let expected = "cannot import a.zip: the archive is unavailable: no space left; what was imported stays: import it \
            again once this is solved";
        assert_eq!(failure::line(error.as_ref()), expected);
        let unnamed =
            anyhow::Error::new(io::Error::other("no such folder")).context("cannot open the archive");
        assert_eq!(failure::line(unnamed.as_ref()), "cannot open the archive: no such folder");
    }
}
