//! The settings of the directory sync.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use workers::directory::MembersToList;

/// What the directory sync does besides reading Slack's lists.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct DirectoryArgs {
    /// Join no public channels: keep those the app is invited to
    #[arg(long, env = "ANNALIST_NO_JOIN")]
    pub no_join: bool,
    /// The channels whose members are listed: `private` for those that are private now. Members see such a channel
    /// on the pages
    #[arg(long, env = "ANNALIST_MEMBERS", value_name = "WHICH", value_parser = members_parser(), default_value = "all")]
    pub members: MembersToList,
}

/// One of the values, with its line of help.
fn members_parser() -> impl TypedValueParser<Value = MembersToList> {
    let values = MembersToList::EVERY.map(|which| {
        PossibleValue::new(which.as_str()).help(match which {
            MembersToList::All => "All channels",
            MembersToList::Private => "Channels that are private now",
            MembersToList::Off => "No channel",
        })
    });
    PossibleValuesParser::new(values)
        .map(|name| MembersToList::EVERY.into_iter().find(|which| which.as_str() == name).unwrap_or_default())
}
