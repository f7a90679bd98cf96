//! Arguments for a channel or a message: an id or name and a timestamp, or the link from Slack's "Copy link".

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use reader::permalink::{self, SlackLink};
use slack::ids::Ts;

use super::ReadArgs;

/// The arguments of a command about one message.
#[derive(Debug, Clone)]
pub(crate) struct MessageArgs {
    /// The channel's id or name.
    pub(crate) channel: String,
    pub(crate) ts: Ts,
    /// The root of its thread, if a link contains it.
    pub(crate) thread_ts: Option<Ts>,
    /// Only the part of a thread before this message.
    pub(crate) until: Option<Ts>,
    /// Whether JSON has names.
    pub(crate) with_names: bool,
    pub(crate) read: ReadArgs,
}

/// The raw arguments of [`MessageArgs`].
#[derive(Debug, Args)]
struct MessageTarget {
    /// Channel name or id, such as '#general' or C0123ABCD; or a message's Slack link, which needs no TS
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// The message's timestamp, such as 1620000000.000200 or p1620000000000200
    #[arg(value_name = "TS", value_parser = ts)]
    ts: Option<Ts>,
    /// With user_id, user_name, channel_name, time and permalink
    #[arg(long, requires = "json")]
    with_names: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl Args for MessageArgs {
    fn augment_args(command: Command) -> Command {
        MessageTarget::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        MessageTarget::augment_args_for_update(command)
    }
}

impl FromArgMatches for MessageArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let MessageTarget { channel, ts, with_names, read } = MessageTarget::from_arg_matches(matches)?;
        match (SlackLink::parse(&channel), ts) {
            (Some(SlackLink { channel, ts: Some(ts), thread_ts }), None) => {
                Ok(Self { channel, ts, thread_ts, until: None, with_names, read })
            }
            (Some(SlackLink { ts: Some(_), .. }), Some(_)) => {
                Err(Error::raw(ErrorKind::ArgumentConflict, "a link to a message needs no additional <TS>\n"))
            }
            (Some(SlackLink { channel, ts: None, .. }), Some(ts)) => {
                Ok(Self { channel, ts, thread_ts: None, until: None, with_names, read })
            }
            (None, Some(ts)) => Ok(Self { channel, ts, thread_ts: None, until: None, with_names, read }),
            (_, None) => Err(Error::raw(
                ErrorKind::MissingRequiredArgument,
                "a message is named by <CHANNEL> <TS>, or by its Slack link alone\n",
            )),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Parses a channel argument. For a link, returns the channel of the link.
pub(crate) fn channel(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(permalink::channel(text))
}

/// Parses a timestamp as Slack or its links spell it.
fn ts(text: &str) -> Result<Ts, &'static str> {
    permalink::ts(text).ok_or("<TS> is such as 1620000000.000200, or p1620000000000200 as in a link")
}
