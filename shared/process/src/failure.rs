//! What a person is told if a command or a part ends with an error: one line.

use std::error::Error;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::config::ConfigError;
use crate::config::backend::BackendError;

/// The exit code of a program that was used wrongly.
pub const USAGE: u8 = 2;

/// What a part's program ends with: 0, or one line on standard error and 1, or 2 if a setting has to be corrected.
#[expect(clippy::print_stderr, reason = "the last word of a program")]
pub fn exit_code(result: Result<(), impl AsRef<dyn Error + 'static>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let (error, say) = (error.as_ref(), |line: &str| eprintln!("{line}"));
    if let Some(arguments) = error.downcast_ref() {
        return refused(arguments, say);
    }
    say(&line(error));
    if is_of_settings(error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// Whether a setting has to be corrected.
#[must_use]
pub fn is_of_settings(error: &(dyn Error + 'static)) -> bool {
    error.is::<ConfigError>()
        || error.downcast_ref().is_some_and(BackendError::is_usage)
        || error.source().is_some_and(is_of_settings)
}

/// What clap says about the arguments: help as it is, a mistake as one line to `say`.
pub fn refused(error: &clap::Error, say: impl FnOnce(&str)) -> ExitCode {
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
#[must_use]
pub fn usage_line(rendered: &str) -> String {
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

/// An error and its causes, each said once: some errors name their cause themselves.
#[must_use]
pub fn line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        cause = error.source();
    }
    line
}
