//! The help of the whole program: its commands in groups, so that someone who looks for one need not read them all.

use std::ffi::OsString;

use clap::Command;

/// The commands by what people want to do. A test keeps the list complete.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Begin", &["setup", "up", "demo", "doctor", "status", "workspaces"]),
    (
        "Read",
        &[
            "search",
            "messages",
            "thread",
            "revisions",
            "channels",
            "channel",
            "users",
            "usergroups",
            "files",
            "report",
            "view",
            "mcp",
            "token",
            "sign-out",
        ],
    ),
    ("Fill", &["import", "backfill", "sync", "gaps", "coverage", "reconcile"]),
    ("Take along", &["export", "publish", "backup", "copy", "restore"]),
    ("Keep and remove", &["verify", "retain", "hold", "optout", "erase", "quarantine", "questions", "index"]),
    ("Set up machines", &["manifest", "provision", "cloudformation", "dashboards", "completions", "man"]),
];

/// The command whose help lists the subcommands in groups.
pub(crate) fn in_groups(command: Command) -> Command {
    let mut list = "Commands:\n".to_owned();
    let about = |name: &str| {
        let found = command.find_subcommand(name)?;
        Some((found.get_name(), found.get_about().map(ToString::to_string).unwrap_or_default()))
    };
    for (group, names) in GROUPS {
        list.push_str(&format!(" {group}:\n"));
        for (name, about) in names.iter().filter_map(|name| about(name)) {
            list.push_str(&format!("  {name:<15} {about}\n"));
        }
    }
    let template = format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{list}\nOptions:\n{{options}}\n\n`annalist help COMMAND` explains \
         one.{{after-help}}"
    );
    command.help_template(template)
}

/// The arguments with `help COMMAND` as `COMMAND --help`.
pub(crate) fn as_flag(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.first().is_some_and(|first| first == "help") {
        arguments.remove(0);
        arguments.push("--help".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::Cli::command();
        let mut expected: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected);
        let help = in_groups(crate::Cli::command()).render_help().to_string();
        assert!(help.contains("\n Fill:\n  import "), "{help}");
        assert!(help.contains("Usage: ") && help.contains("--version"), "{help}");
    }

    #[test]
    fn help_of_a_command_is_its_flag() {
        let flagged = |arguments: &[&str]| as_flag(arguments.iter().map(OsString::from));
        assert_eq!(flagged(&["help", "files", "retry"]), ["files", "retry", "--help"]);
        assert_eq!(flagged(&["help"]), ["--help"]);
        assert_eq!(flagged(&["search", "help"]), ["search", "help"]);
    }
}
