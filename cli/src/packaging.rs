//! Shell completions and manual pages for packages, generated from the command-line arguments.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::operate::target;

/// The command's name.
const NAME: &str = "annalist";

/// `annalist completions`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_parser = shell(), value_name = "bash|zsh|fish", hide_possible_values = true)]
    shell: Shell,
}

/// Returns a parser for the names of the supported shells.
fn shell() -> impl TypedValueParser<Value = Shell> {
    PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>())
}

/// `annalist man`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManArgs {
    /// Write annalist.1 and a page for each command, such as annalist-up.1, into this folder
    #[arg(long, value_name = "DIR", value_parser = target::path())]
    dir: Option<PathBuf>,
}

/// Prints a script for the shell.
pub(crate) fn completions(
    mut command: Command,
    args: &CompletionsArgs,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    // Generate into memory first: the generator panics if the reader of a pipe closes it.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, NAME, &mut script);
    Ok(out.write_all(&script)?)
}

/// Prints the manual page of `annalist`, or writes one for each command.
pub(crate) fn man(command: Command, args: &ManArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else { return Ok(Man::new(command).render(out)?) };
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(command, dir)
}

/// Writes the page of a command after those of its subcommands.
fn write_pages(command: Command, dir: &Path) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand.clone(), dir)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    target::write_file(dir, &page.get_filename(), &text).map(drop)
}
