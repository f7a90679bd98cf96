//! References to messages: timestamps, and the links that "Copy link" in Slack creates.

use slack::ids::{ChannelId, FileId, TeamId, Ts};

/// The target of a link into a workspace.
#[derive(Debug, PartialEq, Eq)]
pub struct SlackLink {
    /// The channel's id.
    pub channel: String,
    /// The message; `None` for a link to a channel.
    pub ts: Option<Ts>,
    /// The root of its thread, if the link names one.
    pub thread_ts: Option<Ts>,
}

impl SlackLink {
    /// Parses `https://example.slack.com/archives/C0123ABCD/p1620000000000200?thread_ts=…&cid=…`, or the address that a
    /// browser shows: `https://app.slack.com/client/T0123ABCD/C0123ABCD/thread/C0123ABCD-1620000000.000200`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('<').trim_end_matches('>');
        let (host, path) = text.strip_prefix("https://")?.split_once('/')?;
        if !(host == "slack.com" || host.ends_with(".slack.com") || host.ends_with(".slack-gov.com")) {
            return None;
        }
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if let Some(path) = path.strip_prefix("client/") {
            return Self::from_address_bar(path);
        }
        let mut parts = path.strip_prefix("archives/")?.split('/');
        let channel = ChannelId::parse(parts.next()?).ok()?;
        let ts = match parts.next().unwrap_or_default() {
            "" => None,
            ts => Some(ts_from_link(ts)?),
        };
        let thread_ts = query.split('&').find_map(|pair| pair.strip_prefix("thread_ts="));
        Some(Self {
            channel: channel.to_string(),
            ts,
            thread_ts: thread_ts.and_then(|ts| Ts::parse(ts).ok()),
        })
    }

    fn from_address_bar(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        TeamId::parse(parts.next()?).ok()?;
        let channel = ChannelId::parse(parts.next()?).ok()?.to_string();
        let thread = parts.next().filter(|part| *part == "thread").and(parts.next());
        let ts = thread.and_then(|thread| Ts::parse(thread.split_once('-')?.1).ok());
        Some(Self { channel, thread_ts: None, ts })
    }
}

/// Returns the link to a message in the format of Slack's "Copy link". If the workspace's address is missing,
/// Slack finds the workspace by the channel.
pub fn message_permalink(
    base_url: Option<&str>,
    channel: &ChannelId,
    ts: &Ts,
    thread_ts: Option<&Ts>,
) -> String {
    let base_url = base_url.unwrap_or("https://slack.com/").trim_end_matches('/');
    let digits: String = ts.as_str().chars().filter(|c| *c != '.').collect();
    let mut link = format!("{base_url}/archives/{channel}/p{digits}");
    if let Some(thread_ts) = thread_ts.filter(|thread_ts| *thread_ts != ts) {
        link += &format!("?thread_ts={thread_ts}&cid={channel}");
    }
    link
}

/// Returns the link to a canvas in Slack.
pub fn canvas_permalink(base_url: Option<&str>, team: &TeamId, file: &FileId) -> String {
    let base_url = base_url.unwrap_or("https://slack.com/").trim_end_matches('/');
    format!("{base_url}/docs/{team}/{file}")
}

/// Returns the channel id from a link, or the text itself if it is not a link.
pub fn channel(text: &str) -> String {
    SlackLink::parse(text).map_or_else(|| text.to_owned(), |link| link.channel)
}

/// Parses a timestamp as Slack writes it in events or in links.
pub fn ts(text: &str) -> Option<Ts> {
    Ts::parse(text).ok().or_else(|| ts_from_link(text))
}

/// Parses a timestamp without its decimal point: `p1620000000000200`.
fn ts_from_link(text: &str) -> Option<Ts> {
    let digits = text.strip_prefix('p')?;
    let (seconds, micros) = digits.split_at_checked(digits.len().checked_sub(6)?)?;
    Ts::parse(&format!("{seconds}.{micros}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_contains_a_message_and_its_thread() {
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
            ("https://app.slack.com/client/T01/C01", link("C01", None, None)),
            (
                "https://app.slack.com/client/T01/C01/thread/C01-1700000000.000100",
                link("C01", Some("1700000000.000100"), None),
            ),
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
            "https://app.slack.com/client/T01",
            "https://app.slack.com/client/T01/c#1",
        ] {
            assert_eq!(SlackLink::parse(other), None, "{other}");
        }
        assert_eq!(channel("https://example.slack.com/archives/C01"), "C01");
        assert_eq!(channel("#general"), "#general");
    }

    #[test]
    fn a_permalink_parses_back_to_its_message() {
        let (channel, ts) = (ChannelId::parse("C01").unwrap(), Ts::parse("1700000009.000100").unwrap());
        let root = Ts::parse("1700000000.000100").unwrap();
        let without_base = message_permalink(None, &channel, &ts, None);
        assert_eq!(without_base, "https://slack.com/archives/C01/p1700000009000100");
        assert_eq!(SlackLink::parse(&without_base).unwrap().ts.as_ref(), Some(&ts));
        let link = message_permalink(Some("https://e.slack.com/"), &channel, &ts, Some(&root));
        assert_eq!(
            link,
            "https://e.slack.com/archives/C01/p1700000009000100?thread_ts=1700000000.000100&cid=C01"
        );
        let parsed = SlackLink::parse(&link).unwrap();
        assert_eq!((parsed.ts, parsed.thread_ts), (Some(ts.clone()), Some(root)));
        assert!(!message_permalink(None, &channel, &ts, Some(&ts)).contains('?'), "a root is not a reply");
    }

    #[test]
    fn a_timestamp_may_come_from_a_link() {
        assert_eq!(ts("p1700000000000100").unwrap().as_str(), "1700000000.000100");
        assert_eq!(ts("1700000000.000100").unwrap().as_str(), "1700000000.000100");
        for invalid in
            ["p", "p1", "p000100", "pé000000", "1700000000000100", "q1700000000000100", "p-700000000000100"]
        {
            assert!(ts(invalid).is_none(), "{invalid}");
        }
    }
}
