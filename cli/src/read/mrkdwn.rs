//! Slack's markup as plain text.
//!
//! <https://docs.slack.dev/messaging/formatting-message-text>

use super::names::Names;

/// The text as a person would read it. `<` always starts markup: Slack escapes the character itself.
pub(super) fn plain(text: &str, names: &Names<'_>) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once('<') {
        unescape(before, &mut plain);
        match marked.split_once('>') {
            // Something that opens within was not closed: Slack never sends that.
            Some((inside, after)) if !inside.contains('<') => {
                markup(inside, names, &mut plain);
                rest = after;
            }
            Some(_) | None => {
                plain.push('<');
                rest = marked;
            }
        }
    }
    unescape(rest, &mut plain);
    plain
}

/// The ids of the people a text mentions.
pub(super) fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    text.split("<@").skip(1).filter_map(|rest| {
        let id = &rest[..rest.find(['>', '|'])?];
        (!id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(id)
    })
}

fn markup(inside: &str, names: &Names<'_>, plain: &mut String) {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (inside, None),
    };
    let called = |sign: char, name: &str, plain: &mut String| {
        if !name.starts_with(sign) {
            plain.push(sign);
        }
        unescape(name, plain);
    };
    if let Some(user) = target.strip_prefix('@') {
        let name = if names.knows(user) { names.of(user) } else { label.unwrap_or(user) };
        called('@', name, plain);
    } else if let Some(channel) = target.strip_prefix('#') {
        match names.of_channel(channel) {
            Some(name) => called('#', &name, plain),
            None => called('#', label.unwrap_or(channel), plain),
        }
    } else if let Some(special) = target.strip_prefix('!') {
        match (special.split_once('^'), label) {
            (Some(("date", _)), Some(fallback)) => unescape(fallback, plain),
            (_, Some(label)) => called('@', label, plain),
            (Some((_, id)), None) => called('@', id, plain),
            (None, None) => called('@', special, plain),
        }
    } else {
        // A label may say anything about where a link leads, so both are shown where they differ.
        let address = target.strip_prefix("mailto:").unwrap_or(target);
        match label {
            Some(label) if !target.ends_with(label) => {
                unescape(label, plain);
                plain.push_str(" (");
                unescape(address, plain);
                plain.push(')');
            }
            Some(_) | None => unescape(address, plain),
        }
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
    use shared::slack::ids::TeamId;

    use super::*;
    use crate::fixture::Fixture;

    #[tokio::test]
    async fn markup_reads_as_people_read_it() {
        let fixture = Fixture::open().await;
        fixture.person("T1", "U1", "ana").await;
        fixture.channel("T1", "C7", "1.000000", "new-name").await;
        let mut names = Names::new(fixture.archive(), TeamId::parse("T1").unwrap());
        names.learn(&[serde_json::json!({ "user": "U9", "text": "<@U1> <@U2> <#C7>" })]).await.unwrap();
        for (text, expected) in [
            ("hi <@U1>, <@U1|old>", "hi @ana, @ana"),
            ("<@U2> <@U3|cy>", "@U2 @cy"),
            ("<#C1|general> <#C2> <#C2|>", "#general #C2 #C2"),
            ("<#C7|old-name> <#C7>", "#new-name #new-name"),
            ("<!here> <!subteam^S1|@ops> <!subteam^S1>", "@here @ops @S1"),
            ("<!date^1392734382^{date}|a day in 2014>", "a day in 2014"),
            ("<https://example.com/?a=1&amp;b=2>", "https://example.com/?a=1&b=2"),
            ("<https://example.com|safe.example>", "safe.example (https://example.com)"),
            ("<http://example.com|example.com>", "http://example.com"),
            ("<mailto:a@example.com|a@example.com>", "a@example.com"),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2 &copy; &", "1 < 2 && 3 > 2 &copy; &"),
            ("&amp;lt;", "&lt;"),
            ("a < b", "a < b"),
            ("<a <@U1>", "<a @ana"),
            ("<>", ""),
            ("<", "<"),
        ] {
            assert_eq!(plain(text, &names), expected, "{text}");
        }
    }

    #[test]
    fn mentions_are_found_and_what_is_none_is_not() {
        let found: Vec<_> = mentioned("<@U1> and <@U2|x>, not <@>, <@U3 or <@a b>").collect();
        assert_eq!(found, ["U1", "U2"]);
    }
}
