//! `annalist`: the command-line program.
//!
//! * [`mod@setup`] prepares [`up`], which runs ingest and every worker; [`demo`] does the same with a made-up workspace.
//! * [`read`] prints the archive and cannot change it, [`mod@search`] finds messages in it, [`view`] serves
//!   it to browsers, [`api`] to programs and [`mcp`] to assistants; [`operate`] has the commands that inspect, repair and
//!   maintain it.
//! * [`export`] writes the archive in formats that other programs read. [`report`] prints figures for a
//!   period.
//! * [`provision`] creates the AWS resources, [`cloudformation`] prints them as a template; [`manifest`]
//!   prints the Slack app manifest, [`packaging`] shell completions and manual pages.

mod api;
mod blocking;
mod cloudformation;
mod command;
mod composition;
mod cookie_key;
mod demo;
mod export;
mod failure;
#[cfg(test)]
mod fixture;
mod help;
mod manifest;
mod mcp;
mod operate;
mod packaging;
mod page_guard;
mod plain;
mod progress;
mod provision;
mod publish;
mod read;
mod report;
mod search;
mod setup;
mod up;
mod view;
mod viewer_password;
mod zone;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use ports::blocking::in_own_thread;
use ports::clock::SystemClock;
use process::config;

use blocking::{block_on, on_archive, on_new_archive, on_written_archive, runtime, with_archive};
use command::{Cli, Command};
use failure::UsageError;
use operate::files::{FilesChange, FilesCommand};

/// The package's version, with the commit if it is known.
pub(crate) const VERSION: &str = env!("ANNALIST_VERSION");

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "annalist".into());
    let arguments = search::mark_negations(help::as_flag(arguments).into_iter());
    let arguments = std::iter::once(program.clone()).chain(arguments);
    let command = match config::parse::<Cli>(help::in_groups(Cli::command()), arguments) {
        Ok(cli) => cli.command,
        Err(error) => return failure::report_config_error(error),
    };
    let mut out = BufWriter::new(io::stdout());
    let result =
        run(command, program, &mut out).and_then(|()| out.flush().context("cannot write the output"));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report_error(&error),
    }
}

fn run(command: Command, program: OsString, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    match command {
        Command::Up(args) => up::run(&args, out),
        Command::Setup(args) => block_on(setup::run(&args, out))?,
        Command::Demo(args) => demo::run(&args, &program, out),
        Command::Messages(args) => on_archive(&args.channel.read.backend, async |backend| {
            Ok(read::messages(&*backend.archive(), &args, out).await?)
        }),
        Command::Thread(args) => on_archive(&args.read.backend, async |backend| {
            Ok(read::thread(&*backend.archive(), &args, out).await?)
        }),
        Command::Revisions(args) => on_archive(&args.read.backend, async |backend| {
            Ok(read::revisions(&*backend.archive(), &args, out).await?)
        }),
        Command::Search(args) => {
            // Its few reads are done before a second thread and a second connection would be ready.
            in_own_thread(|| {
                on_archive(&args.backend, async |backend| search::search(backend, &args, out).await)
            })
        }
        Command::Index(args) => {
            on_archive(&args.backend, async |backend| search::index(backend, &args, out).await)
        }
        Command::View(args) => view::run(&args, out),
        Command::Mcp(args) => mcp::run(&args),
        Command::Channels(args) => on_archive(&args.read.backend, async |backend| {
            let index = search::index_file(&args.index, &args.read.backend)?;
            let zone = zone::Zone::from_args(&args.read.zone);
            let searchable = search::SearchableArchive::new(backend, index, args.read.team.clone(), &zone);
            Ok(read::channels(&searchable, &args, out).await?)
        }),
        Command::Channel(args) if args.forget_public => {
            on_written_archive(&args.channel.read.backend, async |backend| {
                operate::forget_public::run(&*backend.archive(), &SystemClock, &args.channel, out).await
            })
        }
        Command::Channel(args) => on_archive(&args.channel.read.backend, async |backend| {
            Ok(read::channel(&*backend.archive(), &args, out).await?)
        }),
        Command::Files(FilesCommand { change: Some(FilesChange::Retry(args)), .. }) => {
            on_written_archive(&args.backend, async |backend| {
                operate::files::retry(backend, &SystemClock, &args, out).await
            })
        }
        Command::Files(FilesCommand { change: Some(FilesChange::Move(args)), .. }) => {
            on_written_archive(&args.backend, async |backend| {
                operate::files_move::run(backend, &args, out).await
            })
        }
        Command::Files(FilesCommand { change: None, list }) => {
            on_archive(&list.read.backend, async |backend| {
                Ok(read::files(&*backend.archive(), &list, out).await?)
            })
        }
        Command::Users(args) => on_archive(&args.read.backend, async |backend| {
            Ok(read::users(&*backend.archive(), &args, out).await?)
        }),
        Command::UserGroups(args) => on_archive(&args.backend, async |backend| {
            Ok(read::user_groups(&*backend.archive(), &args, out).await?)
        }),
        Command::Gaps(args) => {
            on_archive(&args.backend, async |backend| Ok(read::gaps(&*backend.archive(), &args, out).await?))
        }
        Command::Coverage(args) => on_archive(&args.read.backend, async |backend| {
            Ok(read::coverage(&*backend.archive(), &args, out).await?)
        }),
        Command::Report(args) => on_archive(&args.backend, async |backend| {
            report::run(&*backend.archive(), &*backend.changes(), &SystemClock, &args, out).await
        }),
        Command::Sync(args) => {
            let api = block_on(config::slack::web_api(&args.slack))??;
            on_new_archive(&args.backend, async |backend| operate::sync::run(backend, api, &args, out).await)
        }
        Command::Import(args) => block_on(operate::import::run(&args, SystemClock::shared(), out))?,
        Command::Export(args) => {
            let api = match args.asks_slack() {
                true => Some(block_on(config::slack::web_api(&args.slack))??),
                false => None,
            };
            on_archive(&args.backend, async |backend| export::run(backend, api, &args, out).await)
        }
        Command::Publish(command) => publish::command(&command, out),
        Command::Backfill(args) => {
            let api = block_on(config::slack::web_api(&args.slack))??;
            on_new_archive(&args.backend, async |backend| {
                operate::backfill::run(backend, api, &args, out).await
            })
        }
        Command::Reconcile(args) => {
            let api = block_on(config::slack::web_api(&args.slack))??;
            on_written_archive(&args.backend, async |backend| {
                operate::reconcile::run(backend, api, &args, out).await
            })
        }
        Command::Status(args) => {
            on_archive(&args.backend, async |backend| operate::status::print(backend, &args, out).await)
        }
        Command::Workspaces(args) => {
            let api = block_on(config::slack::web_api(&args.slack))??;
            on_archive(&args.backend, async |backend| {
                operate::workspaces::run(&*backend.archive(), &api, &SystemClock, &args, out).await
            })
        }
        Command::Doctor(args) => block_on(operate::doctor::run(&args, out))?,
        Command::Quarantine(command) => on_archive(command.backend(), async |backend| {
            operate::quarantine::run(backend, &SystemClock::shared(), &command, out).await
        }),
        Command::Questions(command) => on_archive(command.backend(), async |backend| {
            operate::questions::run(backend, &SystemClock, &command, out).await
        }),
        Command::Token(command) => on_written_archive(command.backend(), async |backend| {
            operate::token::run(&*backend.archive(), &SystemClock, &command, out).await
        }),
        Command::SignOut(args) => on_written_archive(&args.backend, async |backend| {
            operate::token::sign_out(&*backend.archive(), &SystemClock, &args, out).await
        }),
        Command::Erase(args) => on_written_archive(&args.backend, async |backend| {
            operate::erase::run(backend, &SystemClock, &args, out).await
        }),
        Command::Keep(command) => {
            command.check()?;
            on_written_archive(command.backend(), async |backend| {
                operate::keep::run(backend, &command, out).await
            })
        }
        Command::Backup(args) => operate::backup::run(&args, &SystemClock, out),
        Command::Restore(args) => operate::restore::run(&args, out),
        #[cfg(feature = "aws")]
        Command::Provision(args) => block_on(provision::run(&args, out))?,
        #[cfg(feature = "aws")]
        Command::Cloudformation(args) => cloudformation::print(&args, out),
        #[cfg(not(feature = "aws"))]
        Command::Provision(_) | Command::Cloudformation(_) => {
            Err(config::ConfigError::NotBuilt(config::backend::BackendKind::Aws).into())
        }
        Command::Dashboards(args) => operate::dashboards::write(&args, out),
        Command::Manifest(args) => manifest::print(&args, out),
        Command::Completions(args) => packaging::completions(Cli::command(), &args, out),
        Command::Man(args) => packaging::man(Cli::command(), &args, out),
    }
}

#[cfg(all(test, not(feature = "aws")))]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_build_without_aws_returns_an_error_that_names_the_feature() {
        for command in ["provision", "cloudformation"] {
            let cli = Cli::try_parse_from(["annalist", command]).unwrap();
            let error = run(cli.command, "annalist".into(), &mut Vec::new()).unwrap_err();
            let is_config_error = error.is::<config::ConfigError>();
            assert!(is_config_error && error.to_string().contains("--features aws"), "{error}");
        }
    }
}

#[cfg(test)]
mod version_tests {
    use clap::Parser;
    use ports::archive::ArchiveExt;
    use process::config::backend::{Backend, BackendArgs};
    use rules::archive_version::{ArchiveVersion, FORMAT};

    use super::*;

    #[test]
    fn commands_that_write_refuse_an_archive_of_a_newer_version_and_those_that_read_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let newer = ArchiveVersion { format: FORMAT + 1, by: "9.8.7".to_owned() };
        let written = block_on(async {
            let args = BackendArgs::embedded(folder.path());
            let backend = Backend::open(&args, SystemClock::shared()).await.unwrap();
            backend.archive().write(&newer.update()).await.unwrap();
            backend.close().await;
        });
        written.unwrap();
        let folder = folder.path().to_str().unwrap();
        let result = |args: &str| {
            let args = format!("annalist {args} --data {folder}");
            let cli = Cli::try_parse_from(args.split(' ')).unwrap();
            run(cli.command, "annalist".into(), &mut Vec::new())
        };
        for args in [
            "quarantine replay --all",
            "quarantine drop --queue events --yes",
            "questions retry C01 1700000000.000100",
            "questions cancel C01 1700000000.000100",
            "publish opt-out U01",
            "publish opt-in U01",
        ] {
            let error = result(args).unwrap_err().to_string();
            assert!(error.contains("Annalist 9.8.7 has written this archive"), "{args}: {error}");
        }
        for args in ["quarantine list", "questions list", "publish opt-outs"] {
            result(args).unwrap();
        }
    }
}
