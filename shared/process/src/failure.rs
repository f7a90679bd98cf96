//! The one-line error message of a failed command or process.

use std::error::Error;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::config::ConfigError;
use crate::config::backend::BackendError;

/// The exit code for a usage error.
pub const USAGE: u8 = 2;

/// The exit code of a program: 0, or after one line on standard error 1, or 2 if the user must correct a
/// setting.
#[expect(clippy::print_stderr, reason = "the final error message of a program")]
pub fn exit_code(result: Result<(), impl AsRef<dyn Error + 'static>>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let (error, print_line) = (error.as_ref(), |line: &str| eprintln!("{line}"));
    if let Some(ConfigError::Arguments(arguments)) = error.downcast_ref() {
        return report_usage_error(arguments, print_line);
    }
    print_line(&error_line(error));
    if is_config_error(error) { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
}

/// Whether the user must correct a setting.
#[must_use]
pub fn is_config_error(error: &(dyn Error + 'static)) -> bool {
    error.is::<ConfigError>()
        || error.downcast_ref().is_some_and(BackendError::is_usage)
        || error.source().is_some_and(is_config_error)
}

/// Prints clap's message about the arguments: help unchanged, a usage error as one line to `print_line`.
pub fn report_usage_error(error: &clap::Error, print_line: impl FnOnce(&str)) -> ExitCode {
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
    print_line(&usage_line(&error.render().to_string()));
    ExitCode::from(USAGE)
}

/// Clap's paragraphs as one line: the error, clap's suggestion, and the usage of the command.
#[must_use]
pub fn usage_line(rendered: &str) -> String {
    let mut parts: Vec<String> = rendered
        .trim_start_matches("error: ")
        .split("\n\n")
        .filter(|part| !part.trim().is_empty() && !part.starts_with("For more information"))
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ").replace("Usage: ", "usage: "))
        .collect();
    if let [_] = parts.as_slice() {
        parts.push("see --help".to_owned());
    }
    let line = parts.join("; ");
    IN_OTHER_WORDS.iter().fold(line, |line, (text, words)| line.replace(text, words))
}

/// What the standard library's parsers say, and what a person should do instead.
const IN_OTHER_WORDS: [(&str, &str); 6] = [
    ("number would be zero for non-zero type", "write a number from 1"),
    ("invalid digit found in string", "write a whole number"),
    ("cannot parse integer from empty string", "write a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid socket address syntax", "write ADDRESS:PORT, such as 127.0.0.1:3002"),
];

/// An error and its causes without repetitions: some errors already contain the text of their cause.
#[must_use]
pub fn error_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !line.contains(&cause_text) {
            line.push_str(": ");
            line.push_str(&cause_text);
        }
        cause = error.source();
    }
    line
}
