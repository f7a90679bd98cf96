//! Parses the arguments of a command: a flag goes before its variable, which goes before the settings file, which
//! goes before the default.

use std::ffi::{OsStr, OsString};

use clap::FromArgMatches;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};

use super::settings_file::SettingsFile;
use super::{ConfigError, backend, backend_kind, viewer};

/// Parses the arguments, the variables and the settings file of a command.
///
/// # Errors
/// [`ConfigError`] if an argument, a variable or the file cannot be used; [`ConfigError::Arguments`] also for `--help`
/// and `--version`.
pub fn parse<Parsed: FromArgMatches>(
    command: clap::Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Parsed, ConfigError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = without_settings_of_aws(command, &arguments);
    let mut without_file = ignore_blank_variables(command.clone(), &arguments);
    let mut matches = without_file.try_get_matches_from_mut(&arguments)?;
    if let Some(file) = SettingsFile::of_command(&matches)? {
        matches = matches_with_file(&command, &arguments, file.keep())?;
    }
    Ok(Parsed::from_arg_matches(&matches).map_err(|error| error.format(&mut without_file))?)
}

/// The command whose help leaves out the settings of AWS, which are a third of many pages, unless AWS is chosen.
fn without_settings_of_aws(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    let is_named = arguments.iter().any(|argument| argument == "aws" || argument == "--backend=aws");
    if is_named || variable(backend::VARIABLE).is_some_and(|value| value == "aws") {
        return command;
    }
    hide_settings_of_aws(command, arguments)
}

fn hide_settings_of_aws(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    let command = command.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || arg.get_help_heading() == Some(backend_kind::AWS_HEADING);
        arg.hide(is_hidden)
    });
    mut_named_subcommands(command, arguments, &|subcommand| hide_settings_of_aws(subcommand, arguments))
}

/// Changes the subcommands that the arguments name. No other can be run or explained, and to change all of them takes
/// longer than many commands.
fn mut_named_subcommands(
    command: clap::Command,
    arguments: &[OsString],
    change: &dyn Fn(clap::Command) -> clap::Command,
) -> clap::Command {
    command.mut_subcommands(|subcommand| {
        let is_named = arguments.iter().any(|argument| {
            argument == subcommand.get_name() || subcommand.get_all_aliases().any(|alias| argument == alias)
        });
        if is_named { change(subcommand) } else { subcommand }
    })
}

/// Parses arguments that are correct without the file.
fn matches_with_file(
    command: &clap::Command,
    arguments: &[OsString],
    file: &'static SettingsFile,
) -> Result<clap::ArgMatches, ConfigError> {
    let matches = |is_taken: &dyn Fn(&str) -> bool| {
        let command = with_defaults_of(command.clone(), arguments, file, is_taken);
        let command = ignore_blank_variables(command, arguments);
        command.try_get_matches_from(arguments)
    };
    let error = match matches(&|_| true) {
        Ok(matches) => return Ok(matches),
        Err(error) => error,
    };
    // Which value is it? The error contains the value, which may be a secret.
    for variable in file.names() {
        if let Err(error) = matches(&|name| name == variable) {
            let possible = error.get(ContextKind::ValidValue);
            let Some(ContextValue::Strings(possible)) = possible else {
                return Err(file.wrong_value(variable, &[]).into());
            };
            return Err(file.wrong_value(variable, possible).into());
        }
    }
    Err(error.into())
}

/// The command whose arguments have the values of the file as defaults, if no variable sets them. A value that is
/// blank counts as unset, except for the settings that protect the pages.
fn with_defaults_of(
    command: clap::Command,
    arguments: &[OsString],
    file: &'static SettingsFile,
    is_taken: &dyn Fn(&str) -> bool,
) -> clap::Command {
    let value = |arg: &clap::Arg| {
        let variable = arg.get_env()?.to_str()?;
        let value = file.value(variable).filter(|value| is_guard(arg) || !value.trim().is_empty())?;
        let is_set = variable_of(arg).is_some_and(|value| is_guard(arg) || !is_blank(&value));
        (is_taken(variable) && !is_set).then_some(value)
    };
    let command = command.mut_args(|arg| match value(&arg) {
        Some(value) => arg.default_value(value),
        None => arg,
    });
    mut_named_subcommands(command, arguments, &|subcommand| {
        with_defaults_of(subcommand, arguments, file, is_taken)
    })
}

/// The command without the variables that are blank, which count as unset: a Compose file passes `NAME=` for
/// each one that its user left out. The settings that protect the pages stay, and are then an error: without
/// them, the pages would be open to everyone.
fn ignore_blank_variables(command: clap::Command, arguments: &[OsString]) -> clap::Command {
    let is_ignored =
        |arg: &clap::Arg| !is_guard(arg) && variable_of(arg).is_some_and(|value| is_blank(&value));
    let command = command.mut_args(|arg| if is_ignored(&arg) { arg.env(Resettable::Reset) } else { arg });
    mut_named_subcommands(command, arguments, &|subcommand| ignore_blank_variables(subcommand, arguments))
}

/// Whether the argument protects the pages.
fn is_guard(arg: &clap::Arg) -> bool {
    viewer::GUARDS.contains(&arg.get_id().as_str())
}

fn variable_of(arg: &clap::Arg) -> Option<OsString> {
    arg.get_env().and_then(variable)
}

#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
fn variable(name: impl AsRef<OsStr>) -> Option<OsString> {
    std::env::var_os(name)
}

fn is_blank(value: &OsStr) -> bool {
    value.to_string_lossy().trim().is_empty()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::super::{DEFAULT_LISTEN, ListenArgs, MetricsArgs, MetricsDetail, SETTINGS_FILE};
    use super::*;

    #[derive(Debug, Parser)]
    struct TestCommand {
        #[command(flatten)]
        listen: ListenArgs,
        #[arg(long, env = "ANNALIST_FILES_PER_MINUTE", default_value_t = 300)]
        files_per_minute: u32,
        #[arg(long, env = "ANNALIST_CLAIM_TTL_S", default_value_t = 60)]
        claim_ttl_s: u64,
        #[command(flatten)]
        viewer: viewer::ViewerArgs,
        #[command(flatten)]
        metrics: MetricsArgs,
        #[arg(long, env = "ANNALIST_NO_JOIN")]
        no_join: bool,
        /// Cargo sets this variable for tests.
        #[arg(long, env = "CARGO_PKG_NAME")]
        set: String,
    }

    fn parse_with(file: &str, arguments: &[&str]) -> Result<TestCommand, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS_FILE);
        std::fs::write(&path, file).unwrap();
        let file = Box::leak(Box::new(SettingsFile::read(&path, true).unwrap()));
        let arguments: Vec<OsString> =
            std::iter::once("annalist").chain(arguments.iter().copied()).map(OsString::from).collect();
        let matches = matches_with_file(&TestCommand::command(), &arguments, file)?;
        Ok(TestCommand::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn a_flag_goes_before_a_variable_which_goes_before_the_file_which_goes_before_the_default() {
        let file = "ANNALIST_LISTEN=127.0.0.1:7\nANNALIST_FILES_PER_MINUTE= \nANNALIST_NO_JOIN=true\n\
                    CARGO_PKG_NAME=file\nANNALIST_VIEWER_HOST=a.example,b.example\nANNALIST_METRICS=full\n";
        let found = parse_with(file, &[]).unwrap();
        assert_eq!((found.listen.listen.port(), found.set.as_str(), found.no_join), (7, "process", true));
        assert_eq!(found.viewer.viewer_host, ["a.example", "b.example"]);
        assert_eq!(found.metrics.metrics, MetricsDetail::Full);
        assert_eq!((found.files_per_minute, found.claim_ttl_s), (300, 60), "a blank value counts as unset");
        let flags = ["--listen", "127.0.0.1:8", "--set", "flag", "--viewer-host", "c.example"];
        let found = parse_with(file, &flags).unwrap();
        assert_eq!((found.listen.listen.port(), found.set.as_str()), (8, "flag"));
        assert_eq!(found.viewer.viewer_host, ["c.example"]);
        let found = parse_with("", &[]).unwrap();
        assert_eq!((found.listen.listen, found.no_join), (DEFAULT_LISTEN, false));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_by_its_variable_and_is_not_printed() {
        for (line, expected) in [
            ("ANNALIST_LISTEN=hidden", "ANNALIST_LISTEN in "),
            ("ANNALIST_METRICS=hidden", "(possible: few, full)"),
            ("ANNALIST_NO_JOIN=hidden", "ANNALIST_NO_JOIN in "),
            ("ANNALIST_TZ=hidden", "ANNALIST_TZ in "),
            ("ANNALIST_VIEWER_PASSWORD_FILE=", "ANNALIST_VIEWER_PASSWORD_FILE in "),
        ] {
            let file = format!("ANNALIST_CLAIM_TTL_S=60\n{line}\n");
            let error = parse_with(&file, &[]).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains(expected) && shown.contains(SETTINGS_FILE), "{shown}");
            assert!(!shown.contains("hidden") && !shown.contains('\n'), "{shown}");
            assert!(crate::failure::is_config_error(&error));
        }
        let guard = parse_with("ANNALIST_VIEWER_USER_HEADER=\n", &[]).unwrap().viewer.viewer_user_header;
        assert_eq!(guard.as_deref(), Some(""), "a blank guard is set, and is an error later");
    }
}
