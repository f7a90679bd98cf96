//! The command line: each command with its arguments and what `--help` says about it.

use clap::{Parser, Subcommand};

use crate::operate::backfill::BackfillArgs;
use crate::operate::backup::BackupArgs;
use crate::operate::dashboards::DashboardsArgs;
use crate::operate::doctor::DoctorArgs;
use crate::operate::erase::EraseArgs;
use crate::operate::files::FilesCommand;
use crate::operate::import::ImportArgs;
use crate::operate::keep::KeepCommand;
use crate::operate::quarantine::QuarantineCommand;
use crate::operate::questions::QuestionsCommand;
use crate::operate::reconcile::ReconcileArgs;
use crate::operate::restore::RestoreArgs;
use crate::operate::status::StatusArgs;
use crate::operate::sync::SyncArgs;
use crate::operate::token::{SignOutArgs, TokenCommand};
use crate::operate::workspaces::WorkspacesArgs;
use crate::packaging::{CompletionsArgs, ManArgs};
use crate::publish::PublishCommand;
use crate::read::{ChannelsArgs, CoverageArgs, MessageArgs, MessagesArgs, ReadArgs, SnapshotArgs, UsersArgs};
use crate::{
    VERSION, cloudformation, demo, export, manifest, mcp, provision, report, search, setup, up, view,
};

/// Keeps a Slack workspace's history for the people who own it
#[derive(Debug, Parser)]
#[command(version = VERSION, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(after_help = "New here? `annalist demo` shows everything on a made-up workspace.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Receive events from Slack and keep them
    #[command(after_help = "Secrets come from the environment or the file that `annalist setup` writes:\n  \
        SLACK_APP_TOKEN=… SLACK_BOT_TOKEN=… annalist up --data /var/lib/annalist")]
    #[command(mut_args(up::in_short_help))]
    Up(Box<up::UpArgs>),
    /// Write the settings with which `annalist up` starts
    #[command(
        after_help = "On a terminal it asks for what is missing. It starts nothing and may be run again:\n  \
        annalist setup\n  annalist setup --url https://slack.example.com/slack/events --data /var/lib/annalist"
    )]
    Setup(setup::SetupArgs),
    /// Try it on a made-up workspace; needs no Slack
    Demo(demo::DemoArgs),
    /// Show a channel's messages
    #[command(after_help = "Examples: annalist messages '#general' --limit 20\n  \
        annalist messages '#general' --since 2026-11-01 --until 2026-11-08\n  \
        annalist messages '#general' | less")]
    Messages(MessagesArgs),
    /// Show a thread: its root, then the replies
    #[command(
        after_help = "Any message of the thread names it, by its channel and timestamp or by its Slack link:\n  \
        annalist thread '#general' 1620000000.000200\n  \
        annalist thread https://example.slack.com/archives/C0123ABCD/p1620000000000200"
    )]
    Thread(MessageArgs),
    /// Show what a message said before each edit
    #[command(after_help = "Example: annalist revisions '#general' 1620000000.000200")]
    Revisions(MessageArgs),
    /// Find messages by their words
    #[command(after_help = "Every word must be in the message. The newest hits come first.\n  \
        annalist search deploy failed in:#ops -draft\n  \
        annalist search '\"connection reset\"' from:@ana after:2026-01-31\n  \
        annalist search 'error*' has:file during:2026-11 --json")]
    Search(search::SearchArgs),
    /// Bring the search index up to date
    #[command(
        after_help = "`annalist up` maintains its own index, and `annalist search` updates it before it searches. It may be \
        interrupted; the next run continues.\n  annalist index --backend aws --follow"
    )]
    Index(search::IndexingArgs),
    /// Read the archive in a browser
    #[command(
        after_help = "It only reads, and may run alongside `annalist up`, which serves the same pages with --viewer-listen:\n  \
        annalist view --data /var/lib/annalist\n  \
        annalist view --viewer-listen 0.0.0.0:3002 --viewer-host archive.example --viewer-password-file /etc/annalist/password"
    )]
    View(view::ViewArgs),
    /// Let an assistant read the archive, by the Model Context Protocol
    #[command(
        after_help = "The assistant's client starts it and speaks with it over standard input and output. docs/mcp.md has the \
        configuration of each. It only reads:\n  annalist mcp --data /var/lib/annalist"
    )]
    Mcp(mcp::McpArgs),
    /// Show the channels
    Channels(ChannelsArgs),
    /// Show a channel: its names, topic, purpose and state
    #[command(after_help = "Examples: annalist channel '#general' --history; \
        annalist channel C0123ABCD --forget-public")]
    Channel(SnapshotArgs),
    /// Show the files: held, failed, skipped, and why
    #[command(after_help = "Examples: annalist files '#general'; annalist files retry")]
    Files(FilesCommand),
    /// Show the people of the workspace
    #[command(after_help = "Example: annalist users --history U0123ABCD")]
    Users(UsersArgs),
    /// Show the user groups, such as @oncall, and their members
    #[command(name = "usergroups")]
    UserGroups(ReadArgs),
    /// Show when events may be missing, where and why
    #[command(
        after_help = "A gap is open while it lasts, and missing once it has ended; it is filled if history was \
        read since, and lost if Slack's plan no longer shows what was written.\n\
        Example: annalist gaps --json"
    )]
    Gaps(ReadArgs),
    /// Show which periods of each channel are archived, from which source, and which are missing
    #[command(after_help = "Examples: annalist coverage; annalist coverage '#general'")]
    Coverage(CoverageArgs),
    /// Show who wrote how much, where and when in a period, compared with the previous period
    #[command(after_help = "Examples: annalist report --week 2026-W46\n  \
        annalist report --from 2026-10-01 --to 2026-11-01 --channel '#general' --html > october.html")]
    Report(report::ReportArgs),
    /// Sync channels, people, user groups and emoji from Slack now
    #[command(
        after_help = "`annalist up` does it every hour. The token comes from the settings file or the environment:\n  \
        annalist sync --data /var/lib/annalist"
    )]
    Sync(SyncArgs),
    /// Bring an export of Slack into the archive
    #[command(
        after_help = "It may be interrupted and repeated, also while `annalist up` runs. Only public channels are stored:\n  \
        annalist import export.zip --data /var/lib/annalist"
    )]
    Import(ImportArgs),
    /// Write the archive, or a part of it, in a format that others read
    #[command(
        after_help = "The output gets its name only when it is complete. Deleted messages are left out, unless --include-deleted is given:\n  \
        annalist export --format slack --out acme.zip --data /var/lib/annalist\n  \
        annalist export --format markdown --out notes --channel '#general' --since 2026-11-01 --until 2026-12-01"
    )]
    Export(export::ExportArgs),
    /// Put channels on the web, as a folder of plain pages
    Publish(PublishCommand),
    /// Read Slack's history into the archive
    #[command(
        after_help = "Without --since it reads what is missing, and the last days again. It may be ended and run again \
        at any time. The token comes from the settings file or the environment:\n  \
        annalist backfill '#general' --data /var/lib/annalist\n  \
        annalist backfill --all --since 2026-01-01"
    )]
    Backfill(BackfillArgs),
    /// Compare the archive with Slack's history, and fill what is missing
    #[command(
        after_help = "Without --from, --to and --all it compares the last 7 days of every channel that is kept. Exit code 0: \
        nothing is left to do; 1: something is. The token comes from the settings file or the environment:\n  \
        annalist reconcile --from 2026-11-01 --to 2026-11-08 --data /var/lib/annalist\n  \
        annalist reconcile '#general' --all --dry-run"
    )]
    Reconcile(ReconcileArgs),
    /// Show the queues and what needs attention
    Status(StatusArgs),
    /// Show every workspace: its app and token, its next sync and what waits
    #[command(after_help = "Example: annalist workspaces --data /var/lib/annalist")]
    Workspaces(WorkspacesArgs),
    /// Check the set-up and print the next step
    #[command(
        after_help = "Run it where `annalist up` runs, with the same environment. It changes nothing:\n  \
        annalist doctor --data /var/lib/annalist --url https://slack.example.com/slack/events"
    )]
    Doctor(DoctorArgs),
    /// Look at jobs that could not be stored; send them again or drop them
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Look at questions to the responder; ask one again or cancel it
    #[command(subcommand)]
    Questions(QuestionsCommand),
    /// Make, list or revoke tokens with which programs read over HTTP
    #[command(subcommand)]
    #[command(after_help = "Example: annalist token create --name ci --as ana --expires 90")]
    Token(TokenCommand),
    /// End the sessions of a reader, or of all readers
    #[command(after_help = "Examples: annalist sign-out U0123ABCD; annalist sign-out --all")]
    SignOut(SignOutArgs),
    /// Erase a person, a channel or a message for good
    #[command(
        after_help = "Without --yes it says what would go, and changes nothing. It may be interrupted and run again:\n  \
        annalist erase --user @ana --data /var/lib/annalist\n  \
        annalist erase --user U0123ABCD --yes --compact --data /var/lib/annalist\n  \
        annalist erase --message '#general' 1620000000.000200 --yes"
    )]
    Erase(EraseArgs),
    #[command(flatten)]
    Keep(KeepCommand),
    /// Write the whole archive into one file, while it is in use
    #[command(
        after_help = "Example: annalist backup /mnt/backup/annalist-2026-11-21.tar --data /var/lib/annalist"
    )]
    Backup(BackupArgs),
    /// Create a data folder from a backup or a copy
    #[command(
        after_help = "Examples: annalist restore /mnt/backup/annalist-2026-11-21.tar --data /var/lib/annalist\n  \
        annalist restore /mnt/backup/annalist --until 2026-11-20 --data /var/lib/annalist"
    )]
    Restore(RestoreArgs),
    /// Create the queues, tables and bucket on AWS, or update them
    #[command(
        after_help = "Needs no --backend. It changes only what it created, deletes nothing, and may be \
        run again at any time:\n  \
        AWS_REGION=… ANNALIST_BUCKET=… annalist provision --dry-run"
    )]
    #[command(mut_args(provision::under_its_heading))]
    Provision(provision::ProvisionArgs),
    /// Print a CloudFormation template that runs every part as a Lambda function
    #[command(
        after_help = "Needs no --backend, and sends nothing to AWS. docs/deploy-aws.md says how to deploy it:\n  \
        ANNALIST_BUCKET=… annalist cloudformation > annalist.json\n  \
        aws cloudformation deploy --template-file annalist.json --s3-bucket …\n\
        The bucket is for the template: CloudFormation takes no more than 51,200 bytes without one."
    )]
    #[command(mut_args(provision::under_its_heading))]
    Cloudformation(cloudformation::CloudformationArgs),
    /// Write a Grafana dashboard and Prometheus alert rules for everything /metrics has
    #[command(
        after_help = "docs/metrics.md says where they go. Example: annalist dashboards --out /etc/annalist"
    )]
    Dashboards(DashboardsArgs),
    /// Print the Slack app manifest
    #[command(after_help = "Paste it at https://api.slack.com/apps: Create New App, From a manifest.\n\
        Examples: annalist manifest --socket --link; annalist manifest --url https://slack.example.com/slack/events")]
    Manifest(manifest::ManifestArgs),
    /// Print the completions of a shell
    #[command(after_help = "Example: annalist completions bash > /etc/bash_completion.d/annalist")]
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for each command
    #[command(after_help = "Examples: annalist man | man -l -; annalist man --dir /usr/local/share/man/man1")]
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use process::config;
    use process::failure::{USAGE, usage_line};

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_variable_may_be_in_the_settings_file() {
        fn variables(command: &clap::Command) -> Vec<String> {
            let own = command.get_arguments().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
            own.chain(command.get_subcommands().flat_map(variables)).collect()
        }
        let variables = variables(&Cli::command());
        assert!(variables.contains(&"ANNALIST_DATA".to_owned()));
        for variable in variables {
            assert!(config::is_setting(&variable), "{variable}");
        }
    }

    #[test]
    fn every_command_with_a_setting_reads_the_settings_file_except_setup_which_writes_it_and_the_demo() {
        fn without_file(command: &clap::Command) -> Vec<&str> {
            let has_setting = command.get_arguments().any(|arg| arg.get_env().is_some());
            let reads_file = command.get_arguments().any(|arg| arg.get_id() == "settings");
            let own = (has_setting && !reads_file).then(|| command.get_name());
            own.into_iter().chain(command.get_subcommands().flat_map(without_file)).collect()
        }
        assert_eq!(without_file(&Cli::command()), ["setup", "demo"]);
    }

    #[test]
    fn a_usage_error_is_one_line_with_a_hint() {
        for (arguments, expected) in [
            (&["messages"][..], "<CHANNEL>"),
            (&["mesages", "C1"], "messages"),
            (&["thread", "C1", "nonsense"], "1620000000.000200"),
            (&["messages", "C1", "--limit", "0"], "--limit"),
            (&["messages", "C1", "--limit", "many"], "--limit"),
            (&["users", "--team", "t#1"], "T0123ABCD"),
            (&["up", "--listen", "here"], "--listen"),
            (&["quarantine", "replay"], "--all"),
            (&["manifest", "--url", "example.com"], "https://"),
            (&["backup", "-"], "standard output"),
            (&["export", "--format", "slack", "--out", "-"], "standard output"),
            (&["dashboards", "--out", "-"], "standard output"),
            (&["man", "--dir", "-"], "standard output"),
        ] {
            let error = Cli::try_parse_from(std::iter::once(&"annalist").chain(arguments)).unwrap_err();
            let line = usage_line(&error.render().to_string());
            assert!(line.contains(expected) && !line.contains('\n'), "{arguments:?}: {line}");
            assert_eq!(error.exit_code(), i32::from(USAGE));
        }
    }
}
