//! How people name a channel and a message: by id or name and timestamp, or by the link that Slack's "Copy link" gives.

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use slack::ids::{ChannelId, Ts};

use super::ReadArgs;

/// What names a message.
#[derive(Debug, Clone)]
pub(crate) struct MessageArgs {
    /// The channel's id or name.
    pub(crate) channel: String,
    pub(crate) ts: Ts,
    /// The root of its thread, if that is known from a link.
    pub(crate) thread_ts: Option<Ts>,
    pub(crate) read: ReadArgs,
}

/// The words of a command line that do.
#[derive(Debug, Args)]
struct MessageWords {
    /// Channel name or id, such as '#general' or C0123ABCD; or a message's Slack link, which needs no TS
    #[arg(value_name = "CHANNEL")]
    channel: String,
    /// The message's timestamp, such as 1620000000.000200 or p1620000000000200
    #[arg(value_name = "TS", value_parser = ts)]
    ts: Option<Ts>,
    #[command(flatten)]
    read: ReadArgs,
}

impl Args for MessageArgs {
    fn augment_args(command: Command) -> Command {
        MessageWords::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        MessageWords::augment_args_for_update(command)
    }
}

impl FromArgMatches for MessageArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let MessageWords { channel, ts, read } = MessageWords::from_arg_matches(matches)?;
        match (SlackLink::parse(&channel), ts) {
            (Some(SlackLink { channel, ts: Some(ts), thread_ts }), None) => {
                Ok(Self { channel, ts, thread_ts, read })
            }
            (Some(SlackLink { ts: Some(_), .. }), Some(_)) => {
                Err(Error::raw(ErrorKind::ArgumentConflict, "a link to a message needs no <TS> beside it\n"))
            }
            (Some(SlackLink { channel, ts: None, .. }), Some(ts)) => {
                Ok(Self { channel, ts, thread_ts: None, read })
            }
            (None, Some(ts)) => Ok(Self { channel, ts, thread_ts: None, read }),
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

/// What a link into a workspace leads to.
#[derive(Debug, PartialEq, Eq)]
struct SlackLink {
    channel: String,
    ts: Option<Ts>,
    thread_ts: Option<Ts>,
}

impl SlackLink {
    /// `https://example.slack.com/archives/C0123ABCD/p1620000000000200?thread_ts=…&cid=…`
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('<').trim_end_matches('>');
        let (host, path) = text.strip_prefix("https://")?.split_once('/')?;
        if !(host.ends_with(".slack.com") || host.ends_with(".slack-gov.com")) {
            return None;
        }
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = path.strip_prefix("archives/")?.split('/');
        let channel = ChannelId::parse(parts.next()?).ok()?;
        let ts = match parts.next().unwrap_or_default() {
            "" => None,
            ts => Some(shortened(ts)?),
        };
        let thread_ts = query.split('&').find_map(|pair| pair.strip_prefix("thread_ts="));
        Some(Self {
            channel: channel.to_string(),
            ts,
            thread_ts: thread_ts.and_then(|ts| Ts::parse(ts).ok()),
        })
    }
}

/// A channel as people name it; of a link, the channel it leads to.
pub(super) fn channel(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(SlackLink::parse(text).map_or_else(|| text.to_owned(), |link| link.channel))
}

/// A timestamp as Slack spells it, or as its links do.
pub(super) fn ts(text: &str) -> Result<Ts, &'static str> {
    let ts = Ts::parse(text).ok().or_else(|| shortened(text));
    ts.ok_or("<TS> is such as 1620000000.000200, or p1620000000000200 as in a link")
}

/// `p1620000000000200`: without its point.
fn shortened(text: &str) -> Option<Ts> {
    let digits = text.strip_prefix('p')?;
    let (seconds, micros) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    Ts::parse(&format!("{seconds}.{micros}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_a_message_and_its_thread() {
        let link = |channel: &str, ts: Option<&str>, thread_ts: Option<&str>| SlackLink {
            channel: channel.into(),
            ts: ts.map(|ts| Ts::parse(ts).unwrap()),
            thread_ts: thread_ts.map(|ts| Ts::parse(ts).unwrap()),
        };
        for (text, expected) in [
            (
                "https://example.slack.com/archives/C01/p1700000000000100",
                link("C01", Some("1700000000.000100"), None),
            ),
            (
                "<https://e.enterprise.slack.com/archives/C01/p1700000009000100?thread_ts=1700000000.000100&cid=C01>",
                link("C01", Some("1700000009.000100"), Some("1700000000.000100")),
            ),
            ("https://example.slack.com/archives/C01/", link("C01", None, None)),
            ("https://example.slack.com/archives/C01", link("C01", None, None)),
        ] {
            assert_eq!(SlackLink::parse(text), Some(expected), "{text}");
        }
        for other in [
            "",
            "#general",
            "C01",
            "https://example.com/archives/C01/p1700000000000100",
            "https://slack.com.example/archives/C01/p1700000000000100",
            "https://example.slack.com/archives/C01/1700000000000100",
            "https://example.slack.com/archives/c#1/p1700000000000100",
            "https://example.slack.com/archives/C01/pé00000",
            "https://example.slack.com/files/U1/F1/a",
        ] {
            assert_eq!(SlackLink::parse(other), None, "{other}");
        }
        assert_eq!(channel("https://example.slack.com/archives/C01").unwrap(), "C01");
        assert_eq!(channel("#general").unwrap(), "#general");
    }

    #[test]
    fn a_timestamp_may_be_a_links() {
        assert_eq!(ts("p1700000000000100").unwrap().as_str(), "1700000000.000100");
        assert_eq!(ts("1700000000.000100").unwrap().as_str(), "1700000000.000100");
        for none in
            ["p", "p1", "p000100", "pé000000", "1700000000000100", "q1700000000000100", "p-700000000000100"]
        {
            assert!(ts(none).is_err(), "{none}");
        }
    }
}
