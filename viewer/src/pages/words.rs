//! Renders the content of a message: lines with their kinds, spans with their styles.

use maud::{Markup, html};
use reader::plain;
use reader::text::markdown;
use reader::text::spans::{LineKind, TextFrame, TextLine, TextSpan, TextStyle};
use rules::link_label::{names_another_host, web_host};
use slack::ids::ChannelId;

use super::{MAX_NAME_CHARS, PageContext, scrolling};
use crate::emoji;
use crate::gather::pictures::CustomEmoji;
use reader::joined::ChannelOfTeam;

/// A tab, as wide as most programs show it.
const TAB: &str = "    ";

/// The allowed schemes of links. Other addresses are shown but not linked: `javascript:` would run code,
/// `data:` and `file:` would show untrusted content as if it were ours.
const SCHEMES: [&str; 4] = ["https://", "http://", "mailto:", "tel:"];

/// Maximum length of a linked address.
const MAX_ADDRESS_BYTES: usize = 4_096;

/// Renders lines, with a frame around the lines of each attachment.
pub fn lines(lines: &[TextLine], shown: &PageContext<'_>) -> Markup {
    html! {
        @for part in lines.chunk_by(|one, other| one.frame == other.frame) {
            @match part.first().and_then(|line| line.frame.as_ref()) {
                Some(frame) => div class={ "attachment " (color(frame)) } { (stripe(frame)) (in_frame(part, shown)) },
                None => (in_frame(part, shown)),
            }
        }
    }
}

/// Returns the class for one of Slack's three colours.
fn color(frame: &TextFrame) -> &'static str {
    match frame.color.as_deref() {
        Some("good" | "#2eb886" | "2eb886" | "#36a64f" | "36a64f") => "good",
        Some("warning" | "#daa038" | "daa038") => "warning",
        Some("danger" | "#a30200" | "a30200") => "danger",
        Some(_) | None => "plain",
    }
}

/// Renders another colour than Slack's three as a picture, because the policy blocks inline styles.
fn stripe(frame: &TextFrame) -> Markup {
    let digits = frame.color.as_deref().map(|color| color.trim_start_matches('#')).unwrap_or_default();
    let is_color = digits.len() == 6 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    html! {
        @if is_color && color(frame) == "plain" {
            svg class="stripe" aria-hidden="true" { rect width="100%" height="100%" fill={ "#" (digits) } {} }
        }
    }
}

fn in_frame(lines: &[TextLine], shown: &PageContext<'_>) -> Markup {
    html! {
        @for part in lines.chunk_by(|one, other| one.kind == other.kind) {
            @match part[0].kind {
                LineKind::Plain => (paragraphs(part, shown)),
                LineKind::Quote => blockquote { (paragraphs(part, shown)) },
                // Long lines scroll.
                LineKind::Preformatted => pre role="group" aria-label="Code" tabindex="0" { code {
                    @for (number, line) in part.iter().enumerate() {
                        @if number > 0 { "\n" }
                        (spans(&line.spans, shown))
                    }
                } },
                LineKind::Heading => @for line in part { p class="heading" { (spans(&line.spans, shown)) } },
                LineKind::Context => @for line in part { p class="context" { (spans(&line.spans, shown)) } },
                LineKind::TableRow => (table(part, shown)),
                LineKind::Divider => hr;,
                LineKind::Markdown => (in_frame(&markdown::lines(part), shown)),
            }
        }
    }
}

/// Renders text and lists. An empty line ends a paragraph.
fn paragraphs(lines: &[TextLine], shown: &PageContext<'_>) -> Markup {
    let is_alike = |one: &TextLine, other: &TextLine| {
        one.marker.is_empty() == other.marker.is_empty()
            && (one.marker.is_empty()
                || (one.level == other.level && one.number.is_some() == other.number.is_some()))
            && one.is_empty() == other.is_empty()
    };
    html! {
        @for part in lines.chunk_by(is_alike) {
            @let first = &part[0];
            @if first.is_empty() {
            } @else if first.marker.is_empty() {
                p {
                    @for (number, line) in part.iter().enumerate() {
                        @if number > 0 { br; }
                        (spans(&line.spans, shown))
                    }
                }
            } @else if let Some(number) = first.number {
                ol class=(level(first)) type=(numerals(first)) start=(number) { (items(part, shown)) }
            } @else {
                ul class=(level(first)) { (items(part, shown)) }
            }
        }
    }
}

/// Returns the type of a list's numbers: digits, letters or Roman numerals, as its markers have them.
fn numerals(line: &TextLine) -> &'static str {
    let is_digit = line.marker.starts_with(|c: char| c.is_ascii_digit());
    match line.level % 3 {
        1 if !is_digit => "a",
        2 if !is_digit => "i",
        _ => "1",
    }
}

fn level(line: &TextLine) -> String {
    format!("level-{}", line.level)
}

fn items(lines: &[TextLine], shown: &PageContext<'_>) -> Markup {
    html! {
        @for item in lines.chunk_by(|_, next| next.marker.trim().is_empty()) {
            li {
                @for (number, line) in item.iter().enumerate() {
                    @if number > 0 { br; }
                    (spans(&line.spans, shown))
                }
            }
        }
    }
}

fn table(rows: &[TextLine], shown: &PageContext<'_>) -> Markup {
    let table = html! {
        table { tbody {
            @for row in rows {
                tr { @for cell in row.spans.split(|span| *span == TextSpan::Cell) { td { (spans(cell, shown)) } } }
            }
        } }
    };
    scrolling("Table", &table)
}

/// Renders spans on one line.
pub fn spans(spans: &[TextSpan], shown: &PageContext<'_>) -> Markup {
    html! { @for span in spans { (one(span, shown)) } }
}

fn one(span: &TextSpan, shown: &PageContext<'_>) -> Markup {
    match span {
        TextSpan::Text(words, style) => styled(&safe_text(words), *style),
        TextSpan::Link { address, label } => link(address, label.as_deref(), shown),
        TextSpan::User { id, label } => person(id, label.as_deref(), shown),
        TextSpan::Channel { id, label } => channel(id, label.as_deref(), shown),
        TextSpan::UserGroup { id, label } => {
            mention('@', shown.names.user_group_handle(id).or(label.as_deref()).unwrap_or(id))
        }
        TextSpan::Broadcast(name) => mention('@', name),
        TextSpan::Emoji { name, skin_tones } => emoji(name, skin_tones, shown),
        TextSpan::Cell => html! { " " },
        TextSpan::Control(label) => {
            html! { span class="control" { (plain::excerpt(label, MAX_NAME_CHARS)) } }
        }
    }
}

/// Returns text without characters that affect the text around them.
fn safe_text(words: &str) -> String {
    plain::line(&words.replace('\t', TAB))
}

fn styled(words: &str, TextStyle { bold, italic, strike, code }: TextStyle) -> Markup {
    let mut markup = html! { (words) };
    if code {
        markup = html! { code { (markup) } };
    }
    if strike {
        markup = html! { s { (markup) } };
    }
    if italic {
        markup = html! { em { (markup) } };
    }
    if bold {
        markup = html! { strong { (markup) } };
    }
    markup
}

fn mention(sign: char, name: &str) -> Markup {
    titled_mention(sign, name, None)
}

fn titled_mention(sign: char, name: &str, title: Option<String>) -> Markup {
    let name = plain::excerpt(name.trim_start_matches(sign), MAX_NAME_CHARS);
    html! { bdi class="mention" title=[title] { (sign) (name) } }
}

fn person(id: &str, label: Option<&str>, shown: &PageContext<'_>) -> Markup {
    let name = titled_mention('@', shown.names.mentioned_person(id, label), real_name(id, shown));
    match shown.links.person(&shown.location.team, id).filter(|_| shown.names.has_name(id)) {
        Some(address) => html! { a href=(address) { (name) } },
        None => name,
    }
}

fn channel(id: &str, label: Option<&str>, shown: &PageContext<'_>) -> Markup {
    let name = mention('#', &shown.names.mentioned_channel(id, label));
    match (shown.names.channel_name(id).is_some(), ChannelId::parse(id)) {
        (true, Ok(channel)) => {
            let location = ChannelOfTeam { team: shown.location.team.clone(), channel };
            html! { a href=(shown.links.channel(&location)) { (name) } }
        }
        (_, _) => name,
    }
}

/// The real name of a person who is shown under another one.
pub(super) fn real_name(id: &str, shown: &PageContext<'_>) -> Option<String> {
    shown.names.real_name(id).map(|name| plain::excerpt(name, MAX_NAME_CHARS))
}

/// Renders a link. If the label looks like a different address, both are shown.
pub(super) fn link(address: &str, label: Option<&str>, shown: &PageContext<'_>) -> Markup {
    let visible = address.strip_prefix("mailto:").unwrap_or(address);
    let label = label.map(safe_text).filter(|label| !label.trim().is_empty());
    let other = label.as_ref().is_some_and(|label| is_deceptive(label, address));
    let other = other.then(|| plain::excerpt(visible, MAX_NAME_CHARS));
    let text = label.unwrap_or_else(|| safe_text(visible));
    let words = html! { (text) @if let Some(other) = other { " (" (other) ")" } };
    match safe_address(address) {
        Some(address) => {
            let here = reader::permalink::SlackLink::parse(&address).and_then(|link| {
                let channel = ChannelId::parse(&link.channel).ok()?;
                shown.names.channel_name(channel.as_str())?;
                shown.links.permalink(&channel, &link.ts?)
            });
            html! {
                a href=(address) rel="noopener noreferrer" { (words) }
                @if let Some(here) = here { " " a href=(here) { "(in this archive)" } }
            }
        }
        None => html! { span class="unlinked" { (words) } },
    }
}

/// Whether a label reads as another address than the one that its link leads to.
fn is_deceptive(label: &str, address: &str) -> bool {
    let label = label.trim();
    let is_address = label.contains("://");
    let is_sentence = label.contains(' ') && !is_address;
    if is_sentence || bare_address(label) == bare_address(address) {
        return false;
    }
    let host = web_host(address).unwrap_or_default();
    let names_other_person = address.starts_with("mailto:") && label.contains('.');
    is_address || names_other_person || label.split_whitespace().any(|word| names_another_host(word, host))
}

/// Returns an address without its scheme and without a slash at the end.
fn bare_address(address: &str) -> &str {
    let schemes = ["https://", "http://", "mailto:"];
    let bare = schemes.into_iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address);
    bare.strip_suffix('/').unwrap_or(bare)
}

/// Returns the address, if a browser may follow it.
fn safe_address(address: &str) -> Option<String> {
    let is_plain = !address.chars().any(|c| plain::affects_terminal(c) || c.is_whitespace());
    let lowercase = address.get(..8.min(address.len())).unwrap_or_default().to_ascii_lowercase();
    let is_allowed = SCHEMES.iter().any(|scheme| lowercase.starts_with(scheme));
    (is_plain && is_allowed && address.len() <= MAX_ADDRESS_BYTES).then(|| address.to_owned())
}

/// Renders an emoji as a picture, as characters, or as its name.
pub fn emoji(name: &str, skin_tones: &[u8], shown: &PageContext<'_>) -> Markup {
    let (name, own_tones) = emoji::split_skin_tones(name);
    let skin_tones = if skin_tones.is_empty() { own_tones.as_slice() } else { skin_tones };
    let label = format!(":{}:", plain::excerpt(name, MAX_NAME_CHARS));
    let characters = |name: &str| emoji::unicode(name, skin_tones);
    let picture = match shown.pictures.emoji.get(name) {
        Some(CustomEmoji::Picture(key)) => shown.links.picture(key),
        Some(CustomEmoji::Alias(other)) => {
            return characters(other).map_or_else(|| html! { (label) }, |text| in_characters(&text, &label));
        }
        None => None,
    };
    match (picture, characters(name)) {
        (Some(picture), _) => {
            html! { img class="emoji" src=(picture) alt=(label) title=(label) loading="lazy"; }
        }
        (None, Some(text)) => in_characters(&text, &label),
        (None, None) => html! { (label) },
    }
}

fn in_characters(text: &str, label: &str) -> Markup {
    html! { span class="emoji" title=(label) { (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_deceptive_if_it_looks_like_another_address() {
        for (label, address) in [
            ("bank.com", "https://evil.example/?bank.com"),
            ("https://bank.com/login", "https://evil.example/#https://bank.com/login"),
            (" https://bank.com", "https://evil.example/"),
            ("https://bank.com/login page", "https://evil.example/"),
            ("bank.com\u{a0}login", "https://evil.example/"),
            ("https://bank.com", "https://evil.example/https://bank.com"),
            ("ana@bank.com", "mailto:ana@evil.example"),
            ("bank.com", "https://bank.com@evil.example/"),
            ("Bank.COM/login", "https://evil.example/"),
            ("bank.com:443", "https://evil.example/"),
            ("ana@bank.com", "https://evil.example/"),
            ("boss@bank.com", "mailto:ana@bank.com"),
            ("https://bank.com/b", "https://bank.com/a"),
        ] {
            assert!(is_deceptive(label, address), "{label} {address}");
        }
        for (label, address) in [
            ("bank.com", "https://bank.com/"),
            ("https://bank.com/", "http://bank.com"),
            ("ana@bank.com", "mailto:ana@bank.com"),
            ("our bank", "https://bank.com/"),
            ("See bank.com there.", "https://bank.com/"),
            ("Bank.com/login", "https://bank.com/login?from=mail"),
            ("v1.20.3", "https://code.example/releases/v1.20.3"),
            ("Chart.PNG", "https://acme.slack.com/files/U1/F1/chart.png"),
        ] {
            assert!(!is_deceptive(label, address), "{label} {address}");
        }
    }

    #[test]
    fn only_safe_addresses_are_linked() {
        for address in ["https://example.com/?a=b", "HTTP://example.com", "mailto:a@example.com", "tel:+49"] {
            assert_eq!(safe_address(address).as_deref(), Some(address));
        }
        for address in [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            " javascript:alert(1)",
            "java\nscript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//example.com",
            "/erase",
            "",
            "é",
            "https://example.com/\u{202e}",
            &format!("https://{}", "x".repeat(5_000)),
        ] {
            assert_eq!(safe_address(address), None, "{address}");
        }
    }
}
