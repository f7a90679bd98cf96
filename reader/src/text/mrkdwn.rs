//! Parses Slack's markup into spans.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>

use super::spans::TextSpan;

/// Parses a text. `<` always starts markup, because Slack escapes the character itself.
pub fn parse(text: &str) -> Vec<TextSpan> {
    let mut spans = Vec::new();
    let mut words = String::new();
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once('<') {
        unescape(before, &mut words);
        match marked.split_once('>') {
            // A nested `<` means that the markup was not closed. Slack never sends that.
            Some((inside, after)) if !inside.contains('<') => {
                let span = markup(inside);
                if let TextSpan::Text(text, _) = &span {
                    words += text;
                } else {
                    if !words.is_empty() {
                        spans.push(TextSpan::text(std::mem::take(&mut words)));
                    }
                    spans.push(span);
                }
                rest = after;
            }
            Some(_) | None => {
                words.push('<');
                rest = marked;
            }
        }
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

fn markup(inside: &str) -> TextSpan {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(unescaped(label)).filter(|label| !label.is_empty())),
        None => (inside, None),
    };
    if let Some(id) = target.strip_prefix('@') {
        TextSpan::User { id: id.to_owned(), label }
    } else if let Some(id) = target.strip_prefix('#') {
        TextSpan::Channel { id: id.to_owned(), label }
    } else if let Some(special) = target.strip_prefix('!') {
        match (special.split_once('^'), label) {
            (Some(("date", _)), Some(fallback)) => TextSpan::text(fallback),
            (Some((_, id)), label) => TextSpan::UserGroup { id: id.to_owned(), label },
            (None, label) => TextSpan::Broadcast(label.unwrap_or_else(|| special.to_owned())),
        }
    } else {
        TextSpan::Link { address: unescaped(target), label }
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
        assert_eq!(parse("<"), [TextSpan::text("<")]);
        assert_eq!(
            parse("<a <#C1>"),
            [TextSpan::text("<a "), TextSpan::Channel { id: "C1".into(), label: None }]
        );
        assert_eq!(parse(""), []);
    }
}
