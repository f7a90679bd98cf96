//! The text of a canvas, read from the HTML page that Slack renders of it.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::cut;

/// The maximum size of a text with its last line. Slack accepts a canvas of one megabyte; almost all have a few
/// kilobytes.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The last line of a text that is not all of the canvas's.
const AND_MORE: &str = "[and more in the canvas]";

/// The maximum size of the beginning of a page that is read for its text. Markup takes a multiple of the text. A
/// caller who passes more bytes says that there are more.
pub const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The elements within a line. Any other tag ends the line.
const INLINE: [&[u8]; 24] = [
    b"a", b"abbr", b"b", b"bdi", b"code", b"control", b"del", b"em", b"font", b"i", b"img", b"ins", b"kbd",
    b"label", b"mark", b"s", b"small", b"span", b"strike", b"strong", b"sub", b"sup", b"u", b"wbr",
];

/// The elements whose content is not text for people.
const HIDDEN: [&[u8]; 6] = [b"script", b"style", b"iframe", b"noembed", b"noframe", b"noscript"];

enum PagePart {
    Text(String),
    LineEnd,
}

/// The text of a page: a line per paragraph, cell or item of a list, without empty lines. If the page or its text
/// is too long, the last line says so.
pub fn text_of_page(page: &[u8]) -> String {
    let mut is_hidden = false;
    let mut emitter = CallbackEmitter::new(move |event: CallbackEvent<'_>, _: Span<()>| match event {
        CallbackEvent::OpenStartTag { name } => {
            is_hidden |= HIDDEN.contains(&name);
            (!INLINE.contains(&name)).then_some(PagePart::LineEnd)
        }
        CallbackEvent::EndTag { name } => {
            is_hidden = false;
            (!INLINE.contains(&name)).then_some(PagePart::LineEnd)
        }
        CallbackEvent::String { value } if !is_hidden => {
            Some(PagePart::Text(String::from_utf8_lossy(value).into_owned()))
        }
        CallbackEvent::String { .. }
        | CallbackEvent::AttributeName { .. }
        | CallbackEvent::AttributeValue { .. }
        | CallbackEvent::CloseStartTag { .. }
        | CallbackEvent::Comment { .. }
        | CallbackEvent::Doctype { .. }
        | CallbackEvent::Error(_) => None,
    });
    // The content of scripts and styles is not markup.
    emitter.naively_switch_states(true);
    let read = &page[..page.len().min(MAX_PAGE_BYTES)];
    let (mut text, mut line) = (String::new(), String::new());
    for part in Tokenizer::new_with_emitter(read, emitter) {
        match part {
            Ok(PagePart::Text(part)) => line.push_str(&part),
            Ok(PagePart::LineEnd) => end_line(&mut text, &mut line),
            Err(never) => match never {},
        }
        if text.len() + line.len() > MAX_TEXT_BYTES * 2 {
            break;
        }
    }
    end_line(&mut text, &mut line);
    if page.len() > read.len() || text.len() > MAX_TEXT_BYTES {
        text.truncate(cut(&text, MAX_TEXT_BYTES - AND_MORE.len() - 1).len());
        line.push_str(AND_MORE);
        text.truncate(text.trim_end().len());
        end_line(&mut text, &mut line);
    }
    text
}

/// Adds a line with single spaces to the text, unless it is empty. Editors fill empty paragraphs with
/// characters without width.
fn end_line(text: &mut String, line: &mut String) {
    let is_space = |letter: char| letter.is_whitespace() || matches!(letter, '\u{200b}' | '\u{feff}' | '\0');
    for (number, word) in line.split(is_space).filter(|word| !word.is_empty()).enumerate() {
        if number > 0 {
            text.push(' ');
        } else if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(word);
    }
    line.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: &str) -> String {
        text_of_page(page.as_bytes())
    }

    #[test]
    fn a_page_is_read_as_lines_without_markup() {
        for (page, expected) in [
            ("<h1>Plan</h1><p>Ship <b>it</b> &amp; rest&period;</p>", "Plan\nShip it & rest."),
            ("<ul><li>one</li><li>t<i>w</i>o</li></ul>", "one\ntwo"),
            ("<table><tr><td>a</td><td>b</td></tr></table>", "a\nb"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<p>\u{200b}</p><p>  a \n b&nbsp;c </p>", "a b c"),
            ("<script>if (a<b) { '</p>' }</script>x<style>p{}</style><noscript><p>n</p></noscript>y", "x\ny"),
            ("<SCRIPT>hidden</SCRIPT>seen", "seen"),
            ("<!-- hidden --><title>Title</title><p data-x='hidden'>seen", "Title\nseen"),
            ("&#x41;&#66;&lt;b&gt;", "AB<b>"),
            ("<script>never closed", ""),
            ("", ""),
        ] {
            assert_eq!(text(page), expected, "{page}");
        }
        assert_eq!(text_of_page(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_page_that_is_deep_large_or_broken_gives_a_bounded_text() {
        let deep = "<div>".repeat(100_000) + "bottom" + &"</div>".repeat(100_000);
        assert_eq!(text(&deep), "bottom");
        let long = "<p>é</p>".repeat(300_000);
        assert!(text(&long).len() <= MAX_TEXT_BYTES && text(&long).ends_with("é\n[and more in the canvas]"));
        let whole = "x".repeat(MAX_TEXT_BYTES);
        assert_eq!(text(&whole), whole);
        for unit in ["<", "&", "<!--", "<a ", "x", "</", "&amp;", "<script>", "\0"] {
            let text = text(&unit.repeat(MAX_TEXT_BYTES));
            assert!(text.len() <= MAX_TEXT_BYTES && !text.contains('\0'), "{unit}");
        }
        let beyond = " ".repeat(MAX_PAGE_BYTES) + "<p>beyond</p>";
        assert_eq!(text(&beyond), "[and more in the canvas]");
        assert_eq!(text(&beyond[..MAX_PAGE_BYTES]), "");
    }
}
