//! Parses Slack's markup into spans.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>

use jiff::tz::TimeZone;

use super::dates;
use super::spans::TextSpan;

/// Parses a text, with its dates in this zone. `<` always starts markup, because Slack escapes the character
/// itself.
pub fn parse(text: &str, zone: &TimeZone) -> Vec<TextSpan> {
    let mut spans = Vec::new();
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once('<') {
        unescape(before, &mut words);
        // A nested `<` means that the markup was not closed. Slack never sends that. The search ends at the
        // first of both, so that it takes no longer for a text of many.
        let end = marked.find(['<', '>']).filter(|end| marked.as_bytes()[*end] == b'>');
        let Some(end) = end else {
            words.push('<');
            rest = marked;
            continue;
        };
        match markup(&marked[..end], zone) {
            Some(TextSpan::Text(text, _)) => words += &text,
            Some(span) => {
                if !words.is_empty() {
                    spans.push(TextSpan::text(std::mem::take(&mut words)));
                }
                spans.push(span);
            }
            None => {}
        }
        rest = &marked[end + 1..];
    }
    unescape(rest, &mut words);
    if !words.is_empty() {
        spans.push(TextSpan::text(words));
    }
    spans
}

/// Resolves Slack's three entities without parsing markup.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    unescape(text, &mut plain);
    plain
}

fn markup(inside: &str, zone: &TimeZone) -> Option<TextSpan> {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(unescaped(label)).filter(|label| !label.is_empty())),
        None => (inside, None),
    };
    if let Some(id) = target.strip_prefix('@') {
        Some(TextSpan::User { id: id.to_owned(), label })
    } else if let Some(id) = target.strip_prefix('#') {
        Some(TextSpan::Channel { id: id.to_owned(), label })
    } else if let Some(special) = target.strip_prefix('!') {
        match special.split_once('^') {
            Some(("date", date)) => {
                let mut parts = date.splitn(3, '^').map(unescaped);
                let mut next = || parts.next().unwrap_or_default();
                let (timestamp, format, address) = (next(), next(), next());
                let address = Some(address.as_str()).filter(|address| !address.is_empty());
                dates::span(&timestamp, &format, address, label.as_deref(), zone)
            }
            Some((_, id)) => Some(TextSpan::UserGroup { id: id.to_owned(), label }),
            None => Some(TextSpan::Broadcast(label.unwrap_or_else(|| special.to_owned()))),
        }
    } else {
        Some(TextSpan::Link { address: unescaped(target), label })
    }
}

fn unescape(text: &str, plain: &mut String) {
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        plain.push_str(before);
        let (shown, after) = [("amp;", '&'), ("lt;", '<'), ("gt;", '>')]
            .into_iter()
            .find_map(|(name, shown)| Some((shown, entity.strip_prefix(name)?)))
            .unwrap_or(('&', entity));
        plain.push(shown);
        rest = after;
    }
    plain.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_spans_and_the_rest_becomes_text() {
        let parse = |text: &str| parse(text, &TimeZone::UTC);
        let link = |address: &str, label: Option<&str>| TextSpan::Link {
            address: address.into(),
            label: label.map(str::to_owned),
        };
        assert_eq!(
            parse("a &lt;b&gt; <@U1|ana> <!here> <https://example.com/?a=1&amp;b=2|x &amp; y>!"),
            [
                TextSpan::text("a <b> "),
                TextSpan::User { id: "U1".into(), label: Some("ana".into()) },
                TextSpan::text(" "),
                TextSpan::Broadcast("here".into()),
                TextSpan::text(" "),
                link("https://example.com/?a=1&b=2", Some("x & y")),
                TextSpan::text("!"),
            ]
        );
        assert_eq!(parse("<!date^1392734382^{date}|a day in 2014>"), [TextSpan::text("a day in 2014")]);
        assert_eq!(parse("due <!date^1705569650^{date_num}> ok"), [TextSpan::text("due 2024-01-18 ok")]);
        assert_eq!(
            parse("<!date^1705569650^{date_num} plan^https://example.com/a?b&amp;c|18 Jan plan>"),
            [link("https://example.com/a?b&c", Some("18 Jan plan"))]
        );
        assert_eq!(
            parse("<!date^1705569650^{date_num}^https://example.com>"),
            [link("https://example.com", Some("2024-01-18"))]
        );
        assert_eq!(parse("<!date^>"), []);
        assert_eq!(parse("<"), [TextSpan::text("<")]);
        assert_eq!(
            parse("<a <#C1>"),
            [TextSpan::text("<a "), TextSpan::Channel { id: "C1".into(), label: None }]
        );
        assert_eq!(parse(""), []);
    }
}
